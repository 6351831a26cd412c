"""Fixtures shared by all tests: real databases and real file servers."""

import pytest

from dcc_resources import redaction

pytest_plugins = [
    "tests.databases",
    "tests.shared_migrations",
    "tests.shared_statements",
    "tests.servers",
    "tests.installations",
    "tests.data_installations",
    "tests.healthy_installation",
    "tests.served_sources",
    "tests.stores",
]


@pytest.fixture(autouse=True)
def no_secrets_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The passwords of one test's servers are ordinary words to the next test."""
    monkeypatch.setattr(redaction, "_known", redaction._Known())
