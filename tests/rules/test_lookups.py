"""What the rules ask the QC database, on SQLite and on MariaDB."""

from datetime import date

import pytest
from sqlalchemy import Engine

from dcc.documents.contents import Experiment, SpecimenKind
from dcc.naming import Action, DocumentKind
from dcc.qc.judging.lookups import WITHOUT_QUERY, SqlLookups, questionable
from dcc.rules.checking import ABOUT_SPECIMENS
from dcc.rules.context import KnownSpecimen, RunKey, latest_day
from tests.rules.test_rules import EXAMPLES, Example
from tests.support.asking import in_reading
from tests.support.integrity_cases import TODAY, mutant, specimens
from tests.support.judging_cases import statements
from tests.support.qc_documents import PROCEDURE, apply, apply_document, experiment, reading, specimen, to_apply


def test_specimens_are_known_as_they_were_submitted(qc_database: Engine) -> None:
    apply(qc_database, Action.ADD, specimen("S1"), specimen("S2", dob="2013-05-01Z", gender="female"))
    embryo = {"kind": SpecimenKind.EMBRYO, "dob": None, "stage": "12.5", "stage_unit": "DPC"}
    apply(qc_database, Action.ADD, specimen("S3", **embryo), specimen("S4", dob="12013-05-01"))
    with qc_database.connect() as connection:
        known = SqlLookups(connection).known_specimens("H", {"S1", "S2", "S3", "S4", "S5"})
    assert known == {
        "S1": (KnownSpecimen("male", "2013-05-01"),),
        "S2": (KnownSpecimen("female", "2013-05-01Z"),),
        "S3": (KnownSpecimen("male", None),),
        "S4": (KnownSpecimen("male", "12013-05-01"),),
    }


def test_only_current_specimens_of_the_centre_are_known(qc_database: Engine) -> None:
    apply(qc_database, Action.ADD, specimen("S1"), specimen("S2"))
    apply(qc_database, Action.EDIT, specimen("S1", gender="female"))
    apply(qc_database, Action.DELETE, specimen("S2"))
    with qc_database.connect() as connection:
        lookups = SqlLookups(connection)
        known = lookups.known_specimens("H", {"S1", "S2"})
        assert lookups.known_specimens("J", {"S1", "S2"}) == {}
    assert {name: [each.gender for each in found] for name, found in known.items()} == {"S1": ["female"]}


def test_names_are_compared_to_the_letter(qc_database: Engine) -> None:
    apply(qc_database, Action.ADD, specimen("S1"), specimen("s2"), specimen("S3 "))
    with qc_database.connect() as connection:
        lookups = SqlLookups(connection)
        assert set(lookups.known_specimens("H", {"S1 ", "S2", "S3", "S1"})) == {"S1"}
        assert lookups.known_specimens("H ", {"S1"}) == {}


def test_all_of_a_batch_are_asked_for_at_once(qc_database: Engine) -> None:
    apply(qc_database, Action.ADD, *(specimen(f"S{n}") for n in range(50)))
    with qc_database.connect() as connection, statements(qc_database) as sent:
        lookups = SqlLookups(connection)
        assert len(lookups.known_specimens("H", {f"S{n}" for n in range(2_000)})) == 50
    assert len(sent) == 1


@pytest.mark.both_databases
def test_current_experiments_are_known_by_animal_procedure_and_day(qc_database: Engine) -> None:
    runs = [experiment(f"E{number}", (animal,), position=number) for number, animal in enumerate(("S1", "S1", "S2"), 1)]
    document = to_apply(Action.ADD, DocumentKind.EXPERIMENT)
    apply_document(qc_database, document, reading(*runs, experiment("E4", ("S1",), sequence_id="1")))
    apply(qc_database, Action.ADD, experiment("E5"))
    apply(qc_database, Action.DELETE, experiment("E5"))
    keys = {RunKey(name, PROCEDURE, date(2013, 10, 1), None) for name in ("S1", "S1 ", "S3")}
    with qc_database.connect() as connection:
        lookups = SqlLookups(connection)
        known = lookups.known_runs("H", keys)
        assert lookups.known_runs("J", keys) == {}
    assert known == {RunKey("S1", PROCEDURE, date(2013, 10, 1), None): dict.fromkeys(("E1", "E2"), document.file_name)}


def test_every_rule_of_the_platform_about_specimens_has_a_query() -> None:
    assert not WITHOUT_QUERY, (
        f"Write a query of the documents to which {sorted(WITHOUT_QUERY)} may object, in dcc/qc/judging/lookups.py. "
        "Without it, sessions judge all documents one by one."
    )


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.rule in ABOUT_SPECIMENS and one.found], ids=str)
def test_the_query_of_a_rule_names_each_document_to_which_it_objects(qc_database: Engine, example: Example) -> None:
    """A document that it does not name is not judged by the rule."""
    of_experiments = any(isinstance(one, Experiment) for one in example.document)
    kind = DocumentKind.EXPERIMENT if of_experiments else DocumentKind.SPECIMEN
    if uploaded := example.options.get("uploaded", specimens(mutant()) if of_experiments else ()):
        apply_document(qc_database, to_apply(Action.ADD, DocumentKind.SPECIMEN), lambda: uploaded)
    applied = apply_document(qc_database, to_apply(Action.ADD, kind), lambda: example.document)
    named = in_reading(qc_database, questionable, {applied.document_id}, latest_day(TODAY))
    assert named, f"{example}: the query of {example.rule} in dcc/qc/judging/lookups.py lacks a condition."
