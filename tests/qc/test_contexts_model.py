"""After any sequence of documents, withdrawals and judgements, contexts and overviews are as if built anew."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from pydantic import SecretStr
from sqlalchemy import Engine, select

from dcc.documents.contents import Entity
from dcc.naming import Action
from dcc.qc.archive_scope import ALL_ARCHIVES
from dcc.qc.contexts import builds, context_sums
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.experiment_validity import update_validity
from dcc.qc.contexts.overviews import build_overviews
from dcc.qc.database import open_qc_database
from dcc.qc.models import DOCUMENT
from dcc.settings import Settings
from tests.qc.test_model import _empty_database
from tests.qc.test_overviews import build, forget_overviews, overviews_of, under
from tests.support.asking import column_in, in_writing
from tests.support.qc_contexts import assert_contexts_are_right, judge, know_colonies, know_important_metadata, submit
from tests.support.qc_documents import housing, line, specimen, undo_documents
from tests.support.trials import trials

SPECIMENS = ["S1", "S2", "S3"]
_values = st.integers(0, 9).map(str)
_specimens = st.builds(
    specimen,
    st.sampled_from(SPECIMENS),
    is_baseline=st.sampled_from(["true", "false"]),
    colony_id=st.sampled_from([None, "C1", "C2"]),
    strain_id=st.sampled_from([None, "MGI:1", "MGI:2"]),
)
_experiments = st.builds(
    under,
    st.sampled_from(["E1", "E2", "E3", "E4"]),
    st.sampled_from(["Sysmex", "Advia", None]),
    specimens=st.lists(st.sampled_from(SPECIMENS), min_size=1, max_size=3),
    value=_values,
    procedure_id=st.sampled_from(["IMPC_CBC_001", "IMPC_BWT_001"]),
)
_others = st.one_of(st.builds(line, st.sampled_from(["C1", "C2"]), _values), st.builds(housing, _values))
_contents = st.one_of(
    st.lists(_specimens, min_size=1, max_size=4),
    st.lists(st.one_of(_experiments, _experiments, _others), min_size=1, max_size=5),
)


class Contexts(RuleBasedStateMachine):
    """Changes the database in every way, and builds now and then."""

    engine: Engine

    @initialize(documents_at_once=st.sampled_from([1, 2, builds.DOCUMENTS_AT_ONCE]))
    def start(self, documents_at_once: int) -> None:
        self.patched = pytest.MonkeyPatch()
        self.patched.setattr(builds, "DOCUMENTS_AT_ONCE", documents_at_once)
        self.home = Path(tempfile.mkdtemp(prefix="dcc-model-"))
        path = self.home / "qc.db"
        path.write_bytes(_empty_database())
        self.engine = open_qc_database(Settings(home=self.home, qc_url=SecretStr(f"sqlite:///{path}")))
        self.documents: list[int] = []

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        try:
            self.compare_overviews()
        finally:
            self.patched.undo()
            self.engine.dispose()
            shutil.rmtree(self.home)

    @rule(
        action=st.sampled_from([Action.ADD, Action.ADD, Action.EDIT, Action.DELETE]),
        entities=_contents,
        centre=st.sampled_from(["H", "H", "J"]),
        faulty=st.sets(st.integers(1, 5), max_size=1),
    )
    def submit(self, action: Action, entities: list[Entity], centre: str, faulty: set[int]) -> None:
        self.documents.append(submit(self.engine, action, *entities, faulty=faulty, centre=centre).document_id)

    @precondition(lambda self: self.documents)
    @rule(data=st.data(), faulty=st.sets(st.integers(1, 5), max_size=3))
    def judge_again(self, data: st.DataObject, faulty: set[int]) -> None:
        judge(self.engine, data.draw(st.sampled_from(self.documents)), faulty)

    @precondition(lambda self: self.documents)
    @rule()
    def undo_the_newest(self) -> None:
        document_id = self.documents.pop()
        # One that was refused does not stand.
        if column_in(self.engine, select(DOCUMENT.c.state).where(DOCUMENT.c.id == document_id)) == ["applied"]:
            undo_documents(self.engine, [document_id], patience_seconds=1)

    @rule(strains=st.dictionaries(st.sampled_from(["C1", "C2"]), st.sampled_from(["MGI:1", "MGI:7"])))
    def learn_of_colonies(self, strains: dict[str, str]) -> None:
        know_colonies(self.engine, **strains)

    @rule(name=st.sampled_from(["Equipment", "Device"]))
    def learn_of_metadata(self, name: str) -> None:
        know_important_metadata(self.engine, IMPC_CBC_003_001=name)

    @rule()
    def begin_to_build(self) -> None:
        """As a build that is killed after the first transaction that took documents."""
        in_writing(self.engine, context_sums._follow_reference_data)
        followed = in_writing(self.engine, update_validity, ALL_ARCHIVES)
        in_writing(self.engine, context_sums._take_documents, followed, ALL_ARCHIVES)

    @rule()
    def build(self) -> None:
        build_contexts(self.engine)
        assert_contexts_are_right(self.engine)

    @rule()
    def build_overviews(self) -> None:
        build_overviews(self.engine)

    @rule()
    def build_contexts_and_overviews(self) -> None:
        build(self.engine)
        assert_contexts_are_right(self.engine)

    @rule()
    def compare_overviews(self) -> None:
        self.build()
        build_overviews(self.engine)
        in_part = overviews_of(self.engine)
        forget_overviews(self.engine)
        build_overviews(self.engine)
        assert overviews_of(self.engine) == in_part


Contexts.TestCase.settings = settings(
    max_examples=trials(20), stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
TestContexts = Contexts.TestCase
