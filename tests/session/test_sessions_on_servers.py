"""Whole crawling sessions on OpenSSH, vsftpd and servers with faults: what is found, fetched, resumed and left."""

import hashlib
import json
import time

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.tracker.models import BadCopy, CrawlingSession
from tests.support.asking import value_in
from tests.support.databases import only_sqlite
from tests.support.installations import Installation, experiments, specimens
from tests.support.served_sources import Relay, large_archive, logged, register
from tests.support.servers import KINDS_OF_SERVERS, Share
from tests.support.trials import usually

pytestmark = pytest.mark.servers

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"


@pytest.mark.both_databases(first_only=True)
@pytest.mark.parametrize("share", ["sftp_server", "ftp_server", "ftps_server"], indirect=True)
def test_a_session_ends_the_same(quick: Installation, share: Share) -> None:
    """Each file is fetched from the directory it was found in: one name lies in two of them."""
    tree = {
        f"add/{NAME}": specimens() | experiments(),
        "add/H.2013-10-31.2.impc.zip": specimens(stem="2013-10-31.2"),
        "edit/H.2014-01-02.7.impc.zip": experiments(stem="2014-01-02.7"),
        f"delete/{NAME}": specimens(mice=1),
    }
    staged = {}
    for key, documents in tree.items():
        staged[key] = submissions.archive(documents)
        share.put(key, staged[key])
        staged |= {f"{key}.contents/{name}": content for name, content in documents.items()}
    share.put("add/notes.txt")
    share.put("edit/older/H.2013-10-30.1.impc.zip")
    source_id = register(quick, share)
    result = quick.run_session()
    assert quick.states() == dict.fromkeys(tree, "xsd done")
    assert {key: quick.attempts(key) for key in tree} == {key: [(source_id, "xsd done")] for key in tree}
    assert quick.staged() == staged
    assert all(outcome.succeeded for outcome in result.zips.values())
    assert value_in(quick.tracker, select(CrawlingSession.status)) == 0


def manifest(name: str, content: bytes, **changed: object) -> str:
    """The manifest of an archive of one document, with other values for the row of the archive itself."""
    own = {"file": name, "size": len(content), "checksum": hashlib.sha256(content).hexdigest()} | changed
    text = json.dumps([own, {"file": name.replace("impc.zip", "specimen.impc.xml"), "specimens": 2}])
    # As long as any other: only its time tells that it was corrected.
    return text.ljust(400)


WRONG = {"size": {"size": 7}, "checksum": {"checksum": "0" * 32}, "other archive": {"file": "J.2013-10-31.1.impc.zip"}}


@only_sqlite
class TestManifestsBesideArchives:
    @pytest.mark.parametrize("share", usually(["sftp_server", "web_folder"], KINDS_OF_SERVERS), indirect=True)
    def test_each_is_held_against_its_archive(self, quick: Installation, share: Share) -> None:
        expected = {}
        for number, case in enumerate(["none", "right", "csv", *WRONG, "unreadable"], 1):
            stem = f"2013-10-31.{number}"
            name, content = f"H.{stem}.impc.zip", submissions.archive(specimens(stem=stem, mice=2))
            told = {"unreadable": "{", "csv": f"file,size\n{name},{len(content)}\nH.{stem}.specimen.impc.xml,\n"}
            share.put(f"add/{name}", content)
            if case != "none":
                suffix = "csv" if case == "csv" else "json"
                text = told.get(case) or manifest(name, content, **WRONG.get(case, {}))
                share.put(f"add/{name}.manifest.{suffix}", text.encode())
            expected[f"add/{name}"] = "xsd done" if case in ("none", "right", "csv") else "unzip failed"
        share.put("add/H.2013-10-31.99.impc.zip.manifest.json", b"[]")
        register(quick, share)
        result = quick.run_session()
        assert quick.states() == expected
        (crawled,) = result.crawls.values()
        assert crawled.ignored == 1
        reasons = [str(one.main_reason and one.main_reason.message) for one in result.zips.values() if one.failed]
        said = ["bytes, not 7", f"not {'0' * 32}", "J.2013-10-31.1.impc.zip is missing", "cannot be read"]
        assert all(any(each in reason for reason in reasons) for each in said), reasons
        self.mend(quick, share)

    def mend(self, quick: Installation, share: Share) -> None:
        """Manifests that are corrected or removed let failed archives pass; those of accepted ones are told about."""
        unlisted, corrected, removed, other = (f"H.2013-10-31.{number}.impc.zip" for number in (1, 4, 5, 6))
        for name in (unlisted, corrected, other):
            told = manifest(name, (share.root / "add" / name).read_bytes(), **(WRONG["size"] if name == other else {}))
            share.put(f"add/{name}.manifest.json", told.encode(), 1_500_000_000)
        (share.root / f"add/{removed}.manifest.json").unlink()
        result = quick.run_session()
        ended = {key.removeprefix("add/"): outcome.succeeded for key, outcome in result.zips.items()}
        assert ended == {corrected: True, removed: True, other: False}
        (crawled,) = result.crawls.values()
        said = [
            "is taken by itself" if name in ended else "still counts" for name in (unlisted, corrected, removed, other)
        ]
        assert len(crawled.notes) == 4
        for note, name, word in zip(sorted(crawled.notes), (unlisted, corrected, removed, other), said, strict=True):
            assert name in note
            assert word in note
        assert not quick.run_session().zips
        # A retry does not hold staging's copy against one that is gone.
        (share.root / f"add/{other}.manifest.json").unlink()
        assert quick.process_again(f"add/{other}").zips[f"add/{other}"].succeeded


