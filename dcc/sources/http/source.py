"""File sources on web servers: `http` and `https`, with basic authentication.

The base path is a plain path, not a URL: its `%` is a percent sign. Each action directory needs an index page, as web
servers make them of directories. Only what an index links to directly below the directory is listed.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from http.client import HTTPMessage
from typing import NamedTuple
from urllib.parse import quote

from dcc.errors import (
    ConfigurationError,
    FileChangedError,
    FileMissingError,
    FileNotReadableError,
    ListingFailedError,
    LoginRefusedError,
    SourceError,
    SourceUnreachableError,
    TransferFailedError,
)
from dcc.messages import Message, mark, message
from dcc.naming import Action, manifest_beside
from dcc.settings import Settings
from dcc.sources.access import parse_hostname, resolve_accesskey
from dcc.sources.base import ActionListing, Block, ListedFile, NotModified, SourceAddress, Validators
from dcc.sources.certificates import ServerCertificates
from dcc.sources.http.client import FAILURES, HttpClient, HttpResponse, Site, describe
from dcc.sources.http.index import read_index
from dcc.sources.listing import Entry, manifest_version
from dcc.sources.listing_watch import ListingWatch
from dcc.sources.platform_connection import LISTING, LOGIN_REFUSED, NOT_READABLE, SENDING, PlatformConnection
from dcc.sources.remote_names import join_base, printable, raw

_MISSING = (404, 410)
_STRONG_ETAG = re.compile(r'"[!#-~]{0,253}"')
MAX_ASKED = 2_000
"""The most archives of one directory that are requested: the last by name, which by convention are the newest."""

_HELPERS = 3
_WORTH_A_HELPER = 10
_PATIENCE_SECONDS = 5.0

log = logging.getLogger(__name__)


class _Listed(NamedTuple):
    """What is known of a file that is asked for: its listed size and time, and its validators of an earlier time."""

    size: int | None = None
    modified: int | None = None
    validators: Validators | None = None


class HttpConnection(PlatformConnection):
    """A connection to a web server, by TLS for `https`; see `Connection`. Every request carries user name and password.

    Its constructor sees whether the server takes them. It raises SourceTimeoutError, SourceUnreachableError,
    CertificateRefusedError, LoginRefusedError; ConfigurationError if the address or access key makes no sense.
    """

    _failures = FAILURES

    def __init__(self, address: SourceAddress, settings: Settings) -> None:
        super().__init__(address, settings)
        self._site = _site(address, settings)
        self._base = b"/" + raw(join_base(address.base_path)).lstrip(b"/")
        self._client = self._connect()
        self._listed = _Listed()
        self._expected: Validators | None = None
        self._told: Validators | None = None
        try:
            self._log_in(address)
        except BaseException:
            self._client.close()
            raise

    def _interrupt(self) -> None:
        self._client.abandon()

    def _shown(self, *parts: str) -> str:
        return printable(self._target(*parts).encode("ascii", "replace"))

    def _completed(self, listing: ActionListing, watch: ListingWatch) -> ActionListing:
        """The listing with sizes and times, which are asked for one by one.

        Of a directory's MAX_ASKED last archives by name, and of manifests beside these, while the time limit of the
        listing allows. Of the others only a size is known, where the index page prints it exactly.
        """
        zips, action = list(listing.zips), listing.action
        first = max(len(zips) - MAX_ASKED, 0)
        asked = [(path, self._target(action, path)) for file in zips[first:] for path in _requested_paths(file)]
        # Half of what is left: the other directories need the rest.
        now = time.monotonic()
        deadline = now + max(watch.deadline - now, 0) / 2
        told = f"sizes and times of {action}: "
        attributes = find_attributes(
            self._client, self._connect, deadline, asked, lambda text: watch.say(told + text), self._helpers
        )
        for place, file in enumerate(zips[first:], start=first):
            known, *of_manifest = (attributes.get(path) for path in _requested_paths(file))
            if known is not None:
                size = file.size_bytes if known.size is None else known.size
                zips[place] = replace(file, size_bytes=size, modified=known.modified)
            if of_manifest and of_manifest[0] is not None:
                zips[place] = replace(zips[place], manifest_version=manifest_version(*of_manifest[0]))
        return replace(listing, zips=tuple(zips))

    def fetch(
        self,
        action: Action,
        name: str,
        sink: Callable[[Block], object],
        *,
        size: int | None,
        offset: int = 0,
        modified: int | None = None,
    ) -> None:
        """Pass the bytes of a file on to `sink`; see `Connection.fetch`.

        `modified` is the listed time: the request is conditional on it. Raises TransferFailedError, before anything
        is passed on, if the server tells another size or time, and NotModified (see `expect`).
        """
        self._listed = _Listed(size, modified, self._expected)
        self._expected = self._told = None
        super().fetch(action, name, sink, size=size, offset=offset)

    def expect(self, known: Validators) -> None:
        """Let the next `fetch` be conditional; see `Connection.expect`."""
        self._expected = known

    def validators(self) -> Validators | None:
        """What the server told of the file fetched last; see `Connection.validators`."""
        return self._told

    def server_date(self) -> str | None:
        """The time by the server's clock, as it says it (RFC 9110, `Date`); None if it does not. Raises SourceError."""
        return self._ask_base(message(mark("telling the time"))).headers.get("Date")

    def close(self) -> None:
        """Close the connection; see `Connection.close`."""
        self._client.close()

    @property
    def _helpers(self) -> int:
        """How many further connections a listing may have; none where the server's are counted, as others use them."""
        settings = self._settings
        is_counted = settings.limits_of(self._site.endpoint.host.casefold()).connections is not None
        return 0 if is_counted else min(_HELPERS, settings.downloads_per_source - 1)

    def _connect(self) -> HttpClient:
        return HttpClient(self._site, self._settings)

    def _ask_base(self, doing: Message) -> HttpResponse:
        """The answer about the base path, which need not exist."""
        with (
            self._translated(doing, SourceUnreachableError),
            self._client.limit(self._settings.login_timeout),
            self._client.ask("HEAD", self._target() + "/") as answer,
        ):
            return answer

    def _log_in(self, address: SourceAddress) -> None:
        """Ask for the base path, since without a request no server says that a password is wrong."""
        answer = self._ask_base(message(mark("answering the first request")))
        if answer.status == 401:
            text = mark("the server serves nobody without a login ({reason}). Give a user name and a password.")
            if address.username:
                text = LOGIN_REFUSED
            raise LoginRefusedError(text, source=self._label, username=address.username, reason=Message(answer.phrase))

    def _target(self, *parts: str) -> str:
        """Path of something below the base path, percent-encoded; without a slash at its end."""
        steps = [self._base.rstrip(b"/"), *(raw(part) for part in parts if part)]
        return quote(b"/".join(steps), safe="/")

    def _entries(self, action: Action, folder: bytes) -> Iterator[Entry]:
        # An index tells of no links: there is none to follow, and a folder over a link is one like others.
        path = action, printable(folder)
        with self._client.ask("GET", self._target(*path) + "/", {"Accept": "text/html"}) as answer:
            if answer.status == 200:
                return read_index(self._site, answer)
            if answer.status in _MISSING:
                raise FileNotFoundError
            raise self._refusal(answer, message(LISTING, directory=self._shown(*path)), ListingFailedError)

    def _require_base(self) -> None:
        with self._client.ask("HEAD", self._target() + "/") as answer:
            if answer.status in _MISSING:
                text = mark("the server has nothing at the base path {base} ({phrase}). Correct the base path.")
                shown, phrase = f"{self._shown()}/", Message(answer.phrase)
                raise ListingFailedError(text, source=self._label, base=shown, phrase=phrase)

    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[bytes, None, None]:
        """The bytes of a file; see `BlockwiseConnection`. Raises NotModified and FileChangedError by what is known."""
        target, shown = self._target(action, name), self._shown(action, name)
        (listed_size, modified, known), self._listed = self._listed, _Listed()
        headers = _headers(offset, modified, known)
        with self._sending(action, name), self._client.ask("GET", target, headers) as answer:
            if answer.status == 416 and _whole_size(answer) == offset:
                return
            if answer.status == 304 and known is not None:
                raise NotModified
            if answer.status in (412, 416):
                phrase = Message(answer.phrase)
                raise self._changed(shown, message(mark("{phrase} at byte {offset}"), phrase=phrase, offset=offset))
            if answer.status not in (200, 206):
                raise self._refusal(answer, message(SENDING, file=shown), TransferFailedError)
            skip = self._check_same(shown, answer, offset, listed_size, modified)
            self._told = _validators(answer)
            position = offset - skip
            for block in answer.blocks():
                kept = block[max(offset - position, 0) :]
                position += len(block)
                if kept:
                    yield kept
                if size is not None and position > size:
                    return

    def _check_same(self, shown: str, answer: HttpResponse, offset: int, size: int | None, modified: int | None) -> int:
        """How many bytes stand before those asked for; raises TransferFailedError if it is not the listed file."""
        answered = modified_time(answer.headers)
        if modified is not None and answered is not None and answered != modified:
            time_told = formatdate(answered, usegmt=True)
            raise self._changed(shown, message(mark("its time is {time}"), time=time_told))
        if answer.status == 200:
            whole = answer.length
        else:
            whole = _whole_size(answer)
            if _range_start(answer) != offset:
                text = mark(
                    "sending {target} failed: the server sent another part of the file than it was asked for. Ask "
                    "whoever runs the server."
                )
                raise TransferFailedError(text, source=self._label, target=shown)
        if size is not None and whole is not None and whole != size:
            how = message(mark("its size is {size} bytes, {listed} were listed"), size=whole, listed=size)
            raise self._changed(shown, how)
        # A server that knows no ranges sends the file from its beginning.
        return offset if answer.status == 200 else 0

    def _changed(self, shown: str, how: Message) -> FileChangedError:
        text = mark(
            "{target} has changed since it was listed ({how}). The next crawl lists it again; you need not do anything."
        )
        return FileChangedError(text, source=self._label, target=shown, how=how)

    def _refusal(self, answer: HttpResponse, doing: Message, failed: type[SourceError]) -> SourceError:
        kind = failed
        text = mark("{doing} failed: the server answered {phrase}. Ask whoever runs the server, or try again.")
        if answer.status in _MISSING:
            kind = FileMissingError
            text = mark("{doing} failed: it is not there ({phrase}). Check whether it was moved.")
        elif answer.status in (401, 403) and failed is ListingFailedError:
            kind = LoginRefusedError
            text = mark(
                "{doing} was refused ({phrase}). Check the user name and password, and that the server "
                "makes index pages of directories."
            )
        elif answer.status in (401, 403):
            # The login was accepted before: one file must not cost the source all the others.
            kind = FileNotReadableError
            text = NOT_READABLE
        phrase = Message(answer.phrase)
        return kind(text, source=self._label, doing=doing, phrase=phrase, reason=phrase)

    def _describe(self, error: BaseException) -> Message:
        return describe(error)


