"""Dagster's migrations are read once a test process: whoever opens an instance reads all of them, several times."""

from collections.abc import Iterator

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

_OF_DAGSTER = "dagster:"


@pytest.fixture(scope="session", autouse=True)
def shared_migrations() -> Iterator[None]:
    """Have all instances of the test process share what was read."""
    read = ScriptDirectory.from_config
    known: dict[str, ScriptDirectory] = {}

    def read_once(config: Config) -> ScriptDirectory:
        location = config.get_alembic_option("script_location")
        # Those of the platform are changed by tests.
        if location is None or not location.startswith(_OF_DAGSTER):
            return read(config)
        if location not in known:
            known[location] = read(config)
        return known[location]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", staticmethod(read_once))
        yield