class TestFailover:
    def test_the_second_source_delivers_what_the_first_broke_off(self, quick: Installation, share: Share) -> None:
        content = large_archive()
        share.put(KEY, content)
        with Relay(share, cut_after=700_000) as relay:
            first, second = register(quick, relay.share), register(quick, share)
            outcome = quick.run_session().zips[KEY]
            broken_off_at = relay.sent
        assert outcome.succeeded
        assert 400_000 < broken_off_at < len(content)
        assert quick.attempts(KEY) == [(first, "download failed"), (second, "xsd done")]
        assert quick.staged()[KEY] == content
        reasons = [message for message in logged(quick) if "noise.bin" not in message]
        assert [reason.message for reason in outcome.reasons if reason.kind == "TransferFailedError"] == reasons
        assert f"file source {first} " in reasons[0]
        assert "sending" in reasons[0]

    @only_sqlite
    @pytest.mark.parametrize("has_md5", [True, False], ids=["with a checksum", "without a checksum"])
    def test_what_plain_ftp_falsified_on_the_way_is_fetched_again_before_the_copy_is_called_bad(
        self, quick: Installation, ftp_server: Share, has_md5: bool
    ) -> None:
        content = submissions.archive(specimens())
        ftp_server.put(KEY, content)
        if has_md5:
            ftp_server.put(f"{KEY}.md5", f"{hashlib.md5(content).hexdigest()}  {NAME}\n".encode())
        with Relay(ftp_server, flip_at=len(content) // 2, flips=1) as relay:
            register(quick, relay.share)
            assert quick.run_session().zips[KEY].succeeded
        assert quick.count(BadCopy) == 0
        assert quick.staged()[KEY] == content


class TestResuming:
    """A transfer that was cut at half goes on there: the bytes on the wire are counted."""

    def test_in_the_next_session(self, quick: Installation, share: Share) -> None:
        once = quick.with_settings(max_retries=0)
        content = large_archive()
        share.put(KEY, content)
        with Relay(share, cut_after=800_000, cuts=1) as relay:
            source_id = register(quick, relay.share)
            assert once.run_session().zips[KEY].failed
            part = quick.staged()[f"{KEY}.part"]
            assert content.startswith(part)
            assert len(part) > 500_000
            relay.sent = 0
            assert once.run_session().zips[KEY].succeeded
            rest = len(content) - len(part)
            assert rest <= relay.sent < rest + 60_000
        assert quick.attempts(KEY) == [(source_id, "download failed"), (source_id, "xsd done")]
        assert quick.staged()[KEY] == content
        assert f"{KEY}.part" not in quick.staged()


class TestServersThatStall:
    @only_sqlite
    @pytest.mark.parametrize("share", usually(["sftp_server"], ["sftp_server", "ftp_server"]), indirect=True)
    def test_a_source_that_stalls_again_and_again_is_left_alone_until_the_next_session(
        self, quick: Installation, share: Share
    ) -> None:
        stems = [f"2013-10-31.{inc}" for inc in range(20)]
        for stem in stems:
            share.put(f"add/H.{stem}.impc.zip", large_archive(stem, size=100_000))
        with Relay(share, stall_after=50_000) as relay:
            source_id = register(quick, relay.share)
            began = time.monotonic()
            limited = quick.with_settings(downloads_per_source=2, source_failure_limit=3)
            result = limited.with_settings(max_retries=0, idle_timeout=0.5).run_session()
            assert time.monotonic() - began < 20
            stalled = [key for key, outcome in result.zips.items() if outcome.attempts]
            assert 3 <= len(stalled) <= 5
            relay.stall_after = None
            quick.run_session()
        assert set(quick.states().values()) == {"xsd done"}
        assert quick.attempts(stalled[0]) == [(source_id, "download failed"), (source_id, "xsd done")]


class TestServersThatAreNotTrusted:
    @only_sqlite
    @pytest.mark.parametrize("server", ["password_sftp_server", "faulty_ftp_server"])
    def test_a_wrong_password_costs_one_login_and_only_that_source(
        self, quick: Installation, server: str, local_folder: Share, request: pytest.FixtureRequest
    ) -> None:
        share: Share = request.getfixturevalue(server)()
        share.put(KEY, submissions.archive(specimens()))
        refused = register(quick, share, accesskey=SecretStr("wrong horse"))
        unaffected = register(quick, local_folder)
        result = quick.run_session()
        crawl = result.crawls[refused]
        assert crawl.error is not None
        assert (crawl.outcome, crawl.error.kind) == ("failed", "LoginRefusedError")
        assert "Check the user name and password" in crawl.error.message
        assert "wrong horse" not in crawl.error.message
        assert result.zips[KEY].succeeded
        assert quick.attempts(KEY) == [(unaffected, "xsd done")]
