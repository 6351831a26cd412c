"""Names and addresses of hosts, as settings and file sources give them."""

from __future__ import annotations

import re


def named_unless_secret(text: str) -> str:
    """How a message names what is no address: not at all where a URL or login with a password may stand there."""
    return "what was given" if re.search(r"[:/?]", text) else repr(text)


def is_host_name(host: str) -> bool:
    """Whether this may be a host's name or address, with nothing in it that belongs elsewhere in a URL."""
    if re.search(r"[\s@/?#\[\]\\\x00-\x1f\x7f]", host):
        return False
    if ":" in host:
        return re.fullmatch(r"[0-9A-Fa-f:.]+(%[\w.-]+)?", host) is not None
    try:
        # Sockets do the same, and fail at a label that is empty or too long as at no server.
        return bool(host.encode("idna"))
    except UnicodeError:
        return False
