"""Settings: read from the environment, refused with their names when wrong, and silent about secrets."""

import os
import re
import traceback
from pathlib import Path

import pytest
from pydantic import SecretStr

import dcc.settings
from dcc.errors import ConfigurationError
from dcc.naming import NamingConvention
from dcc.redaction import redacted
from dcc.settings import NEW_NAMES, Settings, load_settings, warnings_of
from dcc.settings.recipients import parse_smtp_url, parse_webhook
from dcc.settings.reference import is_from_source, shown_source
from dcc.settings.settings_page import settings_page
from dcc.settings.wanted_values import wanted_value
from tests.support.environments import forget_settings
from tests.support.raising import raising

SECRET = "s3cret-pass"
PATHS = [name for name, field in Settings.model_fields.items() if "Path" in str(field.annotation)]
DATABASES = ("tracker_url", "qc_url", "dagster_url", "target_tracker_url", "target_qc_url")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)


def test_nothing_need_be_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = load_settings()
    assert settings.home == tmp_path / ".dcc"
    assert settings.tracker_database_url == f"sqlite:///{tmp_path}/.dcc/tracker.db"
    assert settings.staging_directory == tmp_path / ".dcc" / "staging"
    assert settings.dagster_home == tmp_path / ".dcc" / "dagster"
    assert settings.naming == NamingConvention()


def test_every_setting_has_an_environment_variable_and_says_what_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "zip_pattern": r"(?P<centre>.)(?P<date>.)(?P<inc>.)",
        "document_pattern": r"(?P<centre>.)(?P<date>.)(?P<inc>.)(?P<kind>.)",
        **dict.fromkeys(DATABASES, "sqlite:////x/y.db"),
        "executor": "celery",
        "broker": "redis://broker.example",
        "environment": "test",
        "store": "s3://archives/dcc",
        "store_endpoint": "https://minio.dcc.example:9000",
        "dagster_events": "false",
        "listing_shrink_limit": "0.5",
        "crawl_interval": "5 4 * * *",
        "groups": "europe=H,Wtsi;asia=Rbrc",
        "group_intervals": "europe=30 3 * * *",
        "server_limits": "ftp.example.org=2,0.5",
        "smtp_url": "smtps://mail.dcc.example",
        "report_to": "wrangler@dcc.example",
        "report_from": "dcc@dcc.example",
        "report_quiet_sessions": "false",
        "submission_reports": "failed",
        "notify_centres": "true",
        "notify_to": "wrangler@dcc.example",
        "notify_webhook": "https://hooks.dcc.example/dcc",
        "notify_log": "true",
        "openlineage_url": "https://lineage.example",
        "until": "xsd",
        "left_out_steps": "overview",
        "staging_clean": "true",
        "staging_keep_phase": "data",
        "staging_keep_part_days": "8",
        "language": "de",
        "suggestions": "false",
        "log_format": "json",
        "log_level": "debug",
    }
    before = load_settings()
    for name, field in Settings.model_fields.items():
        value = values.get(name, "/some/path" if "path" in str(field.annotation).lower() else "7")
        with monkeypatch.context() as patched:
            patched.setenv(f"DCC_{name.upper()}", value)
            assert getattr(load_settings(), name) != getattr(before, name), f"Add a value of {name} to `values`."
        assert (field.description or "").endswith("."), name


def test_the_page_of_settings_is_in_step() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text("utf-8") == settings_page(), "Run: make pages"
    for name in Settings.model_fields:
        assert f"- `DCC_{name.upper()}`" in settings_page()


def test_a_variable_that_is_set_to_nothing_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    unset = load_settings()
    for variable in (*(f"DCC_{name.upper()}" for name in Settings.model_fields), *NEW_NAMES):
        monkeypatch.setenv(variable, "")
    assert load_settings() == unset
    assert warnings_of(os.environ) == []


def test_every_wrong_setting_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCC_DOWNLOADERS", "many")
    monkeypatch.setenv("DCC_WORKERS", "0")
    with pytest.raises(ConfigurationError, match=r"DCC_DOWNLOADERS: .*; DCC_WORKERS: "):
        load_settings()


def test_every_setting_says_what_it_must_be_in_words() -> None:
    said = {name: wanted_value(field) for name, field in Settings.model_fields.items()}
    assert said["requests_per_second"] == "a number above 0 and below 1,000,000"
    assert said["home"] == "a path"
    assert said["k8s_namespace"].startswith("a text of the form ")
    assert {name for name, words in said.items() if not words.startswith(("a ", "one of ", "true or "))} == set()


