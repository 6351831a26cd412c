"""Findings counted by cause: what one fix would clear, of entities, documents and archives, in bounded memory."""

import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dcc.declarations import cause_id
from dcc.reports.causes import cause as causes_module
from dcc.reports.causes.cause import Cause, Fact, FindingGroup, count_causes
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.sentences import cleared
from dcc.settings import Settings
from dcc.vocabulary import Actor, Severity

FIRST, SECOND = "H.2013-10-31.1.impc.zip", "H.2013-10-31.2.impc.zip"


def found(
    code: str,
    value: str | None,
    *,
    document: int | None = 1,
    zip_file: str = FIRST,
    number: int = 1,
    entities: int = 1,
    severity: str = "error",
    centre: str = "H",
    kind: str | None = "specimen",
) -> FindingGroup:
    cause = cause_id(code, {"value": value})
    return FindingGroup("add", zip_file, document, centre, code, cause, severity, 7, number, kind, entities)


class Given:
    """Facts with these groups."""

    def __init__(self, groups: Iterable[FindingGroup]) -> None:
        self.groups = lambda: iter(groups)

    def examples(self, ids: Sequence[int]) -> dict[int, Fact]:
        return {number: Fact() for number in ids}


def counted(*groups: FindingGroup, elsewhere: Sequence[FindingGroup] = ()) -> dict[tuple[str, str], Cause]:
    """The causes of groups of one or two origins, by code and value; the value of what is not told apart is empty."""
    values = {f"{cause_id(code, {'value': value}):x}": value for code in ("S4", "S9", "S12") for value in VALUES}
    causes = count_causes([Given(elsewhere), Given(groups)])
    return {(cause.kind, values.get(cause.key.rpartition("|")[2], "")): cause for cause in causes}


VALUES = ("X", "Y", "?", "??", *(f"C{number}" for number in range(10)))


def test_findings_that_share_a_value_have_one_cause() -> None:
    causes = counted(found("S4", "X", number=3, entities=2), found("S4", "Y"))
    assert causes["S4", "X"].findings == 3
    assert causes["S4", "X"].entities == {"specimens": 2}
    assert causes["S4", "X"].acts is Actor.REGISTRY
    assert causes["S4", "Y"].findings == 1
    assert (causes["S4", "X"].documents, causes["S4", "X"].zips) == (1, 1)
    # Its example is one of the worst.
    warned, failed = found("S4", "X", severity="warning"), found("S4", "X", document=2)._replace(first=8)
    ((cause, example),) = count_causes([Given([warned, failed])]).items()
    assert (cause.severity, example.id) == (Severity.ERROR, 8)


def test_what_has_other_causes_too_is_not_cleared_by_one_fix() -> None:
    causes = counted(
        found("S4", "X", document=1),
        found("S4", "X", document=2, number=2, entities=2),
        found("S9", "??", document=2),
        found("S4", "X", document=3, zip_file=SECOND),
    )
    colony = causes["S4", "X"]
    assert (colony.findings, colony.clears_documents, colony.clears_zips) == (4, 2, 1)
    assert (causes["S4", "X"].documents, causes["S4", "X"].zips) == (3, 2)
    assert causes["S9", "??"].clears_documents == 0


def test_an_archive_that_fails_for_other_reasons_is_not_cleared() -> None:
    elsewhere = [found("corrupt-archive", None, document=None, kind=None)]
    causes = counted(found("S4", "X"), found("S4", "X", document=2, zip_file=SECOND), elsewhere=elsewhere)
    assert (causes["S4", "X"].zips, causes["S4", "X"].clears_zips) == (2, 1)
    warned = [found("member-ignored", None, document=None, kind=None, severity="warning")]
    assert counted(found("S4", "X"), elsewhere=warned)["S4", "X"].clears_zips == 1
    both = counted(found("S4", "X", severity="warning"), elsewhere=elsewhere)
    assert [both[of].clears_zips for of in (("corrupt-archive", ""), ("S4", "X"))] == [1, 0]


def test_what_could_not_be_checked_is_for_the_coordination_centre() -> None:
    (cause,) = counted(found("S6.unknown_name", "Ph", severity="unchecked")).values()
    assert (cause.kind, cause.acts) == ("S6", Actor.DCC)


@pytest.mark.parametrize(("code", "clears"), [("member-ignored", False), ("Q7", False), ("S14", True), ("E4", True)])
def test_what_needs_nobody_is_said_to_clear_only_where_it_does(code: str, clears: bool, tmp_path: Path) -> None:
    (cause,) = counted(found(code, None, severity="warning")).values()
    catalogue = load_catalogue("en", Settings(home=tmp_path))
    told = f"{cause.who_acts(catalogue)} {cause.remedy(catalogue)}"
    assert told.startswith("Nobody needs to act")
    assert ("clears" in told) is clears
    assert cleared(catalogue, cause) == ""


def test_of_very_many_subjects_those_beyond_a_number_are_one_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(causes_module, "MAX_SUBJECTS", 3)
    causes = counted(*(found("S4", f"C{number}") for number in range(10)), found("S9", "??"))
    assert {subject for kind, subject in causes if kind == "S4"} == {"C0", "C1", "C2", ""}
    others = causes["S4", ""]
    assert others.findings == 7
    assert others.title(load_catalogue("en", Settings(home=tmp_path))).startswith(
        "Rule S4: others like these, of more than 3 "
    )
    assert ("S9", "??") in causes


def test_memory_does_not_grow_with_findings_or_with_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes_module, "MAX_SUBJECTS", 50)

    def groups(number: int) -> Iterator[FindingGroup]:
        for each in range(number):
            yield found("E4", f"animal {each}", kind="experiment", document=each // 100)
            yield found("S4", f"colony {each} {'x' * 200}", document=each // 100)

    def peak(number: int) -> int:
        tracemalloc.start()
        count_causes([Given(groups(number))])
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    # The values alone are 2 MB. Threads of other tests may allocate meanwhile: once in three they do not.
    assert any(peak(10_000) < 500_000 for _ in range(3))


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_cause_says_what_is_wrong_how_much_of_it_and_who_acts(language: str, tmp_path: Path) -> None:
    catalogue = load_catalogue(language, Settings(home=tmp_path))
    odd = "X{0}\u202e"
    (cause,) = counted(found("S4", odd, number=1_200, entities=1_200)).values()
    cause = replace(cause, example=Fact(details={"value": odd}))
    title = cause.title(catalogue)
    assert "X{0}\\u202e" in title
    assert catalogue.number(1_200) in title
    assert cause.remedy(catalogue)
    assert cause.who_acts(catalogue)
