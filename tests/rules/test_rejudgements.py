"""Which documents are judged again, because of which others, on SQLite and on MariaDB."""

from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, update

from dcc.documents.contents import Experiment
from dcc.naming import Action
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.judging import rejudgements
from dcc.qc.models import SNAPSHOT
from dcc.qc.reference.snapshots import ActiveReference
from dcc.vocabulary import WaiverEffect
from tests.support.asking import execute_in, in_reading
from tests.support.integrity_cases import (
    REFERENCE,
    block,
    experiment,
    experiments,
    mutant,
    procedure,
    related,
    simple,
    specimen_block,
    specimens,
    status,
)
from tests.support.judging_cases import add_snapshots, basis, judge, rules_of, upload, validity, waive, waiver
from tests.support.qc_documents import undo_documents

ADD, EDIT, DELETE = Action.ADD, Action.EDIT, Action.DELETE


def judged(qc: Engine, *contents: Any, action: Action = ADD, **options: Any) -> AppliedDocument:
    applied = upload(qc, list(contents), action, **options)
    judge(qc, applied)
    return applied


def on(*specimen_ids: str, name: str = "E1", value: str = "5", **changes: Any) -> list[Any]:
    """An experiment on specimens."""
    done = procedure(simple("RANGED", value))
    return experiments(experiment(done, specimen_ids=specimen_ids, experiment_id=name, **changes))


def again(qc: Engine, *documents: AppliedDocument | int) -> list[int]:
    ids = [each if isinstance(each, int) else each.document_id for each in documents]
    return in_reading(qc, rejudgements.documents_to_judge_again, ids)


def test_a_specimen_that_arrives_has_those_judged_again_that_missed_it(qc_database: Engine) -> None:
    missing = judged(qc_database, *on("M1"))
    relative = judged(qc_database, *specimens(mutant(specimen_id="M2", related_specimens=(related("M1", "mother"),))))
    judged(qc_database, *on("M2", name="E2"))
    judged(qc_database, *on("M3", name="E3"))
    arrived = judged(qc_database, *specimens(mutant(gender="female")))
    assert again(qc_database, arrived) == [missing.document_id, relative.document_id]
    for document in (missing, relative):
        judge(qc_database, document)
    assert again(qc_database, arrived) == []


@pytest.mark.both_databases
def test_what_is_beyond_the_recorded_findings_is_judged_again_too(qc_database: Engine) -> None:
    """The document was left as it was while only animals arrived, or a waiver was given, that no record named."""
    done = [
        experiment(procedure(simple("RANGED", value)), specimen_ids=(name,), experiment_id=name, line=line)
        for line, (name, value) in enumerate([("M1", "5"), ("M2", "5"), ("M3", "5"), ("M4", "x")], 10)
    ]
    by, missing = basis(limit=2), upload(qc_database, experiments(*done))
    judge(qc_database, missing, by)
    arrived = judged(qc_database, *specimens(mutant(specimen_id="M3")))
    assert again(qc_database, arrived) == [missing.document_id]
    judge(qc_database, missing, by)
    assert validity(qc_database) == [False, False, True, False]
    for rule, concerned in (("P9", [missing.document_id]), ("P8", [])):
        made = waive(qc_database, waiver(rule))
        assert in_reading(qc_database, rejudgements.documents_of_rule, rule) == concerned
        assert in_reading(qc_database, rejudgements.documents_of_waiver, made) == concerned
        assert in_reading(qc_database, rejudgements.documents_of_begun_waivers, [made]) == concerned
    assert in_reading(qc_database, partial(rejudgements.documents_unchecked, not_by=by.signature)) == []
    assert in_reading(qc_database, partial(rejudgements.documents_unchecked, not_by="7")) == [missing.document_id]


@pytest.mark.parametrize("effect", WaiverEffect)
def test_the_end_of_a_waiver_of_what_is_beyond_the_recorded_findings_is_noticed(
    qc_database: Engine, effect: WaiverEffect
) -> None:
    judged(qc_database, *specimens(mutant()))
    faulty = [
        experiment(procedure(simple("RANGED", value)), experiment_id=f"E{line}", specimen_ids=(animal,), line=line)
        for line, (animal, value) in enumerate([("M7", "5"), ("M8", "5"), ("M1", "x"), ("M1", "y")], 10)
    ]
    lowered = waive(qc_database, waiver("E4", effect=WaiverEffect.WARN))
    given = waive(qc_database, waiver("P9", effect=effect, valid_until=date(2026, 12, 31)))
    document = upload(qc_database, experiments(*faulty))
    assert not judge(qc_database, document, basis(lowered, given, limit=2)).failed
    last, after = date(2026, 12, 31), date(2027, 1, 1)
    assert in_reading(qc_database, rejudgements.documents_of_lapsed_waivers, last) == []
    assert in_reading(qc_database, rejudgements.documents_of_lapsed_waivers, after) == [document.document_id]
    assert judge(qc_database, document, basis(lowered, limit=2)).failed
    assert in_reading(qc_database, rejudgements.documents_of_lapsed_waivers, after) == []


