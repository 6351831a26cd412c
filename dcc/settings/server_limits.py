"""Limits of single servers, whoever their sources are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dcc.settings.centre_groups import parts_of

_EXAMPLE: Final = "write connections and requests a second, such as ftp.example.org=2;sftp.example.org=4,0.5"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The most connections to a server at once, and requests a second; None: no limit."""

    connections: int | None = None
    requests_per_second: float | None = None


def parse_server_limits(text: str) -> Mapping[str, ServerLimits]:
    """The limits of servers by their names in small letters, from a text such as `a.org=2;b.org=4,0.5;c.org=,2`.

    Raises ValueError for a text of another form, and a server named twice.
    """
    limits: dict[str, ServerLimits] = {}
    for part, name, values in parts_of(text):
        try:
            connections, _, requests = map(str.strip, values.partition(","))
            found = ServerLimits(int(connections) if connections else None, float(requests) if requests else None)
        except ValueError as error:
            raise ValueError(f"{part!r} is no limit of a server: {_EXAMPLE}") from error
        given = [value for value in (found.connections, found.requests_per_second) if value is not None]
        if not name or not given or not all(0 < value < 1e6 for value in given):
            raise ValueError(f"{part!r} is no limit of a server: {_EXAMPLE}")
        if limits.setdefault(name.casefold(), found) is not found:
            raise ValueError(f"The server {name} is there twice: {_EXAMPLE}")
    return limits
