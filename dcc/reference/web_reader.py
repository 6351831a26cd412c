"""Reads pages of web servers within limits of time, size and number of tries.

The client is that of the sources, so that time limits, TLS and `DCC_TLS_CA_FILE` are the same. It never sends a
password, so that redirects may lead to other servers; but never from https to http, nor to anything else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from dcc.errors import (
    CertificateRefusedError,
    ConfigurationError,
    ReferenceDataError,
    ReferenceUnreachableError,
    SourceError,
)
from dcc.reference.impress import Impress
from dcc.reference.loading import IMPRESS_FILE, SETS, ReferenceData, checksum_of, read_set
from dcc.reference.snapshots import Provenance, Snapshot
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.settings.hosts import WEB_PORTS
from dcc.settings.reference import shown_source, url_below
from dcc.sources.access import Credential, parse_hostname
from dcc.sources.certificates import ServerCertificates, tls_context
from dcc.sources.http.client import FAILURES, REDIRECTS, HttpClient, HttpResponse, Site, describe

TRIES: Final = 3
_LONGEST_PAUSE: Final = 30.0
_MAX_REDIRECTS: Final = 5
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_ACCEPTED: Final = "application/json, text/csv, text/tab-separated-values, */*;q=0.5"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer: its address for messages, its body, and the server's tag and time of this version, if any."""

    address: str
    content: bytes
    entity_tag: str | None
    last_modified: str | None
    retrieved: datetime


class _PassingError(Exception):
    """A try failed, and the next may succeed; the text says why."""


MAX_BYTES = 200_000_000
"""The largest file of reference data that is read from a server."""


class WebReader:
    """Reads pages, one after the other, with a kept connection to each server. Close it afterwards."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clients: dict[str, HttpClient] = {}

    def read(self, url: str, known: Page | None, max_bytes: int) -> Page:
        """The page at a URL; `known` itself if the server says that it has not changed.

        Raises ReferenceUnreachableError if the server cannot be reached or fails, after `TRIES` tries, and
        ReferenceDataError for refusals, pages of more than `max_bytes`, and forbidden redirects.
        """
        tries = Retrying(
            retry=retry_if_exception_type(_PassingError),
            stop=stop_after_attempt(TRIES),
            wait=wait_exponential(multiplier=self._settings.retry_delay, max=_LONGEST_PAUSE),
            reraise=True,
        )
        try:
            return tries(self._try, url, known, max_bytes)
        except _PassingError as error:
            raise ReferenceUnreachableError(
                f"{shown_source(url)} could not be read: {error}. It was tried {TRIES} times; see that the server is "
                "up, or try again later."
            ) from error

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _try(self, url: str, known: Page | None, max_bytes: int) -> Page:
        headers = {"Accept": _ACCEPTED, **_conditions(known)}
        at, shown = url, shown_source(url)
        for _ in range(_MAX_REDIRECTS + 1):
            with self._request(shown, at, headers) as answer:
                if answer.status == 304 and known is not None:
                    return known
                if answer.status == 200:
                    return _page(shown, answer, max_bytes)
                if answer.status in _PASSING:
                    raise _PassingError(f"the server answered {answer.phrase}")
                if answer.status not in REDIRECTS:
                    raise ReferenceDataError(
                        f"{shown}: the server answered {answer.phrase}. Check the address in the setting, and whether "
                        "the page needs a login, which reference data must not."
                    )
                at = _redirected(shown, at, answer.headers.get("Location"))
        raise ReferenceDataError(f"{shown}: the server sent more than {_MAX_REDIRECTS} redirects. Check the address.")

    @contextlib.contextmanager
    def _request(self, shown: str, at: str, headers: dict[str, str]) -> Iterator[HttpResponse]:
        parts = urlsplit(at)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        client: HttpClient | None = None
        try:
            client = self._client(parts.scheme.lower(), parts.netloc)
            with (
                client.limit(self._settings.list_timeout),
                client.ask("GET", target, headers, follow=False) as answer,
            ):
                yield answer
        except CertificateRefusedError as error:
            raise ReferenceUnreachableError(f"{shown} could not be read: {error}") from error
        except SourceError as error:
            raise _PassingError(str(error).rstrip(".")) from error
        except FAILURES as error:
            if client is not None:
                client.close()
            raise _PassingError("the server stalled" if isinstance(error, TimeoutError) else describe(error)) from error

    def _client(self, scheme: str, netloc: str) -> HttpClient:
        origin = f"{scheme}://{netloc.lower()}"
        client = self._clients.get(origin)
        if client is None:
            site = Site(
                label=origin,
                scheme=scheme,
                endpoint=parse_hostname(netloc, WEB_PORTS[scheme]),
                username="",
                credential=Credential(),
                certificates=ServerCertificates(origin, tls_context(self._settings)) if scheme == "https" else None,
            )
            client = self._clients[origin] = HttpClient(site, self._settings)
        return client


def _page(shown: str, answer: HttpResponse, max_bytes: int) -> Page:
    parts: list[bytes] = []
    received = 0
    for block in answer.blocks():
        received += len(block)
        if received > max_bytes:
            raise ReferenceDataError(
                f"{shown} has more than {max_bytes:,} bytes. Check that the address is the right one."
            )
        parts.append(block)
    return Page(shown, b"".join(parts), answer.headers.get("ETag"), answer.headers.get("Last-Modified"), utc_now())


def _conditions(known: Page | None) -> dict[str, str]:
    if known is None:
        return {}
    # RFC 9110, 13.1.3: the time counts only without a tag.
    if known.entity_tag is not None:
        return {"If-None-Match": known.entity_tag}
    return {} if known.last_modified is None else {"If-Modified-Since": known.last_modified}


def _redirected(shown: str, at: str, location: str | None) -> str:
    try:
        target = urljoin(at, location or "")
        parts = urlsplit(target)
        known = location and parts.scheme in WEB_PORTS and parts.hostname and "@" not in parts.netloc
        if known and target.isascii() and target.isprintable() and " " not in target:
            parse_hostname(parts.netloc, WEB_PORTS[parts.scheme])
            if (urlsplit(at).scheme, parts.scheme) != ("https", "http"):
                # It may hold a token, and is shown nowhere. One for each page of an API, as secrets, would take hours.
                return target.partition("#")[0]
    except (ValueError, ConfigurationError) as error:
        raise _astray(shown) from error
    raise _astray(shown)


def _astray(shown: str) -> ReferenceDataError:
    return ReferenceDataError(
        f"{shown}: the server sends one on to what is no web address, or from https to http. Check the address."
    )


def set_of_page(name: str, page: Page) -> Snapshot:
    """A set of reference data from a page, retrieved now. Raises ReferenceDataError for an unreadable one."""
    return read_set(name, page.content, Provenance(page.address, utc_now(), checksum_of(page.content)))


def load_from_url(url: str, settings: Settings) -> ReferenceData:
    """The reference data of a web server's folder with a file for each set.

    Raises ReferenceUnreachableError and ReferenceDataError with the file.
    """
    found: dict[str, Any] = {}
    with contextlib.closing(WebReader(settings)) as reader:
        for name in SETS:
            address = url_below(url, IMPRESS_FILE if name == Impress.NAME else f"{name}.csv")
            found[name] = set_of_page(name, reader.read(address, None, MAX_BYTES))
    return ReferenceData(**found)
