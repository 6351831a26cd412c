"""On MariaDB what belongs to one centre waits for no other's, and ends as if one had come after the other."""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from hashlib import md5
from typing import Any
from zlib import crc32

import pytest
from sqlalchemy import Connection, DateTime, Engine, event, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeDecorator

from dcc.analysis.filters import MeasurementFilter
from dcc.analysis.measurements import load_measurements
from dcc.databases.schema import init_database
from dcc.databases.transactions import writing
from dcc.documents.contents import Entity, Metadata
from dcc.naming import Action, DocumentKind, NamingConvention
from dcc.qc import models
from dcc.qc.apply import upload_lock
from dcc.qc.apply.upload_lock import lock_all, lock_centres, reserve_ids, uploads_are_open
from dcc.qc.apply.withdrawal import undo_submission
from dcc.qc.archive_scope import ArchiveScope
from dcc.qc.contexts import metadata_groups
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.contexts.overviews import build_overviews
from dcc.qc.contexts.states import decide_on_contexts
from dcc.qc.database import open_qc_database
from dcc.qc.rows.documents import DocumentToApply
from dcc.settings import Settings
from dcc.vocabulary import ContextEvent
from tests.qc.test_applying import OF_LOCKS
from tests.qc.test_uploaders import open_impatient
from tests.support.asking import closing_all, column_in, in_writing
from tests.support.databases import only_mariadb
from tests.support.qc_child import before_statement, die, finish, start
from tests.support.qc_contexts import TABLES, judge, know_colonies, know_important_metadata
from tests.support.qc_documents import apply_document, experiment, line, reading, specimen, to_apply
from tests.support.sent_statements import sent_statements
from tests.support.trials import trials

PATIENCE = 60.0
HELD_AT = 8
SEEDS = trials(3)
KILLS = trials(4)
ADD, EDIT, DELETE = Action.ADD, Action.EDIT, Action.DELETE

pytestmark = only_mariadb

Handed = tuple[Action, tuple[Entity, ...]]


@pytest.fixture
def qc(qc_database: Engine) -> Engine:
    """A database that knows reference data, and has been built once."""
    know_reference_data(qc_database)
    return qc_database


def know_reference_data(engine: Engine) -> None:
    know_colonies(engine, C1="MGI:7", C2="MGI:8")
    know_important_metadata(engine, IMPC_CBC_003_001="Equipment")
    build_contexts(engine)
    build_overviews(engine)


def under(equipment: str, name: str, animal: str, value: str) -> Entity:
    """An experiment of a metadata group."""
    made = experiment(name, [animal], value)
    assert made.procedure is not None
    said = Metadata(9, "IMPC_CBC_003_001", None, None, equipment)
    return made._replace(procedure=made.procedure._replace(metadata=(said,)))


def submissions(chance: random.Random, part: str = "", most: int = 6) -> list[Handed]:
    """What a centre submits: strains, colonies, parameters and metadata groups are those of others."""
    animals = [f"S{part}{number}" for number in range(chance.randint(2, most))]
    handed: list[Handed] = [
        (
            ADD,
            tuple(
                specimen(one, colony_id=chance.choice(["C1", "C2"]), strain_id=chance.choice([None, "MGI:9", "MGI:7"]))
                for one in animals
            ),
        )
    ]
    experiments = [
        under(chance.choice(["Sysmex", "Scil"]), f"E{part}{number}", chance.choice(animals), str(number))
        for number in range(chance.randint(2, 2 * most))
    ]
    handed.append((ADD, (*experiments, line(f"C{part}"))))
    handed.append((EDIT, tuple(specimen(one, "L2", colony_id="C2") for one in animals[:2])))
    handed.append((EDIT, (under(f"own {part}", f"E{part}0", animals[0], "77"),)))
    handed.append((EDIT, (under("Sysmex", f"E{part}0", animals[1], "78"),)))
    handed.append((DELETE, tuple(experiments[-1:])))
    return handed


def document_of(centre: str, number: int, action: Action, entities: tuple[Entity, ...], part: str) -> DocumentToApply:
    created = date(2013, 10, 1) + timedelta(days=number)
    kind = DocumentKind.SPECIMEN if hasattr(entities[0], "litter_id") else DocumentKind.EXPERIMENT
    name = f"{centre}.{created}.{part or 1}"
    made = to_apply(action, kind, centre=centre, created=created, tracker_id=crc32(name.encode()))
    checksum = md5(name.encode()).hexdigest()
    return replace(made, zip_file=f"{name}.impc.zip", file_name=f"{name}.xml", inc=1, md5=checksum)


