"""How the state of a data context follows from what happens to its data and from what people decide.

The state of the data is that of the worst that happened since somebody was done with them, in the order of
`ContextState`: data changed and then added to are still changed. An open issue outweighs it, and
leaves it as it is for the time when no issue is open any more.
"""

from __future__ import annotations

from typing import Final

from dcc.vocabulary import ContextEvent, ContextState

SETTLED: Final = (ContextState.QC_DONE, ContextState.NO_DATA)
"""The states of a context that nobody need look at."""

WAITING: Final = tuple(state for state in ContextState if state not in SETTLED)
"""The states of a context that waits for somebody to look at it."""

_PRECEDENCE: Final = {state: place for place, state in enumerate(ContextState)}


def what_happened(before: tuple[int, int], after: tuple[int, int], *, some_went: bool) -> ContextEvent | None:
    """What became of data, by the number of measurements and the sum of their fingerprints; None if they are the same.

    Data of which some went while others came have changed, unless they are fewer than before: these were removed.
    """
    if after == before:
        return None
    if after[0] < before[0]:
        return ContextEvent.DATA_REMOVED
    return ContextEvent.DATA_CHANGED if some_went or after[0] == before[0] else ContextEvent.DATA_ADDED


def after_data(data_state: ContextState, event: ContextEvent) -> ContextState:
    """The state of data to which something happened."""
    new = ContextState(event.value)
    return new if data_state in SETTLED else max(data_state, new, key=_PRECEDENCE.__getitem__)


def after_done(measurements: int) -> ContextState:
    """The state of data that somebody is done with."""
    return ContextState.QC_DONE if measurements else ContextState.NO_DATA


def after_reopening(measurements: int) -> ContextState:
    """The state of data that are to be looked at again."""
    return ContextState.DATA_ADDED if measurements else ContextState.DATA_REMOVED


def shown(data_state: ContextState, open_issues: int) -> ContextState:
    """The state of a context by that of its data and its open issues."""
    return ContextState.HAS_ISSUES if open_issues else data_state
