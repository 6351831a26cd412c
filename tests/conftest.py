"""Fixtures shared by all tests: real databases and real file servers."""

import gc
import os
import signal
from collections.abc import Generator

import pytest

from dcc import redaction

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
    "tests.support.browsing",
    "tests.support.served_page",
    "tests.support.submission_world",
    "tests.support.dagster_instances",
]

# Most tests crawl what they have just written; those about archives being uploaded set a quiet period.
os.environ.setdefault("DCC_QUIET_SECONDS", "0")

OF_DATABASES = ("tests/databases/", "tests/operations/", "tests/qc/", "tests/tracker/")
ON_ONE_DATABASE = (
    "tests/cli/test_centres.py",
    "tests/cli/test_data_causes.py",
    "tests/cli/test_data_changes.py",
    "tests/cli/test_data_findings.py",
    "tests/session/test_archives_being_uploaded.py",
    "tests/session/test_bad_copies.py",
    "tests/session/test_changed_after_loading.py",
    "tests/session/test_data_in_order.py",
    "tests/session/test_data_new_causes.py",
    "tests/session/test_foreign_archives.py",
    "tests/session/test_retries_without_bytes.py",
    "tests/session/test_session_bad_input.py",
    "tests/session/test_shrunk_listings.py",
    "tests/session/test_zip_checksums.py",
    "tests/session/test_zip_disks.py",
    "tests/session/test_zip_retries.py",
)
"""Modules about what sessions and commands decide: the statements that they send are those of other tests."""
LONG = ("tests/test_documents_commands.py", "tests/test_benchmarks", "tests/soak/")
SHARING = (
    "tests/hostile/test_web_page.py",
    "tests/dagster_resources/test_resources_page.py",
    "tests/test_deploy.py",
    "tests/assets/test_browser.py",
    "tests/assets/pages/test_browser_reports.py",
)
"""Modules that share what takes long to start, so that one process of the run has them all: `page` and `browser`."""


def pytest_configure() -> None:
    """A shell has what it starts in the background ignore these, and so would every process that a test interrupts."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first: at the end, the other processes of the run would wait for it. Then who shares.

    TESTS_EVERYWHERE=1 runs every case on every database. Otherwise, of the cases of a test that is not about databases,
    the first one alone runs on MariaDB too, or none: the statements of the others are the same.
    """
    if not os.environ.get("TESTS_EVERYWHERE"):
        on_mariadb: dict[str, str] = {}
        items[:] = [item for item in items if not _is_on_mariadb(item) or _is_needed(item.nodeid, on_mariadb)]
    items.sort(key=_place)


def _is_on_mariadb(item: pytest.Item) -> bool:
    if item.nodeid.startswith(OF_DATABASES) or not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    return bool(item.callspec.params.get("tracker_url") == "mariadb")


def _is_needed(case: str, first: dict[str, str]) -> bool:
    return not case.startswith(ON_ONE_DATABASE) and first.setdefault(case.partition("[")[0], case) == case


def _place(item: pytest.Item) -> int:
    if item.nodeid.startswith(LONG):
        return 0
    return next((place for place, name in enumerate(SHARING, 1) if item.nodeid.startswith(name)), len(SHARING) + 1)


def pytest_collection_finish() -> None:
    """All that is loaded by now stays: the garbage collector need not go through it time and again."""
    gc.collect()
    gc.freeze()
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
