"""The pages of the web server of `dcc ui` beside Dagster's: reports, plots and lists, made on request.

Both databases are only read. The status of an answer says what is wrong. It is 404 if there is no such thing, 400 for
an unknown language or format, and 503 if a database is away or has not been made. The text always says what to do.
"""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from dcc.databases.engines import disposed
from dcc.databases.schema import require_current
from dcc.databases.transactions import run_reading
from dcc.errors import (
    ConfigurationError,
    DatabaseOutdatedError,
    DatabaseUnreachableError,
    DccError,
    NotFoundError,
    StoreUnreachableError,
    TrackerUnreachableError,
)
from dcc.messages import Message, mark, message
from dcc.naming import Action
from dcc.qc.contexts.listings import OverviewCoverage, overview_coverage
from dcc.qc.database import open_qc_database
from dcc.qc.expected_procedures import Deliveries, DeliveryCriteria, count_deliveries
from dcc.reports.causes.cause import causes_as_json
from dcc.reports.causes.collecting import Subject, find_causes
from dcc.reports.languages import load_catalogue, plain_english
from dcc.reports.languages.catalogue import Catalogue
from dcc.reports.plots.bars import picture_of_expected
from dcc.reports.plots.picture import use_font_cache
from dcc.reports.submissions.board import board_json, collect_board, filter_of_query, render_board
from dcc.reports.submissions.collecting import collect_report, draw_pictures
from dcc.reports.submissions.labels import SESSION_LABELS
from dcc.reports.submissions.model import Report
from dcc.reports.submissions.page import PageLocation, cause_values, common_values, images_of, render_html
from dcc.reports.submissions.stored_reports import json_text, list_reports, stored_page
from dcc.reports.submissions.templates import render
from dcc.runtime.clock import utc_now
from dcc.settings import Settings, load_settings
from dcc.tracker.archive_access import SubmittedDocument, delivered_document, fetched_document
from dcc.tracker.crawls import list_sessions
from dcc.tracker.database import open_tracker
from dcc.tracker.register.centres import CentreEntry, contacts, list_centres, require_centre
from dcc_assets.metadata.links import (
    BOARD,
    HOME,
    board_of_centre,
    expected_of_centre,
    localised,
    page_of_causes,
    report_of_centre,
    report_of_session,
    report_of_submission,
    stored_report_path,
    stored_reports_of_centre,
    xml_of_document,
)
from dcc_assets.partitions import known_keys_in

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_PICTURES: Final = 4
"""The most plots of a centre."""

SPREADSHEET: Final = "?form=spreadsheet"
"""The address of a page's findings as a spreadsheet, relative to the page."""
CAUSES_SHOWN: Final = 100
KEPT_LISTED: Final = 200
_KEPT_FIRST: Final = 10
_SESSIONS_LISTED: Final = 25
_XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_SHEET_NAME: Final = "findings.xlsx"
_NO_PICTURE: Final = b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
_PATIENCE_SECONDS: Final = 2.0
_PIECE: Final = 256 * 1024
_SUBMITTED: Final = {"Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'"}
"""Headers of what a centre sent: a browser runs nothing of it, even where it is opened."""

Page: TypeAlias = Callable[[Request], Response]


def _html(text: str, status: int = 200) -> Response:
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def _json(text: str) -> Response:
    return Response(text.encode("utf-8", "replace"), media_type="application/json")


def _saved_as(name: str) -> dict[str, str]:
    """The header by which a browser saves an answer under a name."""
    return {"Content-Disposition": f'attachment; filename="{quote(name, safe="")}"'}


@dataclass(frozen=True, slots=True)
class Databases:
    """Open connections for an answer, and why there is none to the QC database."""

    settings: Settings
    tracker: Connection
    qc: Connection | None
    qc_missing: str | None


def answered(page: Page) -> Page:
    """Decorates what makes a page: an error becomes a page that says what is wrong."""

    @functools.wraps(page)
    def answer(request: Request) -> Response:
        try:
            return page(request)
        except DccError as error:
            status = next((status for kinds, status in _STATUSES if isinstance(error, kinds)), 500)
            return problem(request, status, error.translatable)
        except Exception as error:
            log.exception("A report met a fault")
            return problem(request, 500, message(_FAULT, error=type(error).__name__))

    return answer


