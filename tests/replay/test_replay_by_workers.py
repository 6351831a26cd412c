"""What workers are given by a replay, what they leave, and what the replay does without them."""

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dcc.errors import NotFoundError
from dcc.replay.batches import prepare_replay_batch
from dcc.replay.replay import ReplayProposal, replay
from dcc.replay.verdicts import Replay
from dcc.session.batches.exchange import SESSIONS, Exchange, WorkerBatch
from dcc.settings import Settings
from dcc.settings.workers import ExecutorKind
from dcc.store.objects import ObjectStore
from tests.cli.test_replay import RULE
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_sqlite
from tests.support.prepared_installations import PreparedInstallations
from tests.support.prepared_processes import FORKED
from tests.support.workers_here import WorkersHere

pytestmark = [only_sqlite, pytest.mark.usefixtures("forked_workers")]

KEYS = ("add/H.2013-10-31.1.impc.zip", "edit/H.2013-11-01.1.impc.zip", "delete/H.2013-11-02.1.impc.zip")


def here(settings: Settings, **events: Callable[[Exchange], object]) -> WorkersHere:
    """Workers with settings of their own."""
    return WorkersHere(partial(prepare_replay_batch, settings), **events)


class Killed(WorkersHere):
    """A worker that is a process of its own, and is killed when it has left its first result."""

    def run(self, results: Exchange, names: Sequence[str], check: Callable[[], object]) -> None:
        """Begin the first batch; the others nobody takes."""
        worker = FORKED.Process(target=_prepare_until_killed, args=(self.prepare, results.work, names[0]))
        worker.start()
        worker.join()
        assert worker.exitcode == -signal.SIGKILL


def _prepare_until_killed(prepare: Callable[[str, str], int], work: str, name: str) -> None:
    leave = WorkerBatch.leave

    def last(given: WorkerBatch, part: str, result: Path) -> None:
        leave(given, part, result)
        os.kill(os.getpid(), signal.SIGKILL)

    WorkerBatch.leave = last  # type: ignore[method-assign]
    prepare(work, name)


def fill(data: DataInstallation) -> None:
    data.put(KEYS[0], specimens(), experiments())
    data.run()
    # One batch has both documents, of one name and text.
    for key in KEYS[1:]:
        data.put(key, specimens("2013-11-01.1"))
    data.run()


@pytest.fixture
def filled(data: DataInstallation, prepared_installations: PreparedInstallations, tmp_path: Path) -> DataInstallation:
    """An installation with an archive of each action, and a replay of one process."""
    prepared_installations.begin(data, fill)
    (tmp_path / "projects.csv").write_text("project\nNobody\n")
    return data.with_settings(workers=1, executor=ExecutorKind.CELERY)


def run(
    data: DataInstallation, workers: WorkersHere | None, tmp_path: Path, *, rules: str | None = None, **options: Any
) -> Replay:
    """A replay by proposed projects, which leaves nothing in the store; proposed `rules` need processes that spawn."""
    proposal = ReplayProposal(reference={"projects": str(tmp_path / "projects.csv")}, rules=rules)
    found = replay(data.tracker, data.qc, data.settings, proposal, workers=workers, **options)
    assert ObjectStore(data.settings).keys("replays/") == []
    return found


def of_worker(data: DataInstallation, tmp_path: Path, **more: object) -> Settings:
    """The settings of a worker that shares only the object store."""
    away = {"staging": tmp_path / "of-worker", "archive_replicas": str(tmp_path / "empty")}
    return data.settings.model_copy(update=away | more)


def test_workers_do_all_of_it_and_what_a_killed_replay_left_goes_after_a_day(
    filled: DataInstallation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One text is judged under the action of each archive that has it: here before an edit that changes nothing."""
    filled.put("edit/H.2013-11-03.1.impc.zip", experiments())
    filled.run()
    store = ObjectStore(filled.settings)
    (tmp_path / "left").write_bytes(b"left")
    store.put("replays/2013-10-31-0123456789ab/bundle", tmp_path / "left")
    of_session = store.put(f"{SESSIONS}/1/plans/batch_1", tmp_path / "left")
    told: list[tuple[int, int]] = []
    workers = here(of_worker(filled, tmp_path))
    rules = tmp_path / "proposed.py"
    rules.write_text(RULE.replace("    yield", "    if at.document.action == 'add':\n        yield"))
    found = run(filled, workers, tmp_path, rules=str(rules), on_progress=lambda *numbers: told.append(numbers))
    assert store.keys() == [of_session]
    assert list(workers.given.values()) == [4]
    assert told == [(4, 4)] * 2
    assert "This machine prepares the others" not in caplog.text
    assert found == run(filled, None, tmp_path, rules=str(rules))
    assert {"D1", "S12", "E2"} == {one.code for one in found.causes}
    judged = {str(one.document.archive) for one in found.changes for fact in one.appeared if fact.code == "D1"}
    assert judged == {KEYS[0]}


def test_what_workers_cannot_do_the_replay_does(
    filled: DataInstallation, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is lost or damaged in the store, or was left to a worker that was killed."""
    monkeypatch.setattr("dcc.replay.replay.MAX_ARCHIVES", 1)
    alone = run(filled, None, tmp_path)

    def damage(results: Exchange) -> None:
        first, second, _ = results.results().values()
        results.store.delete(first)
        (Path(results.store.url) / second).write_bytes(b"damaged")

    workers = here(of_worker(filled, tmp_path), after=damage)
    assert run(filled, workers, tmp_path) == alone
    assert "Workers prepared 2 of 3 archives. This machine prepares the others." in caplog.text
    assert f"of {KEYS[2]} and those with it cannot be read, and is made again" in caplog.text

    shared = filled.with_settings(executor=ExecutorKind.MULTIPROCESS)
    lost = here(of_worker(filled, tmp_path))
    assert run(shared, lost, tmp_path) == alone
    assert list(lost.given.values()) == [0, 0, 0]
    assert f"{KEYS[0]} and those with it are left to the replay" in caplog.text

    assert run(filled, Killed(here(of_worker(filled, tmp_path)).prepare), tmp_path) == alone
    assert "Workers prepared 1 of 3 archives. This machine prepares the others." in caplog.text


def test_a_worker_stops_that_nobody_waits_for_or_that_hangs(filled: DataInstallation, tmp_path: Path) -> None:
    workers = here(of_worker(filled, tmp_path), before=lambda results: results.withdraw_plans())
    with pytest.raises(NotFoundError, match="nobody waits for it any more"):
        run(filled, workers, tmp_path)
    with pytest.raises(TimeoutError):
        run(filled, here(of_worker(filled, tmp_path, worker_patience=0.01)), tmp_path)
