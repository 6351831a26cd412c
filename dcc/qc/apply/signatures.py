"""The author and the reason of a person's act, which must fit into their columns."""

from __future__ import annotations

from typing import Final

from dcc.errors import ConfigurationError
from dcc.qc.models import DOCUMENT

_LIMITS: Final = {name: int(getattr(DOCUMENT.c[name].type, "length", 0)) for name in ("author", "reason")}


def check_signature(author: str | None, reason: str | None) -> None:
    """Raise ConfigurationError for an author or a reason that is blank or longer than its column; None passes."""
    for name, text in (("author", author), ("reason", reason)):
        if text is None:
            continue
        if not text.strip():
            raise ConfigurationError(f"The {name} is empty. Give one: it is kept with the documents.")
        if len(text) > _LIMITS[name]:
            raise ConfigurationError(f"The {name} has {len(text)} characters; {_LIMITS[name]} fit. Shorten it.")