class Reader(NamedTuple):
    """Who asks for a page: the settings, the language that the address asks for, if any, its catalogue, and the format
    that the address asks for.
    """

    settings: Settings
    language: str | None
    catalogue: Catalogue
    form: str

    def address(self, path: str) -> str:
        """A path, with the language that is asked for."""
        return localised(path, self.language)

    def link(self, path_of: Callable[[T], str]) -> Callable[[T], str]:
        """The function of a path, with the language that is asked for."""
        return lambda one: self.address(path_of(one))


def for_reader(*forms: str) -> Callable[[Callable[[Reader, Request], Response]], Page]:
    """Decorates what makes a page in these forms for a reader; for another form or language the answer is 400."""

    def decorate(page: Callable[[Reader, Request], Response]) -> Page:
        @answered
        @functools.wraps(page)
        def answer(request: Request) -> Response:
            settings, language = load_settings(), request.query_params.get("language")
            try:
                catalogue = load_catalogue(language, settings)
            except ConfigurationError as error:
                return problem(request, 400, str(error))
            form = request.query_params.get("form", "html")
            if form not in forms:
                named = "the form html alone" if len(forms) == 1 else f"the forms {' and '.join(forms)}: ?form=json"
                return problem(request, 400, f"This page has {named}.")
            return page(Reader(settings, language, catalogue, form), request)

        return answer

    return decorate


@for_reader("html", "json", "spreadsheet")
def submission_page(reader: Reader, request: Request) -> Response:
    """The report of a submission."""
    partition = f"{request.path_params['action']}/{request.path_params['name']}"
    return _page(reader, lambda databases: known_keys_in(databases.tracker, [partition])[0])


@for_reader("html", "json", "spreadsheet")
def centre_page(reader: Reader, request: Request) -> Response:
    """The report of a centre by its code."""
    centre = request.path_params["centre"]
    return _page(reader, lambda _: centre)


@for_reader("html", "json", "spreadsheet")
def session_page(reader: Reader, request: Request) -> Response:
    """The report of a crawling session by its number."""
    session_id = request.path_params["session"]
    return _page(reader, lambda _: session_id)


@for_reader("html", "json")
def board_page(reader: Reader, request: Request) -> Response:
    """The tracking board that the parameters of its address ask for, as a page or as JSON."""
    try:
        wanted, page = filter_of_query(request.query_params)
    except ConfigurationError as error:
        return problem(request, 400, str(error))
    board = reading(lambda databases: collect_board(databases.tracker, wanted, page, databases.settings))
    if reader.form == "json":
        return _json(board_json(board, report_of_submission))
    text = render_board(
        board,
        reader.catalogue,
        reader.settings,
        path=BOARD,
        home=reader.address(HOME),
        language=reader.language,
        link_of_submission=reader.link(report_of_submission),
    )
    return _html(text)


@answered
def centre_picture(request: Request) -> Response:
    """A plot of a centre's data, the first being number 1; an empty image if there are not so many."""
    centre, number = request.path_params["centre"], request.path_params["number"]

    def draw(databases: Databases) -> Response:
        wanted = number if number <= MAX_PICTURES else 0
        catalogue = load_catalogue(None, databases.settings)
        drawn = draw_pictures(databases.qc, centre, databases.settings, catalogue, wanted, with_others=True)
        if 0 < number <= len(drawn):
            return Response(drawn[number - 1].png, media_type="image/png")
        return Response(_NO_PICTURE, media_type="image/svg+xml")

    return reading(draw)


@answered
def document_xml(request: Request) -> Response:
    """The XML of a document as the last download of its submission brought it; for saving, never for showing."""
    action, archive, file_name = (request.path_params[part] for part in ("action", "archive", "name"))

    def find(databases: Databases) -> tuple[Settings, SubmittedDocument]:
        key = known_keys_in(databases.tracker, [f"{action}/{archive}"])[0]
        found = delivered_document(databases.tracker, file_name, key)
        if found is None:
            raise NotFoundError(f"{key} has no document {file_name}. `dcc archive list {key}` shows its files.")
        return databases.settings, found

    settings, found = reading(find)
    with fetched_document(settings, found) as path:
        # The open file outlives its name, and is gone when the answer is, however that ends.
        file = path.open("rb")
    headers = {**_SUBMITTED, **_saved_as(file_name.rpartition("/")[2])}
    headers["Content-Length"] = str(os.fstat(file.fileno()).st_size)
    pieces = iter(functools.partial(file.read, _PIECE), b"")
    return StreamingResponse(pieces, headers=headers, media_type="text/plain")


