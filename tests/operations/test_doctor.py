"""Each check of `dcc doctor` finds what it is for, and is content where all is well."""

import errno
import gc
import locale
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from aiosmtpd.controller import Controller
from pydantic import SecretStr
from sqlalchemy import Engine, insert, select, update

from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError, StoreRefusedError
from dcc.operations.archive_audits import audit_archives
from dcc.operations.doctor import checks, databases, machine, notifications, packages, sources, stores, work
from dcc.operations.doctor.checks import (
    CheckFinding,
    CheckStatus,
    DoctorCheck,
    Environment,
    NotReadyError,
    explained,
    failed,
    ok,
    worst,
)
from dcc.operations.doctor.examination import examine
from dcc.operations.session_work import open_session
from dcc.qc.models import DOCUMENT, SNAPSHOT
from dcc.qc.reference.refresh import ensure_reference
from dcc.redaction import keep_secret
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.crawl_policy import Pause
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.models import ArchiveCopy, CrawlingSession, SessionLock, SourceCrawlRow
from dcc.tracker.register import file_sources
from dcc.tracker.register.source_schedules import set_pause
from dcc.vocabulary import SourceState
from tests.cli.test_production import administrator
from tests.support.asking import execute_in, in_writing, row_in, value_in
from tests.support.data_installations import DataInstallation, specimens
from tests.support.databases import MariaDb, only_mariadb, only_sqlite, seed_centre, seed_source
from tests.support.doctor_findings import Examination, expect, found_by, verdicts
from tests.support.installations import Installation
from tests.support.ports import free_port
from tests.support.small_disks import read_only
from tests.support.talking_servers import greeting, serving
from tests.support.web_server import WebServer

ZIP = "add/H.2013-10-31.1.impc.zip"
MISSING = Path("/no/such/place")
THERE = Path(__file__).with_name("__init__.py")
"""An empty file."""


class TestExamining:
    def test_a_check_that_crashes_or_hangs_hides_nothing_of_the_others(self) -> None:
        never = threading.Event()
        keep_secret("pass word 4711")

        def crash(_: Environment) -> Iterator[CheckFinding]:
            yield ok("one", "It was well.")
            raise RuntimeError("with pass word 4711")

        def hang(_: Environment) -> Iterator[CheckFinding]:
            yield ok("two", "It was well.")
            never.wait()

        def unready(_: Environment) -> Iterator[CheckFinding]:
            raise NotReadyError("The tracker is not ready; see above.")
            yield

        def well(_: Environment) -> Iterator[CheckFinding]:
            yield ok("four", "It is well.")

        def misconfigured(_: Environment) -> Iterator[CheckFinding]:
            raise ConfigurationError("Correct DCC_STAGING.")
            yield

        runs = (crash, hang, unready, well, misconfigured)
        checks = [DoctorCheck(name, run) for name, run in zip("abcde", runs, strict=True)]
        began = time.monotonic()
        found = list(examine(Settings(), checks, seconds=1))
        never.set()
        assert time.monotonic() - began < 30
        assert [(one.check, one.finding.verdict.value) for one in found] == [
            ("a", "ok"),
            ("a", "failed"),
            ("b", "ok"),
            ("b", "failed"),
            ("c", "not checked"),
            ("d", "ok"),
            ("e", "failed"),
        ]
        assert found[1].finding.message.startswith("The check failed: RuntimeError: with *** (line ")
        assert found[3].finding.message == "It was not done within 1 second."
        assert found[6].finding == failed("e", "Correct DCC_STAGING.", "dcc explain configuration")

    def test_the_worst_verdict_counts_and_an_error_is_shown_whole_with_what_explains_it(self) -> None:
        assert worst([]) is CheckStatus.OK
        assert worst([CheckStatus.WARNING, CheckStatus.OK, CheckStatus.NOT_CHECKED]) is CheckStatus.WARNING
        assert worst([CheckStatus.WARNING, CheckStatus.FAILED]) is CheckStatus.FAILED
        found = explained(StoreRefusedError("It is away. Start it. Then wait."))
        assert found == ("It is away. Start it. Then wait.", "dcc explain store-refused")


