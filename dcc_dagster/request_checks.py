"""Which requests the web page answers: those of its own pages and of programs without a browser, but of no other site.

Dagster's web server asks for no login and ignores Host and Origin. Without these checks, any page open in the browser
of a person who reaches the server could start runs, wipe assets or read reports.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dcc.runtime.legible_text import legible
from dcc.settings.hosts import Authority, is_loopback, parse_authority, parse_origin

log = logging.getLogger(__name__)

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE: Final = frozenset({"same-origin", "none"})
_JSON: Final = "application/json"
_POLICY_VIOLATION: Final = 1008
_LONGEST_SHOWN: Final = 200

_FRAME_HEADERS: Final = {
    "X-Frame-Options": "SAMEORIGIN",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_NO_FOREIGN_FRAMES: Final = "frame-ancestors 'self'"


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """Why a request is refused: the HTTP status, what is wrong and what to do."""

    status: HTTPStatus
    reason: str


class RequestChecks:
    """Refuses requests of other sites, and passes all others on to the web page.

    `hosts` are the names and addresses under which it is served; those of this machine alone may be left out.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self.app = app
        self.hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check an HTTP request or the opening of a WebSocket."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, _without_foreign_frames(send))
            return
        log.warning("Refused %s %s: %s", scope.get("method", "WebSocket"), _shortened(scope["path"]), refusal.reason)
        await _refuse(refusal, scope, receive, send)

    def _refusal(self, scope: Scope) -> RequestRefusal | None:
        headers = Headers(scope=scope)
        named = headers.getlist("host")
        host = parse_authority(named[0]) if len(named) == 1 else None
        if host is None:
            return RequestRefusal(HTTPStatus.BAD_REQUEST, "The request does not name one host. Send one Host header.")
        if not (is_loopback(host.host) or host.host in self.hosts):
            return RequestRefusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"This page is not served under the name {host.host}. If it should be, add the name to DCC_UI_HOSTS "
                "and start the page again.",
            )
        method = scope.get("method", "GET")
        return _of_origin(headers, host) or _of_site(headers, method) or _of_content(headers, method)


def _of_origin(headers: Headers, host: Authority) -> RequestRefusal | None:
    """Browsers name the page that sends a request, unless it only asks for an image, a script or a page."""
    for origin in headers.getlist("origin"):
        parsed = parse_origin(origin)
        if parsed is None or not parsed[1].is_same(host, parsed[0]):
            return RequestRefusal(
                HTTPStatus.FORBIDDEN,
                f"A page of {_shortened(origin)} sent this request to {_shortened(headers['host'])}. Only the page's "
                "own requests are answered. A proxy before it must hand on the Host header as it is, with the port.",
            )
    return None


def _of_site(headers: Headers, method: str) -> RequestRefusal | None:
    """Requests that another site's page embeds or sends are refused; a link on it may be followed."""
    site = headers.get("sec-fetch-site")
    if site is None or site in _OWN_SITE:
        return None
    follows = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if follows and method in _READING:
        return None
    return RequestRefusal(
        HTTPStatus.FORBIDDEN, "Another site's page sent this request. Only the page's own requests are answered."
    )


def _of_content(headers: Headers, method: str) -> RequestRefusal | None:
    """No form can send JSON, and a script of another site only with permission, which it does not get."""
    if method in _READING:
        return None
    types = headers.getlist("content-type")
    if len(types) == 1 and types[0].partition(";")[0].strip().lower() == _JSON:
        return None
    return RequestRefusal(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        f"What changes something is sent as JSON. Send the header Content-Type: {_JSON}.",
    )


async def _refuse(refusal: RequestRefusal, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await refused(refusal)(scope, receive, send)
    else:
        # Before the connection is accepted: the server answers 403.
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": ""})


def refused(refusal: RequestRefusal) -> Response:
    """The answer to a refused request."""
    return PlainTextResponse(f"{refusal.reason}\n", refusal.status, {**_FRAME_HEADERS, "Cache-Control": "no-store"})


def _without_foreign_frames(send: Send) -> Send:
    """Keep other sites from showing a page in a frame, where a user could click its buttons unknowingly."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _FRAME_HEADERS.items():
                headers.setdefault(name, value)
            if not any("frame-ancestors" in policy for policy in headers.getlist("content-security-policy")):
                headers.append("Content-Security-Policy", _NO_FOREIGN_FRAMES)
        await send(message)

    return send_with_headers


def _shortened(text: str) -> str:
    return legible(text)[:_LONGEST_SHOWN]
