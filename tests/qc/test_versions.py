"""Versions of entities that are looked up by their keys."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, insert, text

from dcc.qc.apply.versions import Version, current_versions
from dcc.qc.models import EXPERIMENT
from dcc.vocabulary import EntityKind
from tests.support.databases import only_mariadb

KNOWN = 8_000
ASKED = 500


def experiment(number: int) -> dict[str, Any]:
    texts = {"pipeline": "P", "project": "P", "centre": "H", "experiment_id": f"H_{number:06d}"}
    numbers = dict.fromkeys(("block_id", "document_id", "position", "line"), 1)
    return texts | numbers | {"id": number, "procedure_id": "IMPC_CBC_001", "is_current": True}


def key(number: int) -> tuple[str, str, None, str]:
    return "H", f"H_{number:06d}", None, "IMPC_CBC_001"


@pytest.fixture
def connection(qc_database: Engine) -> Iterator[Connection]:
    with qc_database.connect() as opened:
        opened.exec_driver_sql("SET foreign_key_checks=0")
        yield opened


@pytest.fixture
def old_statistics(connection: Connection) -> Iterator[None]:
    """The server takes an experiment's name for one that hundreds have, as while the first ones are loaded."""
    connection.exec_driver_sql("ALTER TABLE experiment STATS_PERSISTENT=1 STATS_AUTO_RECALC=0")
    same = {"experiment_id": "H_1"}
    numbers = range(KNOWN + ASKED, 2 * KNOWN)
    connection.execute(insert(EXPERIMENT), [experiment(n) | same | {"sequence_id": str(n)} for n in numbers])
    connection.commit()
    connection.exec_driver_sql("ANALYZE TABLE experiment")
    yield
    connection.rollback()
    connection.exec_driver_sql("ALTER TABLE experiment STATS_PERSISTENT=DEFAULT STATS_AUTO_RECALC=DEFAULT")


def rows_read(connection: Connection) -> int:
    """How often a server's storage was asked for a row in this session."""
    told = connection.execute(text("SHOW SESSION STATUS LIKE 'Handler_read%'"))
    return sum(int(value) for _, value in told)


@only_mariadb
def test_versions_are_found_by_their_whole_keys(connection: Connection) -> None:
    connection.execute(insert(EXPERIMENT), [experiment(number) for number in range(1, 21)])
    asked = [key(3), key(7), key(21), ("H", "H_000004", "1", "IMPC_CBC_001"), ("J", "H_000005", None, "IMPC_CBC_001")]
    found = current_versions(connection, EntityKind.EXPERIMENT, asked)
    assert found == {key(3): Version(3, 1), key(7): Version(7, 1)}


@only_mariadb
@pytest.mark.usefixtures("old_statistics")
def test_a_server_looks_up_those_that_are_named_and_not_all_of_the_centre(connection: Connection) -> None:
    connection.execute(insert(EXPERIMENT), [experiment(number) for number in range(1, KNOWN + 1)])
    connection.commit()
    before = rows_read(connection)
    asked = [key(number) for number in range(KNOWN - ASKED // 2, KNOWN + ASKED // 2)]
    assert len(current_versions(connection, EntityKind.EXPERIMENT, asked)) == ASKED // 2 + 1
    assert rows_read(connection) - before < 4 * ASKED
