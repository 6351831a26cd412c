"""Groups of centres, which are crawled at times of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_CENTRE: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_EXAMPLE: Final = "write such as europe=H,Wtsi;asia=Rbrc"


@dataclass(frozen=True, slots=True)
class CentreGroup:
    """A group of centres: its name, and the codes of its centres."""

    name: str
    centres: frozenset[str]

    @classmethod
    def of_texts(cls, name: str | None, centres: str | None) -> CentreGroup | None:
        """The group of that name with the centres of a `text`; None where there is none."""
        return None if name is None or centres is None else cls(name, frozenset(centres.split(",")))

    @property
    def identifier(self) -> str:
        """Its name where no hyphen may be, as in names of schedules; no two groups have the same."""
        return self.name.replace("-", "_")

    @property
    def text(self) -> str:
        """Its centres as a text."""
        return ",".join(sorted(self.centres))


def parse_centre_groups(text: str) -> Mapping[str, CentreGroup]:
    """The groups of centres by their names, from a text such as `europe=H,Wtsi;asia=Rbrc`.

    Raises ValueError for a text of another form, a group without centres or named twice, names that differ only in
    hyphens and underscores, and a centre in two groups.
    """
    groups: dict[str, CentreGroup] = {}
    name_of: dict[str, str] = {}
    group_of: dict[str, str] = {}
    for part, name, members in parts_of(text):
        centres = frozenset(filter(None, map(str.strip, members.split(","))))
        if not _NAME.fullmatch(name) or not centres or not all(map(_CENTRE.fullmatch, centres)):
            raise ValueError(f"{part!r} is no group of centres: {_EXAMPLE}")
        if name in groups:
            raise ValueError(f"The group {name} is there twice: {_EXAMPLE}")
        group = CentreGroup(name, centres)
        other = name_of.setdefault(group.identifier, name)
        if other != name:
            raise ValueError(f"The groups {other} and {name} differ by hyphens alone: give one another name")
        for centre in sorted(centres):
            if centre in group_of:
                raise ValueError(f"Centre {centre} is in the groups {group_of[centre]} and {name}: leave it in one")
            group_of[centre] = name
        groups[name] = group
    return groups


def parse_group_intervals(text: str) -> Mapping[str, str]:
    """The cron expressions of groups by their names, from a text such as `europe=0 */2 * * *;asia=30 3 * * *`.

    What a cron expression is Dagster knows. Raises ValueError for a text of another form, and a group named twice.
    """
    intervals: dict[str, str] = {}
    for part, name, interval in parts_of(text):
        if not _NAME.fullmatch(name) or not interval:
            raise ValueError(f"{part!r} is no interval of a group: write such as europe=0 */2 * * *;asia=30 3 * * *")
        if name in intervals:
            raise ValueError(f"The group {name} is there twice: give it one cron expression")
        intervals[name] = interval
    return intervals


def parts_of(text: str) -> Iterator[tuple[str, str, str]]:
    """What stands between semicolons, whole and as the two sides of `=`, without blanks."""
    for part in filter(None, map(str.strip, text.split(";"))):
        name, _, value = part.partition("=")
        yield part, name.strip(), value.strip()