def refused_twice(engine: Engine, centre: str, part: str = "", patience: float = PATIENCE) -> None:
    """Apply a document that is refused, and then gives way to itself, with the same number in the tracker."""
    unknown = (specimen("nobody"),)
    document = document_of(centre, 20, EDIT, unknown, part)
    for _ in range(2):
        apply_document(engine, document, reading(*unknown, centre=centre), patience_seconds=patience)


class OwnNames(NamingConvention):
    """As `document_of` names archives."""

    def centre_of_archive(self, name: str) -> str:
        return name.partition(".")[0]


def session(engine: Engine, centre: str, handed: list[Handed], part: str = "", patience: float = PATIENCE) -> None:
    """Apply, judge and count what a centre submits, archive by archive, and withdraw the last one."""

    def build() -> None:
        scope = ArchiveScope(OwnNames(), [centre])
        build_contexts(engine, scope=scope)
        build_overviews(engine, scope=scope)

    for number, (action, entities) in enumerate(handed):
        document = document_of(centre, number, action, entities, part)
        read = reading(*entities, centre=centre)
        applied = apply_document(engine, document, read, patience_seconds=patience)
        judge(engine, applied.document_id, [2] if number == 0 else [])
        build()
    undo_submission(engine, action, document.zip_file, author="wrangler", reason="a test")
    build()
    decide_on_contexts(engine, ContextEvent.DONE, ContextFilter(centre=centre), author="anna", reason="well")


