"""Documents judged in the QC database: what is kept of the findings, and what follows, on SQLite and on MariaDB."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, insert, update
from sqlalchemy.exc import IntegrityError

from dcc.databases.transactions import writing
from dcc.documents.contents import Content
from dcc.naming import Action
from dcc.qc import models
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.judging.documents import Judgement, judge_together
from dcc.qc.judging.rejudgements import mark_for_judging
from dcc.qc.models import DOCUMENT, FINDING
from dcc.qc.reference.snapshots import ActiveReference
from dcc.reports.causes.cause import Cause, Fact
from dcc.reports.causes.data_facts import DataFacts
from dcc.reports.causes.scopes import Scope
from dcc.rules import registry
from dcc.rules.findings import Fault, fault
from dcc.runtime.clock import utc_now
from dcc.vocabulary import Severity, Validity, WaiverEffect
from tests.support.asking import execute_in, in_writing
from tests.support.databases import only_sqlite
from tests.support.integrity_cases import (
    at,
    block,
    experiment,
    experiments,
    mutant,
    procedure,
    related,
    series,
    simple,
    specimen_block,
    specimens,
)
from tests.support.judging_cases import (
    BASIS,
    add_snapshots,
    basis,
    document_row,
    findings,
    judge,
    rules_of,
    upload,
    validity,
    waive,
    waiver,
)


def ill(*values: str, first: int = 11, **changes: Any) -> list[Content]:
    """Experiments on the mouse M1, each with a value, and a day from the `first` of a month; `x` is no value."""
    done = [
        experiment(
            procedure(simple("RANGED", value)), line=n, experiment_id=f"E{n}", **{"date": f"2014-01-{n}"} | changes
        )
        for n, value in enumerate(values, first)
    ]
    return experiments(*done)


@pytest.fixture
def mouse(qc_database: Engine) -> Engine:
    """A QC database that has the mouse M1."""
    judge(qc_database, upload(qc_database, specimens(mutant())))
    return qc_database


@pytest.mark.both_databases
def test_every_finding_has_a_rule_by_a_constraint_of_the_database(qc_database: Engine) -> None:
    row = {"severity": "error", "message": "A cast failed.", "is_active": True, "created": utc_now()}
    with pytest.raises(IntegrityError), writing(qc_database) as connection:
        connection.execute(insert(FINDING).values(rule=None, **row))
    with pytest.raises(IntegrityError), writing(qc_database) as connection:
        connection.exec_driver_sql(
            "INSERT INTO finding (severity, message, is_active, created) VALUES ('error', '?', 1, '2026-11-21')"
            if qc_database.dialect.name == "sqlite"
            else "INSERT INTO finding (rule, severity, message, is_active, created) "
            "VALUES (NULL, 'error', '?', 1, '2026-11-21')"
        )


def test_a_value_that_does_not_read_as_its_type_has_the_rule_in_each_sort_of_element(mouse: Engine) -> None:
    """Simple and series values lost the id of their rule."""
    done = procedure(simple("RANGED", "x"), series("FREE", at("1", "y"), at("2")))
    document = upload(mouse, experiments(experiment(done)))
    judge(mouse, document)
    assert [(row.rule, row.value) for row in findings(mouse, document)] == [("P9", "x"), ("P9", "y")]


def test_a_document_without_a_flaw_is_valid_and_has_no_findings(mouse: Engine) -> None:
    document = upload(mouse, ill("5"))
    judgement = judge(mouse, document)
    assert (judgement.failed, judgement.findings, judgement.counts) == (False, (), {})
    assert validity(mouse) == [True]
    row = document_row(mouse, document)
    assert row.judged_at is not None
    assert not row.contexts_built


def test_a_finding_names_its_entity_line_path_value_and_the_snapshot_that_judged(mouse: Engine) -> None:
    ids = add_snapshots(mouse)
    document = upload(mouse, ill("5", "x"), tracker_id=70)
    judgement = judge(mouse, document, basis(reference=ActiveReference(BASIS.reference.data, ids)))
    (row,) = findings(mouse, document)
    assert (row.rule, row.severity, row.line, row.value, row.tracker_id) == ("P9", "error", 10, "x", 70)
    assert row.path == "/centreProcedureSet/centre[1]/experiment[2]/procedure/simpleParameter[2]"
    assert (row.entity_kind, row.entity_id, row.snapshot_id) == ("experiment", 2, ids["impress"])
    (entry,) = judgement.findings
    assert (entry.rule, entry.snapshot) == ("P9", f"impress {ids['impress']}")
    assert judgement.failed
    assert judgement.counts == {("P9", Severity.ERROR): 1}
    assert validity(mouse) == [True, False]
    assert document_row(mouse, document).judged_by == " ".join(map(str, sorted(ids.values())))


def test_judging_twice_changes_nothing(mouse: Engine) -> None:
    document = upload(mouse, ill("x", "y", "5"))
    first = judge(mouse, document)
    before = findings(mouse)
    execute_in(mouse, update(DOCUMENT).values(contexts_built=True))
    # Former findings have no details.
    execute_in(mouse, update(FINDING).values(details=None))
    again = judge(mouse, document)
    assert findings(mouse) == before
    assert again == first
    assert document_row(mouse, document).contexts_built


def test_a_missing_specimen_heals_when_it_arrives_and_the_finding_stays_on_record(qc_database: Engine) -> None:
    document = upload(qc_database, ill("5"))
    assert rules_of(judge(qc_database, document)) == ["E4"]
    assert validity(qc_database) == [False]
    arrived = upload(qc_database, specimens(mutant()))
    execute_in(qc_database, update(DOCUMENT).values(contexts_built=True))
    healed = judge(qc_database, document)
    assert not healed.failed
    assert healed.cleared == 1
    (row,) = findings(qc_database, document)
    assert (row.rule, row.is_active, row.closed_by) == ("E4", False, arrived.document_id)
    assert row.closed is not None
    assert validity(qc_database) == [True]
    assert not document_row(qc_database, document).contexts_built


def test_a_finding_about_a_missing_relative_is_closed_by_the_document_that_brought_it(qc_database: Engine) -> None:
    document = upload(qc_database, specimens(mutant(related_specimens=(related("M2"),))))
    assert rules_of(judge(qc_database, document)) == ["S14"]
    arrived = upload(qc_database, specimens(mutant(specimen_id="M2")))
    judge(qc_database, document)
    assert [row.closed_by for row in findings(qc_database, document)] == [arrived.document_id]


def test_of_what_a_document_deletes_only_the_upload_is_judged(mouse: Engine) -> None:
    document = upload(mouse, ill("x"))
    judge(mouse, document)
    gone = upload(mouse, [*ill("x"), experiment(experiment_id="E?", line=90)], Action.DELETE)
    judgement = judge(mouse, gone)
    assert rules_of(judgement) == ["Q3"]
    assert judgement.failed
    assert rules_of(judge(mouse, document)) == []


@pytest.mark.both_databases
def test_findings_of_the_upload_count_and_make_only_their_entity_invalid(mouse: Engine) -> None:
    not_stored = [specimen_block(centre="H" * 33), mutant(specimen_id="M3")]
    document = upload(mouse, [*specimens(mutant(), mutant(specimen_id="M2", line=4)), *not_stored])
    judgement = judge(mouse, document)
    assert (judgement.failed, sorted(rules_of(judgement))) == (True, ["Q1", "S13"])
    assert validity(mouse, models.SPECIMEN) == [True, False, True]


@pytest.mark.both_databases
def test_a_fatal_finding_of_a_centre_makes_invalid_what_it_holds_and_nothing_else(mouse: Engine) -> None:
    below = experiment(experiment_id="E2", line=51, date="2013-10-02")
    done = [*experiments(experiment()), block(pipeline="NONE_001", line=50), below]
    document = upload(mouse, done)
    judgement = judge(mouse, document)
    assert judgement.counts == {("E1", Severity.FATAL): 1}
    assert judgement.failed
    assert validity(mouse) == [True, False]
    (row,) = findings(mouse, document)
    assert (row.entity_kind, row.path) == ("centre_block", "/centreProcedureSet/centre[2]")


def test_warnings_do_not_fail_a_document_nor_make_anything_invalid(mouse: Engine) -> None:
    document = upload(mouse, ill("20"))
    judgement = judge(mouse, document)
    assert (judgement.failed, judgement.counts) == (False, {("X10", Severity.WARNING): 1})
    assert validity(mouse) == [True]


def test_a_waived_finding_is_kept_with_its_waiver_and_does_not_count(mouse: Engine) -> None:
    document = upload(mouse, ill("x"))
    judge(mouse, document)
    given = waive(mouse, waiver("P9", centre="H", procedure="PROC_001"))
    judgement = judge(mouse, document, basis(given))
    assert (judgement.failed, judgement.findings, judgement.counts, judgement.cleared) == (False, (), {}, 0)
    (row,) = findings(mouse, document)
    assert (row.is_active, row.closed, row.waiver_id, row.severity) == (False, None, given.id, "error")
    assert validity(mouse) == [True]
    assert judge(mouse, document).failed, "the waiver is over"
    (row,) = findings(mouse, document)
    assert (row.is_active, row.waiver_id) == (True, None)
    assert validity(mouse) == [False]


@pytest.mark.parametrize(("centre", "waived"), [(None, True), ("H", True), ("J", False)])
def test_waivers_are_for_what_the_upload_found_too_and_end(mouse: Engine, centre: str | None, waived: bool) -> None:
    document = upload(mouse, specimens(mutant(litter_id="L2")))
    given = waive(mouse, waiver("S13", centre=centre))
    assert judge(mouse, document, basis(given)).failed is not waived
    assert [row.is_active for row in findings(mouse, document)] == [not waived]
    assert judge(mouse, document).failed
    assert [(row.is_active, row.severity, row.waiver_id) for row in findings(mouse, document)] == [
        (True, "error", None)
    ]


def test_a_waiver_for_a_procedure_is_for_repeated_experiments_of_it_only(mouse: Engine) -> None:
    upload(mouse, ill("5"))
    document = upload(mouse, ill("6"))
    lowering = waive(mouse, waiver("E9", procedure="PROC_001", effect=WaiverEffect.WARN))
    other = waive(mouse, waiver("E9", procedure="PROC_002"))
    assert judge(mouse, document, basis(other)).failed
    assert judge(mouse, document, basis(lowering, other)).counts == {("E9", Severity.WARNING): 1}
    assert validity(mouse) == [None, True]


def test_missing_reference_data_are_nobodys_fault(mouse: Engine) -> None:
    document = upload(mouse, ill("x"))
    without = basis(reference=ActiveReference(replace(BASIS.reference.data, impress=None), {}))
    judgement = judge(mouse, document, without)
    assert (judgement.failed, rules_of(judgement)) == (False, ["reference"])
    assert judgement.counts == {("reference", Severity.UNCHECKED): 1}
    assert validity(mouse) == [True]
    assert rules_of(judge(mouse, document)) == ["P9"]


@pytest.fixture
def broken_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """E8 finds one fault, and then breaks down."""

    def break_down(element: object, at: object) -> Iterator[Fault]:
        yield fault(1, "2013-10-31", experiment="E1")
        raise ZeroDivisionError("of value secret")

    for kind, rules in registry._BY_KIND.items():
        broken = tuple(replace(each, check=break_down) if each.id == "E8" else each for each in rules)
        monkeypatch.setitem(registry._BY_KIND, kind, broken)


@only_sqlite
@pytest.mark.usefixtures("broken_rule")
def test_a_rule_that_breaks_down_is_an_outcome_of_its_own_and_stops_no_other(
    mouse: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    document = upload(mouse, ill("x", "y", "5"))
    with caplog.at_level(logging.ERROR):
        judgement = judge(mouse, document)
    assert sorted(rules_of(judgement)) == ["E8", "E8", "E8", "E8", "P9", "P9"]
    unchecked = [entry for entry in judgement.findings if entry.severity is Severity.UNCHECKED]
    assert [entry.rule for entry in unchecked] == ["E8"]
    assert "not of the centre" in unchecked[0].message
    assert "secret" not in unchecked[0].message
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_of_very_many_findings_the_first_are_recorded_and_one_counts_the_rest(mouse: Engine) -> None:
    values = ["x"] * 7 + ["20"] * 6 + ["5"]
    document = upload(mouse, ill(*values))
    by = basis(limit=4)
    for _ in range(2):
        judgement = judge(mouse, document, by)
        assert judgement.counts == {("P9", Severity.ERROR): 7, ("X10", Severity.WARNING): 6}
        assert rules_of(judgement) == ["P9"] * 4 + ["X10"] * 4 + ["more"]
    (more,) = [row for row in findings(mouse, document) if row.rule == "more"]
    assert more.severity == "error"
    assert "The document has more findings (5) than those recorded (8): P9 3 (error), X10 2 (warning)" in more.message
    assert validity(mouse) == [False] * 7 + [True] * 7
    assert "more" not in rules_of(judge(mouse, document))


# Documents judged together by what was found in them


def judge_all(qc: Engine, *documents: AppliedDocument) -> list[Any]:
    """Judge documents together in which nothing is found."""
    return list(in_writing(qc, judge_together, {one.document_id: () for one in documents}, BASIS).values())


def built(qc: Engine, document: AppliedDocument) -> AppliedDocument:
    """A document that was judged well and that the data contexts take account of; it is to be judged anew."""
    judge(qc, document)
    with writing(qc) as connection:
        connection.execute(update(DOCUMENT).where(DOCUMENT.c.id == document.document_id).values(contexts_built=True))
        mark_for_judging(connection, [document.document_id])
    assert document_row(qc, document).judged_at is None
    return document


def test_a_document_that_was_judged_well_stays_in_its_contexts_when_nothing_is_found_again(mouse: Engine) -> None:
    document = built(mouse, upload(mouse, ill("5")))
    other = upload(mouse, ill("5", first=21))
    judge_all(mouse, document, other)
    row = document_row(mouse, document)
    assert (row.judged_at is not None, row.contexts_built) == (True, True)
    assert document_row(mouse, other).judged_at is not None
    assert validity(mouse) == [True, True]


@pytest.mark.parametrize("said", [Validity.UNJUDGED, Validity.INVALID], ids=["not judged", "known to be invalid"])
def test_what_was_not_valid_becomes_so_when_nothing_is_found_and_its_contexts_are_built(
    mouse: Engine, said: int
) -> None:
    document = built(mouse, upload(mouse, ill("5", "6")))
    execute_in(mouse, update(models.EXPERIMENT).where(models.EXPERIMENT.c.experiment_id == "E12").values(validity=said))
    judge_all(mouse, document)
    assert validity(mouse) == [True, True]
    assert not document_row(mouse, document).contexts_built


def test_findings_that_hold_no_more_are_closed_beside_documents_that_were_never_judged(mouse: Engine) -> None:
    faulty = upload(mouse, ill("5", "x"))
    judge(mouse, faulty)
    assert validity(mouse) == [True, False]
    sound = upload(mouse, ill("5", first=21))
    judged: list[Judgement] = judge_all(mouse, faulty, sound)
    assert [one.cleared for one in judged] == [1, 0]
    assert [row.closed is not None for row in findings(mouse)] == [True]
    assert validity(mouse) == [True] * 3


@pytest.mark.both_databases
def test_only_experiments_on_animals_that_count_nowhere_wait_for_a_colony(mouse: Engine) -> None:
    """Those on an animal wait for none whose refused addition has a wrong colony, nor for one of a similar name."""
    judge(mouse, upload(mouse, experiments(experiment(), experiment(experiment_id="E2", specimen_ids=("M2 ",)))))
    wrong = specimens(*(mutant(specimen_id=name, colony_id="wrong", line=n) for n, name in enumerate(("M1", "M2"), 4)))
    assert judge(mouse, upload(mouse, wrong)).counts["S4", Severity.ERROR] == 2
    cause = Cause("S4", "S4", "H", Severity.ERROR, example=Fact(value="wrong"))
    with mouse.connect() as connection:
        DataFacts(connection, Scope(centre="H")).count_waiting([cause])
    assert cause.waiting_experiments == 0
