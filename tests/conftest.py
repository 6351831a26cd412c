"""Fixtures shared by all tests: real databases and real file servers."""

import gc
import os
import signal
from collections.abc import Generator

import hypothesis
import pytest

from dcc import redaction
from tests.support.sharing import OF_BROWSER, OF_PAGE
from tests.support.trials import EVERYWHERE, trials

pytest_plugins = [
    "tests.support.databases",
    "tests.support.shared_migrations",
    "tests.support.shared_statements",
    "tests.support.servers",
    "tests.support.installations",
    "tests.support.data_installations",
    "tests.support.demonstration",
    "tests.support.healthy_installation",
    "tests.support.mail_server",
    "tests.support.served_sources",
    "tests.support.stores",
    "tests.support.s3_server",
    "tests.support.redis_server",
    "tests.support.browsing",
    "tests.support.served_page",
    "tests.support.submission_world",
    "tests.support.dagster_instances",
    "tests.support.prepared_installations",
    "tests.support.shown_installations",
]

# Most tests crawl what they have just written; those about archives being uploaded set a quiet period.
os.environ.setdefault("DCC_QUIET_SECONDS", "0")

# All modules that are loaded from here on stay: the garbage collector would go through them time and again.
gc.disable()

OF_DATABASES = ("tests/databases/", "tests/operations/", "tests/qc/", "tests/tracker/")
ON_ONE_DATABASE = (
    "tests/analysis/test_measurements.py",
    "tests/cli/test_centres.py",
    "tests/cli/test_crawl.py",
    "tests/cli/test_data_causes.py",
    "tests/cli/test_data_changes.py",
    "tests/cli/test_data_findings.py",
    "tests/cli/test_status.py",
    "tests/notify/test_ledger.py",
    "tests/notify/test_session_report.py",
    "tests/qc/test_contexts_building.py",
    "tests/qc/test_contexts_procedure_animals.py",
    "tests/qc/test_contexts_work.py",
    "tests/qc/test_history.py",
    "tests/qc/test_holding.py",
    "tests/qc/test_overviews.py",
    "tests/qc/test_overviews_in_parts.py",
    "tests/qc/test_ownership.py",
    "tests/qc/test_planning.py",
    "tests/qc/test_withdrawal.py",
    "tests/reference/test_refresh.py",
    "tests/reports/test_plots_values.py",
    "tests/rules/test_healing.py",
    "tests/rules/test_judging.py",
    "tests/session/test_archives_being_uploaded.py",
    "tests/session/test_bad_copies.py",
    "tests/session/test_changed_after_loading.py",
    "tests/session/test_crawling.py",
    "tests/session/test_data_corrections.py",
    "tests/session/test_data_documents.py",
    "tests/session/test_data_in_order.py",
    "tests/session/test_data_new_causes.py",
    "tests/session/test_data_untracked.py",
    "tests/session/test_foreign_archives.py",
    "tests/session/test_retries_without_bytes.py",
    "tests/session/test_session_bad_input.py",
    "tests/session/test_session_data.py",
    "tests/session/test_sessions.py",
    "tests/session/test_sessions_on_servers.py",
    "tests/session/test_shrunk_listings.py",
    "tests/session/test_zip_checks_in_processes.py",
    "tests/session/test_zip_checksums.py",
    "tests/session/test_zip_disks.py",
    "tests/session/test_zip_processing.py",
    "tests/session/test_zip_retries.py",
)
"""Modules about what sessions, rules and commands decide: but for tests marked `both_databases`, the statements that
they send are those of other tests."""
LONG = ("tests/test_documents_commands.py", "tests/test_benchmarks", "tests/soak/")


def pytest_configure() -> None:
    """Hypothesis tries as often as `trials` says; and what a shell has background processes ignore is as usual.

    Else every process that a test interrupts would ignore it too.
    """
    hypothesis.settings.register_profile("trials", max_examples=trials(100), deadline=None)
    hypothesis.settings.load_profile("trials")
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first: at the end, the other processes of the run would wait for it. Then who shares.

    TESTS_EVERYWHERE=1 runs every case on every database. Otherwise, of the cases of a test that is not about databases,
    the first one alone runs on MariaDB too, or none: the statements of the others are the same.
    """
    if not EVERYWHERE:
        on_sqlite = {_test_of(item) for item in items if _database(item) == "sqlite"}
        seen: set[str] = set()
        items[:] = [item for item in items if _database(item) != "mariadb" or _is_needed(item, on_sqlite, seen)]
    items.sort(key=_place)


def _test_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _database(item: pytest.Item) -> object:
    callspec = getattr(item, "callspec", None)
    return callspec and callspec.params.get("tracker_url")


def _is_needed(item: pytest.Item, on_sqlite: set[str], seen: set[str]) -> bool:
    """Whether a case on MariaDB is run; `seen` are the tests of which one was."""
    test = _test_of(item)
    if test in on_sqlite and item.nodeid.startswith(ON_ONE_DATABASE):
        if not item.get_closest_marker("both_databases"):
            return False
    elif item.nodeid.startswith(OF_DATABASES):
        return True
    is_first = test not in seen
    seen.add(test)
    return is_first


def _place(item: pytest.Item) -> int:
    if item.nodeid.startswith(LONG):
        return 0
    sharing = (*OF_PAGE, *OF_BROWSER)
    return next((place for place, name in enumerate(sharing, 1) if item.nodeid.startswith(name)), len(sharing) + 1)


def pytest_collection_finish() -> None:
    """All that is loaded by now stays: the garbage collector need not go through it from here on either."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(autouse=True)
def no_secrets_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The passwords of one test's servers are ordinary words to the next test."""
    monkeypatch.setattr(redaction, "_known", redaction._Known())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A worker of the test run ends, and the run with it, when what a test logged holds half a surrogate pair."""
    report = yield
    report.sections = [
        (title, text.encode("utf-8", "backslashreplace").decode("utf-8")) for title, text in report.sections
    ]
    return report
