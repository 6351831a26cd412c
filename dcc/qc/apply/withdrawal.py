"""Withdraws documents from the QC database, completely, if no later document builds on them.

A later applied document builds on one if it changed an entity that that one changed, or if it brought an experiment on
a specimen that that one added. It also does if it deleted a specimen of an experiment that would come back. The
withdrawal of a document is a document itself, with the action undo. It ends what the other opened and reopens what the
other ended, so that queries about the time before and in between still work.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    Connection,
    Engine,
    Row,
    Select,
    and_,
    bindparam,
    exists,
    func,
    insert,
    select,
    update,
)

from dcc.databases.list_parameters import change_rows
from dcc.databases.transactions import RollBackError, run_writing
from dcc.errors import NotDelegatedError, NotFoundError
from dcc.messages import from_json
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.qc.apply.documents import other_centres_of
from dcc.qc.apply.held_documents import check_signature, owners_of_held_documents
from dcc.qc.apply.upload_lock import PATIENCE_SECONDS, IdReservation, centres_of, lock_centres_of, reserve_ids
from dcc.qc.apply.versions import end_versions, is_lifetime_of, reopen_versions, same_animal, same_key, with_experiments
from dcc.qc.models import DOCUMENT, ENTITY_TABLES, EXPERIMENT, FINDING, LIFETIME, NAMED, SPECIMEN
from dcc.qc.rows.documents import close_findings
from dcc.rights import Rights
from dcc.rules.upload import DUPLICATE
from dcc.vocabulary import DocumentAction, DocumentState, EntityKind

_WITHDRAWN: Final[BindParameter[int]] = bindparam("withdrawn")
"""The parameter of the statements about one document."""


@dataclass(frozen=True, slots=True)
class Builder:
    """A document that builds on one that should be withdrawn, and how."""

    document_id: int
    zip_action: str
    zip_file: str
    file_name: str
    why: str


@dataclass(frozen=True, slots=True)
class DeclinedDocument:
    """A document that was held for the data of a centre, and declined."""

    centre: str
    file_name: str


@dataclass(frozen=True, slots=True)
class WithdrawalResult:
    """The result of a withdrawal: the withdrawn documents, newest first, or those that build on them (nothing was
    changed).

    Held ones are among the withdrawn documents, without a document in `undone_by`. `others` are the centres other than
    the archive's whose data came or went with it; `declined` are the held documents with data of such a centre, which
    were declined.
    """

    withdrawn: tuple[int, ...]
    undone_by: tuple[int, ...]
    builders: tuple[Builder, ...]
    others: tuple[str, ...] = ()
    declined: tuple[DeclinedDocument, ...] = ()


def _require_rights(action: Action, zip_file: str, rights: Rights | None, others: Sequence[str]) -> None:
    """Raise NotDelegatedError for the centres whose data an archive may not change."""
    missing = [] if rights is None else [centre for centre in others if not rights.permit(centre)]
    if missing:
        to = rights.own if rights is not None and rights.own else "CENTRE"
        commands = "; ".join(f"dcc centre delegate {centre} --to {to}" for centre in missing)
        raise NotDelegatedError(
            f"{action.value}/{zip_file} has data of {', '.join(missing)}, for which it does not speak. Nothing was "
            f"withdrawn. If the owner agrees, record that first: {commands}"
        )


def undo_submission(
    engine: Engine,
    action: Action,
    zip_file: str,
    *,
    author: str,
    reason: str,
    rights: Rights | None = None,
) -> WithdrawalResult:
    """Withdraw all applied and held documents of an archive, in one transaction, or none of them.

    Held ones cannot be confirmed any more then. `rights` are the centres whose data may be changed; None: all. Raises
    NotFoundError if none is applied or held, NotDelegatedError for data of another centre, and ConfigurationError for
    an unsuitable author or reason. Raises the database's `unreachable` error if others were in the way, or the database
    away, for too long.
    """
    check_signature(author, reason)
    table = DOCUMENT.c
    of_zip = (table.zip_file == zip_file) & (table.zip_action == action.value)

    def work(connection: Connection) -> WithdrawalResult:
        lock_centres_of(connection, connection.scalars(select(table.id).where(of_zip)).all())
        ids = connection.scalars(select(table.id).where(of_zip & _stands(DOCUMENT))).all()
        held = connection.scalars(select(table.id).where(of_zip, table.state == DocumentState.HELD.value)).all()
        if not ids and not held:
            raise NotFoundError(
                f"No document of {action.value}/{zip_file} stands in the QC database or is held. Check the action and "
                "the name; what was withdrawn already cannot be withdrawn again."
            )
        others = other_centres_of(connection, ids, rights)
        _require_rights(action, zip_file, rights, [other.centre for other in others])
        declined = _decline(connection, held, author, reason)
        found = undo_on(connection, ids, author, reason)
        if found.builders:
            raise RollBackError(found)
        withdrawn = tuple(sorted([*found.withdrawn, *held], reverse=True))
        owners = tuple(other.centre for other in others)
        return replace(found, withdrawn=withdrawn, others=owners, declined=declined)

    return run_writing(engine, work, patience_seconds=PATIENCE_SECONDS)


def copies_of(connection: Connection, keys: Collection[SubmissionKey]) -> dict[SubmissionKey, set[SubmissionKey]]:
    """The submissions with documents that were not applied, as they are the same as some of `keys`; by these."""
    table, originals = DOCUMENT.c, {str(key): key for key in keys}
    query = (
        select(table.zip_action, table.zip_file, FINDING.c.details)
        .join(FINDING, FINDING.c.document_id == table.id)
        .where(FINDING.c.rule == DUPLICATE, FINDING.c.is_active, table.state == DocumentState.APPLIED.value)
    )
    found: dict[SubmissionKey, set[SubmissionKey]] = {}
    for action, file_name, details in connection.execute(query) if keys else ():
        if original := originals.get(str((from_json(details) or {}).get("archive"))):
            found.setdefault(original, set()).add(SubmissionKey(Action(action), file_name))
    return found


def _decline(connection: Connection, held: Sequence[int], author: str, reason: str) -> tuple[DeclinedDocument, ...]:
    """Withdraw held documents; returns those that were held because of their data's centre, once for each centre."""
    centres = owners_of_held_documents(connection, held)
    table = DOCUMENT.c
    names = connection.execute(select(table.id, table.file_name).where(table.id.in_(centres)).order_by(table.id)).all()
    change_rows(connection, table.id, held, state=DocumentState.UNDONE.value, author=author, reason=reason)
    for document_id in held:
        close_findings(connection, document_id, document_id)
    return tuple(DeclinedDocument(centre, name) for number, name in names for centre in sorted(centres[number]))


