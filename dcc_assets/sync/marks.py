"""Marks in a Dagster instance: up to where it shows the databases, set by sessions.

There is a mark for all centres, and one for each group of centres, which that group's sessions set. Two groups'
sessions run at once, and neither knows what the other has shown. For a centre the later of both counts. A new instance
has none, and is shown everything.
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
    """A mark: a dataclass of JSON values; without arguments nothing is shown."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def or_later(self, other: Self) -> Self:
        """The later of two marks."""
        ...


M = TypeVar("M", bound=Mark)


@dataclass(frozen=True, slots=True)
class Part(Generic[M]):
    """Centres with the same mark: `centres`, or all but these, or all (None)."""

    mark: M
    centres: frozenset[str] | None = None
    excluding: bool = False

    def of_zip_actions(self) -> ColumnElement[bool]:
        """Selects its submissions."""
        return true() if self.centres is None else self._either(of_centres(self.centres))

    def of_column(self, centre: ColumnElement[str]) -> ColumnElement[bool]:
        """Selects its rows, by the column with their centre."""
        return true() if self.centres is None else self._either(centre.in_(sorted(self.centres)))

    def _either(self, are_named: ColumnElement[bool]) -> ColumnElement[bool]:
        return not_(are_named) if self.excluding else are_named


@dataclass(frozen=True, slots=True)
class Marks(Generic[M]):
    """The marks of a `kind` that an instance stores under a name."""

    name: str
    kind: type[M]

    def read(self, instance: DagsterInstance) -> M:
        """The mark of all centres."""
        kept = self._stored_marks(instance, {self.name}).get(self.name)
        return self.kind() if kept is None else self.kind(**kept)

    def write(self, instance: DagsterInstance, mark: M, group: CentreGroup | None = None) -> None:
        """Set the mark of a group, or of all centres."""
        stored: dict[str, Any] = asdict(mark)
        if group is not None:
            stored = {"centres": group.text, "mark": stored}
        instance.daemon_cursor_storage.set_cursor_values({self._key(group): json.dumps(stored)})

    def parts(self, instance: DagsterInstance, settings: Settings, group: CentreGroup | None = None) -> list[Part[M]]:
        """The marks for the centres of a group, or for all: of each group of the settings, and of the rest.

        A group with an additional centre since its mark was set has the mark of all.
        """
        of_all = self.read(instance)
        groups = list(settings.centre_groups.values()) if group is None else [group]
        kept = self._stored_marks(instance, {self._key(one) for one in groups})
        parts = []
        for centre_group in groups:
            stored = kept.get(self._key(centre_group))
            known = None if stored is None else CentreGroup.of_texts(centre_group.name, stored["centres"])
            if stored is not None and known is not None and centre_group.centres <= known.centres:
                parts.append(Part(of_all.or_later(self.kind(**stored["mark"])), centre_group.centres))
            elif group is not None:
                parts.append(Part(of_all, centre_group.centres))
        if group is None:
            marked = frozenset[str]().union(*(part.centres or () for part in parts))
            parts.append(Part(of_all, marked, excluding=True) if marked else Part(of_all))
        return parts

    def _key(self, group: CentreGroup | None) -> str:
        return self.name if group is None else f"{self.name}: {group.name}"

    def _stored_marks(self, instance: DagsterInstance, keys: set[str]) -> dict[str, Mapping[str, Any]]:
        values = instance.daemon_cursor_storage.get_cursor_values(keys)
        return {key: json.loads(value) for key, value in values.items() if value}