class TestDatabases:
    def test_both_answer_and_are_of_this_version(
        self, tracker: Engine, qc_database: Engine, qc_settings: Settings
    ) -> None:
        kind = "SQLite" if tracker.dialect.name == "sqlite" else "MariaDB"
        expect(databases.check_databases, qc_settings, "tracker database", "ok", kind)
        for check in (databases.check_databases, databases.check_schemas):
            assert set(verdicts(check, qc_settings).values()) == {"ok"}

    @only_sqlite
    @pytest.mark.usefixtures("tracker", "qc_database")
    def test_they_close_their_files(self, qc_settings: Settings) -> None:
        def times_open() -> int:
            links = [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]
            return sum(link.endswith(".db") for link in links)

        before = times_open()
        # The collector would close them, too, at some time.
        gc.disable()
        try:
            for check in (databases.check_databases, databases.check_schemas):
                assert set(verdicts(check, qc_settings).values()) == {"ok"}
            assert times_open() == before
        finally:
            gc.enable()

    @only_sqlite
    @pytest.mark.usefixtures("tracker", "qc_database")
    def test_files_that_another_connection_takes_away_meanwhile_are_no_failure(
        self, qc_settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        access, looked_at = os.access, set()

        def asked(path: Path, mode: int) -> bool:
            if path.name.endswith(("-wal", "-shm")) and path not in looked_at:
                looked_at.add(path)
                return True
            return access(path, mode)

        monkeypatch.setattr(os, "access", asked)
        assert set(verdicts(databases.check_databases, qc_settings).values()) == {"ok"}
        assert len(looked_at) == 4

    @only_sqlite
    def test_what_was_not_made_has_to_be(self, settings: Settings) -> None:
        said = ("tracker.db", " -> Make it: dcc init, or set DCC_HOME.")
        expect(databases.check_databases, settings, "tracker database", "failed", *said)
        assert verdicts(databases.check_schemas, settings) == {}
        with pytest.raises(NotReadyError):
            found_by(work.check_sessions, settings)
        # What needs no tracker is looked at all the same.
        found = stores.check_archive_store(Environment(settings, time.monotonic() + 20))
        assert next(found).verdict is CheckStatus.OK
        with pytest.raises(NotReadyError):
            next(found)

    @only_mariadb
    def test_a_server_that_takes_no_writes_is_found(
        self, tracker: Engine, settings: Settings, mariadb: MariaDb
    ) -> None:
        """As of a server that only replicates, or after rights were lost."""
        expect(databases.check_databases, settings, "tracker database", "ok")
        url = tracker.url.set(username="reader", password="x").render_as_string(hide_password=False)
        reading = settings.model_copy(update={"tracker_url": SecretStr(url)})
        with administrator(mariadb) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'x'")
            cursor.execute(f"GRANT SELECT ON {tracker.url.database}.* TO reader@'127.0.0.1'")
            found = found_by(databases.check_databases, reading)["tracker database"]
            cursor.execute("DROP USER reader@'127.0.0.1'")
        assert (found.verdict, "INSERT command denied" in found.message) == ("failed", True)
        assert value_in(tracker, "SELECT COUNT(*) FROM write_receipt WHERE token = 0") == 0

    @only_sqlite
    def test_files_that_are_open_to_others_read_only_without_log_or_damaged_are_found(
        self, tracker: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = Path(str(tracker.url.database))

        expect_file = partial(expect, databases.check_databases, settings, "tracker database file")
        path.chmod(0o644)
        expect_file("warning", f" -> chmod 600 {path}")
        path.chmod(0o600)
        with monkeypatch.context() as patch, tracker.connect():
            patch.setattr(databases, "_LARGE_WAL_BYTES", 0)
            seed_centre(tracker)
            expect_file("warning")
        tracker.dispose()
        with read_only(path):
            expect_file("failed", f"{path} cannot be written to. -> The disk is mounted read-only")
        expect_file("ok")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
        finding = databases._check_integrity(Environment(settings, time.monotonic() + 20), "file", path)
        assert (finding.verdict, "journal mode delete" in finding.message) == (CheckStatus.WARNING, True)
        with monkeypatch.context() as patch:
            patch.setattr(databases, "_STEPS_BETWEEN_LOOKS", 1)
            finding = databases._check_integrity(Environment(settings, time.monotonic()), "file", path)
        assert (finding.verdict, finding.message[:15]) == (CheckStatus.NOT_CHECKED, "It is too large")
        sound = path.read_bytes()
        # Pages of a table, and of the schema.
        for first, last in ((16384, 20480), (8192, 16384)):
            path.write_bytes(sound[:first] + b"\xff" * (last - first) + sound[last:])
            expect_file("failed", "is damaged", " -> Restore it from a backup: dcc restore --help")

    def test_an_older_schema_is_found(self, tracker: Engine, settings: Settings) -> None:
        execute_in(tracker, "UPDATE alembic_version SET version_num = '0001'")
        said = ("has the schema 0001", "dcc init", " -> dcc explain tracker-outdated")
        expect(databases.check_schemas, settings, "tracker database schema", "failed", *said)

    @only_sqlite
    def test_a_silent_server_is_given_up(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checks, "_ANSWER_SECONDS", 1)
        began = time.monotonic()
        with serving(greeting(b"")) as (hostname, _):
            url = f"mysql://dcc:secret4711@{hostname}/tracker"
            silent = settings.model_copy(update={"tracker_url": SecretStr(url)})
            found = found_by(databases.check_databases, silent)
        assert time.monotonic() - began < 6
        assert found["tracker database"].verdict == "failed"
        assert "secret4711" not in str(found)
        away = settings.model_copy(update={"tracker_url": SecretStr(f"mysql://dcc@127.0.0.1:{free_port()}/tracker")})
        assert verdicts(databases.check_schemas, away) == {}


class TestMachine:
    @only_sqlite
    def test_disks_that_are_full_missing_closed_or_open_to_others_are_found(
        self, tracker: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        roomy = settings.model_copy(update={"min_free_bytes": 0})
        folder, a_file = settings.home / "collector", settings.home / "file"
        a_file.touch()
        # Such as a disk that is not mounted.
        link, missing = settings.home / "link", settings.home / "not mounted"
        link.symlink_to(missing)
        nowhere = f"{link} is a link to {missing}, which is missing."
        for changes, subject, message, advice in (
            ({"min_free_bytes": 2**62}, "staging", "", "dcc staging clean"),
            # Not even root makes files there.
            ({"staging": Path("/proc/self")}, "staging", "/proc/self cannot be written to", "chown -R USER /proc/self"),
            # That one belongs to the system, not to the platform.
            (
                {"staging": Path("/proc/self/dcc/staging")},
                "staging",
                "/proc/self cannot be written to",
                "Make /proc/self/dcc/staging for the user that runs dcc.",
            ),
            ({"staging": a_file}, "staging", f"{a_file} is no directory", ""),
            ({"staging": link}, "staging", nowhere, ""),
            ({"staging": link / "below"}, "staging", nowhere, ""),
            ({"metrics_file": folder / "dcc.prom"}, "metrics", f"{folder} is missing.", "DCC_METRICS_FILE"),
        ):
            unfit = roomy.model_copy(update=changes)
            expect(machine.check_disks, unfit, f"disk of {subject}", "failed", message, advice)
        folder.mkdir()
        measured = roomy.model_copy(update={"metrics_file": folder / "dcc.prom"})
        assert "failed" not in verdicts(machine.check_disks, measured).values()
        settings.staging_directory.mkdir(exist_ok=True)
        settings.staging_directory.chmod(0o755)
        advised = [one.advice for one in machine.check_disks(Environment(roomy, time.monotonic() + 20))]
        assert f"chmod 700 {settings.staging_directory}" in advised
        with monkeypatch.context() as patch:
            patch.setattr(machine, "write_nothing", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
            expect(
                machine.check_disks, roomy, "disk of staging", "failed", "No space left", "Free some space: dcc staging"
            )
        monkeypatch.setattr(tempfile, "gettempdir", Mock(side_effect=FileNotFoundError))
        assert "disk of temporary files" in verdicts(machine.check_disks, roomy)

    @pytest.mark.parametrize(
        ("free", "more_files", "to_stay_free", "verdict", "said"),
        [
            (0, 20_000, 0, "failed", "nothing can be written there"),
            (10, 20_000, 10, "failed", "10 B must stay so (DCC_MIN_FREE_BYTES)"),
            (500, 9_999, 10, "warning", "only 9,999 more files fit there"),
            (19, 20_000, 10, "warning", "it is nearly full"),
            (1, 20_000, 0, "warning", "it is nearly full"),
            (20, 10_000, 10, "ok", "20 B of 1.0 kB are free"),
        ],
    )
    def test_disks_that_are_full_or_nearly_so(
        self,
        free: int,
        more_files: int,
        to_stay_free: int,
        verdict: str,
        said: str,
        settings: Settings,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free, total=1_000))
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_files=1, f_favail=more_files))
        tight = settings.model_copy(update={"min_free_bytes": to_stay_free})
        expect(machine.check_disks, tight, "disk of staging", verdict, said)

    def test_how_many_files_may_be_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for limit, verdict in ((255, "failed"), (256, "warning"), (1_023, "warning"), (1_024, "ok")):
            monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, 4_096))
            expect(machine.check_file_limit, Settings(), "open files", verdict, f"{limit:,} files open (4,096 at most)")

    @pytest.mark.both_databases
    def test_clocks_that_agree_and_one_that_does_not(
        self, tracker: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert set(verdicts(machine.check_clock, settings).values()) == {"ok"}
        assert len(verdicts(machine.check_clock, settings)) == (1 if tracker.dialect.name == "sqlite" else 2)
        assert machine.clock_finding("clock", -5).verdict is CheckStatus.OK
        for away, how in ((6, "6 s before it"), (-6, "6 s behind it")):
            finding = machine.clock_finding("clock", away)
            assert (finding.verdict, how in finding.message) == (CheckStatus.WARNING, True)
        monkeypatch.setattr(machine, "_EARLIEST", datetime.max.replace(tzinfo=UTC))
        assert verdicts(machine.check_clock, settings) == {"clock": "failed"}

    def test_text_that_is_no_utf_8_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert verdicts(machine.check_text, Settings()) == {"text": "ok"}
        for owner, name in ((sys, "getfilesystemencoding"), (locale, "getpreferredencoding")):
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, lambda *_, **__: "ascii")
                assert verdicts(machine.check_text, Settings()) == {"text": "failed"}

    def test_versions_are_compared_with_those_tested(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        around = Environment(Settings(), time.monotonic() + 20)

        def finding() -> CheckFinding:
            return next(one for one in packages.check_versions(around) if one.subject == "packages")

        present = packages._installed("click")
        constraints = tmp_path / "constraints.txt"
        monkeypatch.setattr(packages, "CONSTRAINTS", constraints)
        assert finding().verdict is CheckStatus.NOT_CHECKED
        constraints.write_text(f"# versions\nclick=={present}\nnot-installed==1.0\n")
        assert finding().verdict is CheckStatus.OK
        constraints.write_text("click==0.1\n")
        assert (finding().verdict, finding().advice) == (
            CheckStatus.WARNING,
            "Install those of constraints.txt: make install",
        )
        needed = ["click", 'not-there>=1; extra == "platform"', 'not-chosen; extra == "s3"']
        monkeypatch.setattr(packages, "requires", lambda _: needed)
        assert (finding().verdict, finding().message) == (CheckStatus.FAILED, "Not installed: not-there.")
        monkeypatch.setattr(packages, "_OLDEST_SQLITE", (99, 0, 0))
        assert {one.subject for one in packages.check_versions(around) if one.verdict is CheckStatus.FAILED} == {
            "SQLite",
            "packages",
        }


class TestSources:
    @only_sqlite
    def test_none_registered_none_crawled_and_one_that_failed(self, installation: Installation) -> None:
        settings = installation.settings
        expect_all = partial(expect, sources.check_registered, settings, "file sources")
        expect_one = partial(expect, sources.check_registered, settings, "file source 1 (H)")
        expect_all("warning", "None is registered.")
        folder = installation.add_folder()
        expect_all("ok")
        expect_one("not checked")
        installation.run_session()
        expect_one("ok")
        long_ago = utc_now() - timedelta(days=20)
        execute_in(installation.tracker, update(SourceCrawlRow).values(start_time=long_ago, finish_time=long_ago))
        expect_one("warning", "another crawl is overdue")
        in_writing(installation.tracker, set_pause, 1, Pause("Its disk is exchanged", "anna", utc_now(), None))
        expect_all("warning", "None of 1 is crawled.")
        in_writing(installation.tracker, set_pause, 1, None)
        folder.path.rename(folder.path.with_name("moved"))
        installation.run_session()
        expect_one("warning", " failed: file source 1")
        (now,) = found_by(sources.check_answers, settings).values()
        assert (now.verdict, now.advice) == ("failed", "dcc source test 1")
        in_writing(installation.tracker, file_sources.set_source_state, 1, SourceState.MAINTENANCE)
        expect_all("warning", "None of 1 is crawled.")

    @only_sqlite
    def test_access_keys_that_cannot_be_used_are_found(
        self, tracker: Engine, settings: Settings, tmp_path: Path
    ) -> None:
        centre = seed_centre(tracker)
        secret = tmp_path / "secret"
        secret.write_text("geheimnis")
        secret.chmod(0o600)
        key = tmp_path / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-a", "1", "-N", "phrase", "-f", key], check=True)
        (tmp_path / "phrase").write_text("phrase")
        (tmp_path / "phrase").chmod(0o600)
        for protocol, accesskey in (
            ("ftp", f"file:{secret}"),
            ("ftp", f"file:{tmp_path}/none"),
            ("ftp", "env:NOT_SET"),
            ("sftp", f"key:{key}"),
            ("sftp", f"key:{key}?passphrase=file:{secret}"),
            ("sftp", f"key:{key}?passphrase=file:{tmp_path}/phrase"),
        ):
            seed_source(tracker, centre, protocol=protocol, hostname="h.example.org", accesskey=accesskey)
        found = list(found_by(sources.check_access, settings).values())
        assert [one.verdict.value for one in found] == ["ok", *["failed"] * 5]
        wrong = ("cannot be read", "NOT_SET", "needs a passphrase", "Check its passphrase", "test 6 --accept-host-key")
        for one, said in zip(found[1:], wrong, strict=True):
            assert said in f"{one.message} {one.advice}"
        seed_source(tracker, centre, protocol="sftp", hostname="i.example.org", accesskey=str(key))
        with_phrase = settings.model_copy(update={"key_passphrase": SecretStr("phrase")})
        of_group = [secret, tmp_path / "phrase", key]
        for path in of_group:
            path.chmod(0o640)
        said = [one.message for one in sources.check_access(Environment(with_phrase, time.monotonic() + 20))]
        for path, times in zip(of_group, (1, 1, 3), strict=True):
            assert said.count(f"Others may read the secret in {path} (mode 640).") == times, path
        expect(sources.check_passwords, settings, "passwords in the tracker", "ok")
        seed_source(tracker, centre, protocol="ftp", hostname="i.example.org", accesskey="geheimnis")
        expect(sources.check_passwords, settings, "passwords in the tracker", "warning", "keeps as it is: 8 (H).")
        in_writing(tracker, file_sources.set_source_state, 8, SourceState.REMOVED)
        expect(sources.check_passwords, settings, "passwords in the tracker", "ok")

    @only_sqlite
    def test_a_silent_source_holds_up_no_other(self, installation: Installation) -> None:
        installation.add_folder()
        with serving(greeting(b"")) as (hostname, _):
            address = SourceAddress(0, "H", SourceProtocol.FTP, hostname, "dcc", SecretStr("secret4711"), "/")
            installation.add_source(address)
            found = verdicts(sources.check_answers, installation.settings, seconds=2)
            hurried = found_by(sources.check_answers, installation.settings, seconds=1)
        assert list(found.values()) == ["ok", "failed"]
        # Sources have some of a short time too.
        (message,) = (one.message for one in hurried.values() if one.verdict == "failed")
        assert re.fullmatch(r"It was not done within 0\.[1-5] seconds\.", message), message

    def test_the_clock_of_a_web_server_is_compared(self, tmp_path: Path) -> None:
        (tmp_path / "add").mkdir()
        with WebServer(tmp_path) as server:
            address = SourceAddress(1, "H", SourceProtocol.HTTP, server.hostname, "", SecretStr(""), "/")
            around = Environment(Settings(), time.monotonic() + 20)
            assert [one.verdict for one in sources._check_its_clock(around, address)] == [CheckStatus.OK]


class TestWork:
    def test_sessions_that_are_active_dead_or_failed(self, tracker: Engine, settings: Settings) -> None:
        expect_session = partial(expect, work.check_sessions, settings, "session")
        expect_session("ok", "There was none yet.")
        with open_session(tracker, settings):
            expect_session("ok", "Session 1 is active")
        expect_session("ok")
        execute_in(tracker, update(CrawlingSession).values(status=6, end_reason="faults"))
        expect_session("warning", " -> dcc session show 1; dcc status")
        long_ago = utc_now() - timedelta(hours=1)
        dead = {"holder": "x", "session_id": 1, "host": "elsewhere", "pid": 1, "pid_started": "1"}
        execute_in(tracker, update(SessionLock).values(**dead, heartbeat=long_ago, acquired=long_ago))
        expect_session("warning", "Session 1 is dead", "dcc crawl")
        now = utc_now()
        execute_in(tracker, update(SessionLock).values(heartbeat=now, acquired=now - timedelta(hours=25)))
        expect_session("warning")

    @only_sqlite
    def test_documents_that_wait_to_be_confirmed(self, data: DataInstallation) -> None:
        expect(work.check_held, data.settings, "held documents", "ok")
        data.put(ZIP, specimens())
        data.run()
        data.put("edit/H.2013-11-01.1.impc.zip", specimens("2013-11-01.1"))
        data.with_settings(hold_threshold=0).run()
        said = "dcc data plan edit/H.2013-11-01.1.impc.zip"
        expect(work.check_held, data.settings, "held documents", "warning", said)

    @only_sqlite
    def test_reference_data_that_are_missing_or_stale(self, data: DataInstallation, settings: Settings) -> None:
        assert set(verdicts(work.check_reference, data.settings).values()) == {"ok"}
        old = utc_now() - timedelta(days=40)
        with writing(data.qc) as connection:
            snapshots = update(SNAPSHOT)
            connection.execute(snapshots.where(SNAPSHOT.c.name == "strains").values(is_active=False))
            changed = {"source": "https://colonies.example.org", "checked": old}
            connection.execute(snapshots.where(SNAPSHOT.c.name == "colonies").values(**changed))
        found = verdicts(work.check_reference, data.settings)
        of_two = {"reference data strains", "reference data colonies"}
        assert {name for name, verdict in found.items() if verdict == "warning"} == of_two
        said = "dcc reference refresh strains"
        expect(work.check_reference, data.settings, "reference data strains", "warning", said)
        execute_in(data.qc, snapshots.values(is_active=False))
        assert verdicts(work.check_reference, data.settings) == {"reference data": "not checked"}

    def test_reference_data_that_a_setting_names_and_nobody_can_read(
        self, data: DataInstallation, tmp_path: Path
    ) -> None:
        path = tmp_path / "projects.csv"
        settings = data.settings.model_copy(update={"reference_projects": str(path)})
        expect_projects = partial(expect, work.check_reference, settings, "reference data projects")
        expect_projects("warning", "in use are from shipped:projects.csv", f"{path} cannot be read")
        execute_in(data.qc, update(SNAPSHOT).values(is_active=False))
        expect_projects("warning", "No projects are loaded")
        path.write_text("project\nBaSH\n")
        ensure_reference(data.qc, settings)
        expect_projects("ok")

    def test_documents_that_another_tracker_uploaded_to_the_same_database(self, data: DataInstallation) -> None:
        expect_data = partial(expect, work.check_shared_data, data.settings, "uploaded data")
        expect_data("ok")
        data.run(ZIP, specimens())
        expect_data("ok")
        name = "H.2013-11-07.1.specimen.impc.xml"
        of_others = ({"zip_file": "H.2013-11-07.1.impc.zip"}, {"file_name": name})
        for changed in of_others:
            before = row_in(data.qc, select(*(DOCUMENT.c[column] for column in changed)))
            execute_in(data.qc, update(DOCUMENT).values(changed))
            expect_data("warning", *changed.values(), "DCC_QC_URL")
            execute_in(data.qc, update(DOCUMENT).values(before._asdict()))
        expect_data("ok")
        # Those before the first session may be of a tracker that was lost.
        execute_in(data.qc, update(DOCUMENT).values(file_name=name, applied_at=datetime(2001, 1, 1)))
        expect_data("ok")

    @only_sqlite
    def test_what_staging_holds(self, installation: Installation) -> None:
        installation.add_folder().put(ZIP)
        installation.run_session()
        expect_contents = partial(expect, stores.check_staging, installation.settings, "staging contents")
        expect_contents("ok")
        staging = installation.settings.staging_directory
        (staging / "add" / ".x.contents.unpacking-1").mkdir()
        expect_contents("warning", "1 left-over of dead processes")
        with open_session(installation.tracker, installation.settings):
            expect_contents("ok")
        (staging / "add" / ".x.contents.unpacking-1").rmdir()
        (staging / f"{ZIP}.part").touch()
        expect_contents("warning", "1 part of archives of no more use")
        (staging / f"{ZIP}.part").unlink()
        (staging / "notes.txt").touch()
        expect_contents("warning", "not known to the platform: notes.txt")

    def test_the_object_store(self, tmp_path: Path) -> None:
        expect(stores.check_store, Settings(home=tmp_path), "store", "ok")
        expect(stores.check_store, Settings(home=tmp_path, store=str(tmp_path / "objects")), "store", "ok")
        assert list((tmp_path / "objects").iterdir()) == []
        (tmp_path / "file").touch()
        unfit = Settings(home=tmp_path, store=str(tmp_path / "file" / "x"))
        expect(stores.check_store, unfit, "store", "failed", "refused to put", " -> dcc explain store-refused")

    def test_the_archive_store(self, installation: Installation, tmp_path: Path) -> None:
        settings = installation.settings
        assert set(verdicts(stores.check_archive_store, settings).values()) == {"ok"}
        installation.add_folder().put(ZIP)
        installation.run_session()
        (tmp_path / "file").touch()
        away = settings.model_copy(update={"archive_replicas": f"{settings.home}/archive, {tmp_path}/file optional"})
        assert sorted(verdicts(stores.check_archive_store, away).values()) == ["ok", "ok", "warning"]
        # As after a restore elsewhere, without the archive store.
        empty = settings.model_copy(update={"archive_replicas": str(tmp_path / "empty")})
        (tmp_path / "empty").mkdir()
        said = ("It has no copy of 1 archive,", "dcc archive repair")
        expect(stores.check_archive_store, empty, "archive store", "warning", *said)
        default = settings.home / "archive"
        audits = f"audits of {default}"
        for days, found in ((31, None), (40, "warning")):
            execute_in(installation.tracker, update(ArchiveCopy).values(checked=utc_now() - timedelta(days=days)))
            assert verdicts(stores.check_archive_store, settings).get(audits) == found
        audit_archives(installation.tracker, settings, "tester")
        assert audits not in verdicts(stores.check_archive_store, settings)
        expect_default = partial(expect, stores.check_archive_store, settings, f"archive store {default}")
        with read_only(default):
            expect_default("failed")
        full = settings.model_copy(update={"min_free_bytes": 2**62})
        expect(stores.check_archive_store, full, f"archive store {default}", "failed")
        second = {"archive_id": 1, "replica": str(tmp_path / "empty"), "state": "bad"}
        execute_in(installation.tracker, insert(ArchiveCopy).values(second))
        both = settings.model_copy(update={"archive_replicas": f"{default}, {tmp_path}/empty"})
        expect(stores.check_archive_store, both, "archive store", "warning", "1 copy bad or missing", "archive repair")
        default.rename(settings.home / "elsewhere")
        expect_default("failed", f"The archive store {default} is missing, and archives were in it: mount")
        default.mkdir()
        expect_default("failed")
        default.rmdir()
        default.symlink_to(settings.home / "not mounted")
        expect_default("failed")
        default.unlink()
        (settings.home / "elsewhere").rename(default)
        (copy,) = default.glob("??/*")
        for path in (copy, settings.staging_directory / ZIP, installation.root / "centre" / ZIP):
            path.unlink()
        audit_archives(installation.tracker, settings, "tester", everything=True)
        expect(stores.check_archive_store, settings, "archive store", "failed", ZIP, " -> dcc archive status")

    @pytest.mark.parametrize(
        ("check", "given", "found"),
        [
            (work.check_schema_files, {}, {"XML schemas": "ok"}),
            (work.check_schema_files, {"xsd_dir": MISSING}, {"XML schemas": "failed"}),
            (work.check_own_directories, {}, {}),
            (
                work.check_own_directories,
                {"templates_directory": MISSING, "languages_directory": THERE.parent},
                {"DCC_TEMPLATES_DIRECTORY": "failed", "DCC_LANGUAGES_DIRECTORY": "ok"},
            ),
            (work.check_settings, {}, {"DCC_LANGUAGE": "ok"}),
            (
                work.check_settings,
                {"language": "fr", "known_hosts": MISSING, "tls_ca_file": MISSING},
                dict.fromkeys(("DCC_LANGUAGE", "DCC_KNOWN_HOSTS", "DCC_TLS_CA_FILE"), "failed"),
            ),
            (
                work.check_settings,
                {"language": "de", "known_hosts": THERE},
                {"DCC_LANGUAGE": "ok", "DCC_KNOWN_HOSTS": "ok"},
            ),
        ],
    )
    def test_what_settings_name_is_there_or_is_found_missing(
        self, check: Examination, given: dict[str, object], found: dict[str, str]
    ) -> None:
        assert verdicts(check, Settings(**given)) == found

    def test_notifications_are_looked_at_if_anybody_is_notified(self, tracker: Engine, settings: Settings) -> None:
        assert verdicts(notifications.check_notifications, settings) == {"notifications": "not checked"}
        hooked = settings.model_copy(update={"notify_webhook": SecretStr("https://hooks.example/x")})
        assert verdicts(notifications.check_notifications, hooked) == {
            "notifications by webhook": "warning",
            "notifications sent": "ok",
        }

    def test_the_mail_server_that_reports_are_sent_by(self) -> None:
        assert verdicts(notifications.check_reports, Settings()) == {"session reports": "not checked"}
        controller = Controller(object(), hostname="127.0.0.1", port=free_port())
        controller.start()
        try:
            port = controller.port
            reports = Settings(report_to="me@example.org", smtp_url=SecretStr(f"smtp://127.0.0.1:{port}"))
            assert verdicts(notifications.check_reports, reports) == {"session reports": "ok"}
            with_password = reports.model_copy(
                update={"smtp_url": SecretStr(f"smtp://dcc:secret4711@127.0.0.1:{port}")}
            )
            found = found_by(notifications.check_reports, with_password)["session reports"]
            assert (found.verdict, "secret4711" in str(found)) == ("failed", False)
        finally:
            controller.stop()
        assert verdicts(notifications.check_reports, reports) == {"session reports": "failed"}