def undo_on(connection: Connection, ids: Sequence[int], author: str | None, reason: str | None) -> WithdrawalResult:
    """Withdraw applied documents within a write transaction, which must be rolled back if others build on them."""
    undone_by: list[int] = []
    builders: dict[int, Builder] = {}
    withdrawn = sorted(set(ids), reverse=True)
    if not withdrawn:
        return WithdrawalResult((), (), ())
    ended = select(func.count()).select_from(LIFETIME).where(LIFETIME.c.ended_by.in_(withdrawn))
    rows = {DOCUMENT: len(withdrawn), LIFETIME: connection.scalar(ended) or 0}
    reserved = reserve_ids(connection, centres_of(connection, withdrawn), rows)
    for document_id in withdrawn:
        row = connection.execute(select(DOCUMENT).where(DOCUMENT.c.id == document_id)).one()
        builders = {one.document_id: one for one in builders_on(connection, document_id)} | builders
        if not builders:
            undone_by.append(_withdraw(connection, row, reserved, author, reason))
    if builders:
        # Those of the documents themselves would go with them.
        return WithdrawalResult((), (), tuple(builders[number] for number in sorted(builders.keys() - set(withdrawn))))
    return WithdrawalResult(tuple(withdrawn), tuple(undone_by), ())


def _withdraw(
    connection: Connection, row: Row[Any], reserved: IdReservation, author: str | None, reason: str | None
) -> int:
    undo_id = reserved.next_ids[DOCUMENT.name]
    reserved.next_ids[DOCUMENT.name] += 1
    same = ("zip_action", "zip_file", "file_name", "kind", "centre", "created", "inc")
    undo = {name: getattr(row, name) for name in same}
    undo |= {"action": DocumentAction.UNDO.value, "state": DocumentState.APPLIED.value, "applied_at": reserved.at}
    undo |= {"id": undo_id, "undoes": row.id, "author": author, "reason": reason}
    connection.execute(insert(DOCUMENT), undo)
    for kind, table in ENTITY_TABLES.items():
        opened = select(table.c.id).where(table.c.document_id == row.id, table.c.is_current)
        end_versions(connection, kind, connection.scalars(opened).all(), undo_id)
        ended = select(LIFETIME.c.entity_id).where(LIFETIME.c.ended_by == row.id, LIFETIME.c.entity_kind == kind.value)
        again = connection.scalars(ended).all()
        reopen_versions(connection, kind, again, undo_id, reserved.next_ids[LIFETIME.name])
        reserved.next_ids[LIFETIME.name] += len(again)
    close_findings(connection, row.id, undo_id)
    connection.execute(update(DOCUMENT).where(DOCUMENT.c.id == row.id).values(state=DocumentState.UNDONE.value))
    return undo_id


