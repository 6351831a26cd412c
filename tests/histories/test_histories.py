"""Some random histories of uploads, mirrors, corruptions and retries; more: python -m tests.histories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.histories.running import Prepared, live

_FIRST, _SEEDS, _AT_ONCE = 1, 8, 4


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Databases with their schema and reference data."""
    made = Prepared(tmp_path_factory.mktemp("prepared"))
    made.make()
    return made


@pytest.mark.parametrize("first", range(_FIRST, _FIRST + _SEEDS, _AT_ONCE))
def test_tracker_and_qc_database_hold_what_the_model_says(prepared: Prepared, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + _AT_ONCE):
        outcome = live(prepared, tmp_path / str(seed), seed)
        assert outcome.differences == [], "\n".join([f"seed {seed}", *outcome.done, *outcome.differences])
