"""The consistency checker finds what the platform would do wrong without its care: faults put in on purpose."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Connection

from dcc.operations.consistency.check import check_consistency
from dcc.phases import Phase
from dcc.qc.apply import documents as applying
from dcc.session.data import data_session
from dcc.session.fetching import archive_transfer
from dcc.store.staging import Staging
from dcc.tracker import progress, states
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_sqlite
from tests.support.healthy_installation import FAULTY, GOOD

Mutation = Callable[[pytest.MonkeyPatch], None]


class _KilledError(BaseException):
    """Ends a session at once, as a kill would: nobody catches it."""


def _archive_under_its_name_before_it_is_whole(patch: pytest.MonkeyPatch) -> None:
    finish = Staging.finish_part

    def too_early(self: Staging, key: Any) -> Any:
        path = finish(self, key)
        with path.open("r+b") as archive:
            archive.truncate(100)
        return path

    patch.setattr(Staging, "finish_part", too_early)


def _upload_in_two_transactions(patch: pytest.MonkeyPatch) -> None:
    def split(connection: Connection, *_: object) -> None:
        connection.commit()
        raise _KilledError

    patch.setattr(applying, "copy_rows", split)


def _states_not_rolled_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(progress, "_rolled_up", lambda _connection, _download_ids: {})


def _findings_not_logged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(data_session, "rewrite_log", lambda _connection, _wanted: None)


def _documents_lost_behind_the_tracker(patch: pytest.MonkeyPatch) -> None:
    write = data_session.Recorder.write

    def and_lost(self: Any) -> Any:
        told = write(self)
        if self._phase is Phase.QC:
            with self._work.qc.begin() as connection:
                connection.exec_driver_sql("UPDATE document SET tracker_id = NULL")
        return told

    patch.setattr(data_session.Recorder, "write", and_lost)


def _lease_ignored(patch: pytest.MonkeyPatch) -> None:
    """Downloads are begun by two sessions at once: each makes rows of its own for the same archives."""
    add = progress.add_downloads

    def twice(connection: Connection, hosting_ids: Any, requested: Any, **named: Any) -> list[int]:
        ids = add(connection, hosting_ids, requested, **named)
        patch.setattr(progress, "add_downloads", add)
        others = add(connection, hosting_ids, requested, **named)
        later = states.State(progress.Phase.XSD, progress.Status.DONE)
        progress.report(connection, [progress.Proposal(progress.Subject.ZIP_DOWNLOAD, one, later) for one in others])
        return ids

    patch.setattr(progress, "add_downloads", twice)


def _session_never_closed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dcc.session.sessions.finish_session", lambda *_arguments, **_named: None)


MUTATIONS: dict[str, tuple[Mutation, set[str]]] = {
    "an archive gets its name before it is whole": (_archive_under_its_name_before_it_is_whole, {"C9"}),
    "a document is applied in two transactions": (_upload_in_two_transactions, {"C15"}),
    "states are not rolled up": (_states_not_rolled_up, {"C4"}),
    "findings are not logged": (_findings_not_logged, {"C8", "C18"}),
    "the tracker is told of what the QC database loses": (_documents_lost_behind_the_tracker, {"C12"}),
    "two sessions download the same": (_lease_ignored, {"C7"}),
    "sessions are not closed": (_session_never_closed, {"C6"}),
}


@only_sqlite
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_platform_without_this_care_is_found_out(
    mutation: str, data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate, rules = MUTATIONS[mutation]
    data.put(GOOD, specimens(), experiments())
    data.put(FAULTY, experiments("2013-11-02.1", first=50))
    mutate(monkeypatch)

    with suppress(_KilledError):
        data.run()
    monkeypatch.undo()

    found = {one.rule for one in check_consistency(data.tracker, data.qc, data.settings)}
    assert rules <= found, found


@only_sqlite
def test_a_size_that_nobody_checks_ends_otherwise_than_in_the_twin(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an archive that is taken for whole is consistent in itself; the twin tells that it should not be."""
    data.put(GOOD, specimens(), experiments())
    write = archive_transfer.DownloadSink.__call__
    monkeypatch.setattr(
        archive_transfer.DownloadSink, "__call__", lambda self, block: write(self, block[: len(block) // 2])
    )
    monkeypatch.setattr(archive_transfer.DownloadSink, "_check_size", lambda _self: None)

    data.run()

    assert data.states() == {GOOD: "unzip failed"}


@only_sqlite
def test_a_healthy_session_is_not_found_out(data: DataInstallation) -> None:
    data.put(GOOD, specimens(), experiments())
    data.put(FAULTY, experiments("2013-11-02.1", first=50))
    data.run()

    assert check_consistency(data.tracker, data.qc, data.settings) == []