def builders_on(connection: Connection, document_id: int) -> tuple[Builder, ...]:
    """The later documents that build on one, oldest first, each with the first reason."""
    found: dict[int, str] = {}
    for why, statement in _BUILDING:
        for later in connection.scalars(statement, {"withdrawn": document_id}):
            found.setdefault(later, why)
    table = DOCUMENT.c
    rows = connection.execute(
        select(table.id, table.zip_action, table.zip_file, table.file_name)
        .where(table.id.in_(found))
        .order_by(table.id)
    )
    return tuple(Builder(*row, found[row.id]) for row in rows)


def _stands(document: Any) -> Any:
    return and_(document.c.state == DocumentState.APPLIED.value, document.c.action != DocumentAction.UNDO.value)


def _changed_since(kind: EntityKind, side: str) -> Select[Any]:
    """Later documents that opened or ended a version of an entity that this one changed."""
    mine, others = ENTITY_TABLES[kind].alias("mine"), ENTITY_TABLES[kind].alias("others")
    touched, later, document = LIFETIME.alias("touched"), LIFETIME.alias("later"), DOCUMENT.alias("d")
    of_this = (touched.c.opened_by == _WITHDRAWN) | (touched.c.ended_by == _WITHDRAWN)
    return (
        select(document.c.id)
        .distinct()
        .select_from(touched)
        .join(mine, mine.c.id == touched.c.entity_id)
        .join(others, same_key(kind, mine, others))
        .join(later, is_lifetime_of(kind, later, others))
        .join(document, document.c.id == later.c[side])
        .where(of_this, touched.c.entity_kind == kind.value, later.c[side] > _WITHDRAWN, _stands(document))
    )


def _experiments_on_added() -> Select[Any]:
    """Later documents with effective experiments on specimens that this one added."""
    added, opened, document = LIFETIME.alias("added"), LIFETIME.alias("opened"), DOCUMENT.alias("d")
    specimens = (
        select(document.c.id)
        .distinct()
        .select_from(SPECIMEN)
        .join(DOCUMENT, and_(DOCUMENT.c.id == SPECIMEN.c.document_id, DOCUMENT.c.action == DocumentAction.ADD.value))
        .join(added, is_lifetime_of(EntityKind.SPECIMEN, added))
    )
    experiments: Select[Any] = with_experiments(specimens)
    return (
        experiments.join(document, document.c.id == EXPERIMENT.c.document_id)
        .join(opened, and_(is_lifetime_of(EntityKind.EXPERIMENT, opened), opened.c.opened_by == document.c.id))
        .where(SPECIMEN.c.document_id == _WITHDRAWN, document.c.id > _WITHDRAWN, _stands(document))
    )


def _specimens_gone_since() -> Select[Any]:
    """Later documents that deleted specimens, missing since, of experiments that this one ended."""
    ended, gone, document = LIFETIME.alias("ended"), LIFETIME.alias("gone"), DOCUMENT.alias("d")
    there = SPECIMEN.alias("there")
    # By its id too: MariaDB keeps a subquery's result for texts that differ in trailing blanks only.
    same = and_(same_key(EntityKind.SPECIMEN, there, SPECIMEN), there.c.id > SPECIMEN.c.id)
    return (
        select(document.c.id)
        .distinct()
        .select_from(ended)
        .join(EXPERIMENT, EXPERIMENT.c.id == ended.c.entity_id)
        .join(NAMED, NAMED.c.experiment_row == EXPERIMENT.c.id)
        .join(SPECIMEN, same_animal(EXPERIMENT))
        .join(gone, is_lifetime_of(EntityKind.SPECIMEN, gone))
        .join(document, document.c.id == gone.c.ended_by)
        .where(
            ended.c.entity_kind == EntityKind.EXPERIMENT.value,
            ended.c.ended_by == _WITHDRAWN,
            gone.c.ended_by > _WITHDRAWN,
            document.c.action == DocumentAction.DELETE.value,
            _stands(document),
            ~exists().where(same, there.c.is_current),
        )
    )


_BUILDING: Final = (
    *(
        (f"changed what it changed ({kind.value})", _changed_since(kind, side))
        for kind in EntityKind
        for side in ("opened_by", "ended_by")
    ),
    ("brought experiments about its specimens", _experiments_on_added()),
    ("deleted specimens of experiments that would come back", _specimens_gone_since()),
)
"""How later documents build on one, each with the statement that finds them."""