@contextmanager
def held_before(engine: Engine, place: int | str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """What `engine` does stops before its statement of this number, or with this text, until the second event.

    Not where it does something in a `separate_transaction`.
    """
    reached, go_on = threading.Event(), threading.Event()
    seen = [0]
    is_aside = threading.local()
    plain = upload_lock.separate_transaction

    @contextmanager
    def told_apart(connection: Connection) -> Iterator[Connection]:
        is_aside.now = True
        try:
            with plain(connection) as own:
                yield own
        finally:
            is_aside.now = False

    def count(_: Any, __: Any, statement: str, *___: Any) -> None:
        if getattr(is_aside, "now", False):
            return
        if not reached.is_set() and (seen[0] == place if isinstance(place, int) else place in statement):
            reached.set()
            assert go_on.wait(PATIENCE)
        seen[0] += 1

    event.listen(engine, "before_cursor_execute", count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upload_lock, "separate_transaction", told_apart)
        patch.setattr(metadata_groups, "separate_transaction", told_apart)
        try:
            yield reached, go_on
        finally:
            # The thread may be about to go through the listeners: this one stays, and does nothing more.
            reached.set()
            go_on.set()


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """Work that a thread of its own does."""
    return ThreadPoolExecutor(1).submit(work)


def statements_of(engine: Engine, work: Callable[[], object]) -> int:
    """How many statements work takes, but for those in a `separate_transaction`."""
    with sent_statements(engine) as sent:
        work()
    return len(sent)


def test_whatever_one_centre_is_at_another_does_not_wait(qc: Engine, qc_settings: Settings) -> None:
    chance = random.Random("held")

    def work(engine: Engine, centre: str, handed: list[Handed], part: str, patience: float = PATIENCE) -> None:
        refused_twice(engine, centre, part, patience)
        session(engine, centre, handed, part, patience)

    with closing_all(open_impatient(qc_settings, seconds=1)) as impatient:
        work(qc, "J", submissions(chance, "first"), "first")
        number = statements_of(qc, lambda: work(qc, "H", submissions(chance, "first"), "first"))
        for place in sorted(chance.sample(range(number * 2 // 3), trials(HELD_AT))):
            part = f"at{place}"
            of_h, of_j = submissions(chance, part), submissions(chance, part)
            with held_before(qc, place) as (reached, go_on):
                holding = in_thread(partial(work, qc, "H", of_h, part))
                assert reached.wait(PATIENCE)
                work(impatient, "J", of_j, part, patience=0.1)
                go_on.set()
            holding.result(PATIENCE)


def canonical(engine: Engine) -> dict[str, list[Any]]:
    """All rows, where ids are told by what they stand for, without times and in no order."""
    with engine.connect() as connection:
        rows = {
            name: [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
            for name, table in TABLES.items()
            if name not in OF_LOCKS
        }
    labels: dict[str, dict[int, object]] = {
        "document": {row["id"]: (row["action"], row["zip_file"]) for row in rows["document"]}
    }
    for name, of_table in rows.items():
        if name == "document" or not of_table or "id" not in of_table[0]:
            continue
        if "context" in name:
            labels[name] = {row["id"]: tuple(list(row.values())[1:7]) for row in of_table}
            continue
        places: dict[object, int] = {}
        labels[name] = {}
        for row in of_table:
            owner = labels["document"].get(row.get("document_id"), "")
            places[owner] = places.get(owner, 0) + 1
            labels[name][row["id"]] = (owner, places[owner])

    labels["procedure"] = labels.get("procedure_run", {})

    def told(name: str, row: dict[str, Any]) -> tuple[tuple[str, object], ...]:
        said = []
        for column in TABLES[name].columns:
            kind = column.type.impl_instance if isinstance(column.type, TypeDecorator) else column.type
            value = row[column.name]
            if isinstance(kind, DateTime) or (column.name == "id" and name != "document"):
                continue
            if column.name == "id":
                value = labels[name][value]
            elif column.name == "document_id" and value is not None:
                value = labels["document"][value]
            elif column.name in ("owner_id", "entity_id") and value is not None:
                value = labels.get(row[column.name.replace("id", "kind")], {}).get(value, value)
            elif column.foreign_keys and value is not None:
                (key,) = column.foreign_keys
                value = labels[key.column.table.name][value]
            said.append((column.name, value))
        return tuple(said)

    return {name: sorted([told(name, row) for row in of_table], key=repr) for name, of_table in rows.items()}


def serially(settings: Settings, of_centres: dict[str, list[Handed]], make: Callable[[str], Engine]) -> dict[str, Any]:
    engine = make("serial")
    know_reference_data(engine)
    for centre, handed in of_centres.items():
        refused_twice(engine, centre)
        session(engine, centre, handed)
    return canonical(engine)


@pytest.fixture
def another(qc_settings: Settings) -> Iterator[Callable[[str], Engine]]:
    """Makes further databases, on SQLite."""
    with ExitStack() as made:

        def make(name: str) -> Engine:
            settings = qc_settings.model_copy(update={"qc_url": None, "home": qc_settings.home / name})
            engine = made.enter_context(closing_all(open_qc_database(settings)))
            init_database(engine)
            return engine

        yield make


@pytest.mark.parametrize("seed", range(SEEDS))
def test_two_centres_at_once_come_to_what_one_after_the_other_does(
    qc: Engine, qc_settings: Settings, another: Callable[[str], Engine], seed: int
) -> None:
    chance = random.Random(f"at once {seed}")
    of_centres = {centre: submissions(chance, most=12) for centre in ("H", "J", "MARC")}

    def work(centre: str) -> None:
        refused_twice(qc, centre)
        session(qc, centre, of_centres[centre])

    working = [in_thread(partial(work, centre)) for centre in of_centres]
    for one in working:
        one.result(PATIENCE)
    found = canonical(qc)
    expected = serially(qc_settings, of_centres, another)
    for name, rows in expected.items():
        assert found[name] == rows, name
    assert len(found["measurement"]) > 10
    times = column_in(qc, select(models.DOCUMENT.c.applied_at).order_by(models.DOCUMENT.c.id))
    assert times == sorted(times)


def test_who_waits_for_whom(qc: Engine, qc_settings: Settings) -> None:
    def lock(connection: Connection, centres: list[str] | None) -> None:
        if centres is None:
            lock_all(connection)
        else:
            lock_centres(connection, centres)

    cases: list[tuple[list[str] | None, list[str] | None, bool]] = [
        (["H"], ["J"], False),
        (["H", "J"], ["J", "K"], True),
        (["H", "J"], ["K"], False),
        (["H"], None, True),
        (None, ["H"], True),
        (None, None, True),
    ]
    with closing_all(open_impatient(qc_settings)) as impatient:
        for held, wanted, waits in cases:
            with writing(qc) as holder:
                lock(holder, held)
                if waits:
                    with pytest.raises(Exception, match="Lock wait timeout"), writing(impatient) as connection:
                        lock(connection, wanted)
                else:
                    in_writing(impatient, lock, wanted)
            in_writing(impatient, lock, wanted)


def test_a_session_that_is_killed_disturbs_no_other_and_the_next_completes_it(
    qc: Engine, qc_settings: Settings, another: Callable[[str], Engine]
) -> None:
    chance = random.Random("killed")
    of_h, of_j = submissions(chance), [submissions(chance, f"J{number}") for number in range(KILLS)]
    for number in range(KILLS):
        place = chance.randint(5, 300)

        def killed(engine: Engine, place: int = place) -> None:
            with before_statement(engine, place - 1, die):
                session(engine, "H", of_h[:-1])

        process = start(qc_settings, killed)
        session(qc, "J", of_j[number], f"J{number}")
        assert finish(process) in (-signal.SIGKILL, 0)
    session(qc, "H", of_h)
    serial = another("serial")
    know_reference_data(serial)
    for number in range(KILLS):
        session(serial, "J", of_j[number], f"J{number}")
    session(serial, "H", of_h)
    found, expected = canonical(qc), canonical(serial)
    for name in ("specimen", "experiment", "measurement", "overview_animal_procedure", "overview_strain"):
        assert found[name] == expected[name], name
    assert found["metadata_group"] == expected["metadata_group"]


def test_reserved_ids_follow_each_other_without_a_gap(qc: Engine) -> None:
    """Whether those that reserved the ones before are committed or not; a centre reserves its unused ones again."""
    with qc.begin() as of_h, qc.begin() as of_j:
        for connection, centre in ((of_h, "H"), (of_j, "J")):
            lock_centres(connection, [centre])
        first, second = (
            reserve_ids(connection, [centre], {models.DOCUMENT: number}).next_ids["document"]
            for connection, centre, number in ((of_h, "H", 3), (of_j, "J", 2))
        )
    assert second == first + 3
    with qc.begin() as again:
        assert reserve_ids(again, ["J"], {models.DOCUMENT: 1}).next_ids["document"] == second


class TestThePast:
    def test_a_fault_of_the_database_is_no_open_upload(self, qc: Engine) -> None:
        assert not uploads_are_open(qc)
        elsewhere = qc.execution_options(schema_translate_map={None: "no_such_database"})
        with pytest.raises(DBAPIError):
            uploads_are_open(elsewhere)

    def test_who_asks_for_the_past_waits_for_what_may_still_belong_to_it(self, qc: Engine) -> None:
        """Documents of H get lower ids than those of J, and are committed after these."""
        of_h: list[Handed] = [(ADD, (specimen("S1"),)), (ADD, (experiment("E1"),))]
        session(qc, "H", of_h[:1], "before")
        handed = document_of("H", 9, *of_h[1], "")
        with held_before(qc, "INSERT INTO document") as (reached, go_on):
            read = reading(*of_h[1][1])
            holding = in_thread(lambda: apply_document(qc, handed, read, patience_seconds=PATIENCE))
            assert reached.wait(PATIENCE)
            entities = (experiment("E2"),)
            later = apply_document(
                qc,
                document_of("J", 9, ADD, entities, ""),
                reading(*entities, centre="J"),
                patience_seconds=PATIENCE,
            )
            past = MeasurementFilter(as_of_document=later.document_id, only_valid=False)
            today = MeasurementFilter(as_of_date=date.today() + timedelta(days=1), only_valid=False)
            began = time.monotonic()
            assert uploads_are_open(qc)
            assert time.monotonic() - began < 5, "it waits for nobody"
            asked = [in_thread(lambda wanted=wanted: load_measurements(qc, wanted)) for wanted in (past, today)]
            time.sleep(0.7)
            assert not any(one.done() for one in asked)
            # The present is what is committed.
            assert load_measurements(qc, MeasurementFilter(only_valid=False))["experiment_id"].tolist() == ["E2"]
            go_on.set()
            answers = [one.result(PATIENCE) for one in asked]
        assert holding.result(PATIENCE).document_id < later.document_id
        for answer in (*answers, load_measurements(qc, past)):
            assert answer["experiment_id"].tolist() == ["E1", "E2"]
