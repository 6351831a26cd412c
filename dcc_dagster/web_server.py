"""Dagster's web server with additional pages before its own, and checks of requests before everything.

Dagster's server is a class that makes a Starlette application: this one is derived from it, and served in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from typing import Any, Final

import uvicorn
from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from dcc_dagster.request_checks import RequestRefusal, refused
from dcc_dagster.web_workspace import Serving, Workspace

_POLL_MILLISECONDS: Final = 2_000
"""The default of `dagster-webserver`."""

_MARK: Final = (
    '<div role="note" aria-label="Environment" style="position:fixed;bottom:0;right:0;z-index:1000;padding:2px 10px;'
    'font:12px sans-serif;color:#fff;background:#7a2e00;pointer-events:none">{}</div>'
)
_OF_BODY: Final = ("content-length", "content-type")
_NO_QUERY_IN_ADDRESS: Final = RequestRefusal(
    HTTPStatus.METHOD_NOT_ALLOWED, "GraphQL is answered by POST only. Send the query as JSON by POST."
)


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
    workspace: Workspace, serving: Serving, routes: Sequence[BaseRoute], middleware: Sequence[Middleware]
) -> None:
    """Serve the pages of a workspace until SIGINT or SIGTERM."""
    app = ExtendedWebserver(workspace, routes, middleware, serving.environment).create_asgi_app()
    # No startup or shutdown depends on the server, and an interrupted server would complain about it.
    uvicorn.run(app, host=serving.host, port=serving.port, log_level=serving.log_level, lifespan="off")