def test_a_specimen_of_another_centre_heals_nothing(qc_database: Engine) -> None:
    judged(qc_database, *on("M1"))
    arrived = judged(qc_database, specimen_block(centre="J"), mutant(), centre="J")
    assert again(qc_database, arrived) == []


def test_a_specimen_that_changes_has_all_judged_again_whose_current_experiments_name_it(qc_database: Engine) -> None:
    judged(qc_database, *specimens(mutant(), mutant(specimen_id="M2", line=4)))
    about = judged(qc_database, *on("M1"))
    judged(qc_database, *on("M2", name="E2"))
    deleted = judged(qc_database, *on("M1", name="E3", date="2013-10-02"))
    judged(qc_database, *on("M1", name="E3", date="2013-10-02"), action=DELETE)
    edited = judged(qc_database, *specimens(mutant(dob="2015-01-01")), action=EDIT)
    assert again(qc_database, edited) == [about.document_id]
    assert judge(qc_database, about).failed, "it is of a day before the birth"
    assert not judge(qc_database, deleted).failed
    corrected = judged(qc_database, *specimens(mutant()), action=EDIT)
    assert again(qc_database, corrected) == [about.document_id]
    assert not judge(qc_database, about).failed


def test_a_specimen_that_goes_has_its_relatives_judged_again(qc_database: Engine) -> None:
    judged(qc_database, *specimens(mutant()))
    relative = judged(qc_database, *specimens(mutant(specimen_id="M2", related_specimens=(related("M1"),))))
    deleted = judged(qc_database, *specimens(mutant()), action=DELETE)
    assert again(qc_database, deleted) == [relative.document_id]


def test_what_a_withdrawn_document_changed_is_judged_again_as_it_was(qc_database: Engine) -> None:
    missing = judged(qc_database, *on("M1"))
    arrived = judged(qc_database, *specimens(mutant(), mutant(specimen_id="M2", line=4)))
    judge(qc_database, missing)
    changed = judged(qc_database, *specimens(mutant(dob="2015-01-01")), action=EDIT)
    assert rules_of(judge(qc_database, missing)) == ["E8"]
    undone = undo_documents(qc_database, [changed.document_id])
    assert again(qc_database, *undone.undone_by) == [missing.document_id, arrived.document_id]
    assert rules_of(judge(qc_database, missing)) == []


def test_documents_whose_faulty_entities_are_replaced_or_come_back_are_judged_again(qc_database: Engine) -> None:
    judged(qc_database, *specimens(mutant()))
    faulty = judged(qc_database, *on("M1", value="x"))
    sound = judged(qc_database, *on("M1", name="E2", date="2013-10-02"))
    edited = judged(qc_database, *on("M1"), action=EDIT)
    assert again(qc_database, edited) == [faulty.document_id]
    other = judged(qc_database, *on("M1", name="E2", value="7", date="2013-10-02"), action=EDIT)
    assert again(qc_database, other) == [], "nothing was found in what it replaced"
    judge(qc_database, faulty)
    undone = undo_documents(qc_database, [edited.document_id, other.document_id])
    assert again(qc_database, *undone.undone_by) == [faulty.document_id, sound.document_id]


@pytest.mark.both_databases
@pytest.mark.parametrize("how", ["edited", "deleted", "withdrawn"])
def test_a_repeated_experiment_is_judged_again_when_the_repeat_comes_and_goes(qc_database: Engine, how: str) -> None:
    judged(qc_database, *specimens(mutant()))
    first = judged(qc_database, *on("M1"))
    for other in ({"date": "2013-10-02"}, {"sequence_id": "1"}):
        judged(qc_database, *on("M1", name="E3", **other))
    second = judged(qc_database, *on("M1", name="E2"))
    assert again(qc_database, second) == [first.document_id]
    for document in (first, second):
        assert rules_of(judge(qc_database, document)) == ["X17"]
    if how == "edited":
        causes = [judged(qc_database, *on("M1", name="E2", date="2013-10-03"), action=EDIT).document_id]
    elif how == "deleted":
        causes = [judged(qc_database, *on("M1", name="E2"), action=DELETE).document_id]
    else:
        causes = list(undo_documents(qc_database, [second.document_id]).undone_by)
    assert first.document_id in again(qc_database, *causes)
    assert rules_of(judge(qc_database, first)) == []
    if how != "withdrawn":
        assert rules_of(judge(qc_database, second)) == []
        undone = undo_documents(qc_database, causes).undone_by
        assert again(qc_database, *undone) == [first.document_id, second.document_id]
        for document in (first, second):
            assert rules_of(judge(qc_database, document)) == ["X17"]


