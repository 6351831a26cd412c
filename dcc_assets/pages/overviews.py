"""Pages over all submissions: the list of pages, causes, kept reports, and the procedures that are due at a centre."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.requests import Request

from dcc.databases.columns import utc_now
from dcc.naming import Action
from dcc.qc.contexts.listings import OverviewCoverage, overview_coverage
from dcc.qc.expected_procedures import Deliveries, DeliveryCriteria, count_deliveries
from dcc.reports.causes.cause import causes_as_json
from dcc.reports.causes.collecting import causes_of
from dcc.reports.plots import draw_expected, use_font_cache
from dcc.reports.submissions.labels import SESSION_LABELS
from dcc.reports.submissions.page import PageLocation, cause_values, common_values, images_of
from dcc.reports.submissions.stored_reports import list_reports, stored_page
from dcc.reports.submissions.templates import render
from dcc.settings import load_settings
from dcc.tracker.crawls import list_sessions
from dcc.tracker.queries.zip_action_lists import require_centre
from dcc.tracker.register.centres import CentreEntry, contacts, list_centres
from dcc_assets.metadata.links import (
    BOARD,
    HOME,
    board_of_centre,
    expected_of_centre,
    page_of_causes,
    report_of_centre,
    report_of_session,
    report_of_zip,
    stored_report_path,
    stored_reports_of_centre,
)
from dcc_assets.pages.reports import (
    HTML,
    JSON,
    SPREADSHEET,
    Databases,
    PageResponse,
    Reader,
    answered,
    for_reader,
    not_there,
    problem,
    reading,
    spreadsheet,
)

CAUSES_SHOWN: Final = 100
KEPT_LISTED: Final = 200
_KEPT_FIRST: Final = 10
_SESSIONS_LISTED: Final = 25


@for_reader("html")
def index_page(reader: Reader, _: Request) -> PageResponse:
    """The list of pages: the board, those of each centre, the last sessions, and the newest kept reports."""
    centres, sessions = reading(lambda on: (_centres(on), list_sessions(on.tracker, limit=_SESSIONS_LISTED)))
    kept = list_reports(reader.settings, _KEPT_FIRST)
    return _page(reader, "index", None, centres=centres, sessions=sessions, kept=kept)


@for_reader("html", "json", "spreadsheet")
def causes_page(reader: Reader, request: Request) -> PageResponse:
    """The causes of what is wrong at a centre or, without one, at all: what `dcc data causes` shows."""
    return reading(lambda on: _causes_page(reader, on, request.path_params.get("centre")))


def _causes_page(reader: Reader, on: Databases, centre: str | None) -> PageResponse:
    if centre is not None:
        require_centre(on.tracker, centre)
    if reader.form == "spreadsheet":
        return spreadsheet(on, centre, reader.catalogue)
    causes = causes_of(on.tracker, on.qc, centre, reader.settings)
    addresses = contacts(on.tracker)
    if reader.form == "json":
        rows = causes_as_json(causes, reader.catalogue, addresses)
        return PageResponse(200, JSON, json.dumps(rows, indent=2).encode())
    shown, found = causes[:CAUSES_SHOWN], sum(cause.findings for cause in causes)
    return _page(
        reader,
        "causes",
        PageLocation(reader.address(HOME), reader.address(SPREADSHEET)),
        **cause_values(shown, reader.catalogue, reader.link(report_of_zip), contacts=addresses),
        centre=centre,
        centres=_centres(on),
        report={"made": utc_now(), "causes": shown, "causes_total": len(causes), "found": found},
    )


@for_reader("html")
def stored_reports_page(reader: Reader, request: Request) -> PageResponse:
    """The newest kept reports, of a centre if it is given."""
    centre = request.path_params.get("centre")

    def find(on: Databases) -> list[CentreEntry]:
        if centre is not None:
            require_centre(on.tracker, centre)
        return _centres(on)

    centres, kept = reading(find), list_reports(reader.settings, KEPT_LISTED, centre)
    return _page(reader, "kept", PageLocation(reader.address(HOME)), centre=centre, centres=centres, kept=kept)


@answered
def stored_report_page(request: Request) -> PageResponse:
    """A kept report as it was made."""
    action = request.path_params["action"]
    if action not in set(Action):
        return not_there(request)
    return PageResponse(200, HTML, stored_page(load_settings(), Action(action), request.path_params["name"]))


@for_reader("html")
def expected_page(reader: Reader, request: Request) -> PageResponse:
    """Which procedures are due today at a centre, how many are missing, and how much the overviews cover."""
    centre = request.path_params["centre"]

    def find(on: Databases) -> tuple[Deliveries, OverviewCoverage] | None:
        require_centre(on.tracker, centre)
        if on.qc is None:
            return None
        return count_deliveries(on.qc, DeliveryCriteria(utc_now().date(), centre)), overview_coverage(on.qc, centre)

    found = reading(find)
    if found is None:
        return problem(503, "The QC database cannot be used. `dcc doctor` says why.")
    deliveries, covered = found
    counted = deliveries.by_procedure()
    use_font_cache(reader.settings)
    return _page(
        reader,
        "expected",
        PageLocation(reader.address(HOME)),
        centre=centre,
        covered=covered,
        uncovered=deliveries.uncovered.total(),
        counted=counted,
        images=images_of([draw_expected(counted, reader.catalogue)] if counted else []),
    )


def _centres(on: Databases) -> list[CentreEntry]:
    """The centres that have pages."""
    return [centre for centre in list_centres(on.tracker) if centre.is_active or centre.sources]


def _page(reader: Reader, template: str, place: PageLocation | None, **values: Any) -> PageResponse:
    filled = {
        **common_values(reader.catalogue, reader.settings, place=place),
        "report": {"made": utc_now()},
        "session_words": SESSION_LABELS,
        "board": reader.address(BOARD),
        "link_of_zip": reader.link(report_of_zip),
        "link_of_centre": reader.link(report_of_centre),
        "link_of_session": reader.link(report_of_session),
        "link_of_board": reader.link(board_of_centre),
        "link_of_causes": reader.link(page_of_causes),
        "link_of_expected": reader.link(expected_of_centre),
        "link_of_kept": reader.link(stored_reports_of_centre),
        "link_of_kept_page": lambda one: stored_report_path(one.action, one.name),
        **values,
    }
    text = render(f"reports/{template}.html", filled, own=reader.settings.templates_directory)
    return PageResponse(200, HTML, text.encode("utf-8", "replace"))
