"""`dcc source add` at a terminal: what is missing is asked, the source tried and explained, only then registered."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dcc.sources.host_keys import HostKey
from tests.cli.conftest import PROGRAM, Dcc, place
from tests.support.databases import only_sqlite
from tests.support.servers import Share
from tests.support.talking_servers import trickling_web_server
from tests.test_documents_commands import Command, converse

pytestmark = only_sqlite
Answer = Callable[..., Result]


@pytest.fixture
def answer(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """`dcc source add` with somebody at the terminal who gives these answers; then the input ends."""
    monkeypatch.setattr("dcc.cli.sources.add_and_test.at_terminal", lambda: True)

    def add(*answers: object, options: tuple[object, ...] = (), exit_code: int = 0) -> Result:
        typed = "".join(f"{one}\n" for one in answers)
        return dcc("source", "add", *options, input=typed, exit_code=exit_code)

    return add


@pytest.fixture
def folder(dcc: Dcc) -> Path:
    """A folder with one archive to add."""
    path = dcc.root / "centre"
    dcc("example", path)
    return path


def test_a_folder_is_asked_for_tried_and_registered(dcc: Dcc, answer: Answer, folder: Path) -> None:
    (folder / "add" / "notes.txt").touch()
    (folder / "add" / "new mice.zip").touch()
    result = answer("H", "file", folder, "y")
    assert result.stdout == "1\n"
    said = [line.strip() for line in result.stderr.splitlines()]
    assert "add: holds 2 archives, and 1 other entry, ignored" in said
    assert "The folder edit does not exist yet." in said
    assert "A crawl would collect 1 of them and refuse 1 by name, such as:" in said
    assert any(line.startswith("'new mice.zip' does not follow <centre>.") for line in said)
    (entry,) = dcc.json("source", "list")
    assert (entry["centre"], entry["protocol"], entry["base_path"]) == ("H", "file", str(folder))
    assert dcc.json("crawl", exit_code=1)["sources"][0]["new"] == 1


def test_a_new_centre_is_registered_in_passing(dcc: Dcc, answer: Answer, folder: Path) -> None:
    dcc("example", folder, "--centre", "Tcp")
    result = answer("Tcp", "y", "no address", "mice@tcp.example.org", "file", folder, "y")
    assert "A crawl would collect 2 archives." in result.stderr
    assert "Centre Tcp (Toronto Centre for Phenogenomics) is not registered." in result.stderr
    assert "'no address' is no e-mail address" in result.stderr
    (entry,) = [entry for entry in dcc.json("centre", "list") if entry["short_name"] == "Tcp"]
    assert (entry["email"], entry["sources"]) == ("mice@tcp.example.org", 1)


def test_an_answer_that_cannot_be_is_asked_again(dcc: Dcc, answer: Answer, folder: Path) -> None:
    result = answer("H", "gopher", "file", folder / "none", folder, "perhaps", "y")
    assert "'gopher' is not one of" in result.stderr
    assert f"No folder {folder / 'none'} exists." in result.stderr
    assert [entry["base_path"] for entry in dcc.json("source", "list")] == [str(folder)]
    other = dcc.root / "other"
    dcc("example", other)
    assert "registered as file source 1 already" in answer("H", "file", folder, "", "", other, "y").stderr
    assert [entry["base_path"] for entry in dcc.json("source", "list")] == [str(folder), str(other)]


def test_whoever_leaves_off_leaves_nothing_behind(dcc: Dcc, answer: Answer, folder: Path) -> None:
    answers = ("Tcp", "y", "", "file", folder)
    for number in (0, 1, 4, 5):
        answer(*answers[:number], exit_code=130)
    answer(*answers, "n", exit_code=2)
    assert dcc.json("source", "list") == []
    assert [entry["short_name"] for entry in dcc.json("centre", "list")] == ["H", "J"]


def test_a_folder_without_the_three_directories_is_doubted(dcc: Dcc, answer: Answer, folder: Path) -> None:
    result = answer("H", "file", dcc.root, "change", "", "", folder, "y")
    assert "None of the three is there" in result.stderr
    assert [entry["base_path"] for entry in dcc.json("source", "list")] == [str(folder)]


@pytest.mark.servers
def test_an_sftp_server_is_tried_step_by_step(dcc: Dcc, answer: Answer, sftp_server: Share) -> None:
    sftp_server.put("add/H.2013-10-31.1.impc.zip")
    shown = HostKey.parse(sftp_server.host_keys[0]).fingerprint
    key = sftp_server.accesskey.removeprefix("key:")
    answers = ("H", "sftp", "ho st", sftp_server.hostname, sftp_server.username)
    # A passphrase itself, which the tracker would hold, is not taken.
    again = ("key", key, "", sftp_server.base_path, "y", "y")
    result = answer(*answers, "key", "/no/such/key", "open sesame", "env:NO_SUCH_VARIABLE", *again)
    assert "Name what holds it: env:NAME or file:PATH." in result.stderr
    assert "'ho st' is no host name" in result.stderr
    assert "/no/such/key" in result.stderr
    assert f"It shows the host key ssh-ed25519 {shown}." in result.stderr
    assert f"Logged in as {sftp_server.username}." in result.stderr
    assert "A crawl would collect 1 archive." in result.stderr
    (entry,) = dcc.json("source", "list")
    assert (entry["fingerprints"], entry["accesskey"]) == ([shown], f"key:{key}")
    assert dcc.json("source", "test", 1)["ok"] is True


@pytest.mark.servers
def test_a_host_key_is_asked_about_and_one_that_is_not_accepted_leaves_nothing_behind(
    dcc: Dcc, answer: Answer, sftp_server: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = sftp_server.accesskey.removeprefix("key:")
    answers = ("H", "sftp", sftp_server.hostname, sftp_server.username, "key", key, "", sftp_server.base_path)
    result = answer(*answers, "n", "save", "stop", exit_code=2)
    assert "'save' is not one of" in result.stderr
    assert "Nothing was registered." in result.stderr
    # The options say all but that.
    monkeypatch.setattr("dcc.cli.shell.context.at_terminal", lambda: True)
    given = tuple(place(sftp_server))
    assert "was not accepted, so nothing" in answer("n", options=given, exit_code=2).stderr
    assert dcc.json("source", "list") == []
    assert "Is it the fingerprint that the centre's administrator gives?" in answer("y", options=given).stderr
    assert len(dcc.json("source", "list")) == 1


def test_a_wrong_password_can_be_given_again(dcc: Dcc, answer: Answer, faulty_ftp_server: Callable[..., Share]) -> None:
    share = faulty_ftp_server()
    share.put("add/H.2013-10-31.1.impc.zip")
    dcc.secrets += [share.accesskey, "hunter2 wrong"]
    first = ("H", "ftp", share.hostname, share.username, "password", "hunter2 wrong", share.base_path)
    again = ("", "", "", "", "password", share.accesskey, "")
    result = answer(*first, "again", "change", *again, "y", options=["--plain"])
    assert result.stderr.count("That failed: new file source (H, ftp://") == 2
    assert "Logged in as" in result.stderr
    assert dcc.json("source", "test", 1)["ok"] is True


def test_a_server_that_is_down_is_registered_on_request(dcc: Dcc, answer: Answer) -> None:
    dcc.environment["FTP_PASSWORD"] = "geheim, nie gezeigt"
    dcc.secrets.append(dcc.environment["FTP_PASSWORD"])
    ways = ("password", "env", "NO_SUCH", "env", "FTP_PASSWORD")
    result = answer("H", "ftp", "127.0.0.1:1", "dcc", *ways, "", "save", "y")
    assert "'password' is not one of" in result.stderr, "without --plain"
    assert "The environment variable NO_SUCH" in result.stderr
    assert "Connection refused" in result.stderr
    assert (
        "Warning: The source is registered, but does not work yet: the trial failed, as said above. Then try"
        in result.stderr
    )
    assert [entry["accesskey"] for entry in dcc.json("source", "list")] == ["env:FTP_PASSWORD"]


@pytest.mark.servers
def test_a_certificate_that_nobody_signed_can_be_trusted(dcc: Dcc, answer: Answer, ftps_server: Share) -> None:
    ftps_server.put("add/H.2013-10-31.1.impc.zip")
    answers = ("H", "ftps", ftps_server.hostname, ftps_server.username, "none", ftps_server.base_path)
    other = answer(*answers, "stop", options=("--tls-fingerprint", f"SHA256:{'00:' * 31}00"), exit_code=2)
    assert "Trust it?" not in other.stderr
    result = answer(*answers, "y", "y")
    assert "could not be verified" in result.stderr
    (entry,) = dcc.json("source", "list")
    assert entry["tls_fingerprints"][0] in result.stderr
    assert dcc.json("source", "test", 1)["ok"] is True


def test_a_trial_that_stops_while_entries_come_does_not_say_that_there_are_none(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcc.sources.listing_watch.TRIAL_SECONDS", 1.0)
    with trickling_web_server() as (hostname, _):
        told = answer("H", "http", hostname, "", "none", "/", "y").stderr
    assert "the trial stops there" in told
    assert "no archives yet" not in told


def test_on_a_real_terminal_a_password_is_not_seen(dcc: Dcc, faulty_ftp_server: Callable[..., Share]) -> None:
    """Neither as it is typed nor afterwards."""
    share = faulty_ftp_server()
    share.put("add/H.2013-10-31.1.impc.zip")
    options = f"--centre H --protocol ftp --base-path {share.base_path or '/'} --plain --username {share.username}"
    answers = [
        f"Which server? HOST, HOST:PORT or [IPV6]:PORT: {share.hostname}",
        "How does one log in? [file]: password",
        f"Password: {share.accesskey}",
        "Register it? [Y/n]: y",
    ]
    asked = Command(f"{PROGRAM} source add {options}", answers)
    code, seen = converse(asked, dcc.root, dcc.process_environment())
    assert (code, share.accesskey in seen) == (0, False), seen
    assert [entry["accesskey"] for entry in dcc.json("source", "list")] == ["***"]
