"""What was found sound in one document keeps nothing from being found in another, whatever they say."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcc.documents.contents import (
    Content,
    Experiment,
    Metadata,
    OntologyParameter,
    SeriesValue,
    SimpleParameter,
    Specimen,
)
from dcc.documents.reading import read_document
from dcc.naming import Action
from dcc.reference.impress import Impress, Option, ValueType
from dcc.reference.loading import ReferenceData
from dcc.rules import accepted_elements as sounds
from dcc.rules.accepted_elements import ENTITY_SHAPES, SHAPES, Sound, takes_any_number, with_any_number
from dcc.rules.checking import ABOUT_SPECIMENS, JUDGED_AT_UPLOAD, all_rules, check_contents
from dcc.rules.context import Context, DocumentContext
from dcc.rules.findings import Finding, Severity
from tests.rules.test_properties import impress_of
from tests.support.integrity_cases import (
    REFERENCE,
    THIS_DOCUMENT,
    TODAY,
    Uploaded,
    at,
    baseline,
    block,
    embryo,
    experiment,
    experiments,
    mutant,
    ontology,
    picture,
    procedure,
    related,
    series,
    simple,
    specimen_block,
    specimens,
    status,
    strain,
)
from tests.support.strategies_documents import Document, valid_documents, valid_procedures
from tests.support.trials import trials


def check(
    contents: list[Content],
    known: Sound | None,
    reference: ReferenceData = REFERENCE,
    without: frozenset[str] = frozenset(),
    today: date = TODAY,
) -> list[Finding]:
    lookups = Uploaded()
    lookups.add(specimens(mutant()), 1)
    context = DocumentContext(THIS_DOCUMENT, Action.ADD, "H", today, reference, lookups)
    return list(check_contents(contents, context, without, known))


def read(document: Document, path: Path) -> list[Content]:
    path.write_bytes(document.render()[0])
    return list(read_document(path, document.kind))


@given(documents=st.lists(st.one_of(valid_documents(), valid_procedures()), min_size=2, max_size=3))
@settings(
    max_examples=trials(40), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_documents_one_after_the_other_have_the_findings_that_each_has_by_itself(documents: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        contents = [read(document, Path(folder) / "document.xml") for document in documents]
    reference = replace(REFERENCE, impress=impress_of([content for each in contents for content in each]))
    known = Sound()
    for each in (*contents, *contents):
        assert check(each, known, reference) == check(each, None, reference)


def test_what_differs_in_one_thing_from_what_was_sound_is_judged() -> None:
    """Every part of a parameter that a rule looks at, after one in which it is right; and another procedure."""
    good = simple("RANGED", "5"), series("FREE", at("1"), at("2")), ontology("TERM", "MP:0001262")
    documents = [
        experiments(experiment(procedure(*good))),
        *(experiments(experiment(procedure(one))) for one in flawed()),
        experiments(experiment(procedure(*good, required=False))),
        experiments(experiment(procedure(*good, *good))),
        experiments(experiment(procedure(*good, procedure_id="NONE_001"))),
        experiments(experiment(procedure(*good, picture()))),
    ]
    known = Sound()
    found = [check(document, known) for document in documents]
    assert found == [check(document, None) for document in documents]
    assert found[0] == []
    assert all(found[1 : len(list(flawed())) + 1])


@pytest.mark.parametrize("without", [frozenset(), JUDGED_AT_UPLOAD, JUDGED_AT_UPLOAD | ABOUT_SPECIMENS])
def test_a_specimen_that_differs_in_one_thing_from_a_sound_one_is_judged(without: frozenset[str]) -> None:
    """Every field that a rule looks at; what it has that is like no other; and specimens of other documents."""
    sound = [mutant(), baseline()]
    unsound = [
        mutant(colony_id="aborted"),
        mutant(colony_id=None),
        mutant(production_centre="J"),
        mutant(phenotyping_centre="J"),
        mutant(project="?"),
        mutant(pipeline="?"),
        mutant(dob="2030-01-01"),
        mutant(dob="2001-01-01"),
        mutant(is_baseline="true"),
        mutant(stage="99", stage_unit="DPC"),
        mutant(stage="99", stage_unit="Theiler"),
        baseline(strain_id="?"),
        mutant(status_code=status("?")),
        mutant(parental_strains=(strain("50"),)),
    ]
    relatives = [mutant(related_specimens=(one,)) for one in (related("M1", "mother"), related("?"))]
    documents = [specimens(each._replace(specimen_id="M2")) for each in (*sound, *unsound, *relatives)]
    known = Sound()
    found = [check(document, known, without=without) for document in (*documents, *documents)]
    assert found == 2 * [check(document, None, without=without) for document in documents]
    assert found[:2] == [[], []]
    assert all(found[2 : -len(relatives) - len(documents)])
    assert all(bool(each) is not (without >= ABOUT_SPECIMENS) for each in found[-len(relatives) :])


@pytest.mark.parametrize("without", [JUDGED_AT_UPLOAD, JUDGED_AT_UPLOAD | ABOUT_SPECIMENS])
def test_an_experiment_that_differs_in_one_thing_from_a_sound_one_is_judged(without: frozenset[str]) -> None:
    flawless = experiment()
    documents = [
        flawless,
        experiment(procedure=None),
        experiment(status_codes=(status("?"),)),
        experiment(status_codes=(status("IMPC_PSC_015"),)),
        experiment(procedure=procedure(procedure_id="OLD_001")),
        experiment(date="2001-01-01"),
        experiment(specimen_ids=("?",)),
    ]
    known = Sound()
    found = [check(experiments(one), known, without=without) for one in (*documents, *documents)]
    assert found == 2 * [check(experiments(one), None, without=without) for one in documents]
    assert found[0] == []
    assert all(found[1:5])
    assert all(bool(each) is (without == JUDGED_AT_UPLOAD) for each in found[5:7])


def test_what_was_sound_elsewhere_is_judged_under_another_centre_and_on_another_day() -> None:
    known = Sound()
    tomorrow = str(TODAY + timedelta(days=1))
    animal = mutant(specimen_id="M2", dob=tomorrow)
    assert check([specimen_block(centre="H"), animal], known) == []
    assert [one.rule for one in check([specimen_block(centre="J"), animal], known)] == ["X5", "X4"]
    assert [one.rule for one in check(specimens(animal), known, today=TODAY - timedelta(days=1))] == ["S7"]


def test_what_was_sound_is_judged_by_other_reference_data_and_by_other_rules() -> None:
    """What a rule was not asked is not known of what was judged without it."""
    known = Sound()
    animal = mutant(specimen_id="M2", phenotyping_centre="J", production_centre="H")
    done = experiment(procedure(simple("RANGED", "5")))
    assert REFERENCE.colonies is not None
    changed = replace(REFERENCE, colonies=replace(REFERENCE.colonies, productions={}), impress=other_range())
    for reference, without, rules in (
        (REFERENCE, frozenset({"X4"}), []),
        (changed, frozenset({"X4"}), ["S4", "X10"]),
        (REFERENCE, frozenset({"X4"}), []),
        (REFERENCE, frozenset(), ["X4"]),
    ):
        documents = specimens(animal), experiments(done)
        found = [one.rule for each in documents for one in check(each, known, reference, without)]
        assert found == rules


def other_range() -> Impress:
    """An IMPReSS in which 5 is out of the range that it was in."""
    assert REFERENCE.impress is not None
    pipeline = REFERENCE.impress.pipelines["PIPE_001"]
    defined = pipeline.procedures["PROC_001"]
    narrow = replace(defined.parameters["RANGED"], qc_maximum=4.0)
    changed = replace(defined, parameters={**defined.parameters, "RANGED": narrow})
    pipelines = {"PIPE_001": replace(pipeline, procedures={**pipeline.procedures, "PROC_001": changed})}
    return replace(REFERENCE.impress, pipelines=pipelines)


def test_what_reference_data_are_missing_is_said_of_documents_in_which_all_is_known() -> None:
    """Where a kind of element is met first: behind one that is of no type, and in a document like one before."""
    reference = replace(REFERENCE, status_codes=None)
    good = procedure(simple("RANGED", "5"), series("FREE", at("1"), at("2")))
    mistyped = procedure(simple("FREE", "5"), simple("RANGED", "5"))
    documents = [experiments(experiment(one)) for one in (good, good, mistyped, good)]
    known = Sound()
    found = [check(document, known, reference) for document in documents]
    assert found == [check(document, None, reference) for document in documents]
    assert all(any(finding.severity is Severity.UNCHECKED for finding in each) for each in found)


def test_elements_are_known_together_as_each_is_known() -> None:
    """Texts to the letter and numbers whatever they are; not what has no value, or another unit."""
    known: set[sounds.Shape] = {("P_001", None, "g", "a", None), ("P_001", None, "g", None)}

    def are_known(*values: str | None, unit: str = "g") -> bool:
        elements = [SimpleParameter(line, "P_001", None, unit, value, None) for line, value in enumerate(values)]
        return sounds.are_known(SimpleParameter, elements, known)

    assert are_known()
    assert are_known("a", "5", "-7.25", "a")
    for values in (("b",), ("5", None), ("5", ""), ("5", "1e3"), ("1\n2",), ("1\02",), ("5", " 5"), ("٣",)):
        assert not are_known(*values)
    assert not are_known("5", unit="kg")
    assert not sounds.are_known(OntologyParameter, [OntologyParameter(1, "P_001", None, ("MP:1",), None)], known)


def flawed() -> list[object]:
    return [
        simple("RANGED", "x"),
        simple("RANGED", ""),
        simple("RANGED", "5", unit="kg"),
        simple(" RANGED", "5"),
        simple("RANGED", "5", status="IMPC_PARAMSC_005"),
        simple("FREE", "5"),
        series("FREE", at("1"), at("1")),
        series("FREE", at("1"), at("x")),
        series("FREE", at("1", "x"), at("2")),
        series("FREE"),
        ontology("TERM", ""),
    ]


def test_what_was_sound_is_remembered_and_what_was_not_is_not() -> None:
    assert REFERENCE.impress is not None
    defined = REFERENCE.impress.pipelines["PIPE_001"].procedures["PROC_001"]
    known = Sound()
    done = procedure(simple("RANGED", "5"), simple("RETIRED", "5"), series("FREE", at("1"), at("2", "x")))
    check(experiments(experiment(done)), known)
    shapes = known.of(SimpleParameter, defined)
    assert {name for name, *_ in shapes if name != "WEIGHT"} == {"RANGED"}
    assert {increment for increment, *_ in known.of(SeriesValue, defined.parameters["FREE"])} == {"1"}


def test_all_numbers_are_alike_where_any_will_do_and_nowhere_else() -> None:
    """Not where there is a range, or a list of options; and what is no plain number is looked at each time."""
    assert REFERENCE.impress is not None
    defined = REFERENCE.impress.pipelines["PIPE_001"].procedures["PROC_001"].parameters["RANGED"]
    free = replace(defined, qc_minimum=None, qc_maximum=None, options=())
    assert free.value_type == ValueType.FLOAT
    assert takes_any_number(free)
    for other in (
        replace(free, qc_minimum=1.0),
        replace(free, qc_maximum=0.0),
        replace(free, options=(Option("7", True),)),
        replace(free, value_type=ValueType.INT),
        replace(free, value_type=""),
    ):
        assert not takes_any_number(other)
    one = SimpleParameter(1, "P_001", None, "g", "-12.5", None)
    alike = with_any_number(one)
    assert alike == with_any_number(one._replace(line=2, value="7"))
    for text in ("", " 7", "7\n", "1e3", ".5", "7.", "+7", "NaN", "1,5", "٣", "1" * 16, None):
        assert with_any_number(one._replace(value=text)) is None
    assert with_any_number(one._replace(unit="kg", value="7")) != alike
    assert with_any_number(OntologyParameter(1, "P_001", None, ("7",), None)) is None


def test_rules_that_look_at_values_otherwise_than_as_numbers_are_not_said_to_be_numeric() -> None:
    """A rule for values of which nobody has said so keeps all of them from being alike."""
    of_values = {rule.id for rule in all_rules().values() if set(rule.on) & {SimpleParameter, SeriesValue, Metadata}}
    numeric = {rule.id for rule in all_rules().values() if rule.numeric}
    assert of_values == {"P7", "P8", "P9", "P10", "P11", "P14", "X2", "X10"}
    assert of_values <= numeric
    assert numeric <= {rule.id for rule in all_rules().values() if rule.local}


def test_rules_that_look_at_more_than_the_shape_are_not_said_to_be_local() -> None:
    """Such as those that look at the document, at what is uploaded, or at media."""
    of_shapes = {rule.id for rule in all_rules().values() if set(rule.on) & set(SHAPES)}
    local = {rule.id for rule in all_rules().values() if rule.local}
    assert of_shapes <= local
    assert not local & {"E4", "E8", "E9", "S13", "S14", "X5", "X8", "P19", "P20"}


@pytest.mark.parametrize(
    "entity",
    [mutant(), baseline(), embryo("E12.5", "DPC"), mutant(related_specimens=(related("M1"),)), experiment()],
    ids=["mutant", "baseline", "embryo", "related", "experiment"],
)
def test_local_rules_find_an_entity_sound_by_nothing_but_its_shape(entity: Specimen | Experiment) -> None:
    kind = type(entity)
    shape_of = ENTITY_SHAPES[kind]
    told_apart = {
        name
        for name in kind._fields
        for other in (None, "other")
        if shape_of(entity._replace(**{name: other})) != shape_of(entity)
    }
    read: set[str] = set()

    class Watched(kind):  # type: ignore[misc,valid-type]
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    context = Context(DocumentContext(THIS_DOCUMENT, Action.ADD, "H", TODAY, REFERENCE, Uploaded()), "/", block())
    local = [rule for rule in all_rules().values() if rule.local and kind in rule.on]
    assert local
    for rule in local:
        assert list(rule.check(Watched(*entity), context)) == []
    assert read
    assert read & set(kind._fields) <= told_apart


@pytest.mark.parametrize(
    "shapes_in",
    [lambda known: known.of(SimpleParameter, None), lambda known: known.of_entities(Specimen, "H", TODAY)],
    ids=["parameters", "entities"],
)
def test_memory_is_bounded(shapes_in: Callable[[Sound], set[sounds.Shape]]) -> None:
    known = Sound()
    shapes = shapes_in(known)
    known.add(shapes, ("x" * sounds.LONGEST,))
    assert not shapes
    for number in range(3 * sounds.MOST // 1_000):
        known.add(shapes, (f"{number:0>900}", None))
        assert len(shapes) <= sounds.MOST // 1_000
    assert shapes
