"""Counting facts by their causes, from groups that a database counts; facts themselves are not held.

Memory grows with the causes, of which `MAX_SUBJECTS` a code and centre are counted apart, and with faulty archives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from dcc.reports.causes.cause import MAX_SUBJECTS, Cause, Fact
from dcc.vocabulary import FAILING, EntityKind, Severity

_PLURALS: Final = {kind.value: f"{kind.value}s" for kind in EntityKind} | {"source": "sources"}


class FindingGroup(NamedTuple):
    """Facts of one document, code, cause and severity: how many, and in how many entities of a kind.

    `cause` is as of `dcc.declarations.cause_id`, `first` the id of one of them. Facts on an archive as a whole have no
    document; those on a file source have no archive, but perhaps a number of `zips`.
    """

    zip_action: str
    zip_file: str
    document: int | None
    centre: str
    code: str
    cause: int
    severity: str
    first: int
    number: int = 1
    entity_kind: str | None = None
    entities: int = 0
    zips: int = 0


class Facts(Protocol):
    """Facts of one origin."""

    def groups(self) -> Iterable[FindingGroup]:
        """The facts, counted: the groups of a document one after the other, and so those of an archive."""

    def examples(self, ids: Sequence[int]) -> Mapping[int, Fact]:
        """Those of the facts with these ids that are still there."""


def count_causes(origins: Iterable[Facts]) -> dict[Cause, tuple[Facts, int]]:
    """The causes of all facts, in no order, each with the id of a fact that is its example."""
    counter = _Counter()
    for facts in origins:
        for key, groups in groupby(facts.groups(), itemgetter(0, 1)):
            counter.count_zip(facts, key, groups)
    for sole, _ in counter.zips.values():
        if sole is not None:
            sole.clears_zips += 1
    return counter.examples


_Sole = tuple[Cause | None, bool]
"""The only cause that fails something or, where none does, the only one; None for several. Whether any fails it."""


class _Counter:
    def __init__(self) -> None:
        self.examples: Final[dict[Cause, tuple[Facts, int]]] = {}
        self.zips: Final[dict[tuple[str, str], _Sole]] = {}
        self._causes: dict[tuple[str, str, int | None], Cause] = {}
        self._subjects: Counter[tuple[str, str]] = Counter()

    def count_zip(self, facts: Facts, key: tuple[str, str], groups: Iterable[FindingGroup]) -> None:
        of_zip: dict[Cause, bool] = {}
        for document, of_document in groupby(groups, itemgetter(2)):
            found: dict[Cause, bool] = {}
            for group in of_document:
                cause = self._count(facts, group)
                found[cause] = group.severity in FAILING or found.get(cause, False)
            if document is not None:
                _count_document(found)
            for cause, fails in found.items():
                of_zip[cause] = fails or of_zip.get(cause, False)
        _, file_name = key
        if file_name:
            for cause in of_zip:
                cause.zips += 1
            self.zips[key] = _together(self.zips.get(key), _sole(of_zip))

    def _count(self, facts: Facts, group: FindingGroup) -> Cause:
        cause = self._causes.get((group.centre, group.code, group.cause)) or self._added(facts, group)
        if Severity(group.severity).rank < cause.severity.rank:
            cause.severity = Severity(group.severity)
            self.examples[cause] = (facts, group.first)
        cause.findings += group.number
        cause.zips += group.zips
        if group.entity_kind in _PLURALS:
            plural = _PLURALS[group.entity_kind]
            cause.entities[plural] = cause.entities.get(plural, 0) + group.entities
        return cause

    def _added(self, facts: Facts, group: FindingGroup) -> Cause:
        of_code = (group.centre, group.code)
        number = group.cause if self._subjects[of_code] < MAX_SUBJECTS else None
        cause = self._causes.get((*of_code, number))
        if cause is None:
            self._subjects[of_code] += 1
            key = f"{group.code}|{group.centre}|{'*' if number is None else f'{number:x}'}"
            cause = Cause(key, group.code, group.centre or None, Severity(group.severity), is_rest=number is None)
            self._causes[*of_code, number] = cause
            self.examples[cause] = (facts, group.first)
        return cause


def _count_document(found: Mapping[Cause, bool]) -> None:
    sole, _ = _sole(found)
    if sole is not None:
        sole.clears_documents += 1
    for cause in found:
        cause.documents += 1


def _sole(found: Mapping[Cause, bool]) -> _Sole:
    failing = [cause for cause, fails in found.items() if fails]
    among = failing or list(found)
    return among[0] if len(among) == 1 else None, bool(failing)


def _together(one: _Sole | None, other: _Sole) -> _Sole:
    """What facts of two origins come to: those that fail an archive count before those that do not."""
    if one is None or one[1] != other[1]:
        return max(filter(None, (one, other)), key=itemgetter(1))
    return one if one[0] is other[0] else (None, one[1])
