"""Numbers and texts given to a statement in chunks or as one parameter, on each database."""

from sqlalchemy import Column, Engine, Integer, MetaData, Table, insert, select

from dcc.databases.list_parameters import AT_ONCE, as_json, groups_in, numbers_in, rows_with, sorted_chunks, texts_in
from dcc.databases.transactions import writing
from dcc.qc.models import BUILD_BASIS

GIVEN = select(BUILD_BASIS.c.name).where(BUILD_BASIS.c.snapshot_id.in_(numbers_in("ids"))).order_by(BUILD_BASIS.c.name)


def write(engine: Engine, **numbers: int) -> None:
    with writing(engine) as connection:
        connection.execute(
            insert(BUILD_BASIS),
            [{"build": "test", "name": name, "snapshot_id": value} for name, value in numbers.items()],
        )


def test_rows_are_found_by_any_number_of_numbers(qc_database: Engine) -> None:
    write(qc_database, a=1, b=2, c=2**40)
    both = GIVEN.where(BUILD_BASIS.c.snapshot_id.in_(numbers_in("others")))
    with qc_database.connect() as connection:
        for ids, found in (([], []), ([3], []), ([2, 2], ["b"]), ([2**40, *range(9_000)], ["a", "b", "c"])):
            assert list(connection.scalars(GIVEN, {"ids": as_json(ids)})) == found
        assert list(connection.scalars(both, {"ids": "[1,2]", "others": "[2,3]"})) == ["b"]


def test_rows_are_found_by_any_texts(qc_database: Engine) -> None:
    """To the letter, also beside one that is longer than any name."""
    names = ["A", "a", "\u00e9", "\U0001f42d", 'it\'s "so" \\ %s :x', "null", "7"]
    write(qc_database, **dict.fromkeys(names, 1))
    named = select(BUILD_BASIS.c.name).where(BUILD_BASIS.c.name.in_(texts_in("names")))
    with qc_database.connect() as connection:
        for name in names:
            assert list(connection.scalars(named, {"names": as_json([name, "b", "x" * 300])})) == [name]
        assert set(connection.scalars(named, {"names": as_json(names)})) == set(names)
        assert list(connection.scalars(named, {"names": as_json([])})) == []


def test_lists_are_rows_to_be_joined(qc_database: Engine) -> None:
    write(qc_database, a=1, b=2**40)
    group = groups_in("lists")
    of_lists = select(BUILD_BASIS.c.name, group.c.number).join(group, group.c.value == BUILD_BASIS.c.snapshot_id)
    with qc_database.connect() as connection:
        rows = connection.execute(of_lists, {"lists": as_json([[2**40], [1, 3], [4], [2**40, 1]])})
        assert sorted(map(tuple, rows)) == [("a", 2), ("a", 4), ("b", 1), ("b", 4)]


def test_portions_have_all_numbers_in_order() -> None:
    numbers = range(2 * AT_ONCE + 1)
    found = list(sorted_chunks(reversed(numbers)))
    assert [len(portion) for portion in found] == [AT_ONCE, AT_ONCE, 1]
    assert [number for portion in found for number in portion] == list(numbers)
    assert list(sorted_chunks(())) == []


def test_only_the_rows_of_a_list_are_locked(qc_database: Engine) -> None:
    """SQLite locks no rows."""
    table = Table("numbered", MetaData(), Column("id", Integer, primary_key=True))
    table.create(qc_database)
    with writing(qc_database) as connection:
        connection.execute(insert(table), [{"id": number} for number in range(1, 3 * AT_ONCE)])
    locked = select(table.c.id).with_for_update(nowait=True)
    with qc_database.connect() as mine, qc_database.connect() as other:
        wanted = range(2, 2 * AT_ONCE, 2)
        assert [row.id for row in rows_with(mine, locked, table.c.id, wanted)] == list(wanted)
        assert other.scalar(locked.where(table.c.id == 3 * AT_ONCE - 1)) == 3 * AT_ONCE - 1
