"""A web server in a thread of the test process that serves a folder, with faults chosen by keyword."""

import base64
import contextlib
import html
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from email.utils import formatdate, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import quote, unquote_to_bytes

IndexStyle = Callable[[str, list[tuple[str, bool]]], str]


def python_index(path: str, entries: list[tuple[str, bool]]) -> str:
    """An index page as Python's http.server makes it: the path, and entries as (encoded name, is a directory)."""
    links = "".join(f'<li><a href="{name}{"/" * folder}">{name}</a></li>\n' for name, folder in entries)
    title = f"Directory listing for {html.escape(path)}"
    return (
        f"<!DOCTYPE HTML>\n<html><head><title>{title}</title></head><body>\n<h1>{title}</h1>\n"
        f"<hr>\n<ul>\n{links}</ul>\n<hr>\n</body>\n</html>\n"
    )


def apache_index(path: str, entries: list[tuple[str, bool]]) -> str:
    """As Apache's mod_autoindex makes it with FancyIndexing: sort links, icons, the parent, rounded sizes."""
    parent = path.rstrip("/").rpartition("/")[0] + "/"
    lines = "".join(
        f'<img src="/icons/compressed.gif" alt="[   ]"> <a href="{name}{"/" * folder}">{name[:20]}..&gt;</a> '
        "2013-10-31 12:00  1.2M  \n"
        for name, folder in entries
    )
    return (
        '<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">\n<html>\n <head>\n'
        f"  <title>Index of {path}</title>\n </head>\n <body>\n<h1>Index of {path}</h1>\n"
        '<pre><img src="/icons/blank.gif" alt="Icon "> <a href="?C=N;O=D">Name</a> <a href="?C=M;O=A">Last modified'
        f'</a> <a href="?C=S;O=A">Size</a><hr><a href="{parent}">Parent Directory</a>   -   \n{lines}<hr></pre>\n'
        "<address>Apache/2.4.57 (Debian) Server at 127.0.0.1</address>\n</body></html>\n"
    )


def nginx_index(path: str, entries: list[tuple[str, bool]]) -> str:
    """As nginx's autoindex makes it."""
    lines = "".join(
        f'<a href="{name}{"/" * folder}">{name[:47]}..&gt;</a>     31-Oct-2013 12:00     1234567\r\n'
        for name, folder in entries
    )
    return (
        f"<html>\r\n<head><title>Index of {path}</title></head>\r\n<body>\r\n<h1>Index of {path}</h1><hr><pre>"
        f'<a href="../">../</a>\r\n{lines}</pre><hr></body>\r\n</html>\r\n'
    )


class QuietHandler(BaseHTTPRequestHandler):
    """Answers requests, and says nothing of them; its server is `web`."""

    web: ClassVar[Any]

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def sent(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None, reason: str | None = None
    ) -> None:
        """Answer with these headers, the length, and the body, which is not sent where there can be none."""
        self.send_response(status, reason)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 304 and "Content-Length" not in (headers or {}) and (headers or {}).get("Connection") != "close":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 304 and self.command != "HEAD":
            self.wfile.write(body)


class ThreadedServer:
    """A web server in threads of the test process, by TLS with a `certificate` file or a context.

    Its handler finds it as `web`; what is to wait until the end waits for `released`.
    """

    def __init__(self, handler: type[QuietHandler], certificate: Path | ssl.SSLContext | None = None) -> None:
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), {"web": self}))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if isinstance(certificate, Path):
            path, certificate = certificate, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.load_cert_chain(path)
        if certificate is not None:
            self._server.socket = certificate.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = int(self._server.server_address[1])
        self.hostname = f"127.0.0.1:{self.port}"
        self.url = f"{'http' if certificate is None else 'https'}://{self.hostname}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


