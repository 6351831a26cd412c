"""Random sequences of documents, withdrawals and late arrivals leave what the in-memory model says."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pydantic import SecretStr
from sqlalchemy import Engine, select

from dcc.databases.schema import init_database
from dcc.documents.contents import Content, Entity, Experiment, Housing, Line
from dcc.naming import Action, DocumentKind
from dcc.qc import models
from dcc.qc.database import open_qc_database
from dcc.qc.models import LIFETIME, MEASUREMENT, RUN
from dcc.qc.rows.documents import DocumentToApply
from dcc.settings import Settings
from dcc.vocabulary import DocumentState
from tests.support.prepared_databases import PreparedDatabases
from tests.support.qc_documents import (
    apply_document,
    contents,
    experiment,
    housing,
    line,
    specimen,
    to_apply,
    undo_documents,
)
from tests.support.qc_model import Key, Model, ModelDocument, Present, Said, experiments_of
from tests.support.trials import trials

CENTRES = ["H", "H", "H", "J"]
PROCEDURES = ["IMPC_CBC_001"]
_words = st.integers(0, 99).map(str)
_specimens = st.builds(specimen, st.sampled_from(["S1", "S2"]), _words)
_experiments = st.builds(
    experiment,
    st.sampled_from(["E1", "E2"]),
    st.lists(st.sampled_from(["S1", "S2"]), min_size=1, max_size=2),
    _words,
    st.sampled_from(PROCEDURES),
)
_lines = st.builds(line, st.just("C1"), _words, st.sampled_from(PROCEDURES))
_housings = st.builds(housing, _words, st.none())
_of_one_document = st.one_of(
    st.lists(_specimens, min_size=1, max_size=3),
    st.lists(st.one_of(_experiments, _experiments, _experiments, _lines, _housings), min_size=1, max_size=3),
)
_days = st.sampled_from([date(2013, 10, 1), date(2013, 10, 2), date(2013, 10, 3)])


def said_of(centre: str, entity: Entity) -> Said:
    """An entity as the model knows it."""
    if isinstance(entity, Experiment):
        assert entity.procedure is not None
        key: Key = ("experiment", centre, entity.procedure.procedure_id, entity.experiment_id, entity.sequence_id)
        about = frozenset(("specimen", centre, one) for one in entity.specimen_ids)
        return Said(key, str(entity.procedure.simple[0].value), about)
    if isinstance(entity, Line):
        key = ("line", centre, entity.procedure.procedure_id, entity.colony_id)
        return Said(key, str(entity.procedure.simple[0].value))
    if isinstance(entity, Housing):
        return Said(("housing", centre, entity.last_updated), str(entity.procedure.simple[0].value))
    return Said(("specimen", centre, entity.specimen_id), entity.litter_id)


@cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory(prefix="dcc-model-") as home:
        path = Path(home) / "qc.db"
        engine = open_qc_database(Settings(home=Path(home), qc_url=SecretStr(f"sqlite:///{path}")))
        init_database(engine)
        engine.dispose()
        return path.read_bytes()


@contextmanager
def _lent_file() -> Iterator[str]:
    """The URL of an empty database on SQLite."""
    with tempfile.TemporaryDirectory(prefix="dcc-model-") as home:
        path = Path(home) / "qc.db"
        path.write_bytes(_empty_database())
        yield f"sqlite:///{path}"


class Documents(RuleBasedStateMachine):
    """Does to the QC database what it does to the model; `lend` gives each example an empty one."""

    lend: ClassVar[Callable[[], AbstractContextManager[str]]] = staticmethod(_lent_file)
    engine: Engine

    @initialize()
    def start(self) -> None:
        self.lent = ExitStack()
        url = self.lent.enter_context(self.lend())
        self.engine = open_qc_database(Settings(qc_url=SecretStr(url)))
        self.lent.callback(self.engine.dispose)
        self.model = Model()
        self.applied: dict[int, tuple[DocumentToApply, list[Content]]] = {}

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        with self.lent:
            for document_id, past in self.model.pasts.items():
                assert present_of(self.engine, document_id) == worth(past)

    @rule(
        action=st.sampled_from([Action.ADD, Action.ADD, Action.EDIT, Action.DELETE]),
        entities=_of_one_document,
        centre=st.sampled_from(CENTRES),
        created=_days,
    )
    def apply(self, action: Action, entities: list[Entity], centre: str, created: date) -> None:
        self._apply(action, entities, centre, created)

    @precondition(lambda self: self.model.present())
    @rule(data=st.data(), action=st.sampled_from([Action.EDIT, Action.DELETE]), value=_words, created=_days)
    def change_what_is_there(self, data: st.DataObject, action: Action, value: str, created: date) -> None:
        kind, centre, *names = data.draw(st.sampled_from(sorted(self.model.present(), key=repr)))
        entity: Entity
        if kind == "specimen":
            entity = specimen(str(names[0]), value)
        elif kind == "experiment":
            about = data.draw(st.lists(st.sampled_from(["S1", "S2"]), min_size=1, max_size=2))
            entity = experiment(str(names[1]), about, value, str(names[0]))
        else:
            entity = line(str(names[1]), value, str(names[0])) if kind == "line" else housing(value)
        self._apply(action, [entity], str(centre), created)

    @precondition(lambda self: self._specimens())
    @rule(data=st.data(), name=st.sampled_from(["E1", "E2", "E3"]), value=_words, created=_days)
    def measure_what_is_there(self, data: st.DataObject, name: str, value: str, created: date) -> None:
        _, centre, specimen_id = data.draw(st.sampled_from(self._specimens()))
        self._apply(Action.ADD, [experiment(name, [str(specimen_id)], value)], str(centre), created)

    @precondition(lambda self: self._measured())
    @rule(data=st.data(), created=_days)
    def delete_what_was_measured(self, data: st.DataObject, created: date) -> None:
        _, centre, specimen_id = data.draw(st.sampled_from(self._measured()))
        self._apply(Action.DELETE, [specimen(str(specimen_id))], str(centre), created)

    def _specimens(self) -> list[Key]:
        return sorted((key for key in self.model.present() if key[0] == "specimen"), key=repr)

    def _measured(self) -> list[Key]:
        return [key for key in self._specimens() if experiments_of(self.model.present(), key)]

    def _apply(self, action: Action, entities: list[Entity], centre: str, created: date) -> None:
        content = contents(*entities, centre=centre)
        kind = DocumentKind.SPECIMEN if content[0].pipeline is None else DocumentKind.EXPERIMENT
        said = tuple(said_of(centre, entity) for entity in entities)
        is_there = not self.model.present().keys().isdisjoint(one.key for one in said)
        if (action is not Action.DELETE or not is_there) and any(content == one for _, one in self.applied.values()):
            # It would be a duplicate, of which the model knows nothing: see tests/session/test_duplicates.py.
            return
        document = to_apply(action, kind, centre=centre, created=created)
        applied = apply_document(self.engine, document, lambda: content, patience_seconds=1)
        expected = ModelDocument(applied.document_id, action, kind, centre, created, said)
        assert applied.late == self.model.late(expected)
        assert applied.refused == self.model.apply(expected)
        assert (applied.state is DocumentState.REFUSED) == (not expected.after)
        self.applied[applied.document_id] = document, content
        if not expected.after:
            expected.stands = False

    @precondition(lambda self: self.model.standing())
    @rule(data=st.data())
    def apply_again(self, data: st.DataObject) -> None:
        standing = data.draw(st.sampled_from([document.id for document in self.model.standing()]))
        document, content = self.applied[standing]
        again = apply_document(self.engine, document, lambda: content, patience_seconds=1)
        assert (again.repeated, again.document_id) == (True, standing)

    @precondition(lambda self: self.model.standing())
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        document = data.draw(st.sampled_from(self.model.standing()))
        builders = self.model.builders(document)
        undone = undo_documents(self.engine, [document.id], patience_seconds=1)
        assert {builder.document_id for builder in undone.builders} == builders
        if not builders:
            self.model.undo(document, undone.undone_by[0])

    @invariant()
    def the_present_is_that_of_the_model(self) -> None:
        if hasattr(self, "model"):
            assert present_of(self.engine, None) == worth(self.model.present())

    @invariant()
    def the_latest_pasts_are_those_of_the_model(self) -> None:
        if hasattr(self, "model"):
            for document_id, past in list(self.model.pasts.items())[-2:]:
                assert present_of(self.engine, document_id) == worth(past)


def worth(present: Present) -> dict[Key, str]:
    return {key: said.value for key, said in present.items()}


def present_of(engine: Engine, document_id: int | None) -> dict[Key, str]:
    """What is current, or was after a document, by the lifetimes; the flag and the lifetimes must agree."""
    found: dict[Key, str] = {}
    columns = {
        "specimen": ["centre", "specimen_id"],
        "experiment": ["centre", "procedure_id", "experiment_id", "sequence_id"],
        "line": ["centre", "procedure_id", "colony_id"],
        "housing": ["centre", "last_updated"],
    }
    with engine.connect() as connection:
        for kind, names in columns.items():
            table = models.QcBase.metadata.tables[kind]
            statement = select(table, LIFETIME.c.id).join(
                LIFETIME, (LIFETIME.c.entity_kind == kind) & (LIFETIME.c.entity_id == table.c.id)
            )
            if document_id is None:
                rows = connection.execute(statement.where(LIFETIME.c.ended_by.is_(None))).mappings().all()
                flagged = set(connection.scalars(select(table.c.id).where(table.c.is_current)))
                assert flagged == {row["id"] for row in rows}
            else:
                ended = LIFETIME.c.ended_by.is_(None) | (LIFETIME.c.ended_by > document_id)
                rows = connection.execute(statement.where(LIFETIME.c.opened_by <= document_id, ended)).mappings().all()
            measured = dict(
                connection.execute(
                    select(RUN.c.owner_id, MEASUREMENT.c.value)
                    .join(MEASUREMENT, MEASUREMENT.c.procedure_run_id == RUN.c.id)
                    .where(RUN.c.owner_kind == kind)
                ).all()
            )
            for row in rows:
                key = (kind, *(str(row[name]) if isinstance(row[name], date) else row[name] for name in names))
                assert key not in found
                found[key] = row["litter_id"] if kind == "specimen" else measured[row["id"]]
    return found


def few(examples: int) -> settings:
    return settings(max_examples=trials(examples), stateful_step_count=40, suppress_health_check=list(HealthCheck))


Documents.TestCase.settings = few(15)
TestDocuments = Documents.TestCase


def test_documents_on_mariadb(prepared_databases: dict[str, PreparedDatabases]) -> None:
    class OnMariaDb(Documents):
        lend = staticmethod(prepared_databases["qc_database"].lend)

    run_state_machine_as_test(OnMariaDb, settings=few(6))


# It notices faults: each of these, put into the code, makes it fail.


def nothing(*_: Any, **__: Any) -> None:
    """Instead of what should be done."""


def none_of_each(_: Any, documents: Sequence[Any]) -> list[tuple[()]]:
    """Instead of what should be found of each document."""
    return [() for _ in documents]


FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "an undo that forgets to reopen": ("dcc.qc.apply.withdrawal.reopen_versions", nothing),
    "an edit or delete that does not end": ("dcc.qc.apply.documents.end_versions", nothing),
    "a delete that forgets the experiments": ("dcc.qc.apply.document_effect.experiments_about", lambda *_: {}),
    "an upload that forgets what was applied": ("dcc.qc.apply.documents.former_applications", none_of_each),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_model_test_notices(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, instead = FAULTS[fault]
    monkeypatch.setattr(target, instead)
    generated = settings(
        max_examples=60,
        stateful_step_count=25,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )

    with pytest.raises((AssertionError, KeyError, ExceptionGroup)):
        run_state_machine_as_test(seed(5)(Documents), settings=generated)
