"""Dagster's web server with the platform's reports beside Dagster's pages: what `dcc ui` runs.

As a program it takes the arguments of `dagster-webserver`, or, after the word `dev`, those of `dagster dev`, which
starts a web server and a daemon: then its web server is this one.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

import anyio
import anyio.to_thread
import dagster._cli.dev
import dagster_webserver.app
from anyio.lowlevel import RunVar
from dagster import DagsterInstance
from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dcc_assets.freshness import show_overdue
from dcc_assets.links import PICTURES, REPORTS
from dcc_assets.request_checks import Refusal, RequestChecks, refused
from dcc_assets.served_reports import Answer, centre_page, centre_picture, index_page, not_there, session_page, zip_page
from dcc_resources.errors import DccError
from dcc_resources.naming import Action
from dcc_resources.settings import load_settings
from dcc_resources.tracker.database import open_tracker, require_current

log = logging.getLogger(__name__)

MODULE: Final = "dcc_assets.web_server"
DAGSTERS_MODULE: Final = "dagster_webserver"
_DEV: Final = "dev"
_BESIDE_DAEMON: Final = "DAGSTER_IS_DEV_CLI"
"""Set by `dagster dev`, which starts a daemon too."""
_WATCH_SECONDS: Final = 600.0
_MADE_AT_ONCE: Final = 2
_LARGEST_ID: Final = 2**63 - 1
_limiter: Final[RunVar[anyio.CapacityLimiter]] = RunVar("reports made at once")

_NO_QUERY_IN_ADDRESS: Final = Refusal(
    HTTPStatus.METHOD_NOT_ALLOWED, "GraphQL is answered by POST only. Send the query as JSON by POST."
)

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Sent with every report and picture: no script runs, nothing is loaded from elsewhere, no other page shows it."""


def report_routes() -> list[BaseRoute]:
    """The pages beside Dagster's: reports of zip actions, centres and sessions, and pictures. They only read."""
    return [
        Route(REPORTS, _served(lambda _: index_page())),
        Route(f"{REPORTS}/centre/{{centre}}", _served(_centre)),
        Route(f"{REPORTS}/session/{{session:int}}", _served(_session)),
        Route(f"{REPORTS}/{{action}}/{{name:path}}", _served(_zip)),
        Route(f"{PICTURES}/centre/{{centre}}/{{number:int}}.png", _served(_picture)),
        Route("/dcc/{path:path}", _served(lambda request: not_there(request.url.path))),
    ]


def _zip(request: Request) -> Answer:
    action, name = request.path_params["action"], request.path_params["name"]
    if action not in set(Action):
        return not_there(request.url.path)
    return zip_page(f"{action}/{name}", *_wanted(request))


def _centre(request: Request) -> Answer:
    return centre_page(request.path_params["centre"], *_wanted(request))


def _session(request: Request) -> Answer:
    session = request.path_params["session"]
    if session > _LARGEST_ID:
        return not_there(request.url.path)
    return session_page(session, *_wanted(request))


def _picture(request: Request) -> Answer:
    return centre_picture(request.path_params["centre"], request.path_params["number"])


def _wanted(request: Request) -> tuple[str | None, str]:
    """The language and the form that the address asks for."""
    return request.query_params.get("language"), request.query_params.get("form", "html")


def _served(answer: Callable[[Request], Answer]) -> Callable[[Request], Any]:
    async def serve(request: Request) -> Response:
        made = await anyio.to_thread.run_sync(answer, request, limiter=_turns())
        named = {} if made.file_name is None else {"Content-Disposition": f'attachment; filename="{made.file_name}"'}
        return Response(made.body, made.status, {**HEADERS, **named}, made.media_type)

    return serve


def _turns() -> anyio.CapacityLimiter:
    """How many reports are made at once; the others wait without a thread, since Dagster's pages need these as well."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_MADE_AT_ONCE)
        _limiter.set(limiter)
        return limiter


def _watch_overdue(instance: DagsterInstance) -> None:
    """Look every ten minutes, for as long as the process lives; what fails is logged, and looked at again."""
    while True:
        try:
            _look_at_overdue(instance)
        except DccError as error:
            log.warning("The checks of what is overdue could not be looked at: %s", error)
        except Exception:
            # Dagster's storage raises what its database does.
            log.exception("The checks of what is overdue could not be looked at")
        time.sleep(_WATCH_SECONDS)


def _look_at_overdue(instance: DagsterInstance) -> None:
    settings = load_settings()
    tracker = open_tracker(settings)
    try:
        require_current(tracker)
        show_overdue(instance, tracker, settings)
    finally:
        tracker.dispose()


class PlatformWebserver(DagsterWebserver[Any, Any]):
    """Dagster's web server, with reports and pictures below `/dcc`.

    Where no daemon is started beside it, it keeps the checks of what is overdue right itself, unless it only reads.
    """

    def __init__(self, process_context: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(process_context, *arguments, **options)
        if not process_context.read_only and not os.environ.get(_BESIDE_DAEMON):
            watch = threading.Thread(target=_watch_overdue, args=(process_context.instance,), daemon=True)
            watch.start()

    def build_middleware(self) -> list[Middleware]:
        """The checks of requests before everything else."""
        return [Middleware(RequestChecks, hosts=load_settings().page_hosts), *super().build_middleware()]

    async def graphql_http_endpoint(self, request: Request) -> Response:
        """Dagster's, without queries in addresses: another site's page could have a browser ask for any address.

        GET answers with the page in which queries are written, as Dagster does for browsers.
        """
        if request.method == "GET" and "text/html" not in request.headers.get("Accept", ""):
            return refused(_NO_QUERY_IN_ADDRESS)
        answer: Response = await super().graphql_http_endpoint(request)
        return answer

    def build_routes(self) -> list[BaseRoute]:
        """The reports' routes before Dagster's, the last of which answers to every path."""
        return [*report_routes(), *super().build_routes()]  # type: ignore[no-untyped-call]


def _start(parts: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """As Dagster's own, with this web server in place of its own."""
    ours = [MODULE if part == DAGSTERS_MODULE else part for part in parts]
    return _dagsters_start(ours, **options)


_dagsters_start: Final = dagster._cli.dev.open_ipc_subprocess  # type: ignore[attr-defined]


def main() -> None:
    """Serve until stopped. Ends the process."""
    if sys.argv[1:2] == [_DEV]:
        dagster._cli.dev.open_ipc_subprocess = _start  # type: ignore[attr-defined]
        from dagster._cli import main as serve
    else:
        dagster_webserver.app.DagsterWebserver = PlatformWebserver  # type: ignore[attr-defined]
        from dagster_webserver.cli import main as serve
    serve()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
