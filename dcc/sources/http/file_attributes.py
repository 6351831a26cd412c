"""Sizes and times of archives on a web server: one HEAD request each, a few at once."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.client import HTTPMessage
from typing import NamedTuple

from dcc.errors import SourceError
from dcc.sources.http.client import FAILURES, HttpClient

MAX_ASKED = 2_000
"""The most archives of one directory that are requested: the last by name, which by convention are the newest."""

_HELPERS = 3
_WORTH_A_HELPER = 10
_PATIENCE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Facts(NamedTuple):
    """Attributes of a file besides its contents: bytes, and whole seconds since 1970 (UTC)."""

    size: int | None = None
    modified: int | None = None


def read_facts(headers: HTTPMessage) -> Facts:
    """The attributes in the headers of an answer about a complete file; None for each that is missing or invalid."""
    length = headers.get("Content-Length", "").strip()
    # More digits than any file needs would only overflow elsewhere.
    size = int(length) if length.isascii() and length.isdigit() and len(length) <= 18 else None
    return Facts(size, modified_time(headers))


def modified_time(headers: HTTPMessage) -> int | None:
    """The time in `Last-Modified`, in seconds since 1970 (UTC); None if it is missing or invalid."""
    try:
        moment = parsedate_to_datetime(headers.get("Last-Modified", ""))
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


class FactFinder:
    """Requests the attributes of the files of one directory until all are known or the time is up.

    `client` sends requests itself; `connect` makes connections for up to three helpers, which are optional: the server
    may refuse them. `deadline` is of `time.monotonic`.
    """

    def __init__(self, client: HttpClient, connect: Callable[[], HttpClient], deadline: float) -> None:
        self._client, self._connect, self._deadline = client, connect, deadline
        self._on_progress: Callable[[str], object] = lambda _: None
        self._count = 0
        self._waiting: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._found: dict[str, Facts] = {}
        self._under_way: list[HttpClient] = []
        self._not_served = threading.Event()
        self._dismissed = threading.Event()

    def find(
        self, targets: Sequence[tuple[str, str]], on_progress: Callable[[str], object] = lambda _: None
    ) -> dict[str, Facts]:
        """Attributes by name, of files given as (name, target on the server); those not requested in time are absent.

        `on_progress` is called with texts such as `500 of 2,000 asked for so far`. Raises FAILURES and SourceError if
        the server breaks off or stalls.
        """
        self._on_progress, self._count = on_progress, len(targets)
        for item in targets:
            self._waiting.put(item)
        self._find(targets)
        if len(self._found) < len(targets):
            missing = len(targets) - len(self._found)
            log.warning("Sizes and times of %d of %d archives were not told in time.", missing, len(targets))
        return dict(self._found)

    def _find(self, targets: Sequence[tuple[str, str]]) -> None:
        count = min(_HELPERS, len(targets) // _WORTH_A_HELPER)
        helpers = [threading.Thread(target=self._help, name="http facts", daemon=True) for _ in range(count)]
        for helper in helpers:
            helper.start()
        try:
            self._work(self._client, self._not_served)
        finally:
            self._dismiss(helpers)
        # The request of a helper that was dismissed.
        self._work(self._client, self._not_served)

    def _work(self, client: HttpClient, *ends: threading.Event) -> None:
        while not any(end.is_set() for end in ends):
            try:
                name, target = self._waiting.get_nowait()
            except queue.Empty:
                return
            if time.monotonic() >= self._deadline:
                return
            try:
                self._found[name] = self._ask(client, target)
            except (*FAILURES, SourceError):
                if time.monotonic() >= self._deadline:
                    return
                self._waiting.put((name, target))
                raise
            self._on_progress(f"{len(self._found):,} of {self._count:,} asked for so far")

    def _ask(self, client: HttpClient, target: str) -> Facts:
        left = max(self._deadline - time.monotonic(), 0)
        with client.limit(left), client.ask("HEAD", target) as answer:
            if answer.status in (405, 501):
                self._not_served.set()
            return read_facts(answer.headers) if answer.status == 200 else Facts()

    def _help(self) -> None:
        with contextlib.suppress(*FAILURES, SourceError):
            client = self._connect()
            self._under_way.append(client)
            try:
                self._work(client, self._not_served, self._dismissed)
            finally:
                client.close()

    def _dismiss(self, helpers: Sequence[threading.Thread]) -> None:
        """Let the helpers finish their requests, but wait for none without an answer."""
        patience = min(time.monotonic() + _PATIENCE_SECONDS, self._deadline)
        for helper in helpers:
            helper.join(max(patience - time.monotonic(), 0))
        self._dismissed.set()
        for client in self._under_way:
            client.abandon()
        for helper in helpers:
            helper.join(1)
