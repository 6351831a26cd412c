"""Marks in a Dagster instance of how far it shows what the databases hold, set by sessions.

There is a mark of all centres, and one of each group of centres, which sessions of that group set: those of two groups
go on at once, and neither knows what the other has shown yet. What is shown of a centre is told by the later of both.
A new instance has none, and is shown everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from dagster import DagsterInstance
from sqlalchemy import ColumnElement, not_, true

from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.tracker.queries.session_zips import of_centres


class Mark(Protocol):
    """A mark: a dataclass of what JSON holds, which is made without arguments where nothing is shown."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def or_later(self, other: Self) -> Self:
        """What is shown by this mark or by another one."""
        ...


M = TypeVar("M", bound=Mark)


@dataclass(frozen=True, slots=True)
class Part(Generic[M]):
    """Centres with the same mark: `centres`, or all but these, or all (None)."""

    mark: M
    centres: frozenset[str] | None = None
    but: bool = False

    def of_zip_actions(self) -> ColumnElement[bool]:
        """Which zip actions it is for."""
        return true() if self.centres is None else self._either(of_centres(self.centres))

    def of_column(self, centre: ColumnElement[str]) -> ColumnElement[bool]:
        """Which rows it is for, by the column that names their centre."""
        return true() if self.centres is None else self._either(centre.in_(sorted(self.centres)))

    def _either(self, are_named: ColumnElement[bool]) -> ColumnElement[bool]:
        return not_(are_named) if self.but else are_named


@dataclass(frozen=True, slots=True)
class Marks(Generic[M]):
    """The marks of a `kind` that an instance keeps under a name."""

    name: str
    kind: type[M]

    def read(self, instance: DagsterInstance) -> M:
        """The mark of all centres."""
        kept = self._kept(instance, {self.name}).get(self.name)
        return self.kind() if kept is None else self.kind(**kept)

    def write(self, instance: DagsterInstance, mark: M, group: CentreGroup | None = None) -> None:
        """Set the mark of a group, or of all centres."""
        told: dict[str, Any] = asdict(mark)
        if group is not None:
            told = {"centres": group.text, "mark": told}
        instance.daemon_cursor_storage.set_cursor_values({self._key(group): json.dumps(told)})

    def parts(self, instance: DagsterInstance, settings: Settings, group: CentreGroup | None = None) -> list[Part[M]]:
        """The marks that hold for the centres of a group, or for all: of each group of the settings, and of the rest.

        A group that has got another centre since its mark was set has that of all.
        """
        of_all = self.read(instance)
        groups = list(settings.centre_groups.values()) if group is None else [group]
        kept = self._kept(instance, {self._key(one) for one in groups})
        parts = []
        for one in groups:
            told = kept.get(self._key(one))
            known = None if told is None else CentreGroup.of_texts(one.name, told["centres"])
            if told is not None and known is not None and one.centres <= known.centres:
                parts.append(Part(of_all.or_later(self.kind(**told["mark"])), one.centres))
            elif group is not None:
                parts.append(Part(of_all, one.centres))
        if group is None:
            marked = frozenset[str]().union(*(part.centres or () for part in parts))
            parts.append(Part(of_all, marked, but=True) if marked else Part(of_all))
        return parts

    def _key(self, group: CentreGroup | None) -> str:
        return self.name if group is None else f"{self.name}: {group.name}"

    def _kept(self, instance: DagsterInstance, keys: set[str]) -> dict[str, Mapping[str, Any]]:
        values = instance.daemon_cursor_storage.get_cursor_values(keys)
        return {key: json.loads(value) for key, value in values.items() if value}
