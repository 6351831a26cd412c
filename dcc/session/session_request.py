"""What is requested of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dcc.outcomes import ZipKey
from dcc.phases import Phase
from dcc.session.listeners import NOBODY, Listeners


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What a session has to do, for whom, and who hears of it.

    It is for a `group` of centres, or for all. `source_ids`: the sources to crawl, whatever their schedules say; None
    for all that are due, with `only_scheduled` for those of them with an age of their own. `keys`: the submissions to
    open again in the name of `requested_by`, and to process without a crawl; None for all that wait, or the `urgent`
    ones if there are any. `until` is the last phase, None: that of the settings. Before `xsd` there is only the crawl;
    up to `xsd` submissions are processed, after it documents.
    """

    group: str | None = None
    source_ids: Sequence[int] | None = None
    only_scheduled: bool = False
    keys: Sequence[ZipKey] | None = None
    urgent: frozenset[ZipKey] = frozenset()
    requested_by: str = "dcc"
    until: Phase | None = None
    listeners: Listeners = NOBODY


ALL_THAT_IS_DUE: Final = SessionRequest()
