"""Serves the metrics over HTTP: `/metrics` for Prometheus, `/healthz` for probes.

Metrics are collected at most every few seconds, however often they are requested. An idle connection is closed after
some seconds.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from dcc.errors import ConfigurationError
from dcc.operations.metrics.collector import Collection, exposition
from dcc.operations.metrics.families import Metric
from dcc.settings import Settings

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 5.0
"""For how long collected metrics are served again."""

_ANSWER_SECONDS: Final = 20.0
_SILENT_SECONDS: Final = 10.0
_TEXT: Final = "text/plain; charset=utf-8"


class Answers:
    """The answers: the metrics of an installation, collected on request if the last ones are too old."""

    def __init__(self, collect: Callable[[], list[Metric]], fresh_seconds: float = FRESH_SECONDS) -> None:
        self._collect, self._fresh_seconds = collect, fresh_seconds
        self._lock = threading.Lock()
        self._collected = -math.inf
        self._text = b""
        self._healthy = False

    @classmethod
    def of(cls, settings: Settings) -> Answers:
        """The answers of the installation that the settings name."""
        return cls(Collection(settings, _ANSWER_SECONDS).collect)

    def metrics(self) -> bytes:
        """The metrics, as text."""
        with self._lock:
            self._refresh()
            return self._text

    def healthy(self) -> bool:
        """Whether the tracker could be read."""
        with self._lock:
            self._refresh()
            return self._healthy

    def _refresh(self) -> None:
        if time.monotonic() - self._collected < self._fresh_seconds:
            return
        families = self._collect()
        self._text = exposition(families)
        self._healthy = any(
            sample.name == "dcc_metrics_part_up" and sample.labels["part"] == "tracker" and sample.value == 1
            for family in families
            for sample in family.samples
        )
        self._collected = time.monotonic()


def open_server(host: str, port: int, answers: Answers) -> ThreadingHTTPServer:
    """A server of the metrics, bound to an address; port 0 takes a free one. Raises ConfigurationError."""

    class Handler(_Handler):
        served = answers

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the library's
            """A client that disconnects or sends nonsense does not disturb the others."""
            log.debug("A request of %s for metrics broke off", client_address, exc_info=True)

    try:
        return Server((host, port), Handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"The metrics cannot be served on {host}, port {port}: {reason}. Choose others: --serve HOST:PORT."
        ) from error


class _Handler(BaseHTTPRequestHandler):
    served: Answers
    timeout = _SILENT_SECONDS
    server_version = "dcc"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(HTTPStatus.OK, self.served.metrics(), CONTENT_TYPE_PLAIN_0_0_4)
        elif path == "/healthz":
            if self.served.healthy():
                self._answer(HTTPStatus.OK, b"ok\n")
            else:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"The tracker could not be read.\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"There are /metrics and /healthz.\n")

    do_HEAD = do_GET

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = _TEXT) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log a request."""
        log.debug(format, *args)
