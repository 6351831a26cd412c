"""What a worker does with a batch, and when it stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.qc.database import init_qc_database, open_qc_database
from dcc.session.batches.planning import Batch, BatchArchive
from dcc.session.batches.results import FromWorkers
from dcc.session.batches.worker import prepare_batch
from dcc.sources.hosting import Hosting
from dcc.store.objects import ObjectStore
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, Installation


def batch_of(folder: Folder, names: list[str]) -> Batch:
    """A batch of archives that lie in a folder."""
    archives = []
    for number, name in enumerate(names, 1):
        folder.put(f"add/{name}")
        status = (folder.path / "add" / name).stat()
        hosting = Hosting(number, folder.source_id, status.st_size, int(status.st_mtime), has_md5=False)
        archives.append(BatchArchive(ZipKey(Action.ADD, name), "H", hosting, None))
    return Batch(folder.source_id, tuple(archives))


@only_sqlite
def test_a_worker_stops_when_its_session_no_longer_waits_for_it(
    installation: Installation, folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that hung must neither go on using the source beside its session nor leave what nobody takes."""
    qc = open_qc_database(installation.settings)
    init_qc_database(qc)
    store = ObjectStore(installation.settings)
    results = FromWorkers(store, 1, tmp_path / "scratch")
    results.put_plan("batch_1", batch_of(folder, [f"H.2013-10-3{number}.1.impc.zip" for number in (0, 1)]))
    put = ObjectStore.put

    def put_and_end(self: ObjectStore, name: str, path: Path) -> str:
        key = put(self, name, path)
        results.withdraw_plans()
        return key

    monkeypatch.setattr(ObjectStore, "put", put_and_end)
    done = prepare_batch(installation.settings, installation.tracker, qc, 1, "batch_1")
    qc.dispose()
    assert done == 1
    assert len(store.keys()) == 1
    assert results.look() == 1
