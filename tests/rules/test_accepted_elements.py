"""What was found sound in one document keeps nothing from being found in another, whatever they say."""

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcc import declarations
from dcc.documents.contents import Content, Housing, SimpleParameter
from dcc.documents.reading import read_document
from dcc.naming import Action
from dcc.reference.impress import Impress
from dcc.reference.loading import ReferenceData
from dcc.rules import accepted_elements, registry
from dcc.rules.accepted_elements import AcceptedElements
from dcc.rules.checking import check_contents
from dcc.rules.context import Context, DocumentContext
from dcc.rules.elements import ParameterUse
from dcc.rules.findings import Fault, Finding, fault
from dcc.rules.registry import rule
from tests.rules.test_properties import impress_of
from tests.support.integrity_cases import (
    REFERENCE,
    TODAY,
    Uploaded,
    at,
    element,
    experiment,
    experiments,
    metadata,
    mutant,
    ontology,
    picture,
    procedure,
    series,
    simple,
    specimens,
)
from tests.support.strategies_documents import Document, valid_documents, valid_procedures
from tests.support.trials import trials


def check(
    contents: list[Content],
    known: AcceptedElements | None,
    reference: ReferenceData = REFERENCE,
    without: frozenset[str] = frozenset(),
) -> list[Finding]:
    lookups = Uploaded()
    lookups.add(specimens(mutant()))
    context = DocumentContext(Action.ADD, "H", TODAY, reference, lookups)
    return list(check_contents(contents, context, without, known))


def read(document: Document, path: Path) -> list[Content]:
    path.write_bytes(document.render()[0])
    return list(read_document(path, document.kind))


@given(documents=st.lists(st.one_of(valid_documents(), valid_procedures()), min_size=2, max_size=3))
@settings(max_examples=trials(40))
def test_documents_one_after_the_other_have_the_findings_that_each_has_by_itself(documents: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        contents = [read(document, Path(folder) / "document.xml") for document in documents]
    reference = replace(REFERENCE, impress=impress_of([content for each in contents for content in each]))
    known = AcceptedElements()
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
        *(experiments(experiment(procedure(simple("WEIGHT", last, sequence_id="2")))) for last in ("5", "")),
        experiments(element(Housing, line=8, position=1, from_lims="true", procedure=procedure(*good))),
    ]
    for reference in (REFERENCE, *(replace(REFERENCE, **{name: None}) for name in ("impress", "status_codes"))):
        known = AcceptedElements()
        found = [check(document, known, reference) for document in (*documents, *documents)]
        assert found == [check(document, None, reference) for document in documents] * 2
        if reference is REFERENCE:
            assert found[0] == []
            assert all(found[1 : len(list(flawed())) + 1])


def test_what_was_sound_is_judged_by_other_reference_data_and_by_other_rules() -> None:
    """What a rule was not asked is not known of what was judged without it."""
    known = AcceptedElements()
    animal = mutant(specimen_id="M2", phenotyping_centre="J", production_centre="H")
    done = experiment(procedure(simple("RANGED", "5")))
    changed = replace(REFERENCE, colonies=replace(REFERENCE.colonies, productions={}), impress=other_range())
    for reference, without, rules in (
        (REFERENCE, frozenset({"X4"}), []),
        (changed, frozenset({"X4", "X10"}), ["S4"]),
        (changed, frozenset({"X4"}), ["S4", "X10"]),
        (REFERENCE, frozenset({"X4"}), []),
        (REFERENCE, frozenset(), ["X4"]),
    ):
        documents = specimens(animal), experiments(done)
        found = [one.rule for each in documents for one in check(each, known, reference, without)]
        assert found == rules


@pytest.mark.parametrize("of_use", [False, True])
@pytest.mark.parametrize("declared", [{}, {"depends_on_shape_only": True}])
def test_what_a_package_s_rule_looks_at_is_judged_each_time(
    declared: dict[str, bool], of_use: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any weight is right to IMPReSS: one that looks around, and one that looks at the number."""
    monkeypatch.setattr(registry, "_BY_KIND", dict(registry._BY_KIND))
    monkeypatch.setattr(registry, "RULES", dict(registry.RULES))
    monkeypatch.setattr(declarations, "_DECLARED", dict(declarations._DECLARED))

    def is_odd(found: Any, at: Context) -> Iterator[Fault]:
        """No weight is 13, nor is it that of the third experiment."""
        weight = found.parameter if of_use else found
        if weight.parameter_id == "WEIGHT" and (weight.value == "13" if declared else at.entity.position == 3):
            yield fault(weight.line, weight.value)

    texts = {"message": "It is odd.", "cause": "Odd weights", "remedy": "Correct the weight."}
    rule("Z99", ParameterUse if of_use else SimpleParameter, **texts, **declared)(is_odd)
    weights = [procedure(simple("WEIGHT", value), metadata("NEEDED"), required=False) for value in ("5", "13", "5")]
    done = experiments(*(experiment(each, position=place) for place, each in enumerate(weights, 1)))
    assert [one.path for one in check(done, None) if one.rule == "Z99"] == [
        f"/centreProcedureSet/centre[1]/experiment[{2 if declared else 3}]/procedure/simpleParameter[1]"
    ]


def test_a_procedure_with_many_parameters_and_a_long_series_are_known_as_long_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = procedure(*(simple(f"IMPC_CBC_001_{number:03d}") for number in range(200)), required=False)
    long = series("FREE", *(at(str(number)) for number in range(1_000)))
    too_long = series("FREE", *(at(str(number)) for number in range(2_000)))
    known = AcceptedElements()
    known.rules(REFERENCE, frozenset())
    for one in (wide, long, too_long):
        known.remember(one, 1)
    assert [known.knows(one, 1) for one in (wide, long, too_long)] == [True, True, False]
    monkeypatch.setattr(accepted_elements, "MOST", 10_000)
    for number in range(100):
        known.remember(simple(f"IMPC_CBC_001_{number:03d}"), 1)
    assert [known.knows(one, 1) for one in (wide, long)] == [False, False]
    known.remember(wide, 1)
    # Definitions have other ids in another process.
    assert not pickle.loads(pickle.dumps(known)).knows(wide, 1)
    known.rules(replace(REFERENCE), frozenset())
    assert not known.knows(wide, 1)


def other_range() -> Impress:
    """An IMPReSS in which 5 is out of the range that it was in."""
    pipeline = REFERENCE.impress.pipelines["PIPE_001"]
    defined = pipeline.procedures["PROC_001"]
    narrow = replace(defined.parameters["RANGED"], qc_maximum=4.0)
    changed = replace(defined, parameters={**defined.parameters, "RANGED": narrow})
    pipelines = {"PIPE_001": replace(pipeline, procedures={**pipeline.procedures, "PROC_001": changed})}
    return replace(REFERENCE.impress, pipelines=pipelines)


def flawed() -> list[object]:
    return [
        simple("RANGED", "x"),
        simple("RANGED", ""),
        simple("RANGED", "50"),
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
