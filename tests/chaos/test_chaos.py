"""A short form of the trial: a few rounds of fixed seeds, of the kinds that come out alike on any machine."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from dcc.qc.apply.entity_rows import columns_for
from dcc.qc.rows.prepared_file import PreparedWriter
from tests.chaos.comparing import differences
from tests.chaos.faults import KINDS
from tests.chaos.sequence import World, run_sequence, world_of
from tests.support.staged_files import without_day
from tests.support.trials import usually

_SEED = 2_026
_ON_SQLITE = ("sqlite", ["file", "network"])
_ON_MARIADB = ("mariadb", ["statement"])


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Real servers behind a proxy, on a kind of database."""
    with world_of(request.param, own_disk=False) as made:
        yield made


@pytest.mark.servers
@pytest.mark.parametrize(("world", "kinds"), usually([_ON_SQLITE], [_ON_SQLITE, _ON_MARIADB]), indirect=["world"])
def test_sessions_that_were_disturbed_come_out_as_if_nothing_had_been(world: World, kinds: list[str]) -> None:
    """Longer, and all kinds on both: python -m tests.chaos."""
    outcome = run_sequence(world, _SEED, len(kinds), kinds, at_once=(2, 2), in_turn=True)

    assert outcome.problems == [], "\n".join(outcome.problems)
    assert outcome.rounds == len(kinds)
    assert outcome.faults.total() > 0


def test_what_differs_from_the_twin_is_said() -> None:
    here = {"findings": [("a", "E4"), ("a", "E4")], "staging": {"add/a.zip": 1}}
    twin = {"findings": [("a", "E4")], "staging": {"add/a.zip": 2}}

    assert differences(here, here) == []
    assert differences(here, twin) == [
        "findings, only here: a | E4",
        "staging, only here: add/a.zip | 1",
        "staging, only in the twin: add/a.zip | 2",
    ]


def test_prepared_files_of_two_days_are_alike_if_they_say_the_same(tmp_path: Path) -> None:
    def made(basis: str) -> bytes:
        file = tmp_path / "prepared.rows.specimen"
        PreparedWriter(file, basis, columns_for(create_engine("sqlite://"))).close()
        return file.read_bytes()

    before, after, other = (
        made(f"{day} {reference}") for day, reference in (("2026-11-27", "a"), ("2026-11-28", "a"), ("2026-11-28", "b"))
    )
    assert len({before, after, other}) == 3
    in_staging = partial(without_day, "add/a.zip.contents/prepared.rows.specimen")
    assert in_staging(before) == in_staging(after)
    assert in_staging(other) != in_staging(after) != in_staging(after[:-1] + b"?")
    assert without_day("add/a.zip", after) == after


def test_every_kind_of_fault_is_named_once() -> None:
    assert {"time", "statement", "file", "worker", "daemon", "database", "network", "disk", "clock"} == set(KINDS)
