"""A replay whose archives workers prepare says what one says that does all by itself, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.replay import rows
from dcc.qc.database import open_qc_database
from tests.assets.test_workers import crawl, installed
from tests.cli.test_replay import RULE
from tests.session.test_replay import proposed
from tests.session.test_session_data_processes import change
from tests.support.installations import Installation, specimens
from tests.support.redis_server import PASSWORD as BROKER_PASSWORD
from tests.support.redis_server import RedisServer
from tests.support.s3_server import SECRET_ACCESS_KEY, Bucket
from tests.support.worker_installations import celery_variables, celery_workers, run

LEFT = "This machine prepares the others"


class Judged(NamedTuple):
    """An installation that had a session, the words of a proposal, and what a replay says of it that has no workers."""

    installation: Installation
    proposal: list[str]
    alone: dict[str, Any]


def replayed(judged: Judged, **more: str) -> tuple[dict[str, Any], str]:
    """What a replay of the proposal found, and what it noticed."""
    found, said = run(judged.installation, "replay", "--json", *judged.proposal, **more)
    return json.loads(found), said


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """A proposal of schemas, reference data and rules, which changes much."""
    root = tmp_path_factory.mktemp("replays")
    installation = installed(root / "installation")
    more = installation.add_folder("J", "three")
    mothers = change(specimens("J", mice=4), 'relationship="littermate"', 'relationship="mother"')
    more.put("add/J.2013-10-31.1.impc.zip", mothers)
    more.put("add/J.2013-10-31.2.impc.zip", specimens("J", stem="2013-10-31.2"))
    # It is not opened, as its manifest names something else.
    (more.path / "add" / "J.2013-10-31.2.impc.zip.manifest.json").write_text('[{"file": "other.xml"}]')
    crawl(installation)
    proposal = proposed(root)
    rules = root / "proposed_rules.py"
    rules.write_text(RULE)
    words = ["--xsd", str(proposal.xsd), "--reference", f"projects={proposal.reference['projects']}"]
    words += ["--rules", str(rules), "--workers", "2"]
    found, said = run(installation, "replay", "--json", *words)
    assert said == ""
    alone = json.loads(found)
    assert {"D1", "S12"} <= {cause["code"] for cause in alone["causes"]}
    assert {"failed xsd", "failed data"} <= {change["after"] for change in alone["changes"]}
    assert installation.states()["add/J.2013-10-31.2.impc.zip"] == "unzip failed"
    return Judged(installation, words, alone)


@contextmanager
def nothing_changes(installation: Installation) -> Iterator[None]:
    """Both databases are as before."""
    qc = open_qc_database(installation.settings)
    try:
        before = rows(installation.tracker), rows(qc)
        yield
        assert (rows(installation.tracker), rows(qc)) == before
    finally:
        qc.dispose()


def test_celery_workers_that_reach_only_the_object_store_say_the_same(
    judged: Judged, tmp_path: Path, redis_server: RedisServer, bucket: Bucket
) -> None:
    variables = celery_variables(bucket, redis_server)
    of_workers = variables | {"DCC_ARCHIVE_REPLICAS": str(tmp_path / "empty")}
    with celery_workers(judged.installation, of_workers, "one") as workers, nothing_changes(judged.installation):
        found, said = replayed(judged, **variables)
    assert found == judged.alone
    assert LEFT not in said, workers["one"].said()
    assert "Contents" not in bucket.client.list_objects_v2(Bucket=bucket.name)
    told = "".join(path.read_text("latin-1") for path in (tmp_path / "redis").rglob("*.aof"))
    assert "prepare_batch" in told
    for secret in (SECRET_ACCESS_KEY, BROKER_PASSWORD):
        assert secret not in told + said + workers["one"].said()
