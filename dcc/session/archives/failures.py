"""What went wrong with archives in a session, or was left to a later one."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from dcc.errors import DccError, DiskFullError, InternalFaultError, platform_fault
from dcc.outcomes import Problem
from dcc.session.archives.active_submissions import ActiveSubmission

log = logging.getLogger(__name__)


@dataclass
class Failures:
    """Those of a session's submissions; `with_faults` are the ones that met `faults` of the platform, by id.

    `left_to_pauses` counts those that people left to a later session by pausing all their sources. `lacked_room`: a
    disk was full.
    """

    faults: list[InternalFaultError] = field(default_factory=list)
    with_faults: set[int] = field(default_factory=set)
    not_downloaded: int = 0
    left_to_pauses: int = 0
    not_checked: int = 0
    lacked_room: bool = False

    def problem_of(self, submission: ActiveSubmission, error: Exception) -> Problem:
        """Note an error that a submission met; what is no DccError is a fault. Returns it as the tracker records it."""
        if not isinstance(error, DccError):
            with submission.as_subject():
                log.error("%s met a fault of the platform", submission.key, exc_info=error)
            fault = platform_fault(str(submission.key), error, "its next session takes the archive up again")
            if not self.faults:
                # The one that is raised in the end: others would keep what their frames hold.
                fault.__cause__ = error
            error = fault
        if isinstance(error, InternalFaultError):
            self.faults.append(error)
            self.with_faults.add(submission.za_id)
        self.lacked_room = self.lacked_room or isinstance(error, DiskFullError)
        return Problem.of(error)
