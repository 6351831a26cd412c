"""Fixtures shared by all tests: real databases and real file servers."""

pytest_plugins = [
    "tests.databases",
    "tests.servers",
    "tests.installations",
    "tests.data_installations",
    "tests.served_sources",
]
