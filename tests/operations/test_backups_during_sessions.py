"""A backup made while a session runs is a state that a killed session would have left."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcc.operations.backups.backup import BackupRequest, make_backup
from dcc.operations.backups.restoration import restore_backup
from dcc.operations.consistency.check import check_consistency
from dcc.qc.apply import documents
from dcc.session.archives.coordination import Coordinator
from dcc.session.data import checking, quality_control, uploading
from dcc.session.fetching import archive_transfer
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.installations import Installation
from tests.support.stores import Store

APPLIED = "when documents are applied that the tracker has not heard of"
POINTS: dict[str, tuple[Any, str, int, bool]] = {
    "in the middle of a transfer": (archive_transfer.DownloadSink, "__call__", 2, False),
    "when archives arrived that the tracker has not heard of": (Coordinator, "_write_batch", 2, True),
    "within the transaction of documents": (documents, "insert_documents", 1, False),
    APPLIED: (uploading, "apply_documents", 1, False),
    "within the transaction of a judgement": (checking, "judge_together", 1, False),
    "when contexts are built that no document was told of": (quality_control, "build_contexts", 1, False),
}
"""Owner and name of a function, the number of the call, and whether the backup comes before or after it."""

ON_SERVERS = {APPLIED, "when contexts are built that no document was told of"}
"""Those at which a backup is made of databases on a server too."""


def at(patch: pytest.MonkeyPatch, point: str, act: Callable[[], None]) -> None:
    """Have `act` done at a point of a session."""
    owner, name, nth, before = POINTS[point]
    original, calls = getattr(owner, name), iter(range(1, 10_000))

    def wrapped(*arguments: Any, **named: Any) -> Any:
        call = next(calls)
        if call == nth and before:
            act()
        try:
            return original(*arguments, **named)
        finally:
            if call == nth and not before:
                act()

    patch.setattr(owner, name, wrapped)


def fill(data: DataInstallation) -> None:
    """Good documents, an edit of them, a finding, a damaged archive."""
    data.put("add/H.2013-10-31.1.impc.zip", specimens(), experiments())
    data.put("add/H.2013-11-02.1.impc.zip", experiments("2013-11-02.1", animals=2, first=50))
    data.put("edit/H.2013-11-03.1.impc.zip", experiments("2013-11-03.1", animals=2))
    data.folder.put("add/H.2013-11-04.1.impc.zip", b"no zip at all")


def test_an_installation_restored_from_a_backup_of_a_running_session_ends_as_the_one_that_ran_on(
    data: DataInstallation, new_store: Callable[[str], Store], tmp_path: Path
) -> None:
    """Also one without staged files, beside what staging has become since, or without it."""
    fill(data)
    points = set(POINTS) if data.tracker.dialect.name == "sqlite" else ON_SERVERS
    made: dict[str, Path] = {}
    bare: list[Path] = []

    def back_up(point: str) -> None:
        of = (data.tracker, data.qc, data.settings)
        report = make_backup(*of, tmp_path / "sets" / point.replace(" ", "-"), BackupRequest(with_staging=True))
        assert report.manifest.sessions
        made[point] = report.directory
        if point == APPLIED:
            bare.append(make_backup(*of, tmp_path / "bare").directory)

    with pytest.MonkeyPatch.context() as patch:
        for point in points:
            at(patch, point, lambda point=point: back_up(point))  # type: ignore[misc]
        data.run()
    expected = data.ending()
    assert set(made) == points
    assert check_consistency(data.tracker, data.qc, data.settings) == []

    def check(directory: Path, point: str, *, staging: bool | None = None) -> None:
        store = new_store("sqlite")
        if staging:
            shutil.copytree(data.settings.staging_directory, store.settings.staging_directory)
        report = restore_backup(directory, store.tracker, store.qc, store.settings)
        assert report.ended_sessions, point
        assert staging is None or ((report.staging.missing == 0), (report.staging.same > 0)) == (staging, staging)
        base = Installation(store.tracker, store.settings, data.base.root)
        restored = replace(data, base=base, qc=store.qc)
        restored.run()
        if staging is False:
            # The first session finds out what is lost, the second one fetches it.
            restored.run()
        assert restored.ending() == expected, point
        assert check_consistency(store.tracker, store.qc, store.settings) == [], point

    for point, directory in made.items():
        check(directory, point)
    for staging in (True, False):
        check(bare[0], APPLIED, staging=staging)