def test_a_path_stays_where_it_was_whatever_the_working_directory_becomes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/dcc")
    assert {"home", "staging", "templates_directory"} <= set(PATHS)
    for given, place in (("some/path", tmp_path / "some" / "path"), ("~/some/path", Path("/home/dcc/some/path"))):
        for name in PATHS:
            with monkeypatch.context() as patched:
                patched.setenv(f"DCC_{name.upper()}", given)
                assert getattr(load_settings(), name) == place, name


@pytest.mark.parametrize("name", ["DCC_ZIP_PATTERN", "DCC_DOCUMENT_PATTERN"])
def test_a_name_pattern_that_cannot_serve_is_refused_at_the_start(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, r"(?P<centre>.*)\.zip")
    with pytest.raises(ConfigurationError, match=f"lacks the named groups .*Correct {name}"):
        load_settings()


def test_own_name_patterns_are_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCC_ZIP_PATTERN", r"(?P<centre>\w+)-(?P<date>\d{8})-(?P<inc>\d+)\.zip")
    assert load_settings().naming.parse_archive_name("H-20130131-1.zip", {"H"}).inc == 1


def test_no_secret_shows_in_settings_or_in_what_is_wrong_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCC_TRACKER_URL", f"mysql://dcc:{SECRET}@db.example/tracker")
    settings = load_settings()
    shown = [repr(settings), str(settings), f"{settings.model_dump()}", settings.model_dump_json()]
    monkeypatch.setenv("DCC_WORKERS", SECRET)
    with pytest.raises(ConfigurationError) as refusal:
        load_settings()
    shown += traceback.format_exception(refusal.value)
    assert not [text for text in shown if SECRET in text]
    assert SECRET in settings.tracker_database_url


def test_a_variable_that_is_no_setting_is_refused_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, nearest in (
        ("DCC_DOWNLOADERZ", "DCC_DOWNLOADERS"),
        ("dcc_downloader", "DCC_DOWNLOADERS"),
        ("DCC_TRACKER", "DCC_TRACKER_URL"),
        ("DCC_NOTIFY_EMAIL", "DCC_NOTIFY_"),
        ("DCC_SFTP_PASSWORD", "DCC_"),
    ):
        monkeypatch.setenv(variable, SECRET)
        with pytest.raises(ConfigurationError, match=f"{variable}: .*the nearest is {nearest}") as caught:
            load_settings()
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        monkeypatch.setenv(variable, "")
        load_settings()


def test_variables_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_DCC_COMPLETE", "DCCP_PORT", "DAGSTER_HOME", "MY_DCC_NAME"):
        monkeypatch.setenv(name, "/x")
    load_settings()


MALFORMED = [
    *(f"mysql://u:{SECRET}{rest}" for rest in ("", "/db", ":3306/db", "@host", "@@host/db", "@host:port/db")),
    *(f"mysql://u:{SECRET}@{host}/db" for host in ("host:99999", "host:0", "[::1", "::1]", "a..b", "x" * 64)),
    *(f"mysql://u:{SECRET}@host/db?{name}={SECRET}" for name in ("unknown", "cursorclass", "connect_timeout")),
    f"mysql://u:{SECRET}@host/db?use_unicode={SECRET}",
    *(f"mysql://u:{SECRET}@host/db?{name}" for name in ("ssl_ca=/not/there", "ssl_ca=%00", "ssl_cert=/not/there")),
    f"postgresql://root:{SECRET}@host/db",
    f"mysql+{SECRET}://root@host/db",
    f"mysql+nonsense://root:{SECRET}@host/db",
    f"sqlite+{SECRET}:////x/y.db",
    f"mysql://root:at@slash/{SECRET}@host/db",
    f"{SECRET}://root@host/db",
    f"root:{SECRET}@host/db",
    f"mysql:/root:{SECRET}@host/db",
    SECRET,
    "sqlite://",
    "sqlite:///:memory:",
    f"sqlite:////x/y.db?mode={SECRET}",
    f"sqlite://u:{SECRET}@host/y.db",
]
"""Of databases; those of web and mail servers are below."""

MALFORMED_SERVERS = [
    "{scheme}://u:{secret}",
    "{scheme}://root:{secret}:3306/",
    "{scheme}://root:{secret}@host:port/",
    "{scheme}://root:{secret}@host:99999/",
    "{scheme}://root:{secret}@[::1/",
    "{scheme}://root:{secret}@a..b/",
    "{scheme}://root:12/{secret}@host/",
    "{scheme}://root:12?{secret}@host/",
    "{scheme}://root:{secret}@at@host/",
    "gopher://root:{secret}@host/",
    "gopher://host/{secret}",
    "{scheme}:{secret}",
]
SERVERS = {
    "smtp_url": "smtp",
    "notify_webhook": "https",
    "openlineage_url": "https",
    "reference_impress": "https",
    "reference_colonies": "http",
    "store_endpoint": "https",
}