def _requested_paths(file: ListedFile) -> list[str]:
    return [file.path, manifest_beside(file.path, file.manifest)] if file.manifest else [file.path]


def _site(address: SourceAddress, settings: Settings) -> Site:
    traits = address.traits
    scheme = "https" if traits.uses_tls else "http"
    credential = resolve_accesskey(address.accesskey)
    if credential.private_key is not None:
        raise ConfigurationError("The access key is a private key, but HTTP logs in by password. Give a password.")
    if re.search(r"[:\x00-\x1f\x7f]", address.username):
        raise ConfigurationError("The user name holds a colon or control character, which HTTP cannot send. Change it.")
    return Site(
        label=address.label,
        scheme=scheme,
        endpoint=parse_hostname(address.hostname, traits.usual_port),
        username=address.username,
        credential=credential,
        certificates=ServerCertificates.of_source(address, settings) if traits.uses_tls else None,
    )


def _headers(offset: int, modified: int | None, known: Validators | None) -> dict[str, str]:
    """Headers that ask for a file from `offset` on, as long as it is the one of that time, and not the one known."""
    headers = {}
    if known is not None and known.etag is not None:
        headers["If-None-Match"] = known.etag
    if known is not None and known.last_modified is not None:
        headers["If-Modified-Since"] = known.last_modified
    if offset:
        headers["Range"] = f"bytes={offset}-"
    if modified is not None:
        headers["If-Unmodified-Since"] = formatdate(modified, usegmt=True)
        if offset:
            headers["If-Range"] = headers["If-Unmodified-Since"]
    return headers


