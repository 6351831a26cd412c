"""`dcc source`: registering, testing, changing and removing file sources, with real SFTP and FTP servers."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select, update

from dcc.errors import ConfigurationError
from dcc.sources.host_keys import HostKey
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.models import FileSourceHasZip, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.states import UPLOADED, WITHDRAWN
from tests.cli.conftest import Dcc, place
from tests.support.databases import only_sqlite
from tests.support.installations import specimens, until_the_next_second
from tests.support.raising import raising
from tests.support.servers import Authority, Share
from tests.support.talking_servers import trickling_web_server

pytestmark = only_sqlite
SECRET = "hunter2 with blanks"


def fingerprint(share: Share) -> str:
    return HostKey.parse(share.host_keys[0]).fingerprint


@pytest.fixture
def free_share(tmp_path: Path) -> Share:
    """An SFTP server that is not there."""
    return Share(tmp_path, SourceProtocol.SFTP, "127.0.0.1:1", username="dcc")


@pytest.mark.servers
def test_an_sftp_server_is_added_and_its_host_key_pinned_by_option(dcc: Dcc, sftp_server: Share) -> None:
    unasked = dcc.error("source", "add", *place(sftp_server), exit_code=2, input="y\n")
    assert unasked.startswith("Is it the fingerprint that the centre's administrator gives? Nobody is at a terminal")
    assert unasked.endswith("run the command again with --accept-host-key.")
    assert dcc.json("source", "list") == []
    sftp_server.put("add/H.2013-10-31.1.impc.zip")
    sftp_server.put("add/notes.txt")
    result = dcc("source", "add", *place(sftp_server), "--accept-host-key", "--json")
    assert json.loads(result.stdout) == {"id": 1, "fingerprints": [fingerprint(sftp_server)], "warnings": []}
    assert f"shows the host key ssh-ed25519 {fingerprint(sftp_server)}" in result.stderr
    assert "add: holds 1 archive, and 1 other entry, ignored" in result.stderr
    (entry,) = dcc.json("source", "list")
    assert (entry["fingerprints"], entry["accesskey"]) == ([fingerprint(sftp_server)], sftp_server.accesskey)
    told = [entry[name] for name in ("id", "centre", "protocol", "state", "hosted")]
    assert told == [1, "H", "sftp", "available", 0]


def test_an_sftp_server_that_is_down_is_added_only_on_request(dcc: Dcc, free_share: Share) -> None:
    assert "Connection refused" in dcc.error("source", "add", *place(free_share, accesskey="env:X"), exit_code=4)
    assert dcc.json("source", "list") == []
    added = dcc.json("source", "add", *place(free_share, accesskey="env:X"), "--accept-host-key")
    assert added["id"] == 1
    assert "Connection refused" in added["warnings"][0]
    (entry,) = dcc.json("source", "list")
    assert (entry["state"], entry["fingerprints"]) == ("available", [])


def test_a_changed_host_key_is_refused_until_accepted(dcc: Dcc, password_sftp_server: Callable[..., Share]) -> None:
    old, new = password_sftp_server(), password_sftp_server()
    dcc.environment["SFTP_PASSWORD"] = new.accesskey
    dcc("source", "add", *place(old, accesskey="env:SFTP_PASSWORD"), "--accept-host-key")
    dcc("source", "change", 1, "--hostname", new.hostname)
    message = dcc.error("source", "test", 1, exit_code=4)
    assert fingerprint(old) in message
    assert fingerprint(new) in message
    assert "dcc source test 1 --accept-host-key" in message
    shown = dcc("source", "test", 1, "--accept-host-key").stderr
    assert fingerprint(old) in shown
    assert fingerprint(new) in shown
    assert dcc.json("source", "list")[0]["fingerprints"] == [fingerprint(new)]
    assert dcc.json("source", "test", 1, "--accept-host-key")["accepted_host_key"] is None


@pytest.mark.servers
def test_an_ftp_server_is_added_and_tested(dcc: Dcc, ftp_server: Share) -> None:
    ftp_server.put("edit/H.2013-10-31.1.impc.zip")
    assert dcc("source", "add", *place(ftp_server)).stdout == "1\n"
    tested = dcc.json("source", "test", 1)
    assert tested["label"] == f"file source 1 (H, ftp://{ftp_server.hostname})"
    assert (tested["ok"], tested["error"], tested["accepted_host_key"]) == (True, None, None)
    assert tested["directories"] == [
        {"action": "add", "missing": True, "zips": 0, "ignored": 0},
        {"action": "edit", "missing": False, "zips": 1, "ignored": 0},
        {"action": "delete", "missing": True, "zips": 0, "ignored": 0},
    ]
    assert "edit: holds 1 archive\n" in dcc("source", "test", 1).stdout
    assert "has no --accept-host-key" in dcc.error("source", "test", 1, "--accept-host-key", exit_code=2)


def test_a_source_without_any_of_the_three_folders_is_told(dcc: Dcc, tmp_path: Path) -> None:
    added = dcc("source", "add", "--centre", "H", "--protocol", "file", "--base-path", tmp_path)
    told = "None of the three is there: probably the directory is another one (--base-path).\n"
    assert added.stderr.endswith(told)
    assert told in dcc("source", "test", 1).stderr
    assert [part["missing"] for part in dcc.json("source", "test", 1)["directories"]] == [True] * 3
    (tmp_path / "add").mkdir()
    assert told not in dcc("source", "test", 1).stderr


def test_a_source_that_refuses_the_password_is_warned_of(dcc: Dcc, faulty_ftp_server: Callable[..., Share]) -> None:
    share = faulty_ftp_server()
    dcc.secrets += [share.accesskey, SECRET]
    dcc.environment["PASSWORD"] = SECRET
    result = dcc("source", "add", *place(share, accesskey="env:PASSWORD"))
    assert result.stdout == "1\n"
    assert "Warning: The source is registered, but does not work yet: file source 1" in result.stderr
    assert "Then try it again: dcc source test 1\n" in result.stderr
    message = dcc.error("source", "test", 1, exit_code=4)
    assert "file source 1" in message
    tested = dcc.json("source", "test", 1, exit_code=4)
    assert tested["ok"] is False
    assert tested["error"] == {"kind": "LoginRefusedError", "message": message}


def test_a_plain_password_is_kept_in_the_tracker_only_on_request(dcc: Dcc) -> None:
    dcc.secrets.append("hunter2 plain")
    options = ("--centre", "H", "--protocol", "ftp", "--hostname", "127.0.0.1:1", "--no-test")
    typed = {"input": "hunter2 plain\n"}
    advice = "Name what holds it: --accesskey env:NAME or --accesskey file:PATH"
    plain = ("hunter2 plain", "-", "/no/such/key", "envHUNTER")
    for given in plain:
        assert advice in dcc.error("source", "add", *options, "--accesskey", given, exit_code=2, **typed)
    assert dcc.json("source", "list") == []
    dcc("source", "add", *options, "--accesskey", "env:FTP_PASSWORD")
    for given in plain:
        assert advice in dcc.error("source", "change", 1, "--accesskey", given, exit_code=2, **typed)
        assert [entry["accesskey"] for entry in dcc.json("source", "list")] == ["env:FTP_PASSWORD"]
        dcc("source", "change", 1, "--accesskey", given, "--plain", **typed)
        assert [entry["accesskey"] for entry in dcc.json("source", "list")] == ["***"]
        findings = dcc.json("doctor", "--no-sources", exit_code=1)["findings"]
        (told,) = [each for each in findings if each["check"] == "passwords"]
        assert told["verdict"] == "warning"
        assert "keeps as it is: 1 (H)." in told["message"]
        dcc("source", "change", 1, "--accesskey", "env:FTP_PASSWORD")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("key:ssh/id?passphrase=file:secret", "key:{here}/ssh/id?passphrase=file:{here}/secret"),
        ("file:ssh/secret", "file:{here}/ssh/secret"),
        ("file:/etc/secret", "file:/etc/secret"),
        ("env:file", "env:file"),
    ],
)
def test_a_file_that_an_access_key_names_is_found_from_other_directories(
    dcc: Dcc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, kept: str
) -> None:
    monkeypatch.chdir(tmp_path)
    dcc("source", "add", "--centre", "H", "--protocol", "sftp", "--hostname", "h:1", "--no-test", "--accesskey", given)
    (listed,) = dcc.json("source", "list")
    assert listed["accesskey"] == kept.format(here=tmp_path)


def test_a_change_of_a_source_needs_an_option(dcc: Dcc) -> None:
    assert "give at least one option" in dcc.error("source", "change", 1, exit_code=2)
    assert "give at least one option" in dcc.error("source", "change", 1, "--plain", exit_code=2)
    source_id = dcc.add_folder().source_id
    dcc("source", "change", source_id, "--depth", 0, "--include", "")


def test_a_password_is_never_shown_and_may_be_piped(dcc: Dcc, faulty_ftp_server: Callable[..., Share]) -> None:
    share = faulty_ftp_server()
    dcc.secrets.append(share.accesskey)
    nothing = ("source", "add", *place(share, accesskey="-"), "--plain")
    assert "No access key came on standard input" in dcc.error(*nothing, exit_code=2, input="")
    read = dcc("source", "add", *place(share, accesskey="-"), "--plain", "--json", input=f"{share.accesskey}\n")
    assert "Hint" not in read.stderr
    assert dcc.json("source", "test", 1)["ok"] is True
    dcc("source", "remove", 1)
    given = dcc("source", "add", *place(share), "--plain")
    assert "Hint: other users may see a password on a command line" in given.stderr
    assert [entry["accesskey"] for entry in dcc.json("source", "list")] == ["***", "***"]
    assert "***" in dcc("source", "list").stdout
    assert "registered as file source 2 already" in dcc.error("source", "add", *place(share), "--plain", exit_code=2)
    dcc("status", "--json")


def test_the_state_of_a_source_is_set_and_removal_keeps_its_history(dcc: Dcc) -> None:
    dcc.collect("add/H.2013-10-31.1.impc.zip")
    for arguments, state in (
        (["set-state", 1, "maintenance"], "maintenance"),
        (["set-state", 1, "available"], "available"),
        (["remove", 1], "removed"),
    ):
        dcc("source", *arguments)
        assert [entry["state"] for entry in dcc.json("source", "list")] == [state]
    assert len(dcc.json("show", "add/H.2013-10-31.1.impc.zip")["downloads"]) == 1
    assert "No file source 9" in dcc.error("source", "set-state", 9, "removed", exit_code=2)
    assert "No file source 9" in dcc.error("source", "remove", 9, exit_code=2)
    dcc("source", "set-state", 1, "nonsense", exit_code=2)
    for option, value in (("--hostname", "x.invalid"), ("--username", "dcc"), ("--accesskey", "env:X")):
        told = dcc.error("source", "change", 1, option, value, exit_code=2)
        assert f"protocol file has no {option}: leave that out. It has --base-path, --depth." in told


def test_purging_a_source_deletes_it_only_when_confirmed(dcc: Dcc) -> None:
    dcc.collect("add/H.2013-10-31.1.impc.zip")
    assert "--yes" in dcc.error("source", "remove", 1, "--purge", exit_code=2)
    with dcc.active_session() as session:
        refused = dcc.error("source", "remove", 1, "--purge", "--yes", exit_code=3)
    assert f"Session {session.id} is active" in refused
    assert len(dcc.json("source", "list")) == 1
    assert "1 download attempt" in dcc("source", "remove", 1, "--purge", "--yes").stdout
    assert dcc.json("source", "list") == []
    assert [entry["sources"] for entry in dcc.json("zips")] == [[]]
    for answer in ([], ["--yes"]):
        assert "No file source 1" in dcc.error("source", "remove", 1, "--purge", *answer, exit_code=2)


def test_what_came_from_a_purged_source_and_was_not_uploaded_is_fetched_again(dcc: Dcc) -> None:
    """Its documents are deleted with the source."""
    valid, invalid, held, uploaded, withdrawn = (f"add/H.2013-10-31.{number}.impc.zip" for number in range(1, 6))
    broken = {name: content[:-20] for name, content in specimens().items()}
    archives = {valid: None, invalid: broken, held: None, uploaded: None, withdrawn: None}
    folder = dcc.collect(archives, "--until", "xsd", exit_code=1)
    for archive, state in ((uploaded, UPLOADED), (withdrawn, WITHDRAWN)):
        of_archive = select(ZipDownload.id).join(FileSourceHasZip).join(ZipAction).join(ZipFile)
        ids = of_archive.where(ZipFile.file_name == archive.removeprefix("add/"))
        documents = update(XmlFile).where(XmlFile.download_id.in_(ids.scalar_subquery()))
        dcc.change_tracker(documents.values(phase_id=state.phase, status_id=state.status))
    dcc("cancel", held, "--reason", "They ask.")
    before = dcc.states()
    dcc("source", "remove", 1, "--purge", "--yes")
    opened = {valid: "zip_name done", invalid: "zip_name done"}
    assert dcc.states() == before | opened
    dcc("source", "add", "--centre", "H", "--protocol", "file", "--base-path", folder.path)
    dcc("crawl", "--until", "xsd", exit_code=1)
    assert dcc.states() == before


def test_a_folder_is_kept_with_its_whole_path_and_changes_checked(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        (dcc.root / name / "add").mkdir(parents=True)
    monkeypatch.chdir(dcc.root)
    dcc("source", "add", "--centre", "H", "--protocol", "file", "--base-path", "first")
    assert dcc.json("source", "list")[0]["base_path"] == str(dcc.root / "first")
    dcc("source", "change", 1, "--base-path", "second")
    assert dcc.json("source", "list")[0]["base_path"] == str(dcc.root / "second")
    assert "no host name" in dcc.error("source", "change", 1, "--hostname", "ho st", exit_code=2)
    assert "No file source 9" in dcc.error("source", "change", 9, "--username", "x", exit_code=2)
    assert "No file source 9" in dcc.error("source", "test", 9, exit_code=2)


def test_another_source_of_the_same_place_is_named(dcc: Dcc) -> None:
    folder = dcc.root / "centre"
    folder.mkdir()
    (dcc.root / "link").symlink_to(folder)
    shared = "is the same place: both list the same archives. If one of them is enough: dcc source remove"

    def added(centre: str, path: Path) -> list[str]:
        return list(
            dcc.json("source", "add", "--centre", centre, "--protocol", "file", "--base-path", path)["warnings"]
        )

    assert added("H", folder) == []
    assert added("J", folder) == [f"File source 1 of the centre H {shared} 2"]
    dcc("source", "remove", 2)
    assert added("H", dcc.root / "link") == [f"File source 1 of the centre H {shared} 3"]

    def of_server(centre: str, hostname: str, username: str, path: str) -> list[str]:
        options = {"centre": centre, "protocol": "ftp", "hostname": hostname, "username": username, "base-path": path}
        given = [part for name, value in options.items() for part in (f"--{name}", value)]
        return list(dcc.json("source", "add", *given, "--no-test")["warnings"])

    assert of_server("H", "ftp.example.org:2121", "dcc", "/impc") == []
    # Each user may have a root of its own.
    assert of_server("J", "ftp.example.org:2121", "jax", "/impc") == []
    assert of_server("J", "ftp.example.org", "dcc", "/impc") == []
    assert of_server("J", "FTP.example.org:2121", "dcc", "/impc/") == [f"File source 4 of the centre H {shared} 7"]
    assert of_server("H", "ftp.example.org:21", "dcc", "/impc") == [f"File source 6 of the centre J {shared} 8"]


@pytest.mark.servers
def test_a_refused_certificate_is_shown_and_can_be_trusted(dcc: Dcc, ftps_server: Share, authority: Authority) -> None:
    """The command that the refusal names makes the source usable; so does the authority; both can be taken back."""
    added = dcc.json("source", "add", *place(ftps_server))
    (warning,) = added["warnings"]
    accept = re.search(r"dcc (source change 1 --tls-fingerprint (SHA256:[0-9A-F:]{95}))", warning)
    assert accept is not None
    assert "could not be verified" in warning
    dcc(*accept[1].split())
    assert dcc.json("source", "test", 1)["ok"] is True
    (entry,) = dcc.json("source", "list")
    assert (entry["tls_fingerprints"], entry["tls_authorities"]) == ([accept[2]], [])
    assert accept[2] in dcc("source", "list").stdout
    dcc("source", "change", 1, "--tls-ca", authority.ca_file, "--tls-fingerprint", "")
    assert dcc.json("source", "test", 1)["ok"] is True
    (entry,) = dcc.json("source", "list")
    assert entry["tls_fingerprints"] == []
    assert f"CA {entry['tls_authorities'][0]}" in dcc("source", "list").stdout
    dcc("source", "change", 1, "--username", "anonymous")
    assert len(dcc.json("source", "list")[0]["tls_authorities"]) == 1
    dcc("source", "change", 1, "--tls-ca", "")
    assert "could not be verified" in dcc.error("source", "test", 1, exit_code=4)
    dcc("source", "remove", 1, "--purge", "--yes")
    added = dcc.json("source", "add", *place(ftps_server), "--tls-ca", authority.ca_file)
    assert (added["warnings"], dcc.json("source", "test", added["id"])["ok"]) == ([], True)
    assert len(dcc.json("source", "list")[0]["tls_authorities"]) == 1


def test_adding_a_source_whose_listing_trickles_ends_soon(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    """That entries come shows that the directory can be listed; a large server that is honest takes its time."""
    monkeypatch.setattr("dcc.sources.listing_watch.TRIAL_SECONDS", 1.0)
    began = time.monotonic()
    with trickling_web_server() as (hostname, _):
        place = ("--centre", "H", "--protocol", "http", "--hostname", hostname, "--base-path", "/")
        added = dcc("source", "add", *place)
    assert time.monotonic() - began < 15
    assert added.stdout == "1\n"
    assert re.search(r"add: [1-9]\d* entr(y|ies) came within 1 s; the trial stops there\.", added.stderr)
    assert "A crawl waits 300 s, as DCC_LIST_TIMEOUT says." in added.stderr
    assert "does not work yet" not in added.stderr


def test_a_person_reads_that_a_source_is_registered_and_which_folders_do_not_exist_yet(dcc: Dcc) -> None:
    (dcc.root / "centre" / "add").mkdir(parents=True)
    place = ["--centre", "H", "--protocol", "file", "--base-path", dcc.root / "centre"]
    assert dcc.on_a_terminal(80, "source", "add", *place) == [
        "add: holds 0 archives",
        "The folder edit does not exist yet.",
        "The folder delete does not exist yet.",
        "Registered file source 1.",
    ]


def test_options_say_what_is_listed(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    assert dcc.json("source", "list")[0]["extent"] == {"depth": 0, "include": [], "exclude": []}
    change = ("source", "change", folder.source_id)
    dcc(*change, "--depth", 2, "--include", "2026/*", "--include", "2027/*", "--exclude", "*/old/*")
    full = {"depth": 2, "include": ["2026/*", "2027/*"], "exclude": ["*/old/*"]}
    assert dcc.json("source", "list")[0]["extent"] == full
    assert "2 levels below 2026/* 2027/* not */old/*" in dcc("source", "list").stdout
    said = dcc(*change, "--delta", "initial").stdout
    assert "Of archives fetched before, crawls record their size and time, without comparing." in said
    assert "Of archives" not in dcc(*change, "--depth", 2).stdout
    assert dcc.json("source", "list")[0]["extent"] == full
    dcc(*change, "--include", "", "--depth", 0)
    assert dcc.json("source", "list")[0]["extent"] == {**full, "depth": 0, "include": []}
    other = dcc.root / "other"
    other.mkdir()
    added = dcc.json(
        "source", "add", "--centre", "H", "--protocol", "file", "--base-path", other, "--depth", 1, "--exclude", "x/*"
    )
    extents = {one["id"]: one["extent"] for one in dcc.json("source", "list")}
    assert extents[added["id"]] == {"depth": 1, "include": [], "exclude": ["x/*"]}


def test_without_its_schedule_no_source_is_registered(
    dcc: Dcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dcc.tracker.register.file_sources.change_source", raising(ConfigurationError("It cannot be stored."))
    )
    folder = ["--centre", "H", "--protocol", "file", "--base-path", str(tmp_path)]
    dcc.error("source", "add", *folder, "--every", "6h", exit_code=2)
    assert dcc.json("source", "list") == []


def test_a_source_is_crawled_by_its_schedule_or_by_name_but_never_while_it_is_paused(dcc: Dcc) -> None:
    dcc.environment["DCC_DAGSTER_EVENTS"] = "false"
    folder, archive = dcc.add_folder(), "add/H.2013-10-31.1.impc.zip"
    folder.put(archive)
    never = "Mon 00:00-00:01, Tue 00:00-00:01" if time.gmtime().tm_wday > 2 else "Fri 00:00-00:01, Sat 00:00-00:01"
    assert "is no age" in dcc.error("source", "change", 1, "--every", "often", exit_code=2)
    dcc("source", "change", 1, "--every", "6h", "--window", never)

    def crawled(*options: object) -> list[int]:
        return [crawl["id"] for crawl in dcc.json("crawl", "--until", "zip_name", *options)["sources"]]

    assert crawled() == []
    assert crawled("--source", 1) == [1]
    assert crawled("--all") == [1]
    (listed,) = dcc.json("source", "list")
    assert (listed["every"], listed["windows"], listed["due"]["why"]) == ("6h", never, "recent")
    dcc("source", "pause", 1, "--reason", "Harwell moves its server", "--until", "2099-12-01")
    assert "Harwell moves its server" in dcc.error("crawl", "--source", 1, exit_code=2)
    assert crawled("--all") == []
    (waits,) = dcc.json("show", archive)["waits"]
    assert "not crawled until 2099-12-01 00:00 UTC: Harwell moves its server." in waits
    assert waits.endswith("paused it; `dcc source resume` ends the pause.")
    assert waits in " ".join(dcc("show", archive).stdout.split())
    table = dcc("source", "list").stdout
    assert "every 6h" in table
    assert "until 2099-12-01 00:00 UTC: Harwell moves its server" in table
    assert "is over" in dcc.error("source", "pause", 1, "--reason", "x", "--until", "2020-01-01", exit_code=2)
    dcc("source", "resume", 1)
    dcc("source", "change", 1, "--every", "", "--window", "", "--schedule", "Mon 06:00")
    (listed,) = dcc.json("source", "list")
    assert (listed["schedule"], listed["due"]["why"]) == ("Mon 06:00", "recent")
    dcc("source", "change", 1, "--schedule", "")
    assert crawled() == [1]
    assert dcc.json("source", "list")[0]["due"] == {"why": "due", "until": None, "failures": 0}


def test_what_is_not_visited_is_named_with_the_reason_and_the_time_until_somebody_resumes_it(dcc: Dcc) -> None:
    dcc.environment |= {"DCC_DAGSTER_EVENTS": "false", "DCC_SOURCE_FAILURE_LIMIT": "2", "DCC_UNTIL": "zip_name"}
    folder = dcc.add_folder()
    away = folder.path.rename(dcc.root / "away")
    assert "crawled: " not in dcc("crawl", exit_code=4).stdout
    dcc("crawl", exit_code=4)
    told = "failed 2 times in a row, left alone until 20"
    crawled = dcc("crawl")
    (line,) = [one for one in crawled.stdout.splitlines() if one.startswith("not crawled: ")]
    assert "file source 1 (H, " in line
    assert told in line
    assert told in dcc.json("crawl")["notices"][0]
    (reason, *_) = dcc.json("source", "why", 1)
    assert (reason["entry"], reason["why"]) == (None, "not due")
    assert "Failures in a row: 2. It is left alone until 20" in reason["reason"]
    assert "`dcc source resume 1`" in reason["reason"]
    until_the_next_second()
    resumed = dcc("source", "resume", 1).stdout
    assert resumed == "File source 1 was not paused; its failures are forgotten. The next session crawls it.\n"
    away.rename(folder.path)
    assert "crawled: " not in dcc("crawl").stdout
    dcc("source", "change", 1, "--every", "6h")
    assert "It was listed not long ago, and is crawled from 20" in dcc.json("source", "why", 1)[0]["reason"]
    dcc("source", "pause", 1, "--reason", "a move", "--until", "2099-12-01")
    reason = dcc.json("source", "why", 1)[0]["reason"]
    assert "paused, and is not crawled until 2099-12-01 00:00 UTC: a move." in reason
    paused = dcc("crawl")
    assert ("paused by" in paused.stdout, "`dcc source resume` ends a pause" in paused.stderr) == (True, True)
    dcc.environment["DCC_SUGGESTIONS"] = "true"
    assert "Next: dcc source resume 1  # ends the pause" in dcc("source", "why", 1).stderr
    resumed = dcc("source", "resume", 1)
    assert resumed.stdout.startswith("File source 1 is not paused any more. It is not due until 20")
    assert "Next: dcc crawl --source 1" in resumed.stderr
    dcc("source", "set-state", 1, "maintenance")
    assert "(H, file://localhost): in the state maintenance\n" in dcc("crawl").stdout
    left = dcc("source", "resume", 1)
    assert ("The next session" in left.stdout, "dcc crawl" in left.stderr) == (False, False)
    assert dcc.json("source", "list")[0]["due"] == {"why": "maintenance", "until": None, "failures": 0}
