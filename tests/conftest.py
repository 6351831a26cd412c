"""Fixtures shared by all tests: real databases and real file servers."""

pytest_plugins = [
    "tests.databases",
    "tests.servers",
    "tests.installations",
    "tests.data_installations",
    "tests.healthy_installation",
    "tests.served_sources",
]
