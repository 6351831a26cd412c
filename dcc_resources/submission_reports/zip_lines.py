"""The zip actions of a centre or session as summaries list them, the worst first. A few statements, however many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Select, Subquery, case, false, func, select

from dcc_resources.causes.cause import Actor
from dcc_resources.causes.rule_faces import RULE_FACES
from dcc_resources.outcomes import HELD, UNCHECKED_MARK, WARNING_MARK, ZipKey
from dcc_resources.submission_reports.model import Outcome, Tone, ZipLine
from dcc_resources.submission_reports.outcomes import is_faulty, outcome_of, tone_of
from dcc_resources.tracker.crawls import SessionEntry
from dcc_resources.tracker.lineage import LATEST
from dcc_resources.tracker.models import (
    AnException,
    Centre,
    FileSource,
    FileSourceHasZip,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipDownload,
    ZipFile,
)
from dcc_resources.tracker.queries import StateCount
from dcc_resources.tracker.reference import ACTIONS_BY_ID, Phase, Status
from dcc_resources.tracker.session_zips import touched_zips

_WORST_FIRST: Final = (Tone.BAD, Tone.WARN, Tone.WAIT, Tone.GOOD)


def zips_of_centre(connection: Connection, centre: str) -> list[ZipLine]:
    """All zip actions of a centre: by their names or, where these tell no centre, by where they were found."""
    hosted = (
        select(FileSourceHasZip.za_id)
        .join(FileSource, FileSource.id == FileSourceHasZip.file_source_id)
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(Centre.short_name == centre)
    )
    named = (
        select(ZipAction.id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .where((Centre.short_name == centre) | (ZipFile.centre_id.is_(None) & ZipAction.id.in_(hosted)))
    )
    return list_zips(connection, named)


def zips_of_session(connection: Connection, session: SessionEntry) -> list[ZipLine]:
    """The zip actions of a session (as of `session_zips`)."""
    return list_zips(connection, touched_zips(connection, session))


def list_zips(connection: Connection, wanted: Any) -> list[ZipLine]:
    """The zip actions whose ids a query selects: the worst first, of these the newest."""
    states = _document_states(connection, wanted)
    held = _held(connection, wanted)
    waiting = _only_waiting(connection, wanted)
    query = (
        select(
            ZipAction.id,
            ZipAction.todo_id,
            ZipFile.file_name,
            Centre.short_name,
            ZipAction.phase_id,
            ZipAction.status_id,
            ZipFile.size_bytes,
        )
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .where(ZipAction.id.in_(wanted))
        .order_by(ZipFile.created.desc(), ZipFile.inc.desc(), ZipAction.id.desc())
    )
    lines = [
        _line(row, states[row[0]], held=row[0] in held, waits=row[0] in waiting) for row in connection.execute(query)
    ]
    return sorted(lines, key=lambda line: _WORST_FIRST.index(line.tone))


def _line(row: Any, states: Iterable[StateCount], *, held: bool, waits: bool) -> ZipLine:
    _, todo, file_name, centre, phase_id, status_id, size_bytes = row
    counts = list(states)
    phase, status = Phase(phase_id), Status(status_id)
    outcome = outcome_of(phase, status, counts, held=held, taken=None)
    if is_faulty(outcome) and waits:
        outcome = Outcome.WAITS_FOR_DATA
    return ZipLine(
        key=ZipKey(ACTIONS_BY_ID[todo], file_name),
        centre=centre,
        phase=phase,
        status=status,
        outcome=outcome,
        tone=tone_of(outcome),
        size_bytes=size_bytes,
        documents=sum(state.count for state in counts),
        failed=sum(state.count for state in counts if state.status is Status.FAILED),
    )


def _latest(wanted: Any) -> Subquery:
    """The latest download of each of these zip actions: columns `za_id` and `download_id`."""
    return (
        select(FileSourceHasZip.za_id, LATEST.label("download_id"))
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .where(FileSourceHasZip.za_id.in_(wanted))
        .group_by(FileSourceHasZip.za_id)
        .subquery("latest_of_wanted")
    )


def _document_states(connection: Connection, wanted: Any) -> Mapping[int, list[StateCount]]:
    latest = _latest(wanted)
    query = (
        select(latest.c.za_id, XmlFile.phase_id, XmlFile.status_id, func.count())
        .join(latest, latest.c.download_id == XmlFile.zip_id)
        .group_by(latest.c.za_id, XmlFile.phase_id, XmlFile.status_id)
    )
    states: dict[int, list[StateCount]] = defaultdict(list)
    for za_id, phase, status, count in connection.execute(query):
        states[za_id].append(StateCount(Phase(phase), Status(status), count))
    return states


def _only_waiting(connection: Connection, wanted: Any) -> set[int]:
    """Those whose failed documents have errors that clear by themselves, and no other."""
    clearing = [kind for kind, faces in RULE_FACES.items() if all(face.acts is Actor.NOBODY for face in faces)]
    marked = XmlLog.message.startswith(WARNING_MARK) | XmlLog.message.startswith(UNCHECKED_MARK)
    entries = _entries_that_hold(wanted)
    query = (
        entries.where(XmlFile.status_id == Status.FAILED, ~func.coalesce(marked, false()))
        .group_by(entries.selected_columns.za_id)
        .having(func.sum(case((AnException.short_name.in_(clearing), 0), else_=1)) == 0)
    )
    return set(connection.scalars(query))


def _held(connection: Connection, wanted: Any) -> set[int]:
    return set(connection.scalars(_entries_that_hold(wanted).where(AnException.short_name == HELD).distinct()))


def _entries_that_hold(wanted: Any) -> Select[tuple[int]]:
    """The column `za_id` of each entry in the logs of documents of the latest downloads that still holds."""
    latest = _latest(wanted)
    return (
        select(latest.c.za_id)
        .join(XmlFile, XmlFile.zip_id == latest.c.download_id)
        .join(XmlLog, XmlLog.xml_id == XmlFile.id)
        .join(AnException, AnException.id == XmlLog.exception_id)
        .where(XmlLog.cleared.is_(None))
    )