MISPLACED = [f"smtp://u:{SECRET}@host", f"u:{SECRET}@host", f"https://{SECRET}@host/", f"https://host/{SECRET}"]
IN_PLACE_OF_PATH = [f"s3://key:{SECRET}@bucket/x"]
REFUSED: dict[str, list[str]] = {
    **dict.fromkeys(DATABASES, MALFORMED),
    **{
        # Any other text than a URL is the path of a file with reference data.
        name: [
            url.format(scheme=scheme, secret=SECRET)
            for url in MALFORMED_SERVERS
            if "://" in url or not name.startswith("reference")
        ]
        for name, scheme in SERVERS.items()
    },
    "store": [f"file://{SECRET}/x"],
    "archive_replicas": [f"sftp://me@h.example{rest}" for rest in (":99999/x", f"/x?{SECRET}", f"/x#{SECRET}")],
    "broker": [
        f"redis://:at@slash/{SECRET}@host:6379/0",
        f"redis://:{SECRET}@[::1/x",
        f"redis://:{SECRET}@host:99999/0",
        f"redis://:{SECRET}@",
        f"https://:{SECRET}@host/",
        f"sentinel://:{SECRET}@one:26379/0;{SECRET}",
        SECRET,
    ],
    "reference_strains": [
        "ftp://h.example/x.csv",
        f"https://user:{SECRET}@h.example/x.csv",
        f"https://{SECRET}@h.example/x.csv",
        "http:///x.csv",
        "http://h.example:0/x.csv",
        "http://h.example:99999999/x.csv",
        "http://[::1/x.csv",
        "http://h.example/a b.csv",
        "http://h.example/é.csv",
        "~nobody-of-that-name/x.csv",
    ],
    **dict.fromkeys(("notify_to", "report_to", "report_from", "ui_hosts"), MISPLACED),
    **dict.fromkeys(PATHS, IN_PLACE_OF_PATH),
}
"""Texts with a secret in them that settings do not take."""
TAKEN = {
    "tracker_url": [
        "mysql://u:p@host/db",
        "mysql://host/db",
        "mysql:///db",
        "mysql+mysqldb://u:p@host/db",
        "sqlite+pysqlite:////x/y.db",
        "mariadb+pymysql://u:p%40%2F@host:65535/db?charset=utf8mb4&connect_timeout=3",
        "mysql://u:p@[::1]:3306/db",
        "mysql://u:p@/db?unix_socket=/run/mysqld/mysqld.sock",
        "sqlite:////x/y.db",
        "sqlite:///relative.db",
    ],
    "broker": [
        "sentinel://:p%40ss@one:26379/0;sentinel://:p%40ss@two:26379/0",
        "amqp://dcc:p%40ss@rabbit.example:5672//",
        "rediss://:p%40ss@[::1]:6379/0?ssl_cert_reqs=required",
        "redis+socket:///run/redis.sock",
    ],
    # An at sign that cuts no password.
    "openlineage_url": ["https://user:p%40ss@h.example:8443/api", "https://[::1]/a@b"],
    "notify_webhook": [
        "https://h.example/webhook/a@b/IncomingWebhook/c",
        "https://h.example:8443/webhook/a%40b",
    ],
    "smtp_url": ["smtp://me%40h.example:p%40ss@h.example"],
    "archive_replicas": ["sftp://me@h.example:2222/archive"],
}