@for_reader("html")
def index_page(reader: Reader, _: Request) -> Response:
    """The list of pages: the board, those of each centre, the last sessions, and the newest kept reports."""
    centres, sessions = reading(lambda on: (_centres(on), list_sessions(on.tracker, limit=_SESSIONS_LISTED)))
    kept = list_reports(reader.settings, _KEPT_FIRST)
    return _filled(reader, "index", None, centres=centres, sessions=sessions, kept=kept)


@for_reader("html", "json", "spreadsheet")
def causes_page(reader: Reader, request: Request) -> Response:
    """The causes of what is wrong at a centre or, without one, at all: what `dcc data causes` shows."""
    return reading(lambda on: _causes_page(reader, on, request.path_params.get("centre")))


def _causes_page(reader: Reader, on: Databases, centre: str | None) -> Response:
    if centre is not None:
        require_centre(on.tracker, centre)
    if reader.form == "spreadsheet":
        return spreadsheet(on, centre, reader.catalogue)
    found = find_causes(on.tracker, on.qc, centre, reader.settings)
    addresses = contacts(on.tracker)
    if reader.form == "json":
        rows = causes_as_json(found.causes, reader.catalogue, addresses)
        return _json(json.dumps(rows, indent=2))
    shown = found.causes[:CAUSES_SHOWN]
    return _filled(
        reader,
        "causes",
        PageLocation(reader.address(HOME), reader.address(SPREADSHEET)),
        **cause_values(shown, reader.catalogue, reader.link(report_of_submission), contacts=addresses),
        centre=centre,
        centres=_centres(on),
        report={"made": utc_now(), "causes": shown, "causes_total": found.total, "found": found.findings},
    )


@for_reader("html")
def stored_reports_page(reader: Reader, request: Request) -> Response:
    """The newest kept reports, of a centre if it is given."""
    centre = request.path_params.get("centre")

    def find(on: Databases) -> list[CentreEntry]:
        if centre is not None:
            require_centre(on.tracker, centre)
        return _centres(on)

    centres, kept = reading(find), list_reports(reader.settings, KEPT_LISTED, centre)
    return _filled(reader, "kept", PageLocation(reader.address(HOME)), centre=centre, centres=centres, kept=kept)


@answered
def stored_report_page(request: Request) -> Response:
    """A kept report as it was made."""
    action, name = request.path_params["action"], request.path_params["name"]
    return HTMLResponse(stored_page(load_settings(), Action(action), name))


@for_reader("html")
def expected_page(reader: Reader, request: Request) -> Response:
    """Which procedures are due today at a centre, how many are missing, and how much the overviews cover."""
    centre = request.path_params["centre"]

    def find(on: Databases) -> tuple[Deliveries, OverviewCoverage] | None:
        require_centre(on.tracker, centre)
        if on.qc is None:
            return None
        return count_deliveries(on.qc, DeliveryCriteria(utc_now().date(), centre)), overview_coverage(on.qc, centre)

    found = reading(find)
    if found is None:
        return problem(request, 503, mark("The QC database cannot be used. `dcc doctor` says why."))
    deliveries, covered = found
    counted = deliveries.by_procedure()
    use_font_cache(reader.settings)
    return _filled(
        reader,
        "expected",
        PageLocation(reader.address(HOME)),
        centre=centre,
        covered=covered,
        uncovered=deliveries.uncovered.total(),
        counted=counted,
        images=images_of([picture_of_expected(counted, reader.catalogue)] if counted else []),
    )


def _centres(on: Databases) -> list[CentreEntry]:
    """The centres that have pages."""
    return [centre for centre in list_centres(on.tracker) if centre.is_active or centre.sources]


def _filled(reader: Reader, template: str, place: PageLocation | None, **values: Any) -> Response:
    filled = {
        **common_values(reader.catalogue, reader.settings, place=place),
        "report": {"made": utc_now()},
        "session_words": SESSION_LABELS,
        "board": reader.address(BOARD),
        "link_of_submission": reader.link(report_of_submission),
        "link_of_centre": reader.link(report_of_centre),
        "link_of_session": reader.link(report_of_session),
        "link_of_board": reader.link(board_of_centre),
        "link_of_causes": reader.link(page_of_causes),
        "link_of_expected": reader.link(expected_of_centre),
        "link_of_kept": reader.link(stored_reports_of_centre),
        "link_of_kept_page": lambda one: stored_report_path(one.action, one.name),
        **values,
    }
    return _html(render(f"reports/{template}.html", filled, own=reader.settings.templates_directory))


