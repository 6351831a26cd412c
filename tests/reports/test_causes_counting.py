"""Findings counted by cause: what one fix would clear, of entities, documents and archives, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.reports.causes import counting
from dcc.reports.causes.cause import Actor, Cause, key_of
from dcc.reports.causes.counting import CauseCounter, FindingLine
from dcc.reports.languages import load_catalogue
from dcc.settings import Settings
from dcc.vocabulary import Severity

FIRST, SECOND = "H.2013-10-31.1.impc.zip", "H.2013-10-31.2.impc.zip"


def found(
    rule: str,
    value: str | None,
    *,
    document: int | None = 1,
    zip_file: str = FIRST,
    entity: int | None = 1,
    severity: str = "error",
    message: str = "",
    centre: str = "H",
    kind: str = "specimen",
) -> FindingLine:
    return FindingLine(7, document, "add", zip_file, centre, rule, severity, value, message, kind, entity)


def counted(*lines: FindingLine, elsewhere: frozenset[ZipKey] = frozenset()) -> dict[tuple[str, str], Cause]:
    """The causes of findings, by kind and subject."""
    counter = CauseCounter(elsewhere)
    for line in lines:
        counter.take(line)
    return {(cause.kind, cause.subject): cause for _, cause in counter.causes()}


def test_findings_that_share_a_value_have_one_cause() -> None:
    lines = [found("S4", "X", entity=number) for number in (1, 2, 3)]
    causes = counted(*lines, found("S4", "Y", entity=4))
    assert causes["S4", "X"].findings == 3
    assert causes["S4", "X"].entities == {"specimens": 3}
    assert causes["S4", "X"].acts is Actor.REGISTRY
    assert causes["S4", "Y"].findings == 1
    assert (causes["S4", "X"].documents, causes["S4", "X"].zips) == (1, 1)


def test_several_findings_of_one_animal_are_one_animal() -> None:
    causes = counted(found("S4", "X", entity=1), found("S4", "X", entity=1))
    assert (causes["S4", "X"].findings, causes["S4", "X"].entities) == (2, {"specimens": 1})


def test_what_has_other_causes_too_is_not_cleared_by_one_fix() -> None:
    causes = counted(
        found("S4", "X", document=1, entity=1),
        found("S4", "X", document=2, entity=2),
        found("S4", "X", document=2, entity=3),
        found("S9", "??", document=2, entity=3),
        found("S4", "X", document=3, zip_file=SECOND, entity=4),
    )
    clears = causes["S4", "X"].clears
    assert (clears.findings, clears.documents, clears.zips) == (4, 2, 1)
    assert clears.entities == {"specimens": 3}
    assert (causes["S4", "X"].documents, causes["S4", "X"].zips) == (3, 2)
    assert (causes["S9", "??"].clears.documents, causes["S9", "??"].clears.entities) == (0, {})


def test_a_warning_keeps_no_document_from_being_cleared_and_clears_none_that_fails() -> None:
    causes = counted(
        found("S4", "X", document=1),
        found("S12", "?", document=1, severity="warning"),
        found("S12", "?", document=2, severity="warning", entity=2),
    )
    assert causes["S4", "X"].clears.documents == 1
    assert causes["S12", "?"].clears.documents == 1
    assert not causes["S12", "?"].fails
    assert causes["S12", "?"].clears.zips == 0


def test_an_archive_that_fails_for_other_reasons_is_not_cleared() -> None:
    elsewhere = frozenset({ZipKey(Action.ADD, FIRST)})
    causes = counted(found("S4", "X"), found("S4", "X", document=2, zip_file=SECOND), elsewhere=elsewhere)
    assert (causes["S4", "X"].zips, causes["S4", "X"].clears.zips) == (2, 1)


def test_the_worst_severity_is_that_of_the_cause() -> None:
    causes = counted(found("S4", "X", severity="warning"), found("S4", "X", entity=2), found("S4", "X", entity=3))
    assert causes["S4", "X"].severity is Severity.ERROR


def test_what_could_not_be_checked_is_for_the_coordination_centre() -> None:
    message = "Whether Ph produced the colony 'c' could not be checked: it is registered for A, and it is not known ..."
    causes = counted(found("S6", "Ph", severity="unchecked", message=message))
    assert causes["S6", "Ph: A"].acts is Actor.DCC


def test_centres_do_not_share_causes() -> None:
    counter = CauseCounter()
    for centre in ("H", "J"):
        counter.take(found("S4", "X", centre=centre, document=ord(centre)))
    assert sorted(cause.key for _, cause in counter.causes()) == ["S4|H|0|X", "S4|J|0|X"]


def test_what_concerns_an_archive_as_a_whole_has_no_document() -> None:
    causes = counted(
        found("corrupt-archive", None, document=None, entity=None),
        found("corrupt-archive", None, document=None, zip_file=SECOND, entity=None),
    )
    (cause,) = causes.values()
    assert (cause.findings, cause.documents, cause.zips, cause.clears.zips) == (2, 0, 2, 2)


def test_of_very_many_subjects_those_beyond_a_number_are_one_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(counting, "MOST_SUBJECTS", 3)
    lines = [found("S4", f"C{number}", entity=number) for number in range(10)]
    causes = counted(*lines, found("S9", "??", entity=11))
    assert {subject for kind, subject in causes if kind == "S4"} == {"C0", "C1", "C2", ""}
    others = causes["S4", ""]
    assert (others.findings, others.values) == (7, 7)
    assert others.title(load_catalogue("en", Settings(home=tmp_path))).startswith(
        "Rule S4: others like these, of more than 3 "
    )
    assert ("S9", "??") in causes


def test_memory_does_not_grow_with_findings_or_with_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("MOST_SUBJECTS", "_MOST_VALUES", "_KNOWN"):
        monkeypatch.setattr(counting, bound, 50)

    def lines(number: int) -> Iterator[FindingLine]:
        for each in range(number):
            place = {"document": each // 100, "entity": each}
            yield found("E4", f"animal {each}", kind="experiment", **place)  # type: ignore[arg-type]
            yield found("S4", f"colony {each} {'x' * 200}", **place)  # type: ignore[arg-type]

    def peak(number: int) -> int:
        counter = CauseCounter()
        tracemalloc.start()
        for line in lines(number):
            counter.take(line)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    small = peak(400)
    assert peak(4_000) < small * 2


def test_keys_are_bounded_and_tell_causes_apart() -> None:
    long = "x" * 500
    assert len(key_of("S4", "H", long)) <= 160
    assert key_of("S4", "H", long) != key_of("S4", "H", long + "x")
    assert key_of("S4", "a|b", "c") != key_of("S4", "a", "b|c")
    assert key_of("S4", "H", "a\n") != key_of("S4", "H", "a?")
    assert key_of("S4", "H", "a\n").isprintable()


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_cause_says_what_is_wrong_how_much_of_it_and_who_acts(language: str, tmp_path: Path) -> None:
    catalogue = load_catalogue(language, Settings(home=tmp_path))
    lines = [found("S4", "X{0}\u202e", entity=number) for number in range(1_200)]
    (cause,) = counted(*lines).values()
    title = cause.title(catalogue)
    assert "X{0}\\u202e" in title
    assert catalogue.number(1_200) in title
    assert cause.remedy(catalogue)
    assert cause.who_acts(catalogue)


@pytest.mark.parametrize(("animals", "said"), [(1, "2 experiments that wait for it"), (2, "that wait for them")])
def test_what_waits_waits_for_one_animal_or_for_several(animals: int, said: str, tmp_path: Path) -> None:
    lines = [found("S4", "X", entity=number) for number in range(animals)]
    (cause,) = counted(*lines).values()
    waited_for = replace(cause, held_up={"experiments": 2})
    assert said in waited_for.title(load_catalogue("en", Settings(home=tmp_path)))
