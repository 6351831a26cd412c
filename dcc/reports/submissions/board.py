"""The tracking board as people ask for it, and as it answers: a page, or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import IntEnum
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from sqlalchemy import Connection

from dcc.errors import ConfigurationError
from dcc.messages import Message
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.reports.languages import Catalogue
from dcc.reports.submissions.labels import PHASE_LABELS, STATUS_LABELS, STATUS_SIGNS
from dcc.reports.submissions.model import shortened
from dcc.reports.submissions.page import PageLocation, common_values
from dcc.reports.submissions.sentences import decision_sentence
from dcc.reports.submissions.templates import render
from dcc.reports.submissions.waits import what_listed_wait_for
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.tracker.queries.board import PAGE_SIZE, BoardSubmission, Cell, count_cells, status_colours, submissions_on_page
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.register.centres import list_centres

Choice = TypeVar("Choice", bound=IntEnum)

NO_CENTRE: Final = "-"
"""Stands in an address for archives whose centre is not known."""
_MAX_PAGES: Final = 1_000_000
_COLOUR: Final = re.compile("#[0-9a-fA-F]{6}")


@dataclass(frozen=True, slots=True)
class Board:
    """A board: the cells that are not empty, one page of its archives, and what there is to choose from.

    `waits` is what those archives wait for that do.
    """

    wanted: SubmissionFilter
    page: int
    cells: tuple[Cell, ...]
    archives: tuple[BoardSubmission, ...]
    waits: Mapping[SubmissionKey, Sequence[Message]]
    centres: tuple[str, ...]
    colours: Mapping[Status, str]
    made: datetime

    @property
    def total(self) -> int:
        """How many archives the filter selects."""
        return sum(cell.count for cell in self.cells)

    @property
    def pages(self) -> int:
        """How many pages of archives there are, at least one."""
        return max(1, -(-self.total // PAGE_SIZE))


class WantedPage(NamedTuple):
    """A page of the archives that a filter selects, from 1."""

    wanted: SubmissionFilter
    page: int


def filter_of_query(query: Mapping[str, str]) -> WantedPage:
    """The filter and the page that the parameters of an address ask for.

    They are centre, phase, status, from, to and page; an empty one restricts nothing. Raises ConfigurationError.
    """
    centre = query.get("centre") or None
    wanted = SubmissionFilter(
        centre="" if centre == NO_CENTRE else centre,
        phase=_choice(query, "phase", Phase),
        status=_choice(query, "status", Status),
        first_day=_day(query, "from"),
        last_day=_day(query, "to"),
    )
    page = query.get("page") or "1"
    if not (page.isascii() and page.isdigit() and 1 <= int(page[:9]) <= _MAX_PAGES):
        raise ConfigurationError(f"The page {page[:20]!r} is no number from 1 to {_MAX_PAGES:,}.")
    return WantedPage(wanted, int(page[:9]))


def _choice(query: Mapping[str, str], name: str, kind: type[Choice]) -> Choice | None:
    value = query.get(name)
    if not value:
        return None
    found = {choice.name.lower(): choice for choice in kind}
    if value not in found:
        raise ConfigurationError(f"No {name} {value[:40]!r} exists. Choose one of: {', '.join(found)}.")
    return found[value]


def _day(query: Mapping[str, str], name: str) -> date | None:
    value = query.get(name)
    try:
        return date.fromisoformat(value) if value else None
    except ValueError as error:
        raise ConfigurationError(f"{name}={str(value)[:20]!r} is no day. Write it like 2026-11-25.") from error


def collect_board(connection: Connection, wanted: SubmissionFilter, page: int, settings: Settings) -> Board:
    """The board as it is now; the settings are those of sessions. Raises NotFoundError for an unknown centre."""
    centres = [centre.short_name for centre in list_centres(connection) if centre.is_active or centre.sources]
    cells = tuple(count_cells(connection, wanted))
    archives = tuple(submissions_on_page(connection, wanted, page))
    return Board(
        wanted,
        page,
        cells,
        archives,
        what_listed_wait_for(connection, [one.id for one in archives], settings),
        tuple(sorted({*centres, *([wanted.centre] if wanted.centre else [])})),
        status_colours(connection),
        utc_now(),
    )


def board_json(board: Board, link_of_submission: Callable[[SubmissionKey], str]) -> str:
    """The board as JSON; archives whose centre is not known have the centre null."""
    archives = [
        {
            "archive": archive.key.partition,
            **_state(archive),
            "since": f"{archive.since.isoformat()}Z",
            "decisions": [str(decision) for decision in archive.decisions],
            "reason": archive.reason and shortened(archive.reason.text),
            "waits": [shortened(str(one)) for one in board.waits.get(archive.key, ())],
            "report": link_of_submission(archive.key),
        }
        for archive in board.archives
    ]
    content = {
        "made": f"{board.made.isoformat()}Z",
        "total": board.total,
        "cells": [{**_state(cell), "count": cell.count} for cell in board.cells],
        "page": board.page,
        "pages": board.pages,
        "archives": archives,
    }
    return json.dumps(content, indent=2)


def _state(one: Cell | BoardSubmission) -> dict[str, str | None]:
    return {"centre": one.centre or None, "phase": one.phase.short_name, "status": one.status.short_name}


def render_board(
    board: Board,
    catalogue: Catalogue,
    settings: Settings,
    *,
    path: str,
    home: str,
    language: str | None,
    link_of_submission: Callable[[SubmissionKey], str],
) -> str:
    """The board as a page that is at `path`, in the language of a catalogue; `home` is the address of all pages.

    `language` is what the address asks for, which links keep. Raises ConfigurationError as `render_html`.
    """

    def address(wanted: SubmissionFilter, page: int = 1) -> str:
        query = {
            "centre": NO_CENTRE if wanted.centre == "" else wanted.centre,
            "phase": wanted.phase.short_name if wanted.phase else None,
            "status": wanted.status.short_name if wanted.status else None,
            "from": wanted.first_day,
            "to": wanted.last_day,
            "page": page if page > 1 else None,
            "language": language,
        }
        return f"{path}?{urlencode({name: value for name, value in query.items() if value})}#archives"

    def address_of(cell: Cell) -> str:
        if cell.only is not None:
            return link_of_submission(cell.only)
        return address(replace(board.wanted, centre=cell.centre, phase=cell.phase, status=cell.status))

    rows: dict[str, dict[Phase, list[Cell]]] = {}
    for cell in board.cells:
        rows.setdefault(cell.centre, {}).setdefault(cell.phase, []).append(cell)
    colours = {status: colour for status, colour in board.colours.items() if _COLOUR.fullmatch(colour)}
    values: dict[str, Any] = {
        **common_values(
            catalogue,
            settings,
            place=PageLocation(home),
            more_style="header, main, footer, nav { max-width: 90rem; }\n"
            + "".join(f".{status.short_name} {{ --status: {colour}; }}\n" for status, colour in colours.items()),
            form_action="'self'",
        ),
        "report": board,
        "board": board,
        "rows": rows,
        "phases": [phase for phase in Phase if any(phase in cells for cells in rows.values())],
        "all_phases": list(Phase),
        "statuses": list(Status),
        "phase_words": PHASE_LABELS,
        "status_words": STATUS_LABELS,
        "status_signs": STATUS_SIGNS,
        "no_centre": NO_CENTRE,
        "path": path,
        "asked_language": language,
        "address_of": address_of,
        "page_address": lambda page: address(board.wanted, page),
        "link_of_submission": link_of_submission,
        "decision_sentence": partial(decision_sentence, catalogue=catalogue),
    }
    return render("reports/board.html", values, own=settings.templates_directory)
