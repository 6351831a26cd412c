"""What names an entity among all of its kind.

An entity is known by its key: a specimen by its centre and specimenID; an experiment by its centre, procedure,
experimentID and sequenceID (rule E9); a line by its centre, procedure, colony and sequenceID; a housing by its centre,
pipeline, procedure, fromLIMS and lastUpdated. Keys are tuples, never joined texts; texts are compared to the
letter.

Nothing here knows the database, as in `dcc.qc.rows.building`.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from dcc.documents import contents as said
from dcc.documents.lexical import parse_boolean, parse_date
from dcc.vocabulary import EntityKind

Key = tuple[str | bool | None, ...]


def kind_of(entity: said.Entity) -> EntityKind:
    """The kind of an entity."""
    return _KINDS[type(entity)]


_KINDS: Final[dict[type[said.Entity], EntityKind]] = {
    said.Specimen: EntityKind.SPECIMEN,
    said.Experiment: EntityKind.EXPERIMENT,
    said.Line: EntityKind.LINE,
    said.Housing: EntityKind.HOUSING,
}


def key_of(block: said.Block, entity: said.Entity) -> Key:
    """What names an entity of a block among all of its kind."""
    if isinstance(entity, said.Specimen):
        return (block.centre, entity.specimen_id)
    procedure_id = entity.procedure.procedure_id if entity.procedure else None
    if isinstance(entity, said.Experiment):
        return (block.centre, entity.experiment_id, entity.sequence_id, procedure_id)
    if isinstance(entity, said.Line):
        return (block.centre, entity.colony_id, entity.sequence_id, procedure_id)
    day = parse_date(entity.last_updated) if entity.last_updated else None
    # A day that no calendar of a database has is told by its text.
    updated = iso_day(day) or entity.last_updated
    return (block.centre, procedure_id, block.pipeline, parse_boolean(entity.from_lims), updated)


def iso_day(day: date | None) -> str | None:
    """A day as keys have it."""
    return None if day is None else day.isoformat()
