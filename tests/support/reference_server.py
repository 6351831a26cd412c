"""A web server in the shape of IMPReSS's API, and of tables beside it, with faults chosen by path."""

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from typing import ClassVar

from tests.support.web_server import QuietHandler, ThreadedServer


class ReferenceServer(ThreadedServer):
    """Serves `pages` (bodies by path) with ETag and Last-Modified, and 304 for what has not changed.

    `failing` says how many times a path answers 503 (with -1 always); `stalled` paths never answer; `truncated` ones
    stop in the middle of the body; `endless` ones never stop; `redirects` lead elsewhere. Without `tags` pages can only
    be asked for by their time, with neither `tags` nor `times` not conditionally. `asked` counts requests by path and
    status, `most_at_once` says how many were answered at the same time.
    """

    def __init__(self, pages: Mapping[str, bytes], certificate: Path | None = None) -> None:
        super().__init__(_Handler, certificate)
        self.pages = dict(pages)
        self.failing: dict[str, int] = {}
        self.stalled: set[str] = set()
        self.truncated: set[str] = set()
        self.endless: set[str] = set()
        self.redirects: dict[str, str] = {}
        self.tags, self.times, self.seconds = True, True, 0.0
        self.asked: Counter[tuple[str, int]] = Counter()
        self.agents: set[str | None] = set()
        self.at_once, self.most_at_once = 0, 0
        self.lock = threading.Lock()

    def statuses(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for (_, status), number in self.asked.items():
            found[status] += number
        return found


def api_pages(answers: Mapping[str, object]) -> dict[str, bytes]:
    """Answers by their address as pages under `/impress`."""
    return {f"/impress/{address}": json.dumps(answer).encode() for address, answer in answers.items()}


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    web: ClassVar[ReferenceServer]
    timeout = 30
    # Head and body in one packet; apart, the second would wait for the first to be acknowledged.
    wbufsize = -1

    def do_GET(self) -> None:
        web = self.web
        with web.lock:
            web.at_once += 1
            web.most_at_once = max(web.most_at_once, web.at_once)
        try:
            web.agents.add(self.headers.get("User-Agent"))
            web.released.wait(30 if self.path in web.stalled else web.seconds)
            self._answer()
        finally:
            with web.lock:
                web.at_once -= 1

    def _answer(self) -> None:
        web = self.web
        body = web.pages.get(self.path)
        if self.path in web.redirects:
            self._send(302, b"", {"Location": web.redirects[self.path]})
        elif web.failing.get(self.path, 0):
            web.failing[self.path] -= 1
            self._send(503, b"busy", {})
        elif body is None:
            self._send(404, b"{}", {})
        else:
            self._send_page(body)

    def _send_page(self, body: bytes) -> None:
        web = self.web
        digest = hashlib.sha256(body).digest()
        tag = f'"{digest.hex()}"'
        time = formatdate(1_700_000_000 + digest[0], usegmt=True)
        headers = {"ETag": tag} if web.tags else {}
        if web.times:
            headers["Last-Modified"] = time
        unchanged = {"If-None-Match": tag, "If-Modified-Since": time}
        if any(self.headers.get(name) == value for name, value in unchanged.items()):
            self._send(304, b"", headers)
        elif self.path in web.endless:
            self._send(200, body, headers | {"Content-Length": str(10**12)})
            while not web.released.is_set():
                self.wfile.write(b" " * 100_000)
        else:
            self._send(200, body, headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        with self.web.lock:
            self.web.asked[self.path, status] += 1
        if self.path in self.web.truncated:
            headers = {"Content-Length": str(len(body))} | headers
            body = body[: len(body) // 2]
            self.close_connection = True
        self.answer(status, body, headers)
