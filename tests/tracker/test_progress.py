"""The algebra of phase and status, and that nothing writes them but `progress`."""

import ast
import re
from collections.abc import Iterator
from functools import reduce
from itertools import permutations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dcc.phases import Phase, Status
from dcc.tracker.states import REQUESTED, WAITING, State, advance, roll_up

STATES = [State(phase, status) for phase in Phase for status in Status]
states = st.sampled_from(STATES)
unfailed = st.sampled_from([state for state in STATES if not state.failed])
failures = st.sampled_from([state for state in STATES if state.failed])
reports = st.lists(states, min_size=1, max_size=6)


def after(reported: list[State], start: State = REQUESTED) -> State:
    return reduce(advance, reported, start)


@given(unfailed, unfailed)
def test_without_failure_progress_only_moves_forward(old: State, new: State) -> None:
    forward = new.phase > old.phase or (new.phase == old.phase and new.status > old.status)
    assert advance(old, new) == (new if forward else old)


@given(failures, states)
def test_a_failure_becomes_nothing_but_an_earlier_failure(old: State, new: State) -> None:
    """Rule 2."""
    earlier_failure = new.failed and new.phase < old.phase
    assert advance(old, new) == (new if earlier_failure else old)


@given(unfailed, failures)
def test_a_failure_is_always_taken_by_what_has_not_failed(old: State, new: State) -> None:
    """Rule 3."""
    assert advance(old, new) == new


@given(states, reports)
def test_the_order_of_reports_and_reporting_twice_do_not_matter(start: State, reported: list[State]) -> None:
    outcomes = {after(list(order), start) for order in permutations(reported[:5])}
    assert outcomes == {after(reported[:5] * 2, start)}


@given(st.lists(states, min_size=1), st.lists(failures, min_size=1))
def test_a_parent_shows_the_earliest_failing_phase_of_its_children(others: list[State], failed: list[State]) -> None:
    earliest = min(state.phase for state in [*others, *failed] if state.failed)
    assert roll_up([*others, *failed]) == State(earliest, Status.FAILED)


@given(st.lists(unfailed, min_size=1))
def test_a_parent_without_failure_is_as_far_as_its_slowest_child(children: list[State]) -> None:
    slowest = min(children, key=lambda state: (state.phase, state.status))
    assert roll_up(children) == slowest


def test_a_download_does_not_show_on_the_zip_action_until_its_archive_is_checked_or_it_fails() -> None:
    """Names are checked before the download, though its phase has the lower id."""
    for status in (Status.PENDING, Status.RUNNING, Status.DONE, Status.CANCELLED):
        assert advance(WAITING, State(Phase.DOWNLOAD, status)) == WAITING
    assert advance(WAITING, State(Phase.ZIP_MD5, Status.RUNNING)) == State(Phase.ZIP_MD5, Status.RUNNING)
    assert advance(WAITING, State(Phase.DOWNLOAD, Status.FAILED)) == State(Phase.DOWNLOAD, Status.FAILED)


# The only writer

ROOT = Path(__file__).parents[2]
SQL_WRITE = re.compile(r"\b(?:update|insert|replace)\b.*\b(?:phase_id|status_id)\b", re.IGNORECASE | re.DOTALL)


def _writes(source: str) -> Iterator[str]:
    """What in a module would write a phase or status: an argument, key, attribute or SQL that sets the column."""
    if "phase_id" not in source and "status_id" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg in {"phase_id", "status_id"}:
            yield f"{node.value.lineno}: {node.arg}="
        elif isinstance(node, ast.Dict):
            yield from (f"{node.lineno}: {{{name}: ...}}" for name in map(_column, node.keys) if name)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            attributes = [target for target in targets if isinstance(target, ast.Attribute)]
            yield from (f"{node.lineno}: .{name} =" for name in map(_column, attributes) if name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL_WRITE.search(node.value):
            yield f"{node.lineno}: SQL"


def _column(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Attribute):
        name: object = node.attr
    elif isinstance(node, ast.Constant):
        name = node.value
    else:
        name = None
    return name if name in {"phase_id", "status_id"} and isinstance(name, str) else None


def test_no_other_module_writes_phase_or_status() -> None:
    found = {}
    for package in ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster", "dcc_sensors"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if writes := list(_writes(path.read_text("utf-8"))):
                found[str(path.relative_to(ROOT))] = writes
    assert len(found.pop("dcc/tracker/progress.py")) >= 2
    # The phase of a session's task, which is a fact and no progress.
    (task_phase,) = found.pop("dcc/session/sessions.py")
    assert "phase_id" in task_phase
    assert found == {}
