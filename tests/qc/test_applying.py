"""What add, edit and delete do to the QC database, on SQLite and on MariaDB."""

import json
from dataclasses import replace
from datetime import date, timedelta

import pytest
from sqlalchemy import Engine, Table, select

from dcc.documents.contents import Experiment, SpecimenKind, StatusCode
from dcc.naming import Action, DocumentKind
from dcc.qc import models
from dcc.qc.models import FINDING, HOUSING, MEASUREMENT, RUN, SPECIMEN
from dcc.qc.rows.documents import NewestDates
from dcc.runtime.clock import utc_now
from dcc.vocabulary import DocumentState
from tests.support.asking import column_in, in_reading, rows_in
from tests.support.qc_documents import (
    PROCEDURE,
    apply,
    apply_document,
    experiment,
    housing,
    line,
    reading,
    specimen,
    to_apply,
    undo_documents,
)

ADD, EDIT, DELETE = Action.ADD, Action.EDIT, Action.DELETE
OF_LOCKS = {"write_receipt", "upload_lock", "centre_lock", "reserved_ids"}
TABLES = [table for table in models.QcBase.metadata.sorted_tables if table.name not in OF_LOCKS]


def litters(engine: Engine) -> dict[str, str]:
    """The litter of each current specimen."""
    rows = rows_in(engine, select(SPECIMEN.c.specimen_id, SPECIMEN.c.litter_id).where(SPECIMEN.c.is_current))
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1] for row in rows}


def values(engine: Engine, owner: Table = models.EXPERIMENT) -> list[str]:
    """The measured values of current experiments, lines or housings."""
    statement = (
        select(MEASUREMENT.c.value)
        .join(RUN, RUN.c.id == MEASUREMENT.c.procedure_run_id)
        .join(owner, (owner.c.id == RUN.c.owner_id) & (RUN.c.owner_kind == owner.name))
        .where(owner.c.is_current)
    )
    return sorted(column_in(engine, statement))


def all_rows(engine: Engine) -> dict[str, list[tuple[object, ...]]]:
    with engine.connect() as connection:
        return {table.name: sorted(map(tuple, connection.execute(select(table))), key=repr) for table in TABLES}


def test_add_of_what_is_there_is_an_error_and_changes_nothing_of_it_and_the_rest_is_added(qc_database: Engine) -> None:
    apply(qc_database, ADD, specimen("S1", "first"))
    applied = apply(qc_database, ADD, specimen("S1", "second"), specimen("S2", "third"))
    assert litters(qc_database) == {"S1": "first", "S2": "third"}
    assert [(finding.rule, finding.line, finding.value) for finding in applied.findings] == [("S13", 4, "S1")]
    assert (applied.state, applied.refused, applied.opened) == (DocumentState.APPLIED, 1, {"specimen": 1})


def test_an_experiment_with_a_status_code_alone_is_edited_into_one_with_results(qc_database: Engine) -> None:
    without_results = {"procedure": None, "status_codes": (StatusCode(9, None, "IMPC_PSC_003"),)}
    added = apply(qc_database, ADD, *(experiment(name)._replace(**without_results) for name in ("E1", "E2")))
    edited = apply(qc_database, EDIT, experiment("E1"), experiment("E2", sequence_id="7"))
    assert (edited.opened, edited.ended) == ({"experiment": 1}, {"experiment": 1})
    assert [(one.rule, one.value) for one in edited.findings] == [("Q3", "E2")]
    assert current_experiments(qc_database) == {("E2", None), ("E1", PROCEDURE)}
    assert apply(qc_database, EDIT, experiment("E1", value="2")).ended == {"experiment": 1}
    twice = apply(qc_database, EDIT, experiment("E2"), experiment("E2", procedure_id="IMPC_BWT_001"))
    assert [one.rule for one in twice.findings] == ["Q3"]
    # The edit builds on the addition, whose version comes back with its withdrawal.
    assert edited.document_id in {one.document_id for one in undo_documents(qc_database, [added.document_id]).builders}
    undo_documents(qc_database, [twice.document_id])
    assert current_experiments(qc_database) == {("E2", None), ("E1", PROCEDURE)}


def current_experiments(engine: Engine) -> set[tuple[object, ...]]:
    """The names and procedures of the current experiments."""
    table = models.EXPERIMENT.c
    rows = rows_in(engine, select(table.experiment_id, table.procedure_id).where(table.is_current))
    return {tuple(row) for row in rows}


def test_experiments_lines_and_housings_are_added_edited_and_deleted(qc_database: Engine) -> None:
    def current() -> list[list[str]]:
        return [values(qc_database, owner) for owner in (models.EXPERIMENT, models.LINE, models.HOUSING)]

    apply(qc_database, ADD, housing("1"), housing("2", "2013-01-01"), line("C1", "3"), line("C1", "4", "IMPC_VIA_001"))
    apply(qc_database, ADD, experiment("E1", value="5"))
    applied = apply(qc_database, ADD, housing("9"), line("C1", "9"))
    assert [(finding.rule, finding.entity_kind) for finding in applied.findings] == [("Q2", "line"), ("Q2", "housing")]
    changed = housing("20", "2013-01-01"), line("C1", "30"), experiment("E1", value="50")
    apply(qc_database, EDIT, *changed)
    assert current() == [["50"], ["30", "4"], ["1", "20"]]
    apply(qc_database, DELETE, *changed)
    assert current() == [[], ["4"], ["1"]]


