"""Zip actions that causes are asked for: a centre's, some, or all; and which of them failed where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, Subquery, and_, or_, select, true

from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.phases import ACTION_IDS, ACTIONS_BY_ID, Phase, Status
from dcc.qc.models import Document
from dcc.tracker.lineage import LATEST
from dcc.tracker.models import Centre, FileSource, FileSourceHasZip, XmlFile, ZipAction, ZipDownload, ZipFile

NAMES_ASKED: Final = 400
"""How many names of archives one statement is given."""

FAILED_AS_A_WHOLE: Final = and_(ZipAction.status_id == int(Status.FAILED), ZipAction.phase_id <= int(Phase.UNZIP))
"""Whether a zip action failed before there were documents of it."""

_DOCUMENT: Final = Document.__table__
_FAILED_DOCUMENT: Final = XmlFile.status_id == int(Status.FAILED)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which submissions: those of a centre, by the name or else by whose file source has them; of some zips; or all."""

    centre: str | None = None
    zips: Sequence[ZipKey] | None = None


@dataclass(frozen=True, slots=True)
class FaultyZips:
    """The zip actions that failed: as a whole, in a document before its upload, or in one that was uploaded."""

    as_a_whole: frozenset[ZipKey]
    in_documents: frozenset[ZipKey]
    in_data: frozenset[ZipKey]


def faulty_zips(connection: Connection, scope: Scope) -> FaultyZips:
    """Which zip actions of a scope failed, and where; two statements, of zips two for every 400."""
    whole: set[ZipKey] = set()
    documents: set[ZipKey] = set()
    data: set[ZipKey] = set()
    for condition in zip_conditions(scope):
        zips = select(ZipAction.todo_id, ZipFile.file_name).join(ZipFile, ZipFile.id == ZipAction.zip_id)
        for todo, name in connection.execute(zips.where(FAILED_AS_A_WHOLE, condition)):
            whole.add(ZipKey(ACTIONS_BY_ID[todo], name))
        latest = latest_downloads_of(condition)
        by_phase = (
            zips.add_columns(XmlFile.phase_id)
            .join(latest, latest.c.za_id == ZipAction.id)
            .join(XmlFile, XmlFile.zip_id == latest.c.download_id)
            .where(_FAILED_DOCUMENT)
            .distinct()
        )
        for todo, name, phase in connection.execute(by_phase):
            (documents if phase < Phase.UPLOAD else data).add(ZipKey(ACTIONS_BY_ID[todo], name))
    return FaultyZips(frozenset(whole), frozenset(documents), frozenset(data))


def latest_downloads_of(condition: ColumnElement[bool]) -> Subquery:
    """The latest download of each zip action that a condition is for: columns `za_id` and `download_id`."""
    return (
        select(FileSourceHasZip.za_id, LATEST.label("download_id"))
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(condition)
        .group_by(FileSourceHasZip.za_id)
        .subquery("latest")
    )


def zip_conditions(scope: Scope) -> Iterator[ColumnElement[bool]]:
    """Conditions on zip actions, joined with their `zip_file`, that together are for those of a scope, each once."""
    if scope.zips is not None:
        names = sorted({key.file_name for key in scope.zips})
        for start in range(0, len(names), NAMES_ASKED):
            some = frozenset(names[start : start + NAMES_ASKED])
            actions = {key.action for key in scope.zips if key.file_name in some}
            yield or_(*(_of_action(scope.zips, action, some) for action in sorted(actions)))
    elif scope.centre is not None:
        yield _of_centre(scope.centre)
    else:
        yield true()


def _of_action(zips: Sequence[ZipKey], action: Action, names: frozenset[str]) -> ColumnElement[bool]:
    wanted = sorted({key.file_name for key in zips if key.action is action} & names)
    return and_(ZipAction.todo_id == ACTION_IDS[action], ZipFile.file_name.in_(wanted))


def _of_centre(centre: str) -> ColumnElement[bool]:
    on_its_source = (
        select(FileSourceHasZip.za_id)
        .join(FileSource, FileSource.id == FileSourceHasZip.file_source_id)
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(Centre.short_name == centre)
    )
    own = select(Centre.id).where(Centre.short_name == centre).scalar_subquery()
    return or_(ZipFile.centre_id == own, and_(ZipFile.centre_id.is_(None), ZipAction.id.in_(on_its_source)))


def qc_conditions(scope: Scope) -> Iterator[tuple[list[ColumnElement[bool]], frozenset[ZipKey] | None]]:
    """Conditions on `document` for a scope, each with the zips of which the others are to be left out; None: none are.

    Together they are for all documents of the scope, each once.
    """
    of_centre = [] if scope.centre is None else [_DOCUMENT.c.centre == scope.centre]
    if scope.zips is None:
        yield of_centre, None
        return
    wanted = frozenset(scope.zips)
    names = sorted({key.file_name for key in wanted})
    for start in range(0, len(names), NAMES_ASKED):
        yield [*of_centre, _DOCUMENT.c.zip_file.in_(names[start : start + NAMES_ASKED])], wanted