def _validators(answer: HttpResponse) -> Validators | None:
    """What tells the file from another one later. A weak ETag does not: it may stand for other bytes."""
    etag, answered = answer.headers.get("ETag", "").strip(), modified_time(answer.headers)
    is_strong = _STRONG_ETAG.fullmatch(etag) is not None
    if not is_strong and answered is None:
        return None
    return Validators(etag if is_strong else None, None if answered is None else formatdate(answered, usegmt=True))


def _range_start(answer: HttpResponse) -> int | None:
    """Where the part that was sent begins; None if it is not told, or the part does not reach the file's end."""
    found = re.fullmatch(r"bytes +(\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", answer.headers.get("Content-Range", "").strip())
    if found is None or (found[3] != "*" and int(found[3]) != int(found[2]) + 1):
        return None
    return int(found[1])


def _whole_size(answer: HttpResponse) -> int | None:
    """Size of the whole file according to `Content-Range`; None where it is not told."""
    found = re.fullmatch(r"bytes +[^/]*/(\d{1,18})", answer.headers.get("Content-Range", "").strip())
    return int(found[1]) if found is not None else None


class FileAttributes(NamedTuple):
    """Attributes of a file besides its contents: bytes, and whole seconds since 1970 (UTC)."""

    size: int | None = None
    modified: int | None = None


