"""Documents checked by other processes and judged together: what comes of it is what comes of each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, select

from dcc.cli.demo.submissions import damaged, experiment_document, specimen_document
from dcc.documents.reading import read_document
from dcc.errors import HelperEndedError, NotFoundError
from dcc.messages import Message
from dcc.naming import Action, DocumentKind
from dcc.qc import models
from dcc.qc.apply.documents import apply_document
from dcc.qc.apply.withdrawal import undo_documents
from dcc.qc.database import writing
from dcc.qc.judging import checking_ahead
from dcc.qc.judging.checking_ahead import Answer, Checked, CheckingAhead, Question
from dcc.qc.judging.checking_process import LARGE, MOST_FINDINGS, ToCheck, packed, unpacked
from dcc.qc.judging.documents import Basis, Judgement, judge_document
from dcc.qc.judging.lookups import SqlLookups
from dcc.qc.judging.many_documents import Found, judge_together, newest_document
from dcc.reference.loading import load_shipped
from dcc.rules.findings import Finding
from dcc.runtime.helper_process import Helper
from dcc.vocabulary import EntityKind, Severity, WaiverEffect
from tests.support.databases import only_sqlite
from tests.support.judging_cases import Reference, waiver
from tests.support.noted_helpers import note_helpers
from tests.support.qc_documents import to_apply

SPECIMEN, EXPERIMENT = DocumentKind.SPECIMEN, DocumentKind.EXPERIMENT
TODAY = date(2026, 11, 21)
BASIS = Basis(Reference(load_shipped()), (), TODAY)


class RollbackError(Exception):
    """Undoes a transaction."""


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Helper]]:
    """The processes that were started, none of which may be left; lots of two documents."""
    helpers = note_helpers(monkeypatch, checking_ahead)
    monkeypatch.setattr(checking_ahead, "_LOT_DOCUMENTS", 2)
    yield helpers
    assert all(helper.process.returncode is not None for helper in helpers)


def submit(qc: Engine, path: Path, content: bytes, action: Action = Action.ADD, *, is_upload: bool = True) -> ToCheck:
    """Put a document where it can be read, and apply it."""
    path.write_bytes(content)
    kind = SPECIMEN if b"<centreSpecimenSet" in content else EXPERIMENT
    document_id = 0
    if is_upload:
        document = to_apply(action, kind, tracker_id=None)
        document_id = apply_document(qc, document, lambda: read_document(path, kind), patience_seconds=5).document_id
    digest = md5(content, usedforsecurity=False).hexdigest()
    return ToCheck(document_id, action.value, "H", kind.value, str(path), digest, len(content), "add/H.zip", "H")


@pytest.fixture
def documents(qc_database: Engine, tmp_path: Path) -> list[ToCheck]:
    """Documents with findings of all sorts, and some without any."""
    good = experiment_document("H", animals=3)
    contents = [
        specimen_document("H", mice=3),
        good,
        experiment_document("H", animals=2, first=90),
        damaged(experiment_document("H", animals=3, first=1, procedure="IMPC_GRS_001"), 'unit="g"', 'unit="kg"'),
        damaged(experiment_document("H", animals=2, procedure="IMPC_IPG_001"), "IMPC_001", "NONE_001"),
        damaged(good, 'procedureID="IMPC_CBC_001"', 'procedureID="IMPC_CBC_099"'),
        experiment_document("H", animals=4),
        damaged(specimen_document("H", mice=3, first=50), 'project="BaSH"', 'project="Nobody"'),
        specimen_document("H", mice=4),
        experiment_document("H", animals=4, procedure="IMPC_BWT_001"),
    ]
    made = [submit(qc_database, tmp_path / f"{number}.xml", content) for number, content in enumerate(contents)]
    made.append(submit(qc_database, tmp_path / "delete.xml", good, Action.DELETE))
    return made


def answer_of(qc: Engine) -> Callable[[Question], Answer]:
    def answer(question: Question) -> Answer:
        with qc.connect() as connection:
            lookups = SqlLookups(connection)
            known = {centre: lookups.known_specimens(centre, ids) for centre, ids in question.items()}
            return Answer(known, newest_document(connection))

    return answer


def ahead_of(qc: Engine, documents: list[ToCheck], basis: Basis = BASIS, processes: int = 2) -> CheckingAhead:
    return CheckingAhead(documents, processes, basis.reference.data, basis.today, answer_of(qc), lambda: None)


def check(qc: Engine, documents: list[ToCheck], **options: Any) -> list[Checked]:
    with closing(ahead_of(qc, documents, **options)) as ahead:
        return list(ahead.results())


Judging = Callable[[Connection], list[Judgement | NotFoundError]]


def by_themselves(documents: list[ToCheck], basis: Basis) -> Judging:
    def judge(connection: Connection) -> list[Judgement | NotFoundError]:
        return [
            judge_document(connection, one.document_id, read_document(Path(one.path), DocumentKind(one.kind)), basis)
            for one in documents
        ]

    return judge


def together(documents: list[ToCheck], checked: list[Checked], basis: Basis) -> Judging:
    found = [Found(one.document_id, of.findings or ()) for one, of in zip(documents, checked, strict=True)]
    return lambda connection: judge_together(connection, found, basis)


def outcome(qc: Engine, judge: Judging, *, keep: bool = False) -> tuple[Any, ...]:
    """What comes of a judgement: what is told, and all that is in the database then, without ids and times."""
    try:
        with writing(qc) as connection:
            judged = judge(connection)
            rows = [_rows(connection, model) for model in (models.Finding, models.Specimen, models.Experiment)]
            documents = [row[:-1] for row in _rows(connection, models.Document, "judged_by", "contexts_built", "id")]
            if not keep:
                raise RollbackError
    except RollbackError:
        pass
    return judged, rows, documents


def _rows(connection: Connection, model: type[models.QcBase], *names: str) -> list[tuple[Any, ...]]:
    table = model.__table__
    left_out = {"created", "closed"} | ({"id"} if model is models.Finding else set())
    columns = [table.c[name] for name in names] or [one for one in table.columns if one.name not in left_out]
    return [tuple(row) for row in connection.execute(select(*columns).order_by(table.c.id))]


def test_what_is_found_by_other_processes_and_kept_together_is_what_each_document_comes_to_by_itself(
    qc_database: Engine, documents: list[ToCheck], tmp_path: Path
) -> None:
    """Findings of every kind in their order, validity and contexts: first, again, healed, waived, without reference."""

    def same(basis: Basis, *, keep: bool = False) -> tuple[Any, ...]:
        checked = check(qc_database, documents, basis=basis)
        assert [one.findings is not None for one in checked] == [True] * len(documents)
        alone = outcome(qc_database, by_themselves(documents, basis))
        assert outcome(qc_database, together(documents, checked, basis), keep=keep) == alone
        return alone

    judged, (found, *_), _ = same(BASIS, keep=True)
    rules = {row[2] for row in found}
    assert {"E1", "E4", "P1", "P11", "S12", "S13", "E9"} <= rules
    assert {one.failed for one in judged} == {True, False}
    same(BASIS)
    submit(qc_database, tmp_path / "missing.xml", specimen_document("H", mice=2, first=90))
    assert any(one.cleared for one in same(BASIS, keep=True)[0])
    waived = waiver("P11", effect=WaiverEffect.WARN), waiver("E1", centre="H")
    same(replace(BASIS, waivers=waived))
    same(replace(BASIS, reference=Reference(replace(BASIS.reference.data, impress=None))))
    same(replace(BASIS, limit=1))


@only_sqlite
def test_a_large_document_is_asked_about_in_batches_and_one_with_very_many_findings_is_left(
    qc_database: Engine, tmp_path: Path
) -> None:
    animals = 1_200
    size = LARGE + 1
    large = experiment_document("H", animals=animals, procedure="IMPC_BWT_001")
    faulty = large.replace(b'project="BaSH"', b'project="Nobody"').replace(b"<value>", b"<value>x")
    small = experiment_document("H", animals=2, procedure="IMPC_BWT_001")
    sent = [
        submit(qc_database, tmp_path / f"{number}.xml", content, is_upload=False)
        for number, content in enumerate([small, large, small, faulty, small])
    ]
    sent = [one._replace(size_bytes=size) if number in (1, 3) else one for number, one in enumerate(sent)]
    found = check(qc_database, sent, processes=1)
    assert [None if one.findings is None else len(one.findings) for one in found] == [2, animals, 2, None, 2]
    assert 2 * animals > MOST_FINDINGS
    assert [finding.value for finding in found[1].findings or ()][-1] == f"H-M{animals:06d}"


@only_sqlite
def test_what_cannot_be_read_as_it_was_validated_is_left_to_whoever_asked(qc_database: Engine, tmp_path: Path) -> None:
    sent = [submit(qc_database, tmp_path / f"{n}.xml", experiment_document("H"), is_upload=False) for n in range(4)]
    Path(sent[0].path).unlink()
    Path(sent[1].path).write_bytes(b"<centre/>")
    content = Path(sent[2].path).read_bytes()[:-20]
    Path(sent[2].path).write_bytes(content)
    sent[2] = sent[2]._replace(md5=md5(content, usedforsecurity=False).hexdigest())
    found = check(qc_database, sent)
    assert [one.findings is None for one in found] == [True, True, True, False]
    assert [one.error for one in found] == [None] * 4


class Dying(Helper):
    """A process that is killed as soon as it asks something, as often as `deaths` says."""

    deaths = 0

    def receive_any(self) -> Any:
        message = super().receive_any()
        if message[0] == "question" and Dying.deaths > 0:
            Dying.deaths -= 1
            self.process.kill()
        return message


@only_sqlite
def test_the_documents_of_a_process_that_was_killed_are_checked_again(
    qc_database: Engine, documents: list[ToCheck], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking_ahead, "Helper", Dying)
    undisturbed = check(qc_database, documents)
    monkeypatch.setattr(Dying, "deaths", 1)
    assert [one.findings for one in check(qc_database, documents)] == [one.findings for one in undisturbed]
    assert Dying.deaths == 0


@only_sqlite
def test_a_document_over_which_processes_end_again_and_again_is_not_tried_for_ever(
    qc_database: Engine, documents: list[ToCheck], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are left to whoever asked, when too many have ended."""
    monkeypatch.setattr(checking_ahead, "Helper", Dying)
    monkeypatch.setattr(Dying, "deaths", 1_000)
    found = check(qc_database, documents)
    assert len(found) == len(documents)
    assert [one.findings for one in found] == [None] * len(documents)
    errors = [one.error for one in found if one.error is not None]
    assert 1 <= len(errors) <= 4
    assert all(isinstance(error, HelperEndedError) for error in errors)
    assert "0.xml" in str(errors[0])


