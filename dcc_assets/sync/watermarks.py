"""Watermarks in a Dagster instance: up to where it shows the databases, set by sessions.

There is a watermark for all centres, and one for each group of centres, which that group's sessions set. Two groups'
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
from dcc.tracker.queries.session_submissions import of_centres


class Watermark(Protocol):
    """A dataclass of JSON values; without arguments nothing is shown."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def or_later(self, other: Self) -> Self:
        """The later of two watermarks."""
        ...


W = TypeVar("W", bound=Watermark)


@dataclass(frozen=True, slots=True)
class CentresShown(Generic[W]):
    """Centres that are shown up to the same watermark: those of `codes`, or all but these, or all (None)."""

    watermark: W
    codes: frozenset[str] | None = None
    excluding: bool = False

    def of_zip_actions(self) -> ColumnElement[bool]:
        """Selects their submissions."""
        return true() if self.codes is None else self._either(of_centres(self.codes))

    def of_column(self, centre: ColumnElement[str]) -> ColumnElement[bool]:
        """Selects their rows, by the column with the centre."""
        return true() if self.codes is None else self._either(centre.in_(sorted(self.codes)))

    def _either(self, are_named: ColumnElement[bool]) -> ColumnElement[bool]:
        return not_(are_named) if self.excluding else are_named


@dataclass(frozen=True, slots=True)
class StoredWatermarks(Generic[W]):
    """The watermarks of a `kind` that an instance stores under a name."""

    name: str
    kind: type[W]

    def read(self, instance: DagsterInstance) -> W:
        """The watermark of all centres."""
        kept = self._stored(instance, {self.name}).get(self.name)
        return self.kind() if kept is None else self.kind(**kept)

    def write(self, instance: DagsterInstance, watermark: W, group: CentreGroup | None = None) -> None:
        """Set the watermark of a group, or of all centres."""
        stored: dict[str, Any] = asdict(watermark)
        if group is not None:
            stored = {"centres": group.text, "mark": stored}
        instance.daemon_cursor_storage.set_cursor_values({self._key(group): json.dumps(stored)})

    def centres_shown(
        self, instance: DagsterInstance, settings: Settings, group: CentreGroup | None = None
    ) -> list[CentresShown[W]]:
        """The centres of a group with their watermark, or all centres: of each group of the settings, and the rest.

        A group with an additional centre since its watermark was set has the watermark of all.
        """
        of_all = self.read(instance)
        groups = list(settings.centre_groups.values()) if group is None else [group]
        kept = self._stored(instance, {self._key(one) for one in groups})
        shown = []
        for centre_group in groups:
            stored = kept.get(self._key(centre_group))
            known = None if stored is None else CentreGroup.of_texts(centre_group.name, stored["centres"])
            if stored is not None and known is not None and centre_group.centres <= known.centres:
                shown.append(CentresShown(of_all.or_later(self.kind(**stored["mark"])), centre_group.centres))
            elif group is not None:
                shown.append(CentresShown(of_all, centre_group.centres))
        if group is None:
            named = frozenset[str]().union(*(centres.codes or () for centres in shown))
            shown.append(CentresShown(of_all, named, excluding=True) if named else CentresShown(of_all))
        return shown

    def _key(self, group: CentreGroup | None) -> str:
        return self.name if group is None else f"{self.name}: {group.name}"

    def _stored(self, instance: DagsterInstance, keys: set[str]) -> dict[str, Mapping[str, Any]]:
        values = instance.daemon_cursor_storage.get_cursor_values(keys)
        return {key: json.loads(value) for key, value in values.items() if value}
