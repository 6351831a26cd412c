"""`dcc archive status`, `audit` and `repair`: what they say, and how they end."""

import getpass
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from dcc.tracker.models import StoredArchive, utc_now
from tests.cli.conftest import Dcc
from tests.store.test_archive_store import known_hosts
from tests.support.databases import only_mariadb, only_sqlite
from tests.support.installations import experiments, specimens
from tests.support.s3_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY, Bucket
from tests.support.servers import SftpServer

ZIP = "add/H.2013-10-31.1.impc.zip"


@only_sqlite
def test_copies_are_audited_repaired_and_named_when_they_are_lost(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    content = folder.put(ZIP)
    dcc("crawl")
    assert "No copy was audited so far." in dcc("archive", "status", "--audits").stdout
    home = dcc.root / "home"
    shown = dcc.json("archive", "status")
    assert (shown["archives"], shown["bytes"], shown["week"]["archives"]) == (1, len(content), 1)
    assert shown["replicas"][0]["copies"]["good"] == {"archives": 1, "size_bytes": len(content)}
    dcc.change_tracker(update(StoredArchive).values(created=utc_now() - timedelta(days=10)))
    shown = dcc.json("archive", "status")
    assert (shown["archives"], shown["bytes"], shown["week"]) == (1, len(content), {"archives": 0, "bytes": 0})
    size = f"{len(content)} B"
    assert dcc("archive", "status").stdout.startswith(f"1 archive, {size}; 0 of 0 B in the last 7 days.\n")
    assert f"1 archive of {size}, 0 B of the last 7 days." in dcc("status").stdout
    (copy,) = (home / "archive").glob("??/*")
    copy.write_bytes(b"other")
    assert "read 1; 1 bad, 0 missing, 1 repaired." in dcc("archive", "audit", "--all").stdout
    copy.unlink()
    (folder.path / ZIP).unlink()
    shutil.rmtree(home / "staging")
    lost = dcc.json("archive", "audit", "--all", exit_code=1)["lost"]
    assert lost == [{"sha256": copy.name, "size_bytes": len(content), "archives": [ZIP]}]
    history = dcc.json("archive", "status", "--audits")
    assert [(one["copies"], one["bad"], one["missing"], one["repaired"]) for one in history] == [
        (1, 0, 1, 0),
        (1, 1, 0, 1),
    ]
    assert len(dcc("archive", "status", "--audits", "--limit", 1).stdout.splitlines()) == 2
    assert f"No copy is good of {ZIP}" in dcc("archive", "status", exit_code=1).stderr
    assert "1 copy bad or missing; 1 archive without a good copy: dcc archive status" in dcc("status").stdout
    assert dcc.json("status")["archive_store"]["lost"] == 1
    metrics = dcc("metrics").stdout
    assert "dcc_archive_store_archives 1.0" in metrics
    assert f"dcc_archive_store_bytes {float(len(content))}" in metrics
    assert "dcc_archive_store_lost_archives 1.0" in metrics
    folder.put(ZIP, content)
    assert dcc.json("archive", "repair")["audits"][0]["repaired"] == 1
    assert "No copy is known to be bad" in dcc("archive", "repair").stdout
    assert "no replica of the archive store" in dcc("archive", "audit", "--replica", "/x", exit_code=2).stderr
    shutil.rmtree(home / "archive")
    (home / "archive").write_text("no directory")
    dcc("archive", "audit", "--all", exit_code=4)


@only_sqlite
@pytest.mark.parametrize("command", ["audit", "repair"])
def test_a_replica_that_takes_no_copies_is_told_by_the_exit_code(dcc: Dcc, command: str) -> None:
    dcc.add_folder().put(ZIP)
    dcc("crawl")
    absent = dcc.root / "absent"
    dcc.environment["DCC_ARCHIVE_REPLICAS"] = f"{dcc.root / 'home' / 'archive'}, {absent}"
    assert f"The archive store lacks copies in {absent}" in dcc("archive", command, exit_code=4).stderr


@only_mariadb
@pytest.mark.both_databases
@pytest.mark.servers
def test_a_bucket_and_an_ssh_server_stand_in_for_each_other(dcc: Dcc, bucket: Bucket, openssh: SftpServer) -> None:
    """Each command asks the copies that are there, and staging has none."""
    served = dcc.root / "served"
    served.mkdir()
    dcc.environment |= {
        "DCC_ARCHIVE_REPLICAS": f"s3://{bucket.name}, sftp://{getpass.getuser()}@{openssh.hostname}{served}",
        "DCC_ARCHIVE_ACCESS_KEY": f"key:{openssh.key}",
        "DCC_KNOWN_HOSTS": str(known_hosts(openssh, dcc.root / "known_hosts")),
        "DCC_STORE_ENDPOINT": bucket.server.endpoint,
        "DCC_STORE_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "DCC_STORE_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "DCC_UNTIL": "qc",
    }
    folder = dcc.add_folder()
    content = folder.put(ZIP, specimens() | experiments())
    dcc("crawl")
    shutil.rmtree(Path(dcc.environment["DCC_HOME"]) / "staging")
    (copy,) = served.glob("??/*")
    key = f"{copy.name[:2]}/{copy.name}"

    bucket.client.delete_object(Bucket=bucket.name, Key=key)
    assert dcc.json("replay", "--workers", "1")["documents"] == 2
    assert [one["repaired"] for one in dcc.json("archive", "audit", "--all")["audits"]] == [1, 0]
    copy.write_bytes(b"other")
    dcc("archive", "get", ZIP, "--output", dcc.root / "got")
    assert (dcc.root / "got").read_bytes() == content
    assert [one["repaired"] for one in dcc.json("archive", "audit", "--all")["audits"]] == [0, 1]
    dcc("backup", dcc.root / "sets", "--with-archives")
    assert dcc.json("backup", "--verify", dcc.root / "sets")["archives"] == {"good": 1, "missing": 0}

    bucket.client.delete_object(Bucket=bucket.name, Key=key)
    copy.unlink()
    (folder.path / ZIP).unlink()
    assert dcc.json("archive", "audit", "--all", exit_code=1)["lost"][0]["archives"] == [ZIP]
