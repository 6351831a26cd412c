"""Reference data brought up to date: from servers as they are, and from files; what fails leaves the last in use."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from dcc.databases.columns import utc_now
from dcc.qc import models
from dcc.qc.reference import retrieval
from dcc.qc.reference.freshness import Freshness, freshness
from dcc.qc.reference.refresh import (
    Refreshed,
    RefreshOutcome,
    ensure_reference,
    refresh,
)
from dcc.qc.reference.snapshots import active_snapshots, load_active
from dcc.reference.loading import SETS, load_reference_data, shipped_checksum
from dcc.settings import Settings
from tests.reference.test_data import ANSWERS, TABLES
from tests.support.databases import only_sqlite
from tests.support.reference_server import ReferenceServer, api_pages
from tests.support.servers import Authority

PAGES = {f"/tables/{name}.csv": text.encode() for name, text in TABLES.items()} | api_pages(ANSWERS)


@pytest.fixture
def server() -> Iterator[ReferenceServer]:
    with ReferenceServer(PAGES) as running:
        yield running


@pytest.fixture
def from_server(qc_settings: Settings, server: ReferenceServer) -> Settings:
    """Settings by which everything is read from the server, with little patience."""
    return reading_from(qc_settings, server)


def reading_from(settings: Settings, server: ReferenceServer, **changes: Any) -> Settings:
    sources = {f"reference_{name}": f"{server.url}/tables/{name}.csv" for name in TABLES}
    sources["reference_impress"] = f"{server.url}/impress"
    quick = {"retry_delay": 0.01, "idle_timeout": 0.5, "list_timeout": 1.5, "connect_timeout": 2.0}
    return settings.model_copy(update={**sources, **quick, **changes})


def outcomes(refreshed: list[Refreshed]) -> dict[str, RefreshOutcome]:
    return {each.name: each.outcome for each in refreshed}


def one(qc: Engine, settings: Settings, name: str, *, force: bool = False) -> Refreshed:
    (refreshed,) = refresh(qc, settings, [name], force=force)
    return refreshed


def in_use(qc: Engine) -> dict[str, int]:
    with qc.connect() as connection:
        return dict(load_active(connection).snapshot_ids)


def test_everything_is_read_from_servers_as_it_would_be_from_files_and_not_sent_again(
    qc_database: Engine, from_server: Settings, server: ReferenceServer, tmp_path: Path
) -> None:
    before = utc_now()
    refreshed = refresh(qc_database, from_server)
    assert outcomes(refreshed) == dict.fromkeys(SETS, RefreshOutcome.NEW)
    assert [(each.rows, each.added, each.removed) for each in refreshed] == [
        (3, 3, 0),
        (1, 1, 0),
        (1, 1, 0),
        (2, 1, 0),
        (1, 1, 0),
    ]
    (tmp_path / "files").mkdir()
    for name, text in TABLES.items():
        (tmp_path / "files" / f"{name}.csv").write_text(text)
    (tmp_path / "files" / "impress.json").write_text(json.dumps(ANSWERS))
    with qc_database.connect() as connection:
        data = load_active(connection).data
    files = load_reference_data(tmp_path / "files")
    for snapshot, filed in zip(data, files, strict=True):
        assert snapshot.entries == filed.entries
        assert snapshot.source == from_server.reference_sources[snapshot.name]
        assert before <= snapshot.retrieved <= utc_now()
    assert server.agents == {"dcc"}
    assert server.statuses() == {200: len(PAGES)}, "each page was asked for once"
    ids = in_use(qc_database)
    server.asked.clear()
    refreshed = refresh(qc_database, from_server)
    assert outcomes(refreshed) == dict.fromkeys(SETS, RefreshOutcome.UNCHANGED)
    assert server.statuses() == {304: len(PAGES)}
    assert in_use(qc_database) == ids


def test_only_what_has_changed_is_sent_and_told(
    qc_database: Engine, from_server: Settings, server: ReferenceServer
) -> None:
    first = {each.name: each for each in refresh(qc_database, from_server)}
    answers = deepcopy(ANSWERS)
    answers["procedure/3"]["parameterCollection"] = [1, 2, 5]
    answers["parameter/2"]["isDeprecated"] = False
    answers["parameter/5"] = {"parameterKey": "IMPC_IPG_011_001", "type": "simpleParameter", "valueType": "TEXT"}
    server.pages |= api_pages(answers)
    server.asked.clear()
    refreshed = one(qc_database, from_server, "impress")
    assert (refreshed.outcome, refreshed.added, refreshed.removed, refreshed.changed) == (RefreshOutcome.NEW, 1, 1, 1)
    assert "1 added, 1 removed, 1 changed" in refreshed.message
    assert server.statuses()[200] == 3
    assert refreshed.snapshot_id != first["impress"].snapshot_id
    with qc_database.connect() as connection:
        active = load_active(connection)
    assert active.data.impress is not None
    procedure = active.data.impress.pipelines["IMPC_001"].procedures["IMPC_IPG_001"]
    assert set(procedure.parameters) == {"IMPC_IPG_002_001", "IMPC_IPG_006_001", "IMPC_IPG_011_001"}
    assert active.snapshot_ids["projects"] == first["projects"].snapshot_id


@pytest.mark.parametrize("path", ["/impress/parameter/2", "/impress/pipeline/list"])
def test_a_server_that_keeps_failing_is_given_up_and_the_other_sets_are_read(
    qc_database: Engine, from_server: Settings, server: ReferenceServer, path: str
) -> None:
    refresh(qc_database, from_server)
    ids = in_use(qc_database)
    server.failing = {path: -1}
    server.pages["/tables/projects.csv"] = b"project\nBaSH\nJAX\n"
    server.asked.clear()
    refreshed = refresh(qc_database, from_server)
    assert outcomes(refreshed) == dict.fromkeys(SETS, RefreshOutcome.UNCHANGED) | {
        "impress": RefreshOutcome.FAILED,
        "projects": RefreshOutcome.NEW,
    }
    failed = refreshed[0]
    assert failed.is_unreachable
    assert "503 Service Unavailable" in failed.message
    assert f"{server.url}{path}" in failed.message
    assert "stay in use" in failed.message
    assert server.asked[path, 503] == 3
    assert in_use(qc_database)["impress"] == ids["impress"] == failed.snapshot_id


@only_sqlite
def test_a_server_that_stalls_never_ends_or_is_not_there_is_given_up_in_time(
    qc_database: Engine, from_server: Settings, server: ReferenceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.stalled = {"/impress/procedure/3", "/tables/strains.csv"}
    server.endless = {"/tables/colonies.csv"}
    monkeypatch.setattr(retrieval, "MOST_BYTES", 1_000_000)
    monkeypatch.setattr(retrieval, "_MOST_BYTES_OF_ANSWER", 1_000_000)
    gone = {"idle_timeout": 0.2, "reference_projects": "http://127.0.0.1:1/projects.csv"}
    settings = from_server.model_copy(update=gone)
    began = time.monotonic()
    refreshed = {
        each.name: each for each in refresh(qc_database, settings, ["impress", "strains", "colonies", "projects"])
    }
    assert time.monotonic() - began < 10
    assert {each.outcome for each in refreshed.values()} == {RefreshOutcome.FAILED}
    assert all(f"There are no {each.name}" in each.message for each in refreshed.values())
    for name, said in (("impress", "stalled"), ("strains", "stalled"), ("projects", "127.0.0.1:1")):
        assert refreshed[name].is_unreachable
        assert said in refreshed[name].message
    assert "more than 1,000,000 bytes" in refreshed["colonies"].message
    server.stalled, server.endless = set(), {"/impress/pipeline/7"}
    assert "more than 1,000,000 bytes" in one(qc_database, settings, "impress").message
    assert in_use(qc_database) == {}


def test_answers_that_are_cut_short_or_have_another_shape_change_nothing_and_are_not_kept(
    qc_database: Engine, from_server: Settings, server: ReferenceServer
) -> None:
    refresh(qc_database, from_server)
    ids = in_use(qc_database)
    pages = dict(server.pages)
    server.pages["/impress/parameter/1"] = b'{"parameterKey": "IMPC_'
    server.pages["/tables/colonies.csv"] = b"colony_id,production_centre,status\nc1,HM"
    server.truncated = {"/tables/projects.csv"}
    server.pages["/tables/projects.csv"] = b"project\nBaSH\nJAX\n"
    refreshed = {each.name: each for each in refresh(qc_database, from_server)}
    assert "parameter/1 is no JSON" in refreshed["impress"].message
    assert "2 cells where there are 3 columns" in refreshed["colonies"].message
    assert "in the middle" in refreshed["projects"].message
    assert [refreshed[name].is_unreachable for name in ("impress", "colonies", "projects")] == [False, False, True]
    answers = deepcopy(ANSWERS)
    for collection, limit, said in (
        ([1, 99], 40, "parameter/99: the server answered 404 Not Found"),
        ({"1": 2}, 40, "parameterCollection is no list"),
        ([1, 2], 10**400, "qcMax has 401 digits"),
    ):
        answers["procedure/3"]["parameterCollection"], answers["parameter/1"]["qcMax"] = collection, limit
        server.pages |= api_pages(answers)
        assert said in one(qc_database, from_server, "impress").message
    assert in_use(qc_database) == ids
    server.pages, server.truncated = pages, set()
    assert outcomes(refresh(qc_database, from_server)) == dict.fromkeys(SETS, RefreshOutcome.UNCHANGED)


def test_a_set_that_has_shrunk_to_less_than_half_is_taken_over_only_when_told_to(
    qc_database: Engine, from_server: Settings, server: ReferenceServer
) -> None:
    """Reference databases, "Genotype refresh": a guard worth keeping."""
    server.pages["/tables/projects.csv"] = b"project\nA\nB\nC\nD\nE\n"
    refresh(qc_database, from_server, ["projects"])
    server.pages["/tables/projects.csv"] = b"project\nA\nB\n"
    refused = one(qc_database, from_server, "projects")
    assert (refused.outcome, refused.rows, refused.is_unreachable) == (RefreshOutcome.FAILED, 5, False)
    assert "2 entries of projects where there were 5" in refused.message
    assert "dcc reference refresh projects --force" in refused.message
    forced = one(qc_database, from_server, "projects", force=True)
    assert (forced.outcome, forced.rows, forced.removed) == (RefreshOutcome.NEW, 2, 3)
    server.pages["/tables/projects.csv"] = b"project\nA\n"
    assert one(qc_database, from_server, "projects").outcome is RefreshOutcome.NEW, "half may go"


@only_sqlite
def test_redirects_are_followed_to_other_web_servers_but_nowhere_else(
    qc_database: Engine, from_server: Settings, server: ReferenceServer
) -> None:
    with ReferenceServer({"/moved.csv": b"project\nBaSH\nJAX\n"}) as other:
        server.redirects = {"/tables/projects.csv": f"{other.url}/moved.csv#x"}
        assert one(qc_database, from_server, "projects").rows == 2
        for astray in ("file:///etc/passwd", "ftp://127.0.0.1/x", "http://user:word@127.0.0.1/", "http://[", ""):
            server.redirects = {"/tables/projects.csv": astray}
            refused = one(qc_database, from_server, "projects")
            assert "no web address" in refused.message, astray
            assert "word" not in refused.message
        server.redirects = {"/tables/projects.csv": "/tables/projects.csv"}
        assert "more than 5 redirects" in one(qc_database, from_server, "projects").message


@only_sqlite
def test_certificates_are_verified(qc_database: Engine, qc_settings: Settings, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with ReferenceServer(PAGES, authority.issue()) as server, ReferenceServer(PAGES) as plain:
        trusting = reading_from(qc_settings, server, tls_ca_file=authority.ca_file)
        refused = one(qc_database, reading_from(qc_settings, server), "projects")
        assert (refused.outcome, refused.is_unreachable) == (RefreshOutcome.FAILED, True)
        assert "DCC_TLS_CA_FILE" in refused.message
        assert one(qc_database, trusting, "projects").outcome is RefreshOutcome.NEW
        server.redirects = {"/tables/strains.csv": f"{plain.url}/tables/strains.csv"}
        assert "from https to http" in one(qc_database, trusting, "strains").message


def test_first_use_reads_what_comes_with_the_platform_and_then_nothing(
    qc_database: Engine, qc_settings: Settings
) -> None:
    assert outcomes(ensure_reference(qc_database, qc_settings)) == dict.fromkeys(SETS, RefreshOutcome.NEW)
    assert ensure_reference(qc_database, qc_settings) == []
    with qc_database.connect() as connection:
        stored = active_snapshots(connection)
    assert {name: each.checksum for name, each in stored.items()} == {name: shipped_checksum(name) for name in SETS}


def test_first_use_reads_what_the_settings_name_and_reads_again_only_what_they_name_anew(
    qc_database: Engine, from_server: Settings, server: ReferenceServer, tmp_path: Path
) -> None:
    assert len(ensure_reference(qc_database, from_server)) == len(SETS)
    server.asked.clear()
    assert ensure_reference(qc_database, from_server) == []
    (tmp_path / "projects.tsv").write_text("project\nBaSH\nJAX\n")
    elsewhere = from_server.model_copy(update={"reference_projects": str(tmp_path)})
    (refreshed,) = ensure_reference(qc_database, elsewhere)
    assert (refreshed.name, refreshed.source) == ("projects", str(tmp_path / "projects.tsv"))
    assert ensure_reference(qc_database, elsewhere) == []
    assert server.asked == {}, "no server is asked about what is there"


def test_what_cannot_be_read_at_first_use_is_missing_and_never_replaced_by_what_is_shipped(
    qc_database: Engine, from_server: Settings, server: ReferenceServer, tmp_path: Path
) -> None:
    server.failing = {"/tables/colonies.csv": -1}
    (tmp_path / "here").mkdir()
    settings = from_server.model_copy(
        update={"reference_strains": str(tmp_path / "here"), "reference_projects": str(tmp_path / "none.csv")}
    )
    refreshed = {each.name: each for each in ensure_reference(qc_database, settings)}
    assert set(in_use(qc_database)) == {"impress", "status_codes"}
    assert "There are no colonies: the rules that need them are skipped." in refreshed["colonies"].message
    assert "DCC_REFERENCE_STRAINS" in refreshed["strains"].message
    assert "none.csv cannot be read" in refreshed["projects"].message


def test_sets_that_are_missing_or_old_are_told_with_what_to_do(
    qc_database: Engine, qc_settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "projects.csv").write_text("project\nBaSH\n")
    (tmp_path / "retrieved.txt").write_text("2026-10-01\n")
    settings = qc_settings.model_copy(update={"reference_projects": str(tmp_path), "reference_max_age_days": 10})
    refresh(qc_database, settings, ["projects", "strains"])

    def told(now: datetime) -> dict[str, tuple[bool, bool, bool]]:
        with qc_database.connect() as connection:
            found = freshness(connection, settings, now)
        return {each.name: (each.is_missing, each.is_stale, each.is_shipped) for each in found}

    limit = datetime(2026, 10, 11)
    missing = (True, False, False)
    rest = {"impress": missing, "status_codes": missing, "colonies": missing, "strains": (False, False, True)}
    assert told(limit) == rest | {"projects": (False, False, False)}
    assert told(limit + timedelta(seconds=1)) == rest | {"projects": (False, True, False)}
    with qc_database.connect() as connection:
        messages = {each.name: each.message for each in freshness(connection, settings, limit + timedelta(days=5))}
    assert messages["strains"] is None
    assert "15 days old, more than 10" in (messages["projects"] or "")
    assert "dcc reference refresh impress" in (messages["impress"] or "")
    (tmp_path / "retrieved.txt").write_text("2026-10-11\n")
    assert one(qc_database, settings, "projects").outcome is RefreshOutcome.UNCHANGED
    assert told(limit + timedelta(days=5))["projects"] == (False, False, False), "found to be the newest since"


def test_a_file_is_read_anew_when_it_says_something_else_whatever_its_time(
    qc_database: Engine, qc_settings: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "projects.csv"
    path.write_text("project\nBaSH\n")
    settings = qc_settings.model_copy(update={"reference_projects": str(path)})
    assert outcomes(ensure_reference(qc_database, settings))["projects"] is RefreshOutcome.NEW
    assert ensure_reference(qc_database, settings) == []
    path.write_text("project\nDTCC\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    (read,) = ensure_reference(qc_database, settings)
    assert (read.name, read.outcome, read.added, read.removed) == ("projects", RefreshOutcome.NEW, 1, 1)
    os.utime(path)
    (read,) = ensure_reference(qc_database, settings)
    assert read.outcome is RefreshOutcome.UNCHANGED, "it was found again, and is young"
    assert ensure_reference(qc_database, settings) == []


def test_a_set_of_another_source_is_not_compared_with_the_one_before(
    qc_database: Engine, qc_settings: Settings, tmp_path: Path
) -> None:
    """A DCC's first own table may be much shorter than the one that came with the platform, or than its mirror's."""
    ensure_reference(qc_database, qc_settings)
    own = tmp_path / "status_codes.csv"
    own.write_text("code,description\nIMPC_PSC_001,ill\n")
    settings = qc_settings.model_copy(update={"reference_status_codes": str(own)})
    assert one(qc_database, settings, "status_codes").outcome is RefreshOutcome.NEW
    own.write_text("code,description\n" + "".join(f"IMPC_PSC_00{number},ill\n" for number in range(1, 6)))
    assert one(qc_database, settings, "status_codes").rows == 5
    own.write_text("code,description\nIMPC_PSC_001,ill\n")
    refused = one(qc_database, settings, "status_codes")
    assert (refused.outcome, refused.rows) == (RefreshOutcome.FAILED, 5), "of one source it is"


def test_what_is_in_use_and_not_what_the_settings_name_is_told(
    qc_database: Engine, qc_settings: Settings, tmp_path: Path
) -> None:
    ensure_reference(qc_database, qc_settings)
    path = tmp_path / "projects.csv"
    settings = qc_settings.model_copy(update={"reference_projects": str(path)})

    def told() -> tuple[bool, str]:
        projects = freshness_of(qc_database, settings, "projects")
        return projects.is_other, str(projects.message)

    assert told() == (
        True,
        f"The projects in use are from shipped:projects.csv: {path} cannot be read (No such file or directory). "
        "Make it readable.",
    )
    path.write_text("project\nBaSH\nDTCC\nJAX\n")
    is_other, message = told()
    assert is_other
    assert f"DCC_REFERENCE_PROJECTS asks for {path}." in message
    ensure_reference(qc_database, settings)
    assert told() == (False, "None")
    path.write_text("project\nBaSH\n")
    is_other, message = told()
    assert not is_other
    assert "1 entries of projects where there were 3: less than half" in message
    path.unlink()
    assert "cannot be read" in told()[1]


def test_a_set_that_was_not_found_on_its_server_for_days_is_told(qc_database: Engine, from_server: Settings) -> None:
    refresh(qc_database, from_server)
    with qc_database.connect() as connection:
        told = [each.message for each in freshness(connection, from_server, utc_now() + timedelta(days=4))]
    assert all("were last found at" in str(message) and "4 days ago" in str(message) for message in told)


def freshness_of(qc: Engine, settings: Settings, name: str) -> Freshness:
    """What is said of a set by `dcc reference list` and `dcc doctor`."""
    with qc.connect() as connection:
        (found,) = (each for each in freshness(connection, settings, utc_now()) if each.name == name)
    return found


def shrink(server: ReferenceServer) -> None:
    server.pages["/tables/projects.csv"] = b"project\nA\n"


def garble(server: ReferenceServer) -> None:
    server.pages["/tables/projects.csv"] = b"<html>Log in</html>"


def remove(server: ReferenceServer) -> None:
    del server.pages["/tables/projects.csv"]


def fail(server: ReferenceServer) -> None:
    server.failing = {"/tables/projects.csv": -1}


@pytest.mark.both_databases(first_only=True)
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (shrink, "1 entries of projects where there were 5: less than half"),
        (garble, "lacks the columns"),
        (remove, "404 Not Found"),
        (fail, "503 Service Unavailable"),
    ],
)
def test_what_a_server_had_and_was_refused_is_told_at_once_and_until_it_is_healed(
    qc_database: Engine,
    from_server: Settings,
    server: ReferenceServer,
    spoil: Callable[[ReferenceServer], None],
    why: str,
) -> None:
    good = server.pages["/tables/projects.csv"] = b"project\nA\nB\nC\nD\nE\n"
    refresh(qc_database, from_server)
    assert freshness_of(qc_database, from_server, "projects").message is None
    spoil(server)
    refresh(qc_database, from_server)
    message = freshness_of(qc_database, from_server, "projects").message
    assert message is not None
    assert f"projects could not be refreshed on {utc_now():%Y-%m-%d}" in message
    assert f"{server.url}/tables/projects.csv" in message
    assert why in message
    assert freshness_of(qc_database, from_server, "strains").message is None
    for _ in range(2):
        (again,) = ensure_reference(qc_database, from_server)
        assert (again.name, again.outcome) == ("projects", RefreshOutcome.FAILED), "each session looks, and says it"
        assert why in again.message
    server.failing = {}
    server.pages["/tables/projects.csv"] = good
    (healed,) = ensure_reference(qc_database, from_server)
    assert healed.outcome is RefreshOutcome.UNCHANGED
    assert freshness_of(qc_database, from_server, "projects").message is None
    assert ensure_reference(qc_database, from_server) == []


@pytest.mark.parametrize("name", ["impress", "projects"])
def test_what_a_server_wants_to_be_asked_with_is_sent_and_not_stored(
    qc_database: Engine, from_server: Settings, server: ReferenceServer, name: str
) -> None:
    """A token, that is: also with each address below that of an API."""
    asked = "?token=t0ken-of-the-registry"
    server.pages = {path + asked: body for path, body in server.pages.items()}
    url = f"{from_server.reference_sources[name]}{asked}"
    settings = from_server.model_copy(update={f"reference_{name}": url})
    assert one(qc_database, settings, name).outcome is RefreshOutcome.NEW
    assert set(server.statuses()) == {200}
    server.asked.clear()
    assert one(qc_database, settings, name).outcome is RefreshOutcome.UNCHANGED
    assert set(server.statuses()) == {304}, "what is kept is found again"
    server.failing = dict.fromkeys(server.pages, -1)
    assert "t0ken" not in one(qc_database, settings, name).message
    with qc_database.connect() as connection:
        for table in models.QcBase.metadata.sorted_tables:
            assert "t0ken" not in str(connection.execute(select(table)).all()), table.name
    server.failing = {}
    changed = settings.model_copy(update={f"reference_{name}": url.replace("t0ken", "an0ther")})
    assert one(qc_database, changed, name).outcome is RefreshOutcome.FAILED
    assert 304 not in {status for (path, status) in server.asked if "an0ther" in path}, "asked without what is kept"
    refresh(qc_database, from_server.model_copy(update={f"reference_{name}": None}), [name])
    with qc_database.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(models.FETCHED_PAGE)) == 0
