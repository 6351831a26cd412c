"""Texts that people enter in the register: what the tracker can hold, and what may be shown of an access key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from dcc.errors import ConfigurationError
from dcc.tracker.models import Base

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


def require_fit(table: type[Base], values: Mapping[str, object]) -> None:
    """Check values that a person gave, by their columns.

    Raises ConfigurationError for a text that is longer than its column or holds a control character.
    """
    for name, text in values.items():
        length: int | None = getattr(table.__table__.c[name].type, "length", None)
        if not isinstance(text, str) or length is None:
            continue
        given = f"The {name.replace('_', ' ')} {MASK if name == 'accesskey' else repr(text)}"
        if len(text) > length:
            raise ConfigurationError(f"{given} has {len(text)} characters; the tracker holds {length}.")
        if _CONTROL.search(text):
            raise ConfigurationError(f"{given} holds a control character. Give it without.")