def not_there(request: Request) -> Response:
    """The answer for a missing page."""
    return problem(request, 404, message(mark("No page {path} exists."), path=request.url.path))


def _page(reader: Reader, subject_of: Callable[[Databases], Subject]) -> Response:
    if reader.form == "spreadsheet":
        return reading(lambda databases: spreadsheet(databases, subject_of(databases), reader.catalogue))

    def collect(databases: Databases) -> Report:
        tracker, qc, subject = databases.tracker, databases.qc, subject_of(databases)
        missing = databases.qc_missing
        return collect_report(tracker, qc, subject, reader.settings, catalogue=reader.catalogue, qc_missing=missing)

    report = reading(collect)
    if reader.form == "json":
        return _json(json_text(report, reader.catalogue))
    text = render_html(
        report,
        reader.catalogue,
        reader.settings,
        link_of_submission=reader.link(report_of_submission),
        link_of_document=xml_of_document,
        place=PageLocation(reader.address(HOME), reader.address(SPREADSHEET)),
    )
    return _html(text)


def spreadsheet(databases: Databases, subject: Subject | None, catalogue: Catalogue) -> Response:
    """The findings of a subject, or all, with their causes, as a file for spreadsheet programs."""
    from dcc.reports.causes.spreadsheet import write_findings_spreadsheet

    tracker, qc = databases.tracker, databases.qc
    causes = find_causes(tracker, qc, subject, databases.settings, limit=None)
    with TemporaryDirectory() as folder:
        path = Path(folder, _SHEET_NAME)
        write_findings_spreadsheet(path, tracker, qc, causes, catalogue)
        return Response(path.read_bytes(), headers=_saved_as(_SHEET_NAME), media_type=_XLSX)


def reading(work: Callable[[Databases], T]) -> T:
    """Call `work` with both databases, without the QC database if it cannot be used."""
    settings = load_settings()
    files = [
        f"{variable}={file_url}"
        for variable, url, file_url in (
            ("DCC_TRACKER_URL", settings.tracker_url, settings.tracker_database_url),
            ("DCC_QC_URL", settings.qc_url, settings.qc_database_url),
        )
        if url is None
    ]
    if settings.dagster_url is not None and files:
        # Files in DCC_HOME may be those before the move to the server.
        unset = " and ".join(one.partition("=")[0] for one in files)
        raise TrackerUnreachableError(
            f"Dagster's database is on a server, and this page has no {unset}. Set {unset} for it, with accounts that "
            f"may read the databases. If sessions still work with files in DCC_HOME, set {' and '.join(files)}."
        )
    with disposed(open_tracker(settings)) as tracker, disposed(open_qc_database(settings)) as qc:
        require_current(tracker, patience_seconds=_PATIENCE_SECONDS)

        def read(of_qc: Connection | None, missing: str | None = None) -> T:
            return run_reading(
                tracker,
                lambda connection: work(Databases(settings, connection, of_qc, missing)),
                patience_seconds=_PATIENCE_SECONDS,
            )

        try:
            require_current(qc, patience_seconds=_PATIENCE_SECONDS)
        except (DatabaseOutdatedError, DatabaseUnreachableError) as error:
            return read(None, str(error))
        return run_reading(qc, read, patience_seconds=_PATIENCE_SECONDS)


_STATUSES: Final = (
    (NotFoundError, 404),
    ((StoreUnreachableError, DatabaseOutdatedError, DatabaseUnreachableError), 503),
)
_TITLES: Final = {
    400: mark("That cannot be shown"),
    404: mark("No such page"),
    500: mark("Something went wrong"),
    503: mark("A database or store is away"),
}
_FAULT: Final = mark(
    "This cannot be shown: {error}. Look at the templates in DCC_TEMPLATES_DIRECTORY, if any; else it is a fault of "
    "the platform: report it with the log of the web server."
)


def problem(request: Request, status: int, text: Message | str) -> Response:
    """A page that says what is wrong, in the reader's language, or in English if that cannot be had."""
    language = request.query_params.get("language")
    try:
        catalogue = load_catalogue(language, load_settings())
    except Exception:
        # The page about a fault is shown whatever is broken.
        language, catalogue = None, plain_english()
    values = {
        **catalogue.functions,
        "language": catalogue.tag,
        "direction": catalogue.direction,
        "title": catalogue.say(_TITLES.get(status, _TITLES[500])),
        "message": catalogue.tell(text),
        "home": localised(HOME, language),
    }
    # Templates of the installation may be what is wrong.
    return _html(render("reports/problem.html", values, own=None), status)
