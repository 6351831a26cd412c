"""What every test would do anew is done once a test process.

Statements are compiled, Dagster's migrations are read, and its schemas of the platform's resources are made.
"""

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster import Config as Configurable
from dagster import Field
from dagster._config.pythonic_config import resource
from sqlalchemy import Engine
from sqlalchemy.engine import Dialect
from sqlalchemy.util import LRUCache

_OF_DAGSTER = "dagster:"
_STATEMENTS = 5_000
_COMPARED = (bool, int, str, tuple, type(None))


class SharedStatements:
    """What engines take for their own cache: those with dialects that are alike find each other's statements.

    SQLAlchemy keeps them with the engine, and nearly every test has engines of its own.
    """

    def __init__(self) -> None:
        self._compiled: LRUCache[Any, Any] = LRUCache(_STATEMENTS)
        self._kinds: WeakKeyDictionary[Dialect, object] = WeakKeyDictionary()

    def get(self, key: tuple[Any, ...]) -> Any:
        return self._compiled.get((self._kind(key[0]), *key[1:]))

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        self._compiled[(self._kind(key[0]), *key[1:])] = compiled

    def _kind(self, dialect: Dialect) -> object:
        kind = self._kinds.get(dialect)
        if kind is None:
            alike = {name: value for name, value in vars(dialect).items() if isinstance(value, _COMPARED)}
            alike.pop("default_schema_name", None)
            kind = (type(dialect), frozenset(alike.items()))
            # Its first connection tells it the server's version, and more.
            if "server_version_info" in alike:
                self._kinds[dialect] = kind
        return kind


@pytest.fixture(scope="session", autouse=True)
def shared_statements() -> Iterator[None]:
    """Have all engines of the test process share the statements that they have compiled."""
    shared = SharedStatements()
    with pytest.MonkeyPatch.context() as patch:
        # Which an engine sets when it is made.
        patch.setattr(Engine, "_compiled_cache", property(lambda _: shared, lambda _, own: None), raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_migrations() -> Iterator[None]:
    """Have all instances of the test process share what was read: one that is opened reads all, several times."""
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


@pytest.fixture(scope="session", autouse=True)
def shared_schemas() -> Iterator[None]:
    """Have all resources of a class share what its fields may be: each look of a sensor would make them anew."""
    infer = resource.infer_schema_from_config_class
    known: dict[tuple[type, frozenset[str]], Field] = {}

    def infer_once(kind: type[Configurable], fields_to_omit: set[str], **more: Any) -> Field:
        if more:
            return infer(kind, fields_to_omit=fields_to_omit, **more)
        key = kind, frozenset(fields_to_omit)
        if key not in known:
            known[key] = infer(kind, fields_to_omit=fields_to_omit)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource, "infer_schema_from_config_class", infer_once)
        yield
