"""`dcc archive status`, `audit` and `repair`: what they say, and how they end."""

from __future__ import annotations

import shutil

from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite

ZIP = "add/H.2013-10-31.1.impc.zip"
pytestmark = only_sqlite


def test_copies_are_audited_repaired_and_named_when_they_are_lost(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    content = folder.put(ZIP)
    dcc("crawl")
    home = dcc.root / "home"
    shown = dcc.json("archive", "status")
    assert (shown["archives"], shown["bytes"], shown["week"]["archives"]) == (1, len(content), 1)
    assert shown["replicas"][0]["copies"]["good"] == {"archives": 1, "size_bytes": len(content)}
    (copy,) = (home / "archive").glob("??/*")
    copy.write_bytes(b"other")
    assert "read 1; 1 bad, 0 missing, 1 repaired." in dcc("archive", "audit", "--all").stdout
    copy.unlink()
    (folder.path / ZIP).unlink()
    shutil.rmtree(home / "staging")
    lost = dcc.json("archive", "audit", "--all", exit_code=1)["lost"]
    assert lost == [{"sha256": copy.name, "size_bytes": len(content), "archives": [ZIP]}]
    assert f"No copy is good of {ZIP}" in dcc("archive", "status", exit_code=1).stderr
    assert "1 copies bad or missing; 1 archives without a good copy: dcc archive status" in dcc("status").stdout
    assert dcc.json("status")["archive_store"]["lost"] == 1
    metrics = dcc("metrics").stdout
    assert "dcc_archive_store_archives 1.0" in metrics
    assert "dcc_archive_store_lost_archives 1.0" in metrics
    folder.put(ZIP, content)
    assert dcc.json("archive", "repair")["audits"][0]["repaired"] == 1
    assert "No copy is known to be bad" in dcc("archive", "repair").stdout
    assert "no replica of the archive store" in dcc("archive", "audit", "--replica", "/x", exit_code=2).stderr
    shutil.rmtree(home / "archive")
    (home / "archive").write_text("no directory")
    dcc("archive", "audit", "--all", exit_code=4)
