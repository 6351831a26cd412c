"""Dagster's web server with additional pages before its own, and checks of requests before everything.

Dagster's server is a class that makes a Starlette application: this one is derived from it, and served in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import uvicorn
from dagster import DagsterInstance
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._utils.interrupts import setup_interrupt_handlers
from dagster._utils.log import configure_loggers
from dagster_webserver.version import __version__
from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from dcc_dagster.request_checks import Refusal, refused

_STATEMENT_MILLISECONDS: Final = 15_000
_CONNECTION_SECONDS: Final = 3_600
_MORE_CONNECTIONS: Final = 20
_POLL_MILLISECONDS: Final = 2_000
"""These four are the defaults of `dagster-webserver`."""

_MARK: Final = (
    '<div role="note" aria-label="Environment" style="position:fixed;bottom:0;right:0;z-index:1000;padding:2px 10px;'
    'font:12px sans-serif;color:#fff;background:#7a2e00;pointer-events:none">{}</div>'
)
_OF_BODY: Final = ("content-length", "content-type")
_CODE_SERVER_LOG_LEVEL: Final = "warning"
_NO_QUERY_IN_ADDRESS: Final = Refusal(
    HTTPStatus.METHOD_NOT_ALLOWED, "GraphQL is answered by POST only. Send the query as JSON by POST."
)


@dataclass(frozen=True, slots=True)
class Serving:
    """Where and how the pages are served; `workspace` is the file that names the code location."""

    host: str
    port: int
    workspace: Path
    read_only: bool = False
    log_level: str = "warning"
    log_format: str = "colored"
    environment: str | None = None


class ExtendedWebserver(DagsterWebserver[Any, Any]):
    """Dagster's web server with additional routes first, because Dagster's last route answers every path.

    `middleware` comes before everything else, so it also sees WebSockets and Dagster's own pages.
    """

    def __init__(
        self,
        process_context: Any,
        routes: Sequence[BaseRoute],
        middleware: Sequence[Middleware],
        environment: str | None = None,
    ) -> None:
        self._routes = routes
        self._middleware = middleware
        self._environment = environment
        super().__init__(process_context, live_data_poll_rate=_POLL_MILLISECONDS)

    def build_middleware(self) -> list[Middleware]:
        """The additional middleware before Dagster's."""
        return [*self._middleware, *super().build_middleware()]

    def build_routes(self) -> list[BaseRoute]:
        """The additional routes before Dagster's."""
        return [*self._routes, *super().build_routes()]  # type: ignore[no-untyped-call]

    def index_html_endpoint(self, request: Request) -> HTMLResponse:
        """Dagster's page, with the name of the environment in a corner if there is one."""
        answer: HTMLResponse = super().index_html_endpoint(request)
        if self._environment is None:
            return answer
        page = bytes(answer.body).replace(b"</body>", _MARK.format(escape(self._environment)).encode() + b"</body>", 1)
        return HTMLResponse(
            page, headers={name: answer.headers[name] for name in answer.headers if name not in _OF_BODY}
        )

    async def graphql_http_endpoint(self, request: Request) -> Response:
        """Dagster's endpoint, without queries in addresses: another site's page could make a browser open any address.

        GET answers with the page for writing queries, as Dagster does for browsers.
        """
        if request.method == "GET" and "text/html" not in request.headers.get("Accept", ""):
            return refused(_NO_QUERY_IN_ADDRESS)
        answer: Response = await super().graphql_http_endpoint(request)
        return answer


def serve(
    instance: DagsterInstance, serving: Serving, routes: Sequence[BaseRoute], middleware: Sequence[Middleware]
) -> None:
    """Serve the pages of an instance until SIGINT or SIGTERM."""
    configure_loggers(formatter=serving.log_format, log_level=serving.log_level.upper())
    setup_interrupt_handlers()
    instance.optimize_for_webserver(_STATEMENT_MILLISECONDS, _CONNECTION_SECONDS, _MORE_CONNECTIONS)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        context = stack.enter_context(
            WorkspaceProcessContext(
                instance,
                version=__version__,
                read_only=serving.read_only,
                workspace_load_target=WorkspaceFileTarget([str(serving.workspace)]),
                code_server_log_level=_CODE_SERVER_LOG_LEVEL,
            )
        )
        app = ExtendedWebserver(context, routes, middleware, serving.environment).create_asgi_app()
        # No startup or shutdown depends on the server, and an interrupted server would complain about it.
        uvicorn.run(app, host=serving.host, port=serving.port, log_level=serving.log_level, lifespan="off")
