"""Processes that work for another one: what becomes of tasks where a process cannot begin."""

from pathlib import Path

import pytest

from dcc.errors import ConfigurationError
from dcc.runtime.worker_processes import WorkerProcesses

TASKS = 20


def _begin_at_the_second_try(mark: Path, kind: type[Exception]) -> str:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return "begun"
    if kind is OSError:
        raise ConfigurationError("The schemas cannot be read.") from OSError("Input/output error")
    raise kind


def _begin_never() -> None:
    raise ConfigurationError("There is no such module of rules.")


def _work(begun: str, number: int) -> tuple[str, int]:
    return begun, number


@pytest.mark.parametrize("kind", [MemoryError, OSError])
def test_a_process_that_cannot_begin_once_costs_no_task(tmp_path: Path, kind: type[Exception]) -> None:
    processes = WorkerProcesses(2, _begin_at_the_second_try, tmp_path / "mark", kind)
    try:
        done = [processes.submit(f"{number}", _work, number) for number in range(TASKS)]
        assert [one.result() for one in done] == [("begun", number) for number in range(TASKS)]
    finally:
        processes.stop()


def test_tasks_fail_by_what_lets_no_process_begin() -> None:
    processes = WorkerProcesses(2, _begin_never)
    try:
        for number in range(3):
            with pytest.raises(ConfigurationError, match="There is no such module of rules"):
                processes.submit(f"{number}", _work, number).result()
    finally:
        processes.stop()
