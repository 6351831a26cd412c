"""Fixtures shared by all tests: real databases and real file servers."""

import gc
import os
import signal
from collections.abc import Generator

import hypothesis
import pytest

from dcc import redaction
from dcc.runtime.processes import collect_cycles_rarely
from tests.support.memory import keep_temporary_files_in_memory
from tests.support.sharing import OF_PAGE
from tests.support.trials import EVERYWHERE, trials

FIXTURES = (
    "tests.support.servers",
    "tests.support.databases",
    "tests.support.shared_work",
    "tests.support.installations",
    "tests.support.data_installations",
    "tests.support.stores",
    "tests.support.prepared_installations",
    "tests.support.prepared_processes",
    "tests.support.healthy_installation",
    "tests.support.mail_server",
    "tests.support.served_sources",
    "tests.support.s3_server",
    "tests.support.redis_server",
    "tests.support.browsing",
    "tests.support.served_page",
    "tests.support.submission_world",
    "tests.support.dagster_instances",
    "tests.support.shown_installations",
)
"""Modules with fixtures that any test may ask for."""
pytest.register_assert_rewrite(*FIXTURES)

# Most tests crawl what they have just written; those about archives being uploaded set a quiet period.
os.environ.setdefault("DCC_QUIET_SECONDS", "0")

keep_temporary_files_in_memory()

# All modules that are loaded from here on stay: the garbage collector would go through them time and again.
gc.disable()

OF_DATABASES = (
    "tests/databases/",
    "tests/qc/test_bad_input.py",
    "tests/qc/test_centres_at_once.py",
    "tests/qc/test_kills.py",
    "tests/qc/test_rows.py",
    "tests/qc/test_schema.py",
    "tests/qc/test_upgrades.py",
    "tests/qc/test_uploaders.py",
    "tests/tracker/test_database.py",
    "tests/tracker/test_schema.py",
)
"""Modules whose tests run on both databases; of others, those that are marked `both_databases`."""
LONG = (
    ("tests/test_documents_commands.py", "tests/test_benchmarks", "tests/soak/", *OF_PAGE),
    ("tests/assets/test_workers.py", "tests/cli/test_daemon.py"),
    (
        "tests/chaos/",
        "tests/hostile/test_whole_session.py",
        "tests/operations/test_archive_audits.py",
        "tests/operations/test_upgrade.py",
        "tests/qc/test_centres_at_once.py",
    ),
)
"""Modules that take long, in parts of which each is for one process."""


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures, unless this process leaves the tests to others, which begin only after this.

    Hypothesis tries as often as `trials` says; and what a shell has background processes ignore is as usual. Else
    every process that a test interrupts would ignore it too.
    """
    if not config.getoption("numprocesses", None):
        for name in FIXTURES:
            config.pluginmanager.import_plugin(name)
    slow = [hypothesis.HealthCheck[name] for name in ("too_slow", "data_too_large", "function_scoped_fixture")]
    hypothesis.settings.register_profile("trials", max_examples=trials(100), deadline=None, suppress_health_check=slow)
    hypothesis.settings.load_profile("trials")
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first: at the end, the other processes of the run would wait for it.

    TESTS_EVERYWHERE=1 runs every case on every database. Otherwise a test that is not about databases runs on SQLite.
    """
    if not EVERYWHERE:
        items[:] = _without_repetitions([item for item in items if _is_wanted(item)])
    items[:] = _in_order(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _is_on_mariadb(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("tracker_url") == "mariadb"


def _is_wanted(item: pytest.Item) -> bool:
    if not _is_on_mariadb(item):
        return True
    is_asked_for = any("tracker_url" in mark.args[0] for mark in item.iter_markers("parametrize"))
    return is_asked_for or item.nodeid.startswith(OF_DATABASES) or bool(item.get_closest_marker("both_databases"))


def _without_repetitions(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests without the cases on MariaDB that send what the first one there sends."""
    kept, seen = [], set()
    for item in items:
        mark = item.get_closest_marker("both_databases")
        if mark is not None and mark.kwargs.get("first_only") and _is_on_mariadb(item):
            test = item.nodeid.partition("[")[0]
            if test in seen:
                continue
            seen.add(test)
        kept.append(item)
    return kept


def _in_order(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Each process begins with an equal share of this list: with modules that take long, in the order named."""
    long = [[item for name in part for item in items if item.nodeid.startswith(name)] for part in LONG]
    known = {item for part in long for item in part}
    others = [item for item in items if item not in known]
    ordered: list[pytest.Item] = []
    for process in range(processes):
        ordered += [item for part in long[process::processes] for item in part]
        room = max(0, len(items) * (process + 1) // processes - len(ordered))
        ordered += others[:room]
        del others[:room]
    return ordered + others


def pytest_collection_finish() -> None:
    """All that is loaded by now stays: the garbage collector need not go through it from here on either."""
    gc.freeze()
    gc.enable()
    collect_cycles_rarely()


@pytest.fixture(autouse=True)
def no_secrets_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The passwords of one test's servers are ordinary words to the next test."""
    monkeypatch.setattr(redaction, "_known", redaction._KnownSecrets())


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
