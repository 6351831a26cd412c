"""The model test notices faults: each of these, put into the code, makes it fail."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.qc.test_model import Documents

CODE = "dcc.qc"


def nothing(*_: Any, **__: Any) -> None:
    """Instead of what should be done."""


def none(*_: Any, **__: Any) -> tuple[()]:
    """Instead of what should be found."""
    return ()


FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "an undo that forgets to reopen": (f"{CODE}.apply.withdrawal.reopen_versions", nothing),
    "an edit or delete that does not end": (f"{CODE}.apply.documents.end_versions", nothing),
    "a delete that forgets the experiments": (f"{CODE}.apply.document_effect.experiments_about", lambda *_: {}),
    "an upload that forgets what was applied": (f"{CODE}.apply.documents.former_applications", none),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_model_test_notices(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, instead = FAULTS[fault]
    monkeypatch.setattr(target, instead)
    few = settings(
        max_examples=60,
        stateful_step_count=25,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )

    with pytest.raises((AssertionError, KeyError, ExceptionGroup)):
        run_state_machine_as_test(seed(5)(Documents), settings=few)
