"""`dcc.toml`, groups of centres, and the names of the web page, as settings give them."""

import os
import traceback
from pathlib import Path

import pytest

import dcc.settings
from dcc.errors import ConfigurationError
from dcc.runtime.logging_setup import plan_from_environment
from dcc.runtime.processes import environment_without_secrets
from dcc.settings import SECTION_OF, Settings, configured_settings, load_settings
from dcc.settings.hosts import parse_authority, parse_hosts, parse_origin
from dcc.settings.settings_page import configuration_text
from tests.support.environments import forget_settings

SECRET = "s3cret-pass"


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The path of the file in a DCC_HOME; nothing else is set."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("DCC_HOME", str(tmp_path))
    return tmp_path / "dcc.toml"


def write(file: Path, text: str, mode: int = 0o600) -> None:
    file.write_text(text, "utf-8")
    file.chmod(mode)


def test_the_environment_counts_before_the_file_and_the_file_before_the_defaults(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        file,
        'until = "xsd"\nworkers = 3\n[sessions]\ndownloaders = 7\nretry_delay = 0.5\ndagster_events = false\n'
        'crawl_interval = ""\n[notifications]\nnotify_to = ["a@x.example", "b@x.example"]\nlog_level = "debug"\n',
        0o644,
    )
    monkeypatch.setenv("dcc_Downloaders", "9")
    monkeypatch.setenv("DCC_WORKERS", "")
    settings = load_settings()
    assert (settings.until, settings.workers, settings.downloaders, settings.retry_delay) == ("xsd", 3, 9, 0.5)
    assert (settings.dagster_events, settings.crawl_interval) == (False, "0 * * * *")
    assert settings.notify_addresses == ("a@x.example", "b@x.example")
    given = configured_settings(os.environ)
    assert [given.origin_of(name) for name in ("downloaders", "workers", "max_retries")] == [
        "environment",
        "file",
        "default",
    ]
    # What is read before the settings are, and what helper processes get.
    assert (plan := plan_from_environment(os.environ)) is not None
    assert plan.level == 10
    assert environment_without_secrets()["DCC_LOG_LEVEL"] == "debug"
    assert load_settings(workers=5).workers == 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("downloaderz = 1", r"dcc\.toml: there is no setting downloaderz; the nearest is downloaders"),
        ("DCC_WORKERS = 1", "the nearest is workers"),
        ("[sesions]\nworkers = 1", r"no section \[sesions\]; the nearest is \[sessions\]"),
        ("[object_store]\nworkers = 1", r"workers is in \[object_store\], and belongs in \[sessions\]"),
        ("workers = 1\n[sessions]\nworkers = 2", "sets workers twice"),
        ("[sessions]\nworkers = 0", r"workers in .*dcc\.toml: it must be a whole number from 1 to 64, and is '0'"),
        ("[sessions.more]\nworkers = 1", "sets more to something else"),
        ("workers = 2013-10-31", "sets workers to something else"),
        ("workers =", "is not TOML"),
        ('home = "/somewhere/else"', "names another DCC_HOME, /somewhere/else"),
    ],
)
def test_what_is_wrong_with_the_file_is_said_with_its_path(file: Path, text: str, problem: str) -> None:
    write(file, text)
    with pytest.raises(ConfigurationError, match=problem) as caught:
        load_settings()
    assert str(file) in str(caught.value)


def test_a_byte_order_mark_of_an_editor_is_no_part_of_the_file(file: Path) -> None:
    file.write_bytes("# für Windows\r\nworkers = 3\r\n".encode("utf-8-sig"))
    assert load_settings().workers == 3


@pytest.mark.parametrize(
    ("encoding", "text", "line"),
    [
        ("utf-16", "workers = 3", 1),
        ("utf-16-le", "workers = 3", 1),
        ("utf-16-be", "environment = 'prödüction'", 1),
        ("latin-1", "workers = 3\nenvironment = 'prödüction'", 2),
    ],
)
def test_a_file_in_another_encoding_is_refused_and_says_in_which_it_belongs(
    file: Path, encoding: str, text: str, line: int
) -> None:
    file.write_bytes(text.encode(encoding))
    with pytest.raises(ConfigurationError, match=rf"dcc\.toml is not text in UTF-8 \(line {line}\)\. Save it as UTF-8"):
        load_settings()