def refused_without_its_secret(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting is refused by its name, and the secret in it is not repeated."""
    with monkeypatch.context() as patched:
        patched.setenv(f"DCC_{name.upper()}", text)
        with pytest.raises(ConfigurationError, match=f"DCC_{name.upper()}: ") as caught:
            load_settings()
    assert SECRET not in "".join(traceback.format_exception(caught.value)), (name, text)


def test_a_wrong_setting_is_refused_at_the_start_with_its_name_and_what_it_must_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value, problem in (
        ("DOWNLOADERS", "many", "it must be a whole number from 1 to 64, and is 'many'"),
        ("DOWNLOADERS", "0", "a whole number from 1 to 64, and is '0'"),
        ("DOWNLOADERS", "65", "a whole number from 1 to 64"),
        ("WORKERS", "-1", "from 1 to 64"),
        ("MIN_FREE_BYTES", "-1", "a whole number of at least 0"),
        ("MAX_RETRIES", "21", "from 0 to 20"),
        ("RETRY_DELAY", "-0.1", "a number of at least 0"),
        ("CONNECT_TIMEOUT", "0", "a number above 0"),
        ("RETRY_DELAY", "nan", "a number of at least 0, and is 'nan'"),
        ("LIST_TIMEOUT", "inf", "a number above 0, and is 'inf'"),
        ("LEASE_TIMEOUT", "1", "above 1"),
        ("DAGSTER_EVENTS", "perhaps", "it must be true or false, and is 'perhaps'"),
        ("LOG_FORMAT", "xml", "it must be one of text, json, and is 'xml'"),
        ("EXECUTOR", "x" * 1_000, f"one of .*, and is '{'x' * 80}'"),
        ("LANGUAGE", "German", "'German' is no code of a language; give one such as en, de or pt_BR"),
        ("HOME", "~nobody-of-this-name/dcc", "home directory"),
        *(("HOME", f"/data/{name}/dcc", "question mark, and no percent sign") for name in ("what?", "a%20b")),
        ("STAGING", "s3://bucket/staging", r"on a disk.*DCC_STORE and DCC_ARCHIVE_REPLICAS"),
        ("TRACKER_URL", "nonsense", "not a database URL"),
        ("TRACKER_URL", "postgresql://host/db", "'postgresql': use sqlite, mysql or mariadb"),
        ("TRACKER_URL", "mysql+nonsense://host/db", "a driver that is not known"),
        ("TRACKER_URL", "mysql://host", "a server and no database on it"),
        ("TRACKER_URL", "mysql://host:99999/db", "port is not between 1 and 65535"),
        ("TRACKER_URL", "sqlite:///:memory:", "a SQLite database in memory"),
        ("TRACKER_URL", "sqlite://host/y.db", "which a SQLite file has not"),
        *(
            ("NOTIFY_TO", text, "is no e-mail address")
            for text in ("me@a..b", f"me@{'x' * 64}", "me@[::1", "me@a/b", "me@g:h")
        ),
        *(
            (name.upper(), f"{scheme}://u:12/p@h.example/x", "write %40 for it")
            for name, scheme in {**SERVERS, "broker": "redis"}.items()
        ),
        ("GROUPS", "europe", "'europe' is no group of centres"),
        ("GROUPS", "europe=", "'europe=' is no group of centres"),
        ("GROUPS", "=H", "'=H' is no group of centres"),
        ("GROUPS", "the north=H", "is no group of centres"),
        ("GROUPS", "europe=H=J", "is no group of centres"),
        ("GROUPS", "europe=H,asia=J", "is no group of centres"),
        ("GROUPS", "europe=H;europe=J", "group europe is there twice"),
        ("GROUPS", "the-north=H;the_north=J", "groups the-north and the_north differ by hyphens alone"),
        ("GROUPS", "europe=H,J;asia=J", "Centre J is in the groups europe and asia"),
        ("GROUP_INTERVALS", "0 * * * *", "is no interval of a group"),
        ("GROUP_INTERVALS", "the north=0 * * * *", "is no interval of a group"),
        ("GROUP_INTERVALS", "europe=", "'europe=' is no interval of a group"),
        ("GROUP_INTERVALS", "europe=0 * * * *;europe=1 * * * *", "group europe is there twice"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(f"DCC_{name}", value)
            said = rf"DCC_{name}: .*{problem}.*Correct the setting and start again"
            with pytest.raises(ConfigurationError, match=said):
                load_settings()


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_no_value_of_a_setting_is_refused_without_its_secret(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in REFUSED[name]:
        refused_without_its_secret(name, text, monkeypatch)


@pytest.mark.parametrize("name", TAKEN)
def test_an_address_that_can_be_one_is_taken(name: str) -> None:
    for url in TAKEN[name]:
        taken = getattr(load_settings(**{name: url}), name)
        assert (taken.get_secret_value() if isinstance(taken, SecretStr) else taken) == url


def test_messages_name_a_server_by_its_host_and_port() -> None:
    assert parse_smtp_url(SecretStr("smtp://[::1]")).label == "smtp://[::1]:25"
    assert parse_webhook(SecretStr("https://h.example/x")).label == "https://h.example:443"


def test_a_store_has_one_name_however_it_is_written() -> None:
    settings = load_settings(store=" S3://bucket/x/ ", store_endpoint="https://h.example:9000/")
    assert (settings.store, settings.store_endpoint) == ("s3://bucket/x", "https://h.example:9000")
    assert load_settings(store="file:///x").store == "/x"
    with pytest.raises(ConfigurationError, match="without a user name or password"):
        load_settings(store_endpoint="https://me@h.example")


def test_e_mail_addresses_may_be_odd() -> None:
    for text in ("me@[192.0.2.1]", "o'b/x+y=z@a.b", "me@localhost", "wir@mäuse.example"):
        assert load_settings(notify_to=text).notify_addresses == (text,)


def test_a_home_that_can_be_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be looked at"):
        load_settings(home=tmp_path / "file" / "below")
    assert load_settings(home=tmp_path / "100%").home == tmp_path / "100%"


def test_a_user_without_a_home_directory_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", raising(RuntimeError("Could not determine home directory.")))
    with pytest.raises(ConfigurationError, match="Name a directory in DCC_HOME"):
        load_settings()
    assert load_settings(home=tmp_path).home == tmp_path


def test_reference_data_come_from_urls_and_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, read in (
        ("https://api.example/impress/", "https://api.example/impress/"),
        (" http://127.0.0.1:8080/x.csv#top ", "http://127.0.0.1:8080/x.csv"),
        ("/data/projects.csv", "/data/projects.csv"),
        ("files", str(tmp_path / "files")),
        ("~/x.csv", str(tmp_path / "x.csv")),
    ):
        assert load_settings(reference_projects=given).reference_sources["projects"] == read


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"https://h.example/x.csv?token={SECRET}", r"https://h\.example/x\.csv\?\*\*\*#[0-9a-f]{8}"),
        ("https://h.example/x.csv?id=0123456789abcdef", r"https://h\.example/x\.csv\?\*\*\*#[0-9a-f]{8}"),
        (f"https://h.example/x.csv?{SECRET}", r"https://h\.example/x\.csv\?\*\*\*#[0-9a-f]{8}"),
        ("https://h.example/x.csv", r"https://h\.example/x\.csv"),
        ("/data/what?/x.csv", r"/data/what\?/x\.csv"),
    ],
)
def test_what_a_url_of_reference_data_asks_with_is_not_shown(url: str, shown: str) -> None:
    source = shown_source(load_settings(reference_colonies=url).reference_sources["colonies"] or "")
    assert re.fullmatch(shown, source)
    assert shown_source(source) == source
    assert is_from_source(source, url)
    assert is_from_source(url, url)
    assert is_from_source("https://h.example/x.csv", "https://h.example/")
    if "?" in url:
        assert not is_from_source(source, f"{url}2")
    if source != url:
        token = re.split("[?=]", url)[-1]
        assert token not in redacted(f"Asked {url} and got nothing.")
        assert token not in redacted(f"No such token: {token}.")


@pytest.mark.parametrize(
    ("query", "said", "shown"),
    [
        ("page=2&token=t0ken-1", "no such token: t0ken-1", "no such token: ***"),
        ("page=2&id=identifier-of-16", "of identifier-of-16", "of ***"),
        ("page=2&unnamed-token-of-a-server", "what is unnamed-token-of-a-server?", "what is ***?"),
        ("t0ken-2", "what is t0ken-2?", "what is ***?"),
        ("page=2&columns=all", "all columns of page=2", "all columns of page=2"),
    ],
)
def test_a_token_in_a_url_is_hidden_where_a_server_repeats_it_alone(query: str, said: str, shown: str) -> None:
    load_settings(reference_colonies=f"https://h.example/x.csv?{query}")
    assert redacted(said) == shown


@pytest.mark.parametrize(("old", "new"), sorted(NEW_NAMES.items()))
def test_a_renamed_setting_is_read_by_its_old_name_with_a_warning_that_names_the_new_one(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    field = new.removeprefix("DCC_").lower()
    dcc.settings._warn_once.cache_clear()
    monkeypatch.setenv(old, "7")
    assert getattr(load_settings(), field) == 7
    load_settings()
    assert caplog.messages == [f"{old} is now {new}. The next release no longer reads the old name."]
    monkeypatch.setenv(new, "9")
    assert getattr(load_settings(), field) == 9
    assert warnings_of(os.environ) == [f"{old} is now {new}. {new} is set and counts: unset {old}."]
    monkeypatch.delenv(new)
    monkeypatch.setenv(old, "none")
    with pytest.raises(ConfigurationError, match=f"{new}: it must be a"):
        load_settings()