class WebServer(ThreadedServer):
    """Serves `root` over HTTP/1.1, by TLS with a `certificate` file or a context, to one user if `password` is given.

    Without `ranges` it sends files whole; with `ignore_conditions` whatever their time. `etag` makes the ETag of what
    a file holds. A file is cut off after `cut_after` bytes (the connection closes), left without another byte after
    `stall_after`. `size_error` is added to the sizes it tells of files. `pages` are answers of its own by path: status,
    headers and body. `one_connection`: it serves no second connection while there is one.
    """

    def __init__(
        self, root: Path, *, password: str | None = None, certificate: Path | ssl.SSLContext | None = None
    ) -> None:
        super().__init__(_Handler, certificate)
        self.root, self.username, self.password = root, "centre", password
        self.index: IndexStyle = python_index
        self.ranges, self.ignore_conditions, self.no_times = True, False, False
        self.etag: Callable[[bytes], str] | None = None
        self.cut_after: int | None = None
        self.stall_after: int | None = None
        self.stall_head = False
        self.size_error = 0
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.connections: list[socket.socket] = []
        self.one_connection: threading.Lock | None = None

    def disconnect(self) -> None:
        """Close the connections that clients keep open, as servers do with idle ones."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def asked(self, method: str) -> list[str]:
        return [path for asked, path, _ in self.requests if asked == method]


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    web: ClassVar[WebServer]
    timeout = 30

    def handle(self) -> None:
        self.web.connections.append(self.connection)
        if self.web.one_connection is None:
            super().handle()
        else:
            with self.web.one_connection:
                super().handle()

    def do_GET(self) -> None:
        web = self.web
        web.requests.append((self.command, self.path, dict(self.headers)))
        if web.password is not None:
            token = base64.b64encode(f"{web.username}:{web.password}".encode()).decode()
            if self.headers.get("Authorization") != f"Basic {token}":
                self.answer(401, b"<html>no</html>", {"WWW-Authenticate": 'Basic realm="x"'})
                return
        if self.path in web.pages:
            status, headers, body = web.pages[self.path]
            self.answer(status, body, headers)
            return
        path = web.root / unquote_to_bytes(self.path.partition("?")[0]).decode("utf-8", "surrogateescape").strip("/")
        if path.is_dir():
            self._send_index(path)
        elif path.is_file():
            self._send_file(path)
        else:
            self.answer(404, b"<html><h1>Not Found</h1></html>", {"Content-Type": "text/html"})

    do_HEAD = do_GET

    def _send_index(self, path: Path) -> None:
        if not self.path.endswith("/"):
            self.answer(301, headers={"Location": f"{self.path}/"})
            return
        entries = [(quote(entry.name, errors="surrogateescape"), entry.is_dir()) for entry in sorted(path.iterdir())]
        page = self.web.index(self.path, entries).encode("utf-8", "surrogateescape")
        self.answer(200, page, {"Content-Type": "text/html; charset=utf-8"})

    def _send_file(self, path: Path) -> None:
        web, content, modified = self.web, path.read_bytes(), int(path.stat().st_mtime)
        if self.command == "HEAD" and web.stall_head:
            web.released.wait(30)
        condition = self.headers.get("If-Unmodified-Since")
        if condition and not web.ignore_conditions and parsedate_to_datetime(condition).timestamp() < modified:
            self.answer(412, b"changed")
            return
        start, status = 0, 200
        headers = {} if web.no_times else {"Last-Modified": formatdate(modified, usegmt=True)}
        if web.etag is not None:
            headers["ETag"] = web.etag(content)
        if not web.ignore_conditions and self._is_known(headers):
            self.answer(304, headers=headers)
            return
        wanted = self.headers.get("Range")
        if_range = self.headers.get("If-Range")
        same = if_range is None or if_range == headers.get("Last-Modified")
        if wanted and web.ranges and same:
            start, status = int(wanted.removeprefix("bytes=").rstrip("-")), 206
            if start >= len(content):
                self.answer(416, headers={"Content-Range": f"bytes */{len(content)}"})
                return
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) - start + web.size_error))
        self.end_headers()
        if self.command == "GET":
            self._send_body(content[start:])

    def _is_known(self, headers: dict[str, str]) -> bool:
        """Whether the client has the file already, by its ETag, or by its time where it names none (RFC 9110)."""
        tag, time = self.headers.get("If-None-Match"), self.headers.get("If-Modified-Since")
        if tag is not None:
            return tag == headers.get("ETag")
        modified = headers.get("Last-Modified")
        return None not in (time, modified) and parsedate_to_datetime(modified) <= parsedate_to_datetime(time)

    def _send_body(self, content: bytes) -> None:
        web = self.web
        if web.cut_after is not None:
            self.wfile.write(content[: web.cut_after])
            self.close_connection = True
        elif web.stall_after is not None:
            self.wfile.write(content[: web.stall_after])
            web.released.wait(30)
        else:
            self.wfile.write(content)