def test_dcc_config_names_a_file_elsewhere_which_may_say_where_home_is(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = tmp_path / "etc" / "dcc.toml"
    write(file, "workers = 3")
    monkeypatch.delenv("DCC_HOME")
    monkeypatch.setenv("DCC_CONFIG", str(named))
    with pytest.raises(ConfigurationError, match=r"which DCC_CONFIG names, is missing"):
        load_settings()
    named.parent.mkdir()
    write(named, f'home = "{tmp_path / "var"}"\nworkers = 4')
    assert (load_settings().home, load_settings().workers) == (tmp_path / "var", 4)


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        (f'tracker_url = "mysql://u:{SECRET}@db.example/t"', True),
        (f'key_passphrase = "{SECRET}"', True),
        (f'notify_webhook = "https://hooks.example/{SECRET}"', True),
        ('tracker_url = "mysql://db.example/t"', False),
        ('smtp_url = "smtp://mail.example"', False),
        ('openlineage_url = "/var/lib/dcc/events.jsonl"', False),
        ('tracker_url = "env:URL"', False),
        ('key_passphrase = "file:passphrase"', False),
        ('archive_access_key = "key:/home/dcc/.ssh/id_ed25519"', False),
    ],
)
def test_a_secret_is_a_reference_or_in_a_file_that_others_cannot_read(
    file: Path, text: str, is_secret: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    monkeypatch.setenv("URL", f"mysql://u:{SECRET}@db.example/t")
    write(file.parent / "passphrase", f"{SECRET}\n")
    for mode in (0o644, 0o660, 0o640, 0o600):
        write(file, text, mode)
        if is_secret and mode & 0o027:
            with pytest.raises(ConfigurationError, match=rf"holds a secret \(\w+\).*mode is {mode:04o}") as caught:
                load_settings()
            assert SECRET not in "".join(traceback.format_exception(caught.value))
        else:
            settings = load_settings()
            assert SECRET not in repr(settings)
    if "archive" in text:
        assert settings.archive_access_key is not None
        assert settings.archive_access_key.get_secret_value() == "key:/home/dcc/.ssh/id_ed25519"
    if "env:" in text:
        assert settings.tracker_database_url == f"mysql://u:{SECRET}@db.example/t"
    if "file:" in text and settings.key_passphrase is not None:
        assert settings.key_passphrase.get_secret_value() == SECRET


def test_a_written_file_says_the_same_as_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "WORKERS": "3",
        "RETRY_DELAY": "1e-3",
        "STAGING_CLEAN": "on",
        "ZIP_PATTERN": r"(?P<centre>\w+)-(?P<date>\d{8})-(?P<inc>\d+)\.\"zip\"" + "\x7f",
        "NOTIFY_TO": "ü@x.example",
        "TRACKER_URL": f"mysql://u:{SECRET}@db.example/t",
        "KEY_PASSPHRASE": "env:PASSPHRASE",
    }
    monkeypatch.setenv("PASSPHRASE", SECRET)
    for name, value in values.items():
        monkeypatch.setenv(f"DCC_{name}", value)
    before = load_settings()
    text = configuration_text(configured_settings(os.environ), before, file)
    for name in values:
        monkeypatch.delenv(f"DCC_{name}")
    write(file, text)
    assert load_settings() == before
    assert "\nworkers = 3\n" in text
    assert 'key_passphrase = "env:PASSPHRASE"' in text
    assert f"\n#downloaders = {Settings.model_fields['downloaders'].default}\n" in text
    # Every comment may be removed.
    write(file, "\n".join(line.removeprefix("#") if line[:2] != "# " else line for line in text.splitlines()))
    load_settings()


def test_every_setting_is_in_a_section_whose_name_no_setting_has() -> None:
    assert SECTION_OF.keys() == Settings.model_fields.keys()
    assert not set(SECTION_OF.values()) & SECTION_OF.keys()


def test_an_old_name_in_the_file_counts_with_a_warning(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    dcc.settings._warn_once.cache_clear()
    write(file, "[sessions]\nslowest_download = 0")
    assert load_settings().min_download_speed == 0
    assert [str(file) in message and "DCC_MIN_DOWNLOAD_SPEED" in message for message in caplog.messages] == [True]


def test_each_group_has_its_centres() -> None:
    for text, expected in (
        ("", {}),
        (" ; ", {}),
        ("europe=H", {"europe": {"H"}}),
        ("europe = H, Wtsi,H ; asia=Rbrc;", {"europe": {"H", "Wtsi"}, "asia": {"Rbrc"}}),
    ):
        groups = load_settings(groups=text).centre_groups
        assert {name: group.centres for name, group in groups.items()} == expected


def test_groups_have_intervals_of_their_own() -> None:
    intervals = load_settings(group_intervals=" europe=0 */2 * * * ;asia = 30 3 * * *;").intervals_of_groups
    assert intervals == {"europe": "0 */2 * * *", "asia": "30 3 * * *"}


def test_hosts_are_read_without_their_ports() -> None:
    assert parse_hosts("") == parse_hosts(" , ") == set()
    assert parse_hosts("dcc.example.org") == {"dcc.example.org"}
    several = parse_hosts("DCC.Example.org:8443, 192.0.2.7 ,[2001:DB8::7]:443,2001:db8:0::8,::1,")
    assert several == {"dcc.example.org", "192.0.2.7", "2001:db8::7", "2001:db8::8", "::1"}


def test_what_is_no_host_is_none() -> None:
    for text in ("", "a:b", "a:123456", "[::1", "[g::]", "a/b", "a@b", "ä", ".", "a\nb", "a b"):
        assert parse_authority(text) is None, text


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://localhost:3000", "localhost:3000", True),
        ("http://LOCALHOST:3000", "localhost:3000", True),
        ("http://localhost:3000", "localhost:3001", False),
        ("http://localhost:3000", "127.0.0.1:3000", False),
        ("http://localhost", "localhost:80", True),
        ("https://dcc.example.org", "dcc.example.org", True),
        ("https://dcc.example.org", "dcc.example.org:443", True),
        ("https://dcc.example.org:8443", "dcc.example.org", False),
        ("http://[::1]:3000", "[::1]:3000", True),
    ],
)
def test_an_origin_is_compared_with_the_host_that_is_asked(origin: str, host: str, same: bool) -> None:
    parsed, asked = parse_origin(origin), parse_authority(host)
    assert parsed is not None
    assert asked is not None
    assert parsed[1].is_same(asked, parsed[0]) is same
