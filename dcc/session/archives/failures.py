"""What went wrong with archives in a session, or was left to a later one."""

from __future__ import annotations

from dataclasses import dataclass, field

from dcc.errors import DccError, DiskFullError, InternalFaultError
from dcc.outcomes import Problem
from dcc.session.archives.active_submissions import ActiveSubmission
from dcc.session.faults import Faults


@dataclass
class Failures:
    """Those of a session's submissions.

    `left_to_pauses` counts those that people left to a later session by pausing all their sources. `lacked_room`: a
    disk was full.
    """

    faults: Faults = field(default_factory=Faults)
    not_downloaded: int = 0
    left_to_pauses: int = 0
    not_checked: int = 0
    lacked_room: bool = False

    def problem_of(self, submission: ActiveSubmission, error: Exception) -> Problem:
        """Note an error that a submission met; what is no DccError is a fault. Returns it as the tracker records it."""
        if not isinstance(error, DccError):
            with submission.as_subject():
                error = self.faults.note(str(submission.key), error, "its next session takes the archive up again")
        elif isinstance(error, InternalFaultError):
            self.faults.met.append(error)
        if isinstance(error, InternalFaultError):
            self.faults.submissions.add(submission.za_id)
        self.lacked_room = self.lacked_room or isinstance(error, DiskFullError)
        return Problem.of(error)
