"""Removes the secrets that this process has read from all texts that it shows or stores.

A password is known once a setting or an access key yields it (`keep_secret`). From then on it is removed from every log
record, in every handler, and from every error of the platform, wherever that is shown or stored. So drivers, and
servers that repeat what they were sent, may put it into messages without harm.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import threading
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote

MASK: Final = "***"

SHORTEST: Final = 4
"""Secrets shorter than this look like other text, and are removed only from a server's answers."""

_KEY_LINE: Final = 16
_LONGEST_CHAIN: Final = 50


class _KnownSecrets:
    """The secrets of a process, and the pattern that finds them."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._changing = threading.Lock()

    def add(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST for form in forms_of(secret)}
        with self._changing:
            if not forms <= self._forms:
                self._forms |= forms
                self._pattern = _finder(self._forms)

    def redacted(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MASK, text)


_known = _KnownSecrets()


def keep_secret(*secrets: str | None) -> None:
    """Remove these from log records and errors from now on. Each line of a private key counts."""
    given = [secret for secret in secrets if secret]
    lines = [line for secret in given if "\n" in secret for line in secret.splitlines() if len(line) >= _KEY_LINE]
    # The first and last line of a key only name its kind.
    _known.add([*given, *(line for line in lines if not line.startswith("-----"))])
    _watch_log()


def keep_secrets_of_url(url: str) -> None:
    """Remove the password of a URL, encoded or not, from log records and errors from now on."""
    scheme, found, rest = url.strip().partition("://")
    if not found or scheme.lower().startswith("sqlite"):
        return
    # Up to the last @: if a slash, an @ or a question mark was not encoded, part of the password is before them.
    password = rest.partition(":")[2].rpartition("@")[0]
    parameters = parse_qsl(rest.partition("?")[2])
    keep_secret(password, unquote(password), *(value for name, value in parameters if "pass" in name.lower()))
    if "@" not in rest and not rest.startswith("["):
        # If the host, or the @ before it, is missing, the password is in the place of a port.
        ports = re.split(r"[/?#]", rest)[0].split(":")[1:]
        keep_secret(*(port for port in ports if not port.isdigit()))


def redacted(text: str) -> str:
    """A text with `***` in place of the secrets that this process knows."""
    return _known.redacted(text)


def redact(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, in any of their forms, however short they are."""
    forms = {form for secret in secrets if secret for form in forms_of(secret)}
    return _finder(forms).sub(MASK, text) if forms else text


def forms_of(secret: str) -> set[str]:
    """The forms of a secret in texts: plain, encoded for URLs, HTML, JSON, Python or HTTP, wrongly decoded."""
    encoded = secret.encode("utf-8", "surrogatepass")
    quoted = [quote(encoded, safe=safe) for safe in ("", "/", "/:@", "~()*!.'")] + [quote_plus(encoded)]
    lowered = [re.sub(r"%[0-9A-F]{2}", lambda found: found.group().lower(), text) for text in quoted]
    escaped = [repr(secret)[1:-1], repr(encoded)[2:-1], secret.replace("\\", "\\\\"), secret.replace("'", "\\'")]
    escaped += [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    escaped += [html.escape(secret), html.escape(secret, quote=False)]
    escaped += [text.replace("\\", "\\\\") for text in escaped[:2]]
    printed = "".join(char if char.isprintable() and char != "\\" else _escape(char) for char in secret)
    return {
        secret,
        printed,
        *quoted,
        *lowered,
        *escaped,
        encoded.decode("latin-1"),
        base64.b64encode(encoded).decode("ascii"),
        " ".join(secret.split()) or secret,
    } - {""}


def _escape(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def _finder(forms: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(forms, key=len, reverse=True)
    # In upper or lower case: a server may repeat what it was sent.
    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)


def clean(error: BaseException) -> None:
    """Remove known secrets from an exception and its causes, before something else shows or stores them.

    An exception that cannot be changed is replaced by one with the redacted text.
    """
    for holder, link in chain_of(error):
        if _is_clean(link):
            continue
        link.args = tuple(redacted(part) if isinstance(part, str) else part for part in link.args)
        if isinstance(link, OSError) and link.strerror is not None:
            link.strerror = redacted(str(link.strerror))
        if not _is_clean(link) and holder is not None:
            stand_in = HiddenError(redacted(f"{type(link).__name__}: {link}")).with_traceback(link.__traceback__)
            if holder.__cause__ is link:
                holder.__cause__ = stand_in
            else:
                holder.__context__ = stand_in


class HiddenError(Exception):
    """Replaces an exception whose text contained a secret."""


def chain_of(error: BaseException) -> Iterator[tuple[BaseException | None, BaseException]]:
    """An exception and those that led to it, each after the one that it led to."""
    seen: set[int] = set()
    pending: list[tuple[BaseException | None, BaseException]] = [(None, error)]
    while pending and len(seen) < _LONGEST_CHAIN:
        holder, link = pending.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield holder, link
        pending += [(link, behind) for behind in (link.__cause__, link.__context__) if behind is not None]


def _is_clean(error: BaseException) -> bool:
    text = f"{error} {error!r}"
    return redacted(text) == text


_watched = False


def _watch_log() -> None:
    """Remove known secrets from every log record from now on."""
    global _watched
    if _watched:
        return
    _watched = True
    make = logging.getLogRecordFactory()

    def make_redacted(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = make(*arguments, **named)
        _redact_record(record)
        return record

    logging.setLogRecordFactory(make_redacted)


def _redact_record(record: logging.LogRecord) -> None:
    try:
        text = record.getMessage()
    except (TypeError, ValueError, KeyError):
        # The handler says that the arguments do not fit, and shows them.
        text = f"{record.msg} {record.args}"
    shown = redacted(text)
    if shown != text:
        record.msg, record.args = shown, ()
    if record.exc_info and isinstance(record.exc_info[1], BaseException):
        trace = "".join(traceback.format_exception(record.exc_info[1]))
        if redacted(trace) != trace:
            # The library's formatters use this instead of the exception.
            record.exc_text = redacted(trace).rstrip("\n")
            record.exc_info = (HiddenError, HiddenError(redacted(str(record.exc_info[1]))), None)