def test_ids_are_compared_to_the_letter(qc_database: Engine) -> None:
    apply(qc_database, ADD, specimen("S1", "a"), specimen("s1", "b"), specimen("S1 ", "c"), specimen("Ｓ1", "d"))
    assert litters(qc_database) == {"S1": "a", "s1": "b", "S1 ": "c", "Ｓ1": "d"}
    apply(qc_database, DELETE, specimen("S1"))
    assert set(litters(qc_database)) == {"s1", "S1 ", "Ｓ1"}


def test_a_specimen_with_experiments_is_not_deleted_and_they_are_named(qc_database: Engine) -> None:
    apply(qc_database, ADD, specimen("S1"), specimen("S2"))
    apply(qc_database, ADD, experiment("E1"), experiment("E2", ("S2", "S1")))
    apply(qc_database, DELETE, experiment("E1"))
    applied = apply(qc_database, DELETE, specimen("S1"), specimen("S3"))
    assert [finding.rule for finding in applied.findings] == ["Q4", "Q3"]
    assert "E2" in applied.findings[0].message
    assert "E1" not in applied.findings[0].message
    assert set(litters(qc_database)) == {"S1", "S2"}


@pytest.mark.parametrize(
    ("added", "found"),
    [
        ((experiment("E1", value="2"),), "E9.there"),
        ((experiment("E2"), experiment("E2", value="2")), "E9.twice"),
        ((experiment("E1", sequence_id="1"), experiment("E1", sequence_id="")), None),
        ((experiment("E1", sequence_id="1"), experiment("E1", sequence_id="1 ")), None),
        ((experiment("E1 "),), None),
        ((experiment("E1", procedure_id="IMPC_GRS_001"),), None),
    ],
)
def test_an_experiment_is_there_if_id_sequence_and_procedure_are(
    qc_database: Engine, added: tuple[Experiment, ...], found: str | None
) -> None:
    apply(qc_database, ADD, experiment("E1"))
    findings = apply(qc_database, ADD, *added).findings
    assert [finding.code for finding in findings] == ([] if found is None else [found])


@pytest.mark.parametrize(("action", "rule"), [(ADD, "S13"), (EDIT, "Q3"), (DELETE, "Q3")])
def test_of_what_a_document_names_twice_the_first_counts(qc_database: Engine, action: Action, rule: str) -> None:
    if action is not ADD:
        apply(qc_database, ADD, specimen("S1", "zero"))
    applied = apply(qc_database, action, specimen("S1", "one"), specimen("S1", "two"))
    assert [finding.rule for finding in applied.findings] == [rule]
    assert litters(qc_database) == ({} if action is DELETE else {"S1": "one"})


@pytest.mark.parametrize(("action", "tracker_id"), [(ADD, None), (EDIT, 7), (DELETE, None)])
def test_the_same_document_twice_changes_nothing(qc_database: Engine, action: Action, tracker_id: int | None) -> None:
    apply(qc_database, ADD, specimen("S0"))
    document = to_apply(action, DocumentKind.SPECIMEN, tracker_id=tracker_id)
    first = apply_document(qc_database, document, reading(specimen("S0"), specimen("S1")), patience_seconds=5)
    before = all_rows(qc_database)
    second = apply_document(qc_database, document, reading(specimen("S0"), specimen("S1")), patience_seconds=5)
    assert (second.repeated, second.document_id, second.state) == (True, first.document_id, first.state)
    assert second.findings == first.findings
    assert all_rows(qc_database) == before


def test_a_refused_document_is_tried_again(qc_database: Engine) -> None:
    document = to_apply(EDIT, DocumentKind.SPECIMEN, tracker_id=7)
    read = reading(specimen("S1", "edited"))
    assert apply_document(qc_database, document, read).state is DocumentState.REFUSED
    apply(qc_database, ADD, specimen("S1", "added"))
    applied = apply_document(qc_database, document, read)
    assert (applied.state, applied.findings, litters(qc_database)) == (DocumentState.APPLIED, (), {"S1": "edited"})
    rows = rows_in(qc_database, select(FINDING.c.is_active, FINDING.c.closed_by))
    assert [tuple(row) for row in rows] == [(False, applied.document_id)]