@pytest.mark.both_databases
def test_experiments_of_other_centres_or_animals_and_ones_not_done_are_no_repeats(qc_database: Engine) -> None:
    judged(qc_database, *specimens(mutant(), mutant(specimen_id="M2", line=4)))
    first = judged(qc_database, *on("M1"))
    judged(qc_database, *on("M2", name="E2"))
    judged(qc_database, block(centre="J"), *on("M1", name="E3")[1:], centre="J")
    assert in_reading(qc_database, rejudgements.documents_of_rule, "X17") == []
    judged(qc_database, *on("M1", name="E4", status_codes=(status("IMPC_PSC_001"),)))
    assert rules_of(judge(qc_database, first)) == []


def test_documents_that_do_not_stand_or_wait_for_their_first_judgement_are_left_alone(qc_database: Engine) -> None:
    upload(qc_database, on("M1"))
    withdrawn = judged(qc_database, *on("M1", name="E2"))
    undo_documents(qc_database, [withdrawn.document_id])
    arrived = judged(qc_database, *specimens(mutant()))
    assert again(qc_database, arrived) == []


@pytest.mark.both_databases
def test_documents_are_found_by_rule_and_centre(qc_database: Engine) -> None:
    first = judged(qc_database, *on("M1"))
    second = judged(qc_database, block(centre="J"), *on("M1")[1:], centre="J")
    judged(qc_database, *specimens(mutant(specimen_id="M2")))
    assert in_reading(qc_database, rejudgements.documents_of_rule, "E4") == [first.document_id, second.document_id]
    assert in_reading(qc_database, rejudgements.documents_of_rule, "E4", "J") == [second.document_id]
    assert in_reading(qc_database, rejudgements.documents_of_rule, "P9") == []


@pytest.fixture
def faulty(qc_database: Engine) -> tuple[AppliedDocument, AppliedDocument]:
    """Two documents in which a value is no number, of the centres H and J."""
    values: list[AppliedDocument] = []
    for centre in ("H", "J"):
        judged(qc_database, specimen_block(centre=centre), mutant(phenotyping_centre=centre), centre=centre)
        (_, done) = on("M1", value="x")
        assert isinstance(done, Experiment)
        values.append(judged(qc_database, block(centre=centre), done, centre=centre))
    return values[0], values[1]


@pytest.mark.both_databases
def test_a_waiver_concerns_documents_with_findings_that_it_covers(
    qc_database: Engine, faulty: tuple[AppliedDocument, AppliedDocument]
) -> None:
    for changes, concerned in (
        ({}, faulty),
        ({"centre": "J"}, faulty[1:]),
        ({"centre": "J", "procedure": "PROC_001"}, faulty[1:]),
        ({"procedure": "PROC_002"}, ()),
        ({"rule": "P8"}, ()),
    ):
        made = waive(qc_database, waiver(**{"rule": "P9"} | changes))
        found = in_reading(qc_database, rejudgements.documents_of_waiver, made)
        begun = in_reading(qc_database, rejudgements.documents_of_begun_waivers, [made])
        assert found == begun == [document.document_id for document in concerned], changes
        for document in concerned:
            judge(qc_database, document, basis(made))
        assert in_reading(qc_database, rejudgements.documents_of_begun_waivers, [made]) == []
        assert in_reading(qc_database, rejudgements.documents_of_waiver, made) == found
        for document in concerned:
            judge(qc_database, document)


@pytest.mark.both_databases
def test_documents_judged_by_superseded_or_missing_reference_data_are_found(
    qc_database: Engine, faulty: tuple[AppliedDocument, AppliedDocument]
) -> None:
    ids = add_snapshots(qc_database)
    by = basis(reference=ActiveReference(REFERENCE, ids))
    for document_id in (1, 2, 3, 4):
        judge(qc_database, document_id, by)
    assert in_reading(qc_database, rejudgements.documents_of_superseded_snapshots) == []
    execute_in(qc_database, update(SNAPSHOT).where(SNAPSHOT.c.name == "impress").values(is_active=False))
    with_findings = [document.document_id for document in faulty]
    assert in_reading(qc_database, rejudgements.documents_of_superseded_snapshots) == with_findings
    judge(qc_database, faulty[0], replace(by, waivers=(waive(qc_database, waiver("P9")),)))
    assert in_reading(qc_database, rejudgements.documents_of_superseded_snapshots) == with_findings
    assert in_reading(qc_database, partial(rejudgements.documents_unchecked, not_by=by.signature)) == []
    judge(qc_database, faulty[0], basis(reference=ActiveReference(replace(REFERENCE, impress=None), {})))
    assert in_reading(qc_database, partial(rejudgements.documents_unchecked, not_by=by.signature)) == with_findings[:1]