def read_attributes(headers: HTTPMessage) -> FileAttributes:
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


def find_attributes(
    client: HttpClient,
    connect: Callable[[], HttpClient],
    deadline: float,
    targets: Sequence[tuple[str, str]],
    on_progress: Callable[[str], object],
    most_helpers: int,
) -> dict[str, FileAttributes]:
    """Attributes by name, of files of one directory given as (name, target on the server).

    `client` sends requests itself; `connect` makes connections for up to `most_helpers`, which are optional: the server
    may refuse them. Files not requested until the `deadline`, of `time.monotonic`, are absent. `on_progress` is called
    with texts such as `500 of 2,000 asked for so far`. Raises FAILURES and SourceError if the server breaks off or
    stalls.
    """
    found: dict[str, FileAttributes] = {}
    helpers: list[HttpClient] = []
    is_over = threading.Event()

    def work(by: HttpClient, waiting: deque[tuple[str, str]]) -> None:
        while time.monotonic() < deadline and not is_over.is_set():
            try:
                name, target = waiting.popleft()
            except IndexError:
                return
            found[name] = _ask(by, target, deadline, is_over)
            on_progress(f"{len(found):,} of {len(targets):,} asked for so far")

    def help_out() -> None:
        with contextlib.suppress(*FAILURES, SourceError), contextlib.closing(connect()) as helper:
            helpers.append(helper)
            work(helper, together)

    together = deque(targets)
    count = min(most_helpers, len(targets) // _WORTH_A_HELPER)
    threads = [threading.Thread(target=help_out, name="http attributes", daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        work(client, together)
        until = min(time.monotonic() + _PATIENCE_SECONDS, deadline)
        for thread in threads:
            thread.join(max(until - time.monotonic(), 0))
        # What helpers were not told: one may have failed, or wait for an answer still.
        work(client, deque(item for item in targets if item[0] not in found))
    except (*FAILURES, SourceError):
        if time.monotonic() < deadline:
            raise
    finally:
        is_over.set()
        for helper in helpers:
            helper.abandon()
    if len(found) < len(targets):
        missing = len(targets) - len(found)
        log.warning("Sizes and times of %d of %d archives were not told in time.", missing, len(targets))
    return dict(found)


def _ask(client: HttpClient, target: str, deadline: float, is_over: threading.Event) -> FileAttributes:
    """Ask for one; no more of them are asked for where the server does not serve such requests."""
    with client.limit(max(deadline - time.monotonic(), 0)), client.ask("HEAD", target) as answer:
        if answer.status in (405, 501):
            is_over.set()
        return read_attributes(answer.headers) if answer.status == 200 else FileAttributes()