@only_sqlite
def test_where_no_process_comes_up_all_is_left_to_whoever_asked(
    qc_database: Engine, documents: list[ToCheck], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking_ahead.checking_process, "__name__", "dcc.no_such_module")
    found = check(qc_database, documents)
    assert [(one.findings, one.error) for one in found] == [(None, None)] * len(documents)

    def refuse(_module: str) -> Helper:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(checking_ahead, "Helper", refuse)
    assert check(qc_database, documents) == found


@only_sqlite
def test_no_process_is_left_when_an_answer_or_the_session_fails(
    qc_database: Engine, documents: list[ToCheck], started: list[Helper]
) -> None:
    def fail(_question: Question) -> Answer:
        raise ZeroDivisionError

    data = BASIS.reference.data
    with (
        pytest.raises(ZeroDivisionError),
        closing(CheckingAhead(documents, 2, data, TODAY, fail, lambda: None)) as ahead,
    ):
        list(ahead.results())
    assert len(started) == 2
    assert not any(str(qc_database.url) in part for one in started for part in map(str, one.process.args))  # type: ignore[arg-type]


@only_sqlite
def test_a_document_that_was_withdrawn_meanwhile_is_told_and_the_others_are_judged(
    qc_database: Engine, documents: list[ToCheck]
) -> None:
    documents = documents[:3]
    checked = check(qc_database, documents)
    undo_documents(qc_database, [documents[2].document_id])
    judged, *_ = outcome(qc_database, together(documents, checked, BASIS))
    assert [type(one) for one in judged] == [Judgement, Judgement, NotFoundError]
    assert "was withdrawn" in str(judged[2])


def test_a_finding_is_sent_as_it_is() -> None:
    bare = Finding("E3", Severity.ERROR, {"centre": "H"}, 1, "/centre[1]")
    full = Finding(
        "P5",
        Severity.WARNING,
        {"parameter": "P", "meant": Message("it", {})},
        3,
        "/a",
        "x",
        "H",
        "P_001",
        ("impress",),
        1,
        EntityKind.EXPERIMENT,
        2,
    )
    assert [unpacked(packed(one)) for one in (bare, full)] == [bare, full]
