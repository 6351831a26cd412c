"""Reference data brought up to date: from servers as they are, and from files; what fails leaves the last in use."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from sqlalchemy import Engine, select

from dcc.qc import models
from dcc.qc.reference import retrieval
from dcc.qc.reference.refresh import Freshness, RefreshOutcome, RefreshResult, ensure_reference, freshness, refresh
from dcc.qc.reference.snapshots import active_snapshots, load_active
from dcc.redaction import redacted
from dcc.reference.loading import SETS, load_reference_data, shipped_checksum
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from tests.reference.test_data import ANSWERS, TABLES
from tests.support.asking import count_in, in_reading
from tests.support.databases import only_sqlite
from tests.support.reference_server import ReferenceServer, api_pages
from tests.support.servers import Authority

PAGES = {f"/tables/{name}.csv": text.encode() for name, text in TABLES.items()} | api_pages(ANSWERS)


@dataclass(frozen=True)
class Installed:
    """A QC database and settings that say where its reference data are read from."""

    qc: Engine
    settings: Settings

    def with_settings(self, **changes: Any) -> Self:
        return replace(self, settings=self.settings.model_copy(update=changes))

    def reading_from(self, server: ReferenceServer, **changes: Any) -> Installed:
        """Everything is read from the server, with little patience."""
        sources = {f"reference_{name}": f"{server.url}/tables/{name}.csv" for name in TABLES}
        sources["reference_impress"] = f"{server.url}/impress"
        quick = {"retry_delay": 0.01, "idle_timeout": 0.5, "list_timeout": 1.5, "connect_timeout": 2.0}
        return self.with_settings(**sources, **quick, **changes)

    def refresh(self, *names: str, force: bool = False) -> dict[str, RefreshResult]:
        return {each.name: each for each in refresh(self.qc, self.settings, names or None, force=force)}

    def one(self, name: str, *, force: bool = False) -> RefreshResult:
        return self.refresh(name, force=force)[name]

    def ensure(self) -> list[RefreshResult]:
        """What a session reads before it begins."""
        return ensure_reference(self.qc, self.settings)

    def in_use(self) -> dict[str, int]:
        return dict(in_reading(self.qc, load_active).snapshot_ids)

    def freshness(self, now: datetime | None = None) -> dict[str, Freshness]:
        """What is said of each set by `dcc reference list` and `dcc doctor`."""
        return {each.name: each for each in in_reading(self.qc, freshness, self.settings, now or utc_now())}


@dataclass(frozen=True)
class Served(Installed):
    """One that reads everything from a server."""

    server: ReferenceServer


@pytest.fixture
def installed(qc_database: Engine, qc_settings: Settings) -> Installed:
    return Installed(qc_database, qc_settings)


@pytest.fixture
def served(installed: Installed) -> Iterator[Served]:
    with ReferenceServer(PAGES) as server:
        yield Served(installed.qc, installed.reading_from(server).settings, server)


def outcomes(refreshed: Iterable[RefreshResult]) -> dict[str, RefreshOutcome]:
    return {each.name: each.outcome for each in refreshed}


def test_everything_is_read_from_servers_as_it_would_be_from_files_and_not_sent_again(
    served: Served, tmp_path: Path
) -> None:
    before = utc_now()
    refreshed = served.refresh()
    assert outcomes(refreshed.values()) == dict.fromkeys(SETS, RefreshOutcome.NEW)
    counts = [(each.rows, each.added, each.removed) for each in refreshed.values()]
    assert counts == [(3, 3, 0), (1, 1, 0), (1, 1, 0), (2, 1, 0), (1, 1, 0)]
    (tmp_path / "files").mkdir()
    for name, text in TABLES.items():
        (tmp_path / "files" / f"{name}.csv").write_text(text)
    (tmp_path / "files" / "impress.json").write_text(json.dumps(ANSWERS))
    data = in_reading(served.qc, load_active).data
    files = load_reference_data(tmp_path / "files")
    for snapshot, filed in zip(data, files, strict=True):
        assert snapshot.entries == filed.entries
        assert snapshot.source == served.settings.reference_sources[snapshot.name]
        assert before <= snapshot.retrieved <= utc_now()
    assert served.server.agents == {"dcc"}
    assert served.server.statuses() == {200: len(PAGES)}, "each page was asked for once"
    ids = served.in_use()
    served.server.asked.clear()
    refreshed = served.refresh()
    assert outcomes(refreshed.values()) == dict.fromkeys(SETS, RefreshOutcome.UNCHANGED)
    assert served.server.statuses() == {304: len(PAGES)}
    assert served.in_use() == ids


def test_only_what_has_changed_is_sent_and_told(served: Served) -> None:
    first = served.refresh()
    answers = deepcopy(ANSWERS)
    answers["procedure/3"]["parameterCollection"] = [1, 2, 5]
    answers["parameter/2"]["isDeprecated"] = False
    answers["parameter/5"] = {"parameterKey": "IMPC_IPG_011_001", "type": "simpleParameter", "valueType": "TEXT"}
    served.server.pages |= api_pages(answers)
    served.server.asked.clear()
    refreshed = served.one("impress")
    assert (refreshed.outcome, refreshed.added, refreshed.removed, refreshed.changed) == (RefreshOutcome.NEW, 1, 1, 1)
    assert "1 added, 1 removed, 1 changed" in refreshed.message
    assert served.server.statuses()[200] == 3
    assert refreshed.snapshot_id != first["impress"].snapshot_id
    active = in_reading(served.qc, load_active)
    procedure = active.data.impress.pipelines["IMPC_001"].procedures["IMPC_IPG_001"]
    assert set(procedure.parameters) == {"IMPC_IPG_002_001", "IMPC_IPG_006_001", "IMPC_IPG_011_001"}
    assert active.snapshot_ids["projects"] == first["projects"].snapshot_id


@pytest.mark.parametrize("path", ["/impress/parameter/2", "/impress/pipeline/list"])
def test_a_server_that_keeps_failing_is_given_up_and_the_other_sets_are_read(served: Served, path: str) -> None:
    served.refresh()
    ids = served.in_use()
    served.server.failing = {path: -1}
    served.server.pages["/tables/projects.csv"] = b"project\nBaSH\nJAX\n"
    served.server.asked.clear()
    refreshed = served.refresh()
    assert outcomes(refreshed.values()) == dict.fromkeys(SETS, RefreshOutcome.UNCHANGED) | {
        "impress": RefreshOutcome.FAILED,
        "projects": RefreshOutcome.NEW,
    }
    failed = refreshed["impress"]
    assert failed.is_unreachable
    assert "503 Service Unavailable" in failed.message
    assert f"{served.server.url}{path}" in failed.message
    assert "stay in use" in failed.message
    assert served.server.asked[path, 503] == 3
    assert served.in_use()["impress"] == ids["impress"] == failed.snapshot_id


@only_sqlite
def test_a_server_that_stalls_never_ends_or_is_not_there_is_given_up_in_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.server.stalled = {"/impress/procedure/3", "/tables/strains.csv"}
    served.server.endless = {"/tables/colonies.csv"}
    monkeypatch.setattr(retrieval, "MAX_BYTES", 1_000_000)
    monkeypatch.setattr(retrieval, "_MAX_BYTES_OF_ANSWER", 1_000_000)
    gone = {"idle_timeout": 0.2, "reference_projects": "http://127.0.0.1:1/projects.csv"}
    broken = served.with_settings(**gone)
    began = time.monotonic()
    refreshed = broken.refresh("impress", "strains", "colonies", "projects")
    assert time.monotonic() - began < 10
    assert {each.outcome for each in refreshed.values()} == {RefreshOutcome.FAILED}
    assert all(f"No {each.name} are loaded" in each.message for each in refreshed.values())
    for name, said in (("impress", "stalled"), ("strains", "stalled"), ("projects", "127.0.0.1:1")):
        assert refreshed[name].is_unreachable
        assert said in refreshed[name].message
    assert "more than 1,000,000 bytes" in refreshed["colonies"].message
    served.server.stalled, served.server.endless = set(), {"/impress/pipeline/7"}
    assert "more than 1,000,000 bytes" in broken.one("impress").message
    assert served.in_use() == {}


def test_answers_that_are_cut_short_or_have_another_shape_change_nothing_and_are_not_kept(served: Served) -> None:
    served.refresh()
    ids = served.in_use()
    pages = dict(served.server.pages)
    served.server.pages["/impress/parameter/1"] = b'{"parameterKey": "IMPC_'
    served.server.pages["/tables/colonies.csv"] = b"colony_id,production_centre,status\nc1,HM"
    served.server.truncated = {"/tables/projects.csv"}
    served.server.pages["/tables/projects.csv"] = b"project\nBaSH\nJAX\n"
    refreshed = served.refresh()
    assert "parameter/1 is no JSON" in refreshed["impress"].message
    assert "2 cells for 3 columns" in refreshed["colonies"].message
    assert "in the middle" in refreshed["projects"].message
    assert [refreshed[name].is_unreachable for name in ("impress", "colonies", "projects")] == [False, False, True]
    answers = deepcopy(ANSWERS)
    for collection, limit, said in (
        ([1, 99], 40, "parameter/99: the server answered 404 Not Found"),
        ({"1": 2}, 40, "parameterCollection is no list"),
        ([1, 2], 10**400, "qcMax has 401 digits"),
    ):
        answers["procedure/3"]["parameterCollection"], answers["parameter/1"]["qcMax"] = collection, limit
        served.server.pages |= api_pages(answers)
        assert said in served.one("impress").message
    assert served.in_use() == ids
    served.server.pages, served.server.truncated = pages, set()
    assert outcomes(served.refresh().values()) == dict.fromkeys(SETS, RefreshOutcome.UNCHANGED)


def test_a_set_that_has_shrunk_to_less_than_half_is_taken_over_only_when_told_to(served: Served) -> None:
    served.server.pages["/tables/projects.csv"] = b"project\nA\nB\nC\nD\nE\n"
    served.refresh("projects")
    served.server.pages["/tables/projects.csv"] = b"project\nA\nB\n"
    refused = served.one("projects")
    assert (refused.outcome, refused.rows, refused.is_unreachable) == (RefreshOutcome.FAILED, 5, False)
    assert "2 entries of projects; it had 5" in refused.message
    assert "dcc reference refresh projects --force" in refused.message
    forced = served.one("projects", force=True)
    assert (forced.outcome, forced.rows, forced.removed) == (RefreshOutcome.NEW, 2, 3)
    served.server.pages["/tables/projects.csv"] = b"project\nA\n"
    assert served.one("projects").outcome is RefreshOutcome.NEW, "half may go"


@only_sqlite
def test_redirects_are_followed_to_other_web_servers_but_nowhere_else(served: Served) -> None:
    with ReferenceServer({"/moved.csv": b"project\nBaSH\nJAX\n"}) as other:
        served.server.redirects = {"/tables/projects.csv": f"{other.url}/moved.csv#x"}
        assert served.one("projects").rows == 2
        for astray in ("file:///etc/passwd", "ftp://127.0.0.1/x", "http://user:word@127.0.0.1/", "http://[", ""):
            served.server.redirects = {"/tables/projects.csv": astray}
            refused = served.one("projects")
            assert "no web address" in refused.message, astray
            assert "word" not in refused.message
        served.server.redirects = {"/tables/projects.csv": "/tables/projects.csv"}
        assert "more than 5 redirects" in served.one("projects").message


@only_sqlite
def test_tokens_of_redirects_are_told_to_nobody_and_not_kept(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    """Each secret that is kept slows all log lines down: an API may redirect each of thousands of requests."""
    token = "signature-of-one-answer"
    with ReferenceServer({}) as other:
        served.server.redirects = {"/tables/projects.csv": f"{other.url}/gone.csv?token={token}"}
        said = served.one("projects").message
    assert "404" in said
    assert token not in said + caplog.text
    assert redacted(token) == token


@only_sqlite
def test_certificates_are_verified(installed: Installed, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with ReferenceServer(PAGES, authority.issue()) as server, ReferenceServer(PAGES) as plain:
        trusting = installed.reading_from(server, tls_ca_file=authority.ca_file)
        refused = installed.reading_from(server).one("projects")
        assert (refused.outcome, refused.is_unreachable) == (RefreshOutcome.FAILED, True)
        assert "DCC_TLS_CA_FILE" in refused.message
        assert trusting.one("projects").outcome is RefreshOutcome.NEW
        server.redirects = {"/tables/strains.csv": f"{plain.url}/tables/strains.csv"}
        assert "from https to http" in trusting.one("strains").message


def test_first_use_reads_what_comes_with_the_platform_and_then_nothing(installed: Installed) -> None:
    assert outcomes(installed.ensure()) == dict.fromkeys(SETS, RefreshOutcome.NEW)
    assert installed.ensure() == []
    stored = in_reading(installed.qc, active_snapshots)
    assert {name: each.checksum for name, each in stored.items()} == {name: shipped_checksum(name) for name in SETS}


def test_first_use_reads_what_the_settings_name_and_reads_again_only_what_they_name_anew(
    served: Served, tmp_path: Path
) -> None:
    assert len(served.ensure()) == len(SETS)
    served.server.asked.clear()
    assert served.ensure() == []
    (tmp_path / "projects.tsv").write_text("project\nBaSH\nJAX\n")
    elsewhere = served.with_settings(reference_projects=str(tmp_path))
    (refreshed,) = elsewhere.ensure()
    assert (refreshed.name, refreshed.source) == ("projects", str(tmp_path / "projects.tsv"))
    assert elsewhere.ensure() == []
    assert served.server.asked == {}, "no server is asked about what is there"


def test_what_cannot_be_read_at_first_use_is_missing_and_never_replaced_by_what_is_shipped(
    served: Served, tmp_path: Path
) -> None:
    served.server.failing = {"/tables/colonies.csv": -1}
    (tmp_path / "here").mkdir()
    places = {
        "reference_strains": str(tmp_path / "here"),
        "reference_projects": str(tmp_path / "none.csv"),
        # The system refuses it, as a folder that may not be entered.
        "reference_status_codes": str(tmp_path / ("x" * 300)),
    }
    refreshed = {each.name: each for each in served.with_settings(**places).ensure()}
    assert set(served.in_use()) == {"impress"}
    assert "No colonies are loaded: the rules that need them are skipped." in refreshed["colonies"].message
    assert "DCC_REFERENCE_STRAINS" in refreshed["strains"].message
    assert "none.csv cannot be read" in refreshed["projects"].message
    assert "xxx cannot be read (File name too long)" in refreshed["status_codes"].message


def test_sets_that_are_missing_or_old_are_told_with_what_to_do(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "projects.csv").write_text("project\nBaSH\n")
    (tmp_path / "retrieved.txt").write_text("2026-10-01\n")
    local = installed.with_settings(reference_projects=str(tmp_path), reference_max_age_days=10)
    local.refresh("projects", "strains")

    def told(now: datetime) -> dict[str, tuple[bool, bool, bool]]:
        found = local.freshness(now)
        return {name: (each.is_missing, each.is_stale, each.is_shipped) for name, each in found.items()}

    limit = datetime(2026, 10, 11)
    rest = dict.fromkeys(SETS, (True, False, False)) | {"strains": (False, False, True)}
    assert told(limit) == rest | {"projects": (False, False, False)}
    assert told(limit + timedelta(seconds=1)) == rest | {"projects": (False, True, False)}
    messages = {name: each.message for name, each in local.freshness(limit + timedelta(days=5)).items()}
    assert messages["strains"] is None
    assert "15 days old, more than 10" in (messages["projects"] or "")
    assert "dcc reference refresh impress" in (messages["impress"] or "")
    (tmp_path / "retrieved.txt").write_text("2026-10-11\n")
    assert local.one("projects").outcome is RefreshOutcome.UNCHANGED
    assert told(limit + timedelta(days=5))["projects"] == (False, False, False), "found to be the newest since"


def test_a_file_is_read_anew_when_it_says_something_else_whatever_its_time(
    installed: Installed, tmp_path: Path
) -> None:
    path = tmp_path / "projects.csv"
    path.write_text("project\nBaSH\n")
    local = installed.with_settings(reference_projects=str(path))
    assert outcomes(local.ensure())["projects"] is RefreshOutcome.NEW
    assert local.ensure() == []
    path.write_text("project\nDTCC\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    (read,) = local.ensure()
    assert (read.name, read.outcome, read.added, read.removed) == ("projects", RefreshOutcome.NEW, 1, 1)
    os.utime(path)
    (read,) = local.ensure()
    assert read.outcome is RefreshOutcome.UNCHANGED, "it was found again, and is young"
    assert local.ensure() == []


def test_a_set_of_another_source_is_not_compared_with_the_one_before(installed: Installed, tmp_path: Path) -> None:
    """A DCC's first own table may be much shorter than the one that came with the platform, or than its mirror's."""
    installed.ensure()
    own = tmp_path / "status_codes.csv"
    own.write_text("code,description\nIMPC_PSC_001,ill\n")
    local = installed.with_settings(reference_status_codes=str(own))
    assert local.one("status_codes").outcome is RefreshOutcome.NEW
    own.write_text("code,description\n" + "".join(f"IMPC_PSC_00{number},ill\n" for number in range(1, 6)))
    assert local.one("status_codes").rows == 5
    own.write_text("code,description\nIMPC_PSC_001,ill\n")
    refused = local.one("status_codes")
    assert (refused.outcome, refused.rows) == (RefreshOutcome.FAILED, 5), "of one source it is"


def test_what_is_in_use_and_not_what_the_settings_name_is_told(installed: Installed, tmp_path: Path) -> None:
    installed.ensure()
    path = tmp_path / "projects.csv"
    local = installed.with_settings(reference_projects=str(path))

    def told() -> tuple[bool, str]:
        projects = local.freshness()["projects"]
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
    local.ensure()
    assert told() == (False, "None")
    path.write_text("project\nBaSH\n")
    is_other, message = told()
    assert not is_other
    assert "1 entry of projects; it had 3: less than half" in message
    path.unlink()
    assert "cannot be read" in told()[1]


def test_a_set_that_was_not_found_on_its_server_for_days_is_told(served: Served) -> None:
    served.refresh()
    told = [each.message for each in served.freshness(utc_now() + timedelta(days=4)).values()]
    assert all("were last found at" in str(message) and "4 days ago" in str(message) for message in told)


@pytest.mark.both_databases(first_only=True)
@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (b"project\nA\n", "1 entry of projects; it had 5: less than half"),
        (b"<html>Log in</html>", "lacks the columns"),
        (None, "404 Not Found"),
        ("busy", "503 Service Unavailable"),
    ],
)
def test_what_a_server_had_and_was_refused_is_told_at_once_and_until_it_is_healed(
    served: Served, spoilt: bytes | str | None, why: str
) -> None:
    good = served.server.pages["/tables/projects.csv"] = b"project\nA\nB\nC\nD\nE\n"
    served.refresh()
    assert served.freshness()["projects"].message is None
    if spoilt == "busy":
        served.server.failing = {"/tables/projects.csv": -1}
    elif spoilt is None:
        del served.server.pages["/tables/projects.csv"]
    else:
        served.server.pages["/tables/projects.csv"] = spoilt
    served.refresh()
    message = served.freshness()["projects"].message
    assert f"projects could not be refreshed on {utc_now():%Y-%m-%d}" in message
    assert f"{served.server.url}/tables/projects.csv" in message
    assert why in message
    assert served.freshness()["strains"].message is None
    for _ in range(2):
        (again,) = served.ensure()
        assert (again.name, again.outcome) == ("projects", RefreshOutcome.FAILED), "each session looks, and says it"
        assert why in again.message
    served.server.failing = {}
    served.server.pages["/tables/projects.csv"] = good
    (healed,) = served.ensure()
    assert healed.outcome is RefreshOutcome.UNCHANGED
    assert served.freshness()["projects"].message is None
    assert served.ensure() == []


@pytest.mark.parametrize("name", ["impress", "projects"])
def test_what_a_server_wants_to_be_asked_with_is_sent_and_not_stored(served: Served, name: str) -> None:
    """A token, that is: also with each address below that of an API."""
    asked = "?token=t0ken-of-the-registry"
    served.server.pages = {path + asked: body for path, body in served.server.pages.items()}
    url = f"{served.settings.reference_sources[name]}{asked}"
    local = served.with_settings(**{f"reference_{name}": url})
    assert local.one(name).outcome is RefreshOutcome.NEW
    assert set(served.server.statuses()) == {200}
    served.server.asked.clear()
    assert local.one(name).outcome is RefreshOutcome.UNCHANGED
    assert set(served.server.statuses()) == {304}, "what is kept is found again"
    served.server.failing = dict.fromkeys(served.server.pages, -1)
    assert "t0ken" not in local.one(name).message
    with served.qc.connect() as connection:
        for table in models.QcBase.metadata.sorted_tables:
            assert "t0ken" not in str(connection.execute(select(table)).all()), table.name
    served.server.failing = {}
    changed = local.with_settings(**{f"reference_{name}": url.replace("t0ken", "an0ther")})
    assert changed.one(name).outcome is RefreshOutcome.FAILED
    assert 304 not in {status for (path, status) in served.server.asked if "an0ther" in path}, (
        "asked without what is kept"
    )
    served.with_settings(**{f"reference_{name}": None}).refresh(name)
    assert count_in(served.qc, models.FETCHED_PAGE) == 0
