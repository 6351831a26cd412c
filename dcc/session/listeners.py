"""Who hears of the outcomes of a session while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from dcc.data_outcomes import DataOutcome
    from dcc.errors import DccError
    from dcc.outcomes import EndReason, SourceCrawl, ZipOutcome
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
    on_zip: Callable[[ZipOutcome], None] = _ignore
    on_data: Callable[[DataOutcome], None] = _ignore
    on_begin: Callable[[BegunSession], None] = _ignore
    on_listing: Callable[[str], None] = _ignore


NOBODY: Final = Listeners()
