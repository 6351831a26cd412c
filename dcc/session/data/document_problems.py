"""The problems of documents, as entries of their logs: findings, and what a held document waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dcc.data_outcomes import FindingEntry
from dcc.messages import Message, mark, message
from dcc.outcomes import CONFIRMED, HELD, WAS_CONFIRMED, Problem, SubmissionKey
from dcc.rules.findings import MORE_RULE
from dcc.rules.upload import OWNERSHIP
from dcc.vocabulary import EntityKind, Severity

_ENTITIES: Final[Mapping[str, tuple[str, str]]] = {
    EntityKind.SPECIMEN: (mark("one specimen"), mark("{number} specimens")),
    EntityKind.EXPERIMENT: (mark("one experiment"), mark("{number} experiments")),
    EntityKind.LINE: (mark("one line"), mark("{number} lines")),
    EntityKind.HOUSING: (mark("one housing"), mark("{number} housings")),
}
"""One, and several, of each kind."""


def worst_first(findings: Iterable[FindingEntry]) -> list[FindingEntry]:
    """The findings, those that fail a document first; equal ones keep their order."""
    return sorted(findings, key=lambda one: max(one.severity.rank, Severity.ERROR.rank))


def problems_of(findings: Iterable[FindingEntry], total: int, limit: int) -> list[Problem]:
    """The entries of findings in a document's log: the worst `limit`, and one with the number of the others.

    `findings` may be only the first of `total`. Messages of warnings and of unchecked rules begin with a prefix.
    """
    counted = [finding for finding in worst_first(findings) if finding.rule != MORE_RULE]
    shown = [
        Problem(finding.rule, finding.translatable, finding.line, code=finding.code, severity=finding.severity)
        for finding in counted[:limit]
    ]
    left = max(len(counted), total) - len(shown)
    if left > 0:
        more = mark(
            "The document has more findings ({number}) than those listed here ({listed}). See dcc data findings."
        )
        shown.append(Problem(MORE_RULE, message(more, number=left, listed=len(shown)), code=MORE_RULE))
    return shown


def held_problem(
    key: SubmissionKey | str,
    ended: Mapping[str, int],
    findings: Iterable[FindingEntry] = (),
    centre: str | None = None,
) -> Problem:
    """The entry of a held document, with the number of entities that it would end, by kind.

    A document that is held because of its data's centre has findings about that; `centre` is that of its archive.
    """
    owners = list(dict.fromkeys(finding.value or "" for finding in findings if finding.rule == OWNERSHIP))
    if owners:
        return Problem(HELD, _held_message(key, owners, centre), code=HELD)
    entities = [message(_ENTITIES[kind][count > 1], number=count) for kind, count in ended.items() if count]
    would = mark(
        "It would replace or remove {entities}, and waits to be confirmed. See what it would change: dcc data plan "
        "{archive}. Then: dcc data confirm {archive} --reason ..., or turn it down: dcc data undo {archive} "
        "--reason ..."
    )
    return Problem(HELD, message(would, entities=entities, archive=str(key)), code=HELD)


def confirmed_problem() -> Problem:
    """The entry of a document that was confirmed and is not applied yet."""
    return Problem(CONFIRMED, message(mark("It {what}."), what=Message(WAS_CONFIRMED)), code=CONFIRMED)


def _held_message(key: SubmissionKey | str, owners: Sequence[str], centre: str | None) -> Message:
    if centre is None:
        text = mark(
            "It has data of centre {owners}, and waits to be confirmed. See what it would change: dcc data plan "
            "{archive}. Then: dcc data confirm {archive} --reason ..., or turn it down: dcc data undo {archive} "
            "--reason ..."
        )
        return message(text, owners=list(owners), archive=str(key))
    text = mark(
        "It has data of centre {owners}, and waits to be confirmed. See what it would change: dcc data plan {archive}. "
        "Then: dcc data confirm {archive} --reason ..., or turn it down: dcc data undo {archive} --reason ... For all "
        "such documents: {command}"
    )
    delegations = "; ".join(f"dcc centre delegate {owner} --to {centre}" for owner in owners)
    return message(text, owners=list(owners), archive=str(key), command=delegations)
