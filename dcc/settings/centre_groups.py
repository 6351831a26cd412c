"""Groups of centres, which are crawled at times of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_CENTRE: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_EXAMPLE: Final = "write such as europe=H,Wtsi;asia=Rbrc"


def parse_centre_groups(text: str) -> Mapping[str, tuple[str, ...]]:
    """The centres of each group by its name, from a text such as `europe=H,Wtsi;asia=Rbrc`.

    Raises ValueError for a text of another form, a group without centres or named twice, and a centre in two groups.
    """
    groups: dict[str, tuple[str, ...]] = {}
    group_of: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, _, members = part.partition("=")
        name = name.strip()
        centres = tuple(dict.fromkeys(filter(None, map(str.strip, members.split(",")))))
        if not _NAME.fullmatch(name) or not centres or not all(map(_CENTRE.fullmatch, centres)):
            raise ValueError(f"{part!r} is no group of centres: {_EXAMPLE}")
        if name in groups:
            raise ValueError(f"The group {name} is there twice: {_EXAMPLE}")
        for centre in centres:
            if centre in group_of:
                raise ValueError(f"Centre {centre} is in the groups {group_of[centre]} and {name}: leave it in one")
            group_of[centre] = name
        groups[name] = centres
    return groups
