"""Some random histories of uploads and retries, and of submissions; more: python -m tests.histories."""

from collections.abc import Callable

import pytest

from tests.histories.running import Outcome, Prepared, live, submit
from tests.support.trials import trials


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Databases with their schema and reference data."""
    return Prepared(tmp_path_factory.mktemp("prepared"))


@pytest.mark.parametrize(
    ("kind", "seeds"), [(live, range(1, trials(6) + 1)), (submit, range(1, trials(4) + 1))], ids=["live", "submit"]
)
def test_tracker_and_qc_database_hold_what_the_model_says(
    prepared: Prepared, kind: Callable[[Prepared, int], Outcome], seeds: range
) -> None:
    for seed in seeds:
        outcome = kind(prepared, seed)
        assert outcome.differences == [], "\n".join([f"seed {seed}", *outcome.done, *outcome.differences])
