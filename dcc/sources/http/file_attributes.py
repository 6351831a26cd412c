"""Sizes and times of archives on a web server: one HEAD request each, a few at once."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
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


class FileAttributes(NamedTuple):
    """Attributes of a file besides its contents: bytes, and whole seconds since 1970 (UTC)."""

    size: int | None = None
    modified: int | None = None


def read_facts(headers: HTTPMessage) -> FileAttributes:
    """The attributes in the headers of an answer about a complete file; None for each that is missing or invalid."""
    length = headers.get("Content-Length", "").strip()
    # More digits than any file needs would only overflow elsewhere.
    size = int(length) if length.isascii() and length.isdigit() and len(length) <= 18 else None
    return FileAttributes(size, modified_time(headers))


def modified_time(headers: HTTPMessage) -> int | None:
    """The time in `Last-Modified`, in seconds since 1970 (UTC); None if it is missing or invalid."""
    try:
        moment = parsedate_to_datetime(headers.get("Last-Modified", ""))
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def find_facts(
    client: HttpClient,
    connect: Callable[[], HttpClient],
    deadline: float,
    targets: Sequence[tuple[str, str]],
    on_progress: Callable[[str], object],
) -> dict[str, FileAttributes]:
    """Attributes by name, of files of one directory given as (name, target on the server).

    `client` sends requests itself; `connect` makes connections for up to three helpers, which are optional: the server
    may refuse them. Files not requested until the `deadline`, of `time.monotonic`, are absent. `on_progress` is called
    with texts such as `500 of 2,000 asked for so far`. Raises FAILURES and SourceError if the server breaks off or
    stalls.
    """
    waiting = deque(targets)
    found: dict[str, FileAttributes] = {}
    under_way: list[HttpClient] = []
    not_served, dismissed = threading.Event(), threading.Event()

    def work(by: HttpClient, *ends: threading.Event) -> None:
        while time.monotonic() < deadline and not any(end.is_set() for end in ends):
            try:
                item = waiting.popleft()
            except IndexError:
                return
            try:
                found[item[0]] = _ask(by, item[1], deadline, not_served)
            except (*FAILURES, SourceError):
                if time.monotonic() >= deadline:
                    return
                waiting.append(item)
                raise
            on_progress(f"{len(found):,} of {len(targets):,} asked for so far")

    def help_out() -> None:
        with contextlib.suppress(*FAILURES, SourceError):
            helper = connect()
            under_way.append(helper)
            try:
                work(helper, not_served, dismissed)
            finally:
                helper.close()

    count = min(_HELPERS, len(targets) // _WORTH_A_HELPER)
    helpers = [threading.Thread(target=help_out, name="http facts", daemon=True) for _ in range(count)]
    for helper in helpers:
        helper.start()
    try:
        work(client, not_served)
    finally:
        # Helpers may finish their requests, but none without an answer is waited for.
        _join(helpers, min(time.monotonic() + _PATIENCE_SECONDS, deadline))
        dismissed.set()
        for each in under_way:
            each.abandon()
        _join(helpers, time.monotonic() + 1)
    # The request of a helper that was dismissed.
    work(client, not_served)
    if len(found) < len(targets):
        missing = len(targets) - len(found)
        log.warning("Sizes and times of %d of %d archives were not told in time.", missing, len(targets))
    return dict(found)


def _ask(client: HttpClient, target: str, deadline: float, not_served: threading.Event) -> FileAttributes:
    with client.limit(max(deadline - time.monotonic(), 0)), client.ask("HEAD", target) as answer:
        if answer.status in (405, 501):
            not_served.set()
        return read_facts(answer.headers) if answer.status == 200 else FileAttributes()


def _join(helpers: Sequence[threading.Thread], until: float) -> None:
    for helper in helpers:
        helper.join(max(until - time.monotonic(), 0))