def test_no_document_is_late_because_of_one_that_is_dated_in_the_future(qc_database: Engine) -> None:
    by_mistake = utc_now().date() + timedelta(days=2)
    apply(qc_database, ADD, specimen("S1"), created=by_mistake)
    assert not apply(qc_database, EDIT, specimen("S1", "changed"), created=date(2013, 10, 30)).late
    together = [to_apply(ADD, DocumentKind.SPECIMEN, created=created) for created in (by_mistake, date(2013, 10, 29))]
    newest = in_reading(qc_database, NewestDates, together)
    newest.add(together[0])
    assert newest.before(together[1]) == date(2013, 10, 30)


def test_what_is_late_is_applied_and_reported_but_not_what_came_together(qc_database: Engine) -> None:
    first = apply(qc_database, ADD, specimen("S1"), created=date(2013, 10, 20)).document_id + 1
    assert not apply(qc_database, ADD, experiment("E1"), created=date(2013, 10, 31), first_of_batch=first).late
    assert not apply(qc_database, ADD, specimen("S2"), created=date(2013, 10, 25), first_of_batch=first).late
    late = apply(qc_database, ADD, specimen("S3"), created=date(2013, 10, 19), first_of_batch=first)
    assert (late.late, [finding.rule for finding in late.findings]) == (True, ["Q5"])
    assert (late.state, set(litters(qc_database))) == (DocumentState.APPLIED, {"S1", "S2", "S3"})
    refused = apply(qc_database, EDIT, specimen("S9"), created=date(2013, 10, 19), first_of_batch=first)
    assert (refused.late, [finding.rule for finding in refused.findings]) == (True, ["Q3"]), "it takes no effect"
    together = [
        to_apply(ADD, DocumentKind.SPECIMEN, created=date(2013, 10, day), first_of_batch=first) for day in (9, 28)
    ]
    newest = in_reading(qc_database, NewestDates, together)
    for one in together:
        newest.add(one)
    assert [newest.before(one) for one in together] == [date(2013, 10, 20), None]


@pytest.mark.parametrize("action", [EDIT, DELETE])
def test_housings_of_days_beyond_any_calendar_are_told_apart(qc_database: Engine, action: Action) -> None:
    days = [None, "2013-10-01", "2013-10-01Z", "10000-01-01", "12013-10-01", "-0044-03-15"]
    added = apply(qc_database, ADD, *(housing(last_updated=day) for day in days))
    # One of a time zone is of the same day.
    assert [(one.rule, one.path) for one in added.findings] == [("Q2", "/centreProcedureSet/centre[1]/housing[3]")]
    changed = apply(qc_database, action, housing("2", "12013-10-01"), housing("2", "99999-01-01"))
    assert changed.ended == {"housing": 1}
    assert [one.rule for one in changed.findings] == ["Q3"]
    written = select(HOUSING.c.lexical).where(HOUSING.c.is_current, HOUSING.c.lexical.is_not(None))
    kept = {json.loads(one)["lastUpdated"] for one in column_in(qc_database, written)}
    assert kept == {"10000-01-01", "-0044-03-15"} | ({"12013-10-01"} if action is EDIT else set())
    undo_documents(qc_database, [changed.document_id], patience_seconds=5)
    undo_documents(qc_database, [added.document_id], patience_seconds=5)


def test_findings_of_the_upload_tell_the_path_of_their_element(qc_database: Engine) -> None:
    long = "x" * 300
    mice = [specimen("S1"), specimen("S1"), specimen("E1", kind=SpecimenKind.EMBRYO), specimen("S2", litter=long)]
    found = apply(qc_database, ADD, *mice, specimen("E1", kind=SpecimenKind.EMBRYO)).findings
    said = [(one.rule, one.path) for one in found]
    of_centre = "/centreSpecimenSet/centre[1]"
    assert sorted(said) == [
        ("Q1", f"{of_centre}/mouse[3]"),
        ("S13", f"{of_centre}/embryo[2]"),
        ("S13", f"{of_centre}/mouse[2]"),
    ]
    found = apply(qc_database, ADD, experiment("E1"), line("C1"), experiment("E1")).findings
    assert [(one.rule, one.path) for one in found] == [("E9", "/centreProcedureSet/centre[1]/experiment[2]")]
    stored = rows_in(qc_database, select(FINDING.c.rule, FINDING.c.path).order_by(FINDING.c.id))
    assert sorted(tuple(row) for row in stored) == sorted([*said, *((one.rule, one.path) for one in found)])


def test_an_edit_that_comes_as_it_was_before_another_takes_effect_again(qc_database: Engine) -> None:
    """An archive processed again with other contents, and again as it was: what its centre sent last is current."""
    apply(qc_database, ADD, specimen("S1", "added"))
    first = to_apply(EDIT, DocumentKind.SPECIMEN)
    second = replace(first, md5="0" * 32)
    for document, litter in ((first, "first"), (second, "second"), (first, "first")):
        applied = apply_document(qc_database, document, reading(specimen("S1", litter)))
        assert (applied.repeated, applied.opened) == (False, {"specimen": 1})
        assert litters(qc_database) == {"S1": litter}
        again = apply_document(qc_database, document, reading(specimen("S1", litter)))
        assert (again.repeated, again.document_id) == (True, applied.document_id)
