"""Statuses of crawling sessions and of their tasks, as the tracker stores them."""

from __future__ import annotations

from enum import IntEnum


class SessionStatus(IntEnum):
    """The status of a session; that of one with a failed task is the phase of the first such task."""

    CANCELLED = -2
    UNFINISHED = -1
    SUCCEEDED = 0


class TaskStatus(IntEnum):
    """The status of a session's task. CANCELLED: the session was cut short. LACKED_ROOM: a disk was full."""

    UNFINISHED = -1
    SUCCEEDED = 0
    FAILED = 1
    CANCELLED = 2
    LACKED_ROOM = 3

    @classmethod
    def of(cls, *, failed: bool) -> TaskStatus:
        """The status of a task that ended."""
        return cls.FAILED if failed else cls.SUCCEEDED
