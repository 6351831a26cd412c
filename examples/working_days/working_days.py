"""DAY1: experiments are dated on working days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from dcc.documents.contents import Experiment
from dcc.messages import mark
from dcc.rules.context import Context
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule
from dcc.vocabulary import Severity

_SUNDAY = 7


@rule(
    "DAY1",
    Experiment,
    severity=Severity.WARNING,
    message=mark("The experiment '{experiment}' is dated {value}, a Sunday. Look whether the date is right."),
    cause=mark("Experiments are dated on Sundays"),
    remedy=mark("Look whether these dates are right, and correct those that are not."),
)
def experiment_is_of_a_working_day(experiment: Experiment, at: Context) -> Iterator[Fault]:  # noqa: ARG001
    """An experiment is not dated on a Sunday."""
    if date.fromisoformat(experiment.date[:10]).isoweekday() == _SUNDAY:
        yield fault(experiment.line, experiment.date, experiment=experiment.experiment_id)
