"""The SFTP client's reading ahead."""

from __future__ import annotations

from collections import deque
from typing import Any

import paramiko
import pytest

from dcc.sources.sftp.client import SftpClient


class Breaking(SftpClient):
    """A client of whose requests the fourth meets a connection that has ended, after the others were answered."""

    def __init__(self) -> None:
        self._answered: deque[tuple[Any, int]] = deque()

    def _async_request(self, answers: Any, number: int) -> int:
        if number == 3:
            raise OSError("Socket is closed")
        self._answered.append((answers, number))
        return number

    def _read_response(self, waitfor: Any = None) -> Any:
        answers, number = self._answered.popleft()
        answers._async_response(0, paramiko.Message(), number)


@pytest.mark.parametrize("ahead", [1, 2, 8])
def test_what_arrived_before_the_connection_broke_is_passed_on(ahead: int) -> None:
    reading = Breaking()._ask_ahead([(number,) for number in range(6)], ahead)
    assert [next(reading)[0] for _ in range(3)] == [(0,), (1,), (2,)]
    with pytest.raises(OSError, match="Socket is closed"):
        next(reading)
