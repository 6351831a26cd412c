"""Metadata groups: procedure runs under circumstances so similar that their results can be compared.

Each procedureMetadata parameter that IMPReSS calls important makes an item `name = value`; an animal that was not
produced where it was phenotyped adds `ProductionCenter = code`. The group is the MD5 of the sorted items, joined by
`::`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import md5
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, exists, select

from dcc.databases.list_parameters import as_json, numbers_in, only_compared, sorted_chunks
from dcc.qc.apply.upload_lock import separate_transaction, upsert
from dcc.qc.models import GROUP, METADATA, OVERVIEW_ANIMAL, PARAMETER, PROCEDURE
from dcc.reference.impress import ParameterType
from dcc.vocabulary import MetadataOwner

_PRODUCTION_CENTRE: Final = "ProductionCenter"
_ABSENT: Final = "null"

Names = Mapping[str, str]
"""The names of important parameters by their key."""
Item = tuple[str, str | None]
"""The name of a parameter and its value."""


class Circumstances(NamedTuple):
    """A procedure run, and where its animal was produced and phenotyped."""

    run_id: int
    pipeline: str
    procedure_id: str
    produced_at: str | None
    phenotyped_at: str | None


class Group(NamedTuple):
    """A metadata group: its checksum, and a JSON object of parameter to value, or to several values."""

    checksum: str
    content: str


def group_of(items: Iterable[Item]) -> Group:
    """The metadata group of a run with these items."""
    distinct = sorted({(name, _ABSENT if value is None else value) for name, value in items})
    joined = "::".join(sorted(f"{name} = {value}" for name, value in distinct))
    content: dict[str, Any] = {}
    for name, value in distinct:
        earlier = content.get(name)
        content[name] = value if earlier is None else [*([earlier] if isinstance(earlier, str) else earlier), value]
    checksum = md5(joined.encode(), usedforsecurity=False).hexdigest()
    return Group(checksum, json.dumps(content, ensure_ascii=False))


EMPTY_GROUP: Final = group_of(()).checksum
"""The checksum of the group without items. People see the empty text instead."""


def groups_of(
    connection: Connection, impress: int, circumstances: Sequence[Circumstances], names: dict[tuple[str, str], Names]
) -> list[Group]:
    """The groups of at most `AT_ONCE` procedure runs, in their order, by a snapshot of IMPReSS.

    `names` are those of procedures that were looked up in it already; others are added.
    """
    for pipeline, procedure in {(one.pipeline, one.procedure_id) for one in circumstances} - names.keys():
        names[pipeline, procedure] = _important(connection, impress, pipeline, procedure)
    of_runs = {one.run_id: names[one.pipeline, one.procedure_id] for one in circumstances}
    wanted = {parameter for of_procedure in of_runs.values() for parameter in of_procedure}
    items: dict[int, set[Item]] = defaultdict(set)
    if wanted:
        given = {"runs": as_json([run_id for run_id, some in of_runs.items() if some]), "wanted": sorted(wanted)}
        for run_id, parameter_id, value in connection.execute(_ITEMS, given):
            if (name := of_runs[run_id].get(parameter_id)) is not None:
                items[run_id].add((name, value))
    known: dict[frozenset[Item], Group] = {}
    groups = []
    for one in circumstances:
        own = items.get(one.run_id, set())
        if one.produced_at is not None and one.phenotyped_at is not None and one.produced_at != one.phenotyped_at:
            own = own | {(_PRODUCTION_CENTRE, one.produced_at)}
        key = frozenset(own)
        if key not in known:
            known[key] = group_of(own)
        groups.append(known[key])
    return groups


def _important(connection: Connection, impress: int, pipeline: str, procedure_id: str) -> Names:
    """The important parameters of a procedure; none if IMPReSS does not have it."""
    same = and_(
        PARAMETER.c.snapshot_id == PROCEDURE.c.snapshot_id,
        PARAMETER.c.procedure_id == PROCEDURE.c.procedure_id,
        PARAMETER.c.procedure_variant == PROCEDURE.c.variant,
    )
    statement = (
        select(PARAMETER.c.parameter_id, PARAMETER.c.name)
        .select_from(PROCEDURE)
        .join(PARAMETER, same)
        .where(
            PROCEDURE.c.snapshot_id == impress,
            PROCEDURE.c.pipeline == pipeline,
            PROCEDURE.c.procedure_id == procedure_id,
            PARAMETER.c.type == ParameterType.METADATA.value,
            PARAMETER.c.is_important,
        )
    )
    return {row.parameter_id: row.name or row.parameter_id for row in connection.execute(statement)}


_ITEMS: Final = select(METADATA.c.procedure_run_id, METADATA.c.parameter_id, METADATA.c.value).where(
    METADATA.c.procedure_run_id.in_(numbers_in("runs")),
    METADATA.c.owner_kind == MetadataOwner.PROCEDURE.value,
    only_compared(METADATA.c.parameter_id).in_(bindparam("wanted", expanding=True)),
)


def save_groups(connection: Connection, groups: Iterable[Group]) -> None:
    """Write missing groups, and protect all of them from removal until the transaction ends.

    All centres see them at once, whatever becomes of the transaction.
    """
    by_checksum = {group.checksum: group for group in groups}
    for chunk in sorted_chunks(by_checksum):
        kept = select(GROUP.c.checksum).where(GROUP.c.checksum.in_(chunk)).with_for_update(read=True)
        while new := set(chunk).difference(connection.scalars(kept)):
            with separate_transaction(connection) as own:
                upsert(own, GROUP, [by_checksum[checksum]._asdict() for checksum in sorted(new)])


def remove_unused_groups(connection: Connection) -> None:
    """Remove groups without a procedure run, except those about to be used."""
    used = exists().where(OVERVIEW_ANIMAL.c.metadata_group == GROUP.c.checksum)
    unused = connection.scalars(select(GROUP.c.checksum).where(~used)).all()
    for chunk in sorted_chunks(unused):
        free = select(GROUP.c.checksum).where(GROUP.c.checksum.in_(chunk), ~used).with_for_update(skip_locked=True)
        for checksum in connection.scalars(free).all():
            connection.execute(delete(GROUP).where(GROUP.c.checksum == checksum))
