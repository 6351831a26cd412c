"""Faults of the platform that a session meets with archives and documents: it goes on, and raises one in the end."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from dcc.errors import InternalFaultError, platform_fault
from dcc.session.sessions import Session
from dcc.tracker.decisions import quarantine

log = logging.getLogger(__name__)


@dataclass
class Faults:
    """The faults that were `met`, oldest first; `submissions` are those that each counts against, by id."""

    met: list[InternalFaultError] = field(default_factory=list)
    submissions: set[int] = field(default_factory=set)

    def note(self, what: str, error: Exception, then: str = "") -> InternalFaultError:
        """Log and keep an unexpected error with a thing; `then` is what the platform does about it."""
        log.error("%s met a fault of the platform", what, exc_info=error)
        fault = platform_fault(what, error, then)
        if not self.met:
            # The one that is raised in the end: others would keep what their frames hold.
            fault.__cause__ = error
        self.met.append(fault)
        return fault

    def quarantine(self, session: Session) -> None:
        """Put those of the submissions in quarantine that have met too many by now."""
        if self.submissions:
            most = session.settings.max_faults
            session.write(lambda connection: quarantine(connection, session.id, most, self.submissions))

    def raise_first(self) -> None:
        """Raise the first fault, if there was one: everything else is done."""
        if self.met:
            raise self.met[0]
