"""Texts that people enter in the register: what the tracker can hold, and what may be shown of an access key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from dcc.errors import ConfigurationError

MASK = "***"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_REFERENCE = re.compile(r"(?:env|file|key):")


_PASSPHRASE = re.compile(r"(passphrase=)(?!env:|file:)[^&]*")


def shown_accesskey(accesskey: SecretStr) -> str:
    """An access key for display: a reference or the path of an existing file as it is, else `***`."""
    text = accesskey.get_secret_value()
    if _REFERENCE.match(text):
        return _PASSPHRASE.sub(rf"\1{MASK}", text)
    if not text or (text.startswith(("/", "~/")) and Path(text).expanduser().is_file()):
        return text
    return MASK


def is_plain_password(accesskey: SecretStr) -> bool:
    """Whether an access key is a password itself, neither empty nor a reference."""
    return shown_accesskey(accesskey) == MASK


def require_fit(what: str, text: str | None, column: Any, *, secret: bool = False) -> None:
    """Raise ConfigurationError for a text that is longer than its column or holds a control character."""
    length: int = column.type.length
    shown = MASK if secret else repr(text)
    if text is not None and len(text) > length:
        raise ConfigurationError(f"The {what} {shown} has {len(text)} characters; the tracker holds {length}.")
    if text is not None and _CONTROL.search(text):
        raise ConfigurationError(f"The {what} {shown} holds a control character. Give it without.")
