"""The key that identifies an entity among all of its kind.

A specimen's key is its centre and specimenID; an experiment's its centre, procedure, experimentID and sequenceID (rule
E9). A line's is its centre, procedure, colony and sequenceID; a housing's its centre, pipeline, procedure, fromLIMS and
lastUpdated. Keys are tuples, never joined texts; texts are compared exactly.

Uses no database, like `dcc.qc.rows.row_builder`.
"""

from __future__ import annotations

from datetime import date

from dcc.documents import contents
from dcc.documents.lexical import parse_boolean, parse_date

Key = tuple[str | bool | None, ...]


def entity_key_of(block: contents.Block, entity: contents.Entity) -> Key:
    """The key of an entity in a block."""
    if isinstance(entity, contents.Specimen):
        return (block.centre, entity.specimen_id)
    procedure_id = entity.procedure.procedure_id if entity.procedure else None
    if isinstance(entity, contents.Experiment):
        return (block.centre, entity.experiment_id, entity.sequence_id, procedure_id)
    if isinstance(entity, contents.Line):
        return (block.centre, entity.colony_id, entity.sequence_id, procedure_id)
    day = parse_date(entity.last_updated) if entity.last_updated else None
    # A day outside of databases' calendars is kept as its text.
    updated = iso_day(day) or entity.last_updated
    return (block.centre, procedure_id, block.pipeline, parse_boolean(entity.from_lims), updated)


def iso_day(day: date | None) -> str | None:
    """A day in a key."""
    return None if day is None else day.isoformat()
