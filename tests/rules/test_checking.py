"""The check as a whole: missing reference data, waivers, batches, other data than the rules know, whole documents."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dcc.cli.demo.submissions import PROCEDURES, experiment_document, specimen_document
from dcc.documents.contents import Block, Content, Genotype, Specimen
from dcc.documents.reading import read_document
from dcc.errors import InternalFaultError
from dcc.naming import Action, DocumentKind
from dcc.reference.loading import SETS, ReferenceData, load_shipped
from dcc.rules.checking import check_contents
from dcc.rules.context import DocumentContext
from dcc.rules.findings import Fault, Finding
from dcc.rules.registry import RULES, rule
from dcc.rules.waivers import Waiver, apply_waivers
from dcc.vocabulary import Severity, WaiverEffect
from tests.support.integrity_cases import (
    REFERENCE,
    TODAY,
    Uploaded,
    association,
    at,
    check,
    experiment,
    experiments,
    line,
    mutant,
    ontology,
    picture,
    procedure,
    series,
    simple,
    specimens,
    with_parameters,
)

SAMPLES = Path(__file__).parents[1] / "documents" / "samples"


def without(name: str) -> ReferenceData:
    return replace(REFERENCE, **{name: None})


def unchecked(found: list[Finding]) -> list[str | None]:
    return [finding.value for finding in found if finding.severity is Severity.UNCHECKED]


def test_missing_reference_data_are_said_once_a_document_with_the_rules_that_were_skipped() -> None:
    animals = [mutant(line=n, specimen_id=f"M{n}", colony_id="?") for n in range(1, 10)]
    found = check(specimens(*animals), reference=without("colonies"))
    assert [finding.rule for finding in found] == ["reference"]
    assert unchecked(found) == ["colonies"]
    assert all(rule.id in found[0].message for rule in RULES.values() if "colonies" in rule.reference_names)
    assert not any(one.severity.fails for one in found)


def test_without_impress_what_does_not_need_it_is_checked_all_the_same() -> None:
    document = with_parameters(
        simple("?", ""), simple("?"), series("??", at("1", "")), picture(associations=(association("nothing"),))
    )
    found = check(document, reference=without("impress"))
    assert [finding.rule for finding in found] == ["reference", "P6", "P6", "P8", "P14", "P19"]


def test_without_any_reference_data_no_document_fails_that_only_they_could_judge() -> None:
    document = [*experiments(experiment(), line(line=90)), *specimens(mutant(line=99, specimen_id="M2"))]
    found = check(document, reference=ReferenceData())
    assert not any(one.severity.fails for one in found)
    assert sorted(map(str, unchecked(found))) == sorted(SETS)


def test_everything_is_found_in_a_document_with_many_faults() -> None:
    done = procedure(simple("RANGED", "x", status="?"), simple("??"), ontology("TERM", "x"))
    document = experiments(experiment(done, date="2030-01-01", specimen_ids=("M9",)))
    assert {finding.rule for finding in check(document)} == {"E4", "E8", "P3", "P7", "P9", "P12"}


def test_the_findings_of_an_element_are_in_the_order_of_the_catalogue() -> None:
    found = check(specimens(mutant(specimen_id="", project="?", dob="1900-01-01", colony_id="started")))
    assert [finding.rule for finding in found] == ["S12", "X13", "X14"]


TEXTS = {"message": "It is odd.", "cause": "Odd animals", "remedy": "Correct them."}


@pytest.mark.parametrize(
    ("rule_id", "on", "changes", "said"),
    [
        ("S1", Specimen, {}, "Two rules have the id S1"),
        *((wrong, Specimen, {}, "no id of a rule") for wrong in ("d1", "D", "D1.x", "")),
        *(("Z99", Specimen, {name: None}, f"Z99 declares no {name}") for name in TEXTS),
        ("Z99", Specimen, {"docstring": None}, "Z99 has no docstring"),
        ("Z99", "Specimen", {}, r"The rule Z99 is for \('Specimen',\). Name classes"),
        ("Z99", Genotype, {}, "The rule Z99 is for Genotype, which is never judged by itself."),
        ("Z99", Block, {"needs_other_documents": True}, "The rule Z99 for Block needs other documents, which only"),
        ("Z99", Specimen, {"remedy": "See {value}."}, "of Z99 names value. Name it in `cause_by`, too."),
    ],
)
def test_a_rule_that_is_not_declared_whole_is_refused(rule_id: str, on: Any, changes: Any, said: str) -> None:
    def is_odd(specimen: Specimen, at: object) -> Iterator[Fault]:
        yield from ()

    texts = {"docstring": "Animals are not odd.", **TEXTS, **changes}
    is_odd.__doc__ = texts.pop("docstring")
    with pytest.raises(InternalFaultError, match=said):
        rule(rule_id, on, severity=Severity.ERROR, **texts)(is_odd)
    assert "Z99" not in RULES


def waiver(effect: WaiverEffect = WaiverEffect.WAIVE, **changes: object) -> Waiver:
    made = Waiver("P9", effect, "a broken balance", "a wrangler", date(2026, 1, 1), date(2026, 12, 31))
    return replace(made, **changes)  # type: ignore[arg-type]


def ill_valued() -> list[Finding]:
    found = check(with_parameters(simple("RANGED", "x")))
    assert [finding.rule for finding in found] == ["P9"]
    return found


@pytest.mark.parametrize(
    ("changes", "is_waived"),
    [
        ({}, True),
        ({"centre": "H"}, True),
        ({"centre": "J"}, False),
        ({"procedure": "PROC_001"}, True),
        ({"procedure": "PROC_002"}, False),
        ({"rule": "P8"}, False),
        ({"valid_from": TODAY}, True),
        ({"valid_from": date(2026, 11, 22)}, False),
        ({"valid_until": TODAY}, True),
        ({"valid_until": date(2026, 11, 20)}, False),
        ({"valid_until": None}, True),
    ],
)
def test_a_waiver_holds_for_its_rule_centre_procedure_and_period(changes: dict[str, object], is_waived: bool) -> None:
    (judged,) = apply_waivers(ill_valued(), [waiver(**changes)], TODAY)
    assert judged.is_waived is is_waived
    assert (judged.waiver is not None) is is_waived


def test_a_waiver_may_lower_a_rule_to_a_warning_and_is_shown() -> None:
    lowering = waiver(WaiverEffect.WARN)
    (judged,) = apply_waivers(ill_valued(), [lowering], TODAY)
    assert (judged.finding.severity, judged.waiver, judged.is_waived) == (Severity.WARNING, lowering, False)
    assert not judged.finding.severity.fails


def test_a_waiver_leaves_the_severity_of_what_could_not_be_checked() -> None:
    found = check(specimens(mutant()), reference=without("colonies"))
    (judged,) = apply_waivers(found, [waiver(rule="reference")], TODAY)
    assert judged.finding.severity is Severity.UNCHECKED
    assert not judged.is_waived


def shipped_findings(path: Path, kind: DocumentKind, centre: str, uploaded: list[Content]) -> list[Finding]:
    lookups = Uploaded()
    lookups.add(uploaded)
    lookups.add(read_document(path, kind))
    context = DocumentContext(Action.ADD, centre, TODAY, load_shipped(), lookups)
    return list(check_contents(read_document(path, kind), context))


@pytest.mark.parametrize("done", sorted(PROCEDURES))
@pytest.mark.parametrize("centre", ["H", "J", "Ph"])
def test_the_demos_submissions_are_without_a_flaw_by_the_shipped_reference_data(
    tmp_path: Path, centre: str, done: str
) -> None:
    animals, results = tmp_path / "specimens.xml", tmp_path / "experiments.xml"
    animals.write_bytes(specimen_document(centre, mice=30))
    results.write_bytes(experiment_document(centre, procedure=done, animals=30))
    assert shipped_findings(animals, DocumentKind.SPECIMEN, centre, []) == []
    uploaded = list(read_document(animals, DocumentKind.SPECIMEN))
    assert shipped_findings(results, DocumentKind.EXPERIMENT, centre, uploaded) == []


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("procedures/IMPC_*.xml")), ids=lambda path: path.stem)
def test_the_samples_are_without_a_flaw_by_the_shipped_reference_data(path: Path) -> None:
    block_of_h = specimens(mutant())[0]
    known: list[Content] = [block_of_h, mutant(specimen_id="my_first_specimen", dob="2012-10-01")]
    contents = list(read_document(path, DocumentKind.EXPERIMENT))
    ids = {each for content in contents for each in getattr(content, "specimen_ids", ())}
    known += [mutant(specimen_id=each, dob="2012-10-01") for each in ids - {"my_first_specimen"}]
    assert shipped_findings(path, DocumentKind.EXPERIMENT, "H", known) == []


def test_an_animal_with_very_many_repeats_is_asked_for_once() -> None:
    """Each batch would read all of them: 150,000 took 160 seconds, and ten times as many a hundred times as long."""
    repeats = [experiment(line=n, position=n, experiment_id=f"E{n}") for n in range(1, 1_501)]
    others = [experiment(line=n, position=n, experiment_id=f"E{n}", date="2013-10-02") for n in range(1_501, 1_503)]
    lookups = Uploaded()
    found = check(experiments(*repeats, *others), lookups=lookups)
    assert [finding.entity for finding in found if finding.rule == "X17"] == list(range(1, 1_503))
    # Animals four times, a batch each; their experiments at first, and with the other day.
    assert lookups.questions == 6
