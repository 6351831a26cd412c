"""Runs in the process of a command end as commands do."""

import signal
from typing import Any

import pytest
from dagster import DagsterEventType, DagsterInstance, job, op

from dcc_assets.runs import run_here
from tests.support.dagster_instances import Dagster


@op
def work() -> None:
    """A step."""


@job
def of_one_step() -> None:
    """A run."""
    work()


@pytest.mark.parametrize(
    "moment",
    [
        DagsterEventType.RUN_START,
        DagsterEventType.STEP_START,
        DagsterEventType.STEP_SUCCESS,
        DagsterEventType.RUN_SUCCESS,
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_at_any_moment_is_raised(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch, moment: DagsterEventType, number: signal.Signals
) -> None:
    store = DagsterInstance.handle_new_event

    def interrupted(instance: DagsterInstance, event: Any, **options: Any) -> None:
        store(instance, event, **options)
        if event.is_dagster_event and event.get_dagster_event().event_type is moment:
            signal.raise_signal(number)

    monkeypatch.setattr(DagsterInstance, "handle_new_event", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_here(of_one_step, dagster.instance, {})
    assert signal.getsignal(signal.SIGINT) is before


def test_without_an_interrupt_a_run_succeeds(dagster: Dagster) -> None:
    assert run_here(of_one_step, dagster.instance, {"by": "a test"}).success
