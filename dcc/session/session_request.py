"""What is requested of a session, and who hears of its outcomes while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from dcc.outcomes import SubmissionKey
from dcc.phases import Phase

if TYPE_CHECKING:
    from dcc.data_outcomes import DataOutcome
    from dcc.errors import DccError
    from dcc.outcomes import EndReason, SourceCrawl, SubmissionOutcome
    from dcc.settings import Settings


class BegunSession(Protocol):
    """What listeners see of a session, during its work and afterwards; `ended`: why it ended."""

    id: int
    settings: Settings
    task_errors: tuple[DccError, ...]
    ended: EndReason | None

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for people on the session."""


def _ignore(_outcome: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Listeners:
    """Functions called with each recorded outcome, and `on_begin` with the session itself, in the session's thread.

    `on_listing` is called with the progress of long listings, as a text, by the threads that list.
    """

    on_crawl: Callable[[SourceCrawl], None] = _ignore
    on_submission: Callable[[SubmissionOutcome], None] = _ignore
    on_data: Callable[[DataOutcome], None] = _ignore
    on_begin: Callable[[BegunSession], None] = _ignore
    on_listing: Callable[[str], None] = _ignore


NOBODY: Final = Listeners()


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
    keys: Sequence[SubmissionKey] | None = None
    urgent: frozenset[SubmissionKey] = frozenset()
    requested_by: str = "dcc"
    until: Phase | None = None
    listeners: Listeners = NOBODY


ALL_THAT_IS_DUE: Final = SessionRequest()
