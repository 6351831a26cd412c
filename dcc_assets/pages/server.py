"""The pages that `dcc ui` serves in addition to Dagster's, below `/dcc`, and the web server with all of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import anyio
import anyio.to_thread
from dagster import DagsterInstance
from starlette.convertors import IntegerConvertor, StringConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dcc.databases.schema import current
from dcc.errors import DccError
from dcc.naming import Action
from dcc.settings import load_settings
from dcc.settings.hosts import parse_hosts
from dcc.tracker.database import open_tracker
from dcc_assets.metadata.links import BOARD, CAUSES, DOCUMENTS, EXPECTED, HOME, KEPT, PICTURES, REPORTS
from dcc_assets.pages.reports import (
    Page,
    board_page,
    causes_page,
    centre_page,
    centre_picture,
    document_xml,
    expected_page,
    index_page,
    not_there,
    session_page,
    stored_report_page,
    stored_reports_page,
    submission_page,
)
from dcc_assets.sync.overdue import show_overdue
from dcc_dagster.request_checks import RequestChecks
from dcc_dagster.web_server import serve
from dcc_dagster.web_workspace import Serving, Workspace

log = logging.getLogger(__name__)

_WATCH_SECONDS: Final = 600.0
# How many reports are made at once. Others wait without a thread, because Dagster's pages need threads as well.
_TURNS: Final = anyio.CapacityLimiter(2)

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every report and plot: no script runs, nothing is loaded from elsewhere, no other page embeds it."""


class _IdConvertor(IntegerConvertor):
    """The numbers of an address that the databases can compare with, which have no more than 18 digits."""

    regex = "[0-9]{1,18}"


class _ActionConvertor(StringConvertor):
    """The actions of submissions."""

    regex = "|".join(Action)


register_url_convertor("id", _IdConvertor())
register_url_convertor("action", _ActionConvertor())


def report_routes() -> list[BaseRoute]:
    """The additional pages: reports of submissions, centres and sessions, plots, and submitted XML. They only read."""
    return [
        *(Route(path, _served(index_page)) for path in (HOME, "/dcc", REPORTS)),
        Route(BOARD, _served(board_page)),
        Route(f"{REPORTS}/centre/{{centre}}", _served(centre_page)),
        Route(f"{REPORTS}/session/{{session:id}}", _served(session_page)),
        Route(f"{REPORTS}/{{action:action}}/{{name:path}}", _served(submission_page)),
        *(Route(path, _served(causes_page)) for path in (CAUSES, f"{CAUSES}/{{centre}}")),
        *(Route(path, _served(stored_reports_page)) for path in (KEPT, f"{KEPT}/{{centre}}")),
        Route(f"{KEPT}/{{action:action}}/{{name}}", _served(stored_report_page)),
        Route(f"{EXPECTED}/{{centre}}", _served(expected_page)),
        Route(f"{DOCUMENTS}/{{action:action}}/{{archive}}/{{name:path}}", _served(document_xml)),
        Route(f"{PICTURES}/centre/{{centre}}/{{number:id}}.png", _served(centre_picture)),
        Route("/dcc/{path:path}", _served(not_there)),
    ]


def _served(page: Page) -> Callable[[Request], Any]:
    async def serve(request: Request) -> Response:
        response = await anyio.to_thread.run_sync(page, request, limiter=_TURNS)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return serve


def _watch_overdue(instance: DagsterInstance) -> None:
    """Check every ten minutes, for as long as the process lives; failures are logged, and the check is repeated."""
    while True:
        try:
            _look_at_overdue(instance)
        except DccError as error:
            log.warning("The checks of what is overdue could not be looked at: %s", error)
        except Exception:
            # Dagster's storage raises its database's errors.
            log.exception("The checks of what is overdue could not be looked at")
        time.sleep(_WATCH_SECONDS)


def _look_at_overdue(instance: DagsterInstance) -> None:
    settings = load_settings()
    with current(open_tracker(settings)) as tracker:
        show_overdue(instance, tracker, settings)


def serve_pages(
    instance: DagsterInstance, loaded: Callable[[], Workspace], serving: Serving, *, watch_overdue: bool
) -> None:
    """Serve Dagster's pages, reports and plots until SIGINT or SIGTERM, once the code location is loaded.

    With `watch_overdue` it keeps the checks of overdue work right, if no daemon does.
    """
    if watch_overdue:
        threading.Thread(target=_watch_overdue, args=(instance,), daemon=True).start()
    checks = Middleware(RequestChecks, hosts=parse_hosts(load_settings().ui_hosts))
    serve(loaded(), serving, report_routes(), [checks])
