"""Several processes that read in turns: what one would tell, in its order, whatever becomes of either."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from hashlib import md5
from pathlib import Path

import pytest
from sqlalchemy import Engine

from dcc.cli.demo.submissions import experiment_document
from dcc.errors import HelperEndedError
from dcc.naming import Action, DocumentKind
from dcc.qc.apply import reading_ahead, reading_turns
from dcc.qc.apply.building_process import Order
from dcc.qc.apply.documents import Applied, apply_document
from dcc.qc.apply.entity_rows import LIMITS
from dcc.qc.apply.many_documents import apply_together
from dcc.qc.apply.reading_ahead import ReadingAhead, Waiting
from dcc.qc.apply.whole_documents import WholeDocument, build_whole, read_whole
from dcc.qc.rows.building import NUMBERED
from dcc.runtime import helper_process
from dcc.runtime.helper_process import BYTES_AHEAD, Helper
from tests.support.noted_helpers import note_helpers
from tests.support.qc_documents import experiment, to_apply
from tests.support.qc_documents import reading as of
from tests.support.qc_files import all_rows, clear

EXPERIMENT = DocumentKind.EXPERIMENT
ORDER = Order(7, dict.fromkeys(NUMBERED, 11), LIMITS, as_lines=False)
COUNT = 9
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Helper]]:
    """The processes that were started, each with two documents at a time; any document is worth them."""
    helpers = note_helpers(monkeypatch, reading_turns)
    monkeypatch.setattr(reading_ahead, "LARGE", 0)
    monkeypatch.setattr(reading_turns, "_LOT_DOCUMENTS", 2)
    yield helpers
    assert all(helper.process.returncode is not None for helper in helpers)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Documents with ever more animals of their own, two of which cannot be read."""
    made = [tmp_path / f"{number}.xml" for number in range(COUNT)]
    for number, path in enumerate(made):
        path.write_bytes(experiment_document("H", animals=number + 1, first=number * 100))
    made[3].write_bytes(b"<centreProcedureSet>")
    made[8].write_bytes(b"")
    return made


def digest(path: Path) -> str:
    return md5(path.read_bytes()).hexdigest()


def waiting(paths: Sequence[Path], bit_by_bit: Sequence[int] = ()) -> list[Waiting]:
    return [
        Waiting(path, EXPERIMENT, path.stat().st_size, None if number in bit_by_bit else digest(path))
        for number, path in enumerate(paths)
    ]


def reading(documents: Sequence[Waiting], processes: int = 2) -> closing[ReadingAhead]:
    return closing(ReadingAhead(documents, None, processes))


def built_here(paths: Sequence[Path], order: Order = ORDER) -> list[WholeDocument]:
    """What the documents come to when this process reads one after the other."""
    found = []
    for path in paths:
        found.append(build_whole(read_whole(path, EXPERIMENT, digest(path)), order))
        document_id = order.document_id + found[-1].takes_ids
        order = order._replace(document_id=document_id, next_ids=found[-1].next_ids)
    return found


def following(documents: Sequence[WholeDocument]) -> Order:
    last = documents[-1]
    return ORDER._replace(document_id=last.document_id + last.takes_ids, next_ids=last.next_ids)


@pytest.mark.parametrize("processes", [2, 3])
def test_what_processes_read_in_turns_is_what_one_would_read(
    paths: list[Path], started: list[Helper], processes: int
) -> None:
    expected = built_here(paths)
    with reading(waiting(paths), processes) as ahead:
        assert ahead.read_whole(paths[:3], ORDER) == expected[:3]
        assert ahead.read_whole(paths[3:], following(expected[:3])) == []
        assert ahead.read_whole(paths[4:], following(expected[:3])) == expected[4:8]
    assert len(started) == processes


def test_they_are_no_more_ahead_than_one_would_be(paths: list[Path], started: list[Helper]) -> None:
    with reading(waiting(paths)):
        assert [list(helper.process.args)[-1] for helper in started] == [str(BYTES_AHEAD // 2)] * 2


@pytest.mark.parametrize("as_lines", [False, True])
def test_they_let_the_one_that_binds_their_rows_go_first(
    paths: list[Path], started: list[Helper], as_lines: bool
) -> None:
    with reading(waiting(paths)) as ahead:
        ahead.read_whole(paths[:3], ORDER._replace(as_lines=as_lines))
        own = os.getpriority(os.PRIO_PROCESS, 0)
        wanted = own if as_lines else min(own + 10, 19)
        assert [os.getpriority(os.PRIO_PROCESS, helper.process.pid) for helper in started] == [wanted] * 2


def test_documents_are_passed_over_though_no_process_can_hold_one(
    paths: list[Path], started: list[Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not asked for is taken from whoever waits to tell it, or the next one's turn would never come."""
    monkeypatch.setattr(reading_turns, "BYTES_AHEAD", 2)
    monkeypatch.setattr(helper_process, "_PIPE_BYTES", 4096)
    expected = built_here(paths)
    with reading(waiting(paths)) as ahead:
        assert ahead.read_whole(paths[:1], ORDER) == expected[:1]
        assert ahead.read_whole(paths[7:8], following(expected[:7])) == expected[7:8]
    assert len(started) == 2


class Told(list[Waiting]):
    """Documents, and how many of them have been told of at most; from `fault` on that fails."""

    at_most = 0
    fault = COUNT

    def __iter__(self) -> Iterator[Waiting]:
        for number, one in enumerate(super().__iter__()):
            self.at_most = max(self.at_most, number + 1)
            if number >= self.fault:
                raise ValueError("There is no such place.")
            yield one


def test_the_same_processes_read_however_many_documents_and_are_told_of_a_few_ahead(
    paths: list[Path], started: list[Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_turns, "BYTES_AHEAD", 2)
    monkeypatch.setattr(helper_process, "_PIPE_BYTES", 4096)
    expected = built_here(paths)
    longer_than_pipes = ("about " * 50_000,)
    documents = Told(one._replace(about=longer_than_pipes) for one in waiting(paths))
    with reading(documents) as ahead:
        documents.at_most = 0
        assert ahead.read_whole(paths[:1], ORDER) == expected[:1]
        assert 0 < documents.at_most < COUNT
        assert ahead.read_whole(paths[1:3], following(expected[:1])) == expected[1:3]
        assert ahead.read_whole(paths[4:], following(expected[:3])) == expected[4:8]
        assert documents.at_most == COUNT
    assert len(started) == 2


def test_processes_that_cannot_be_told_of_all_documents_are_not_waited_for(
    paths: list[Path], started: list[Helper], caplog: pytest.LogCaptureFixture
) -> None:
    documents = Told(waiting(paths))
    with reading(documents) as ahead:
        documents.fault = 2
        with pytest.raises(HelperEndedError):
            ahead.read_whole(paths[:1], ORDER)
    assert len(started) == 2
    assert "could not be told of all of them" in caplog.text


@pytest.mark.parametrize("killed", [0, 1])
def test_when_one_is_killed_both_are_started_again(paths: list[Path], started: list[Helper], killed: int) -> None:
    expected = built_here(paths)
    with reading(waiting(paths)) as ahead:
        ahead.read_whole(paths[:1], ORDER)
        os.kill(started[killed].process.pid, signal.SIGKILL)
        started[killed].process.wait()
        # What it had told is gone with it, and the other one gets its turn no more.
        started[killed]._in.read()
        assert ahead.read_whole(paths[1:3], following(expected[:1])) == expected[1:3]
        assert ahead.read_whole(paths[4:], following(expected[:3])) == expected[4:8]
    assert len(started) == 4


def test_one_that_cannot_be_started_takes_the_other_with_it(
    paths: list[Path], started: list[Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the session goes on with one alone."""
    start: Callable[..., Helper] = vars(reading_turns)["Helper"]
    tried: list[str] = []

    def fail_at_second(name: str, *more: object) -> Helper:
        tried.append(name)
        if len(tried) == 2:
            raise OSError("Cannot allocate memory")
        return start(name, *more)

    monkeypatch.setattr(reading_turns, "Helper", fail_at_second)
    with reading(waiting(paths)) as ahead:
        assert started[0].process.returncode is not None
        assert ahead.read_whole(paths[:3], ORDER) == built_here(paths)[:3]
    assert len(started) == 2


@pytest.mark.parametrize(
    ("size_bytes", "workers", "processors", "expected"),
    [(10_000_000, 2, 2, 2), (9_999_999, 2, 2, 1), (10_000_000, 1, 2, 1), (10_000_000, 2, 1, 1), (10**9, 64, 64, 2)],
)
def test_two_processes_are_started_for_many_documents_where_settings_and_processors_allow(
    monkeypatch: pytest.MonkeyPatch, size_bytes: int, workers: int, processors: int, expected: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    assert reading_turns.readers_worth(size_bytes, workers) == expected


_CHILD = """
import sys
from pathlib import Path
from tests.qc import test_reading_turns as these
these.reading_ahead.LARGE = 0
paths = [Path(one) for one in sys.argv[1:]]
with these.reading(these.waiting(paths)) as ahead:
    ahead.read_whole(paths[:1], these.ORDER)
    print("read", flush=True)
    sys.stdin.read()
"""


def test_when_the_process_that_writes_is_killed_none_is_left(paths: list[Path]) -> None:
    command, pipe = [sys.executable, "-c", _CHILD, *map(str, paths[:3])], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"read\n", child.stderr.read()
        child.kill()
        # All have it open: it comes to its end when the last of them has ended.
        assert child.stderr.read() == b""


def test_rows_are_as_they_would_be_with_all_sorts_of_documents_and_others_at_work(
    qc_database: Engine, paths: list[Path], started: list[Helper]
) -> None:
    documents = [to_apply(Action.ADD, EXPERIMENT) for _ in paths]
    other = to_apply(Action.ADD, EXPERIMENT)

    def alone(number: int, ahead: ReadingAhead) -> Applied:
        return apply_document(
            qc_database, documents[number], lambda: ahead.read(paths[number], EXPERIMENT), patience_seconds=5
        )

    def together(first: int, last: int, ahead: ReadingAhead) -> list[Applied]:
        return apply_together(
            qc_database,
            documents[first:last],
            lambda number, order: ahead.read_whole(paths[first : first + number], order),
            patience_seconds=5,
        )

    def apply_all(ahead: ReadingAhead) -> list[Applied]:
        applied = together(0, 2, ahead)
        applied.append(alone(2, ahead))
        applied += together(4, 6, ahead)
        apply_document(qc_database, other, of(experiment("Someone else's")), patience_seconds=5)
        return [*applied, *together(6, 8, ahead)]

    with reading(waiting(paths, bit_by_bit=[2]), processes=1) as ahead:
        expected = apply_all(ahead)
    rows = all_rows(qc_database)
    clear(qc_database)
    assert len(started) == 2
    with reading(waiting(paths, bit_by_bit=[2])) as ahead:
        assert apply_all(ahead) == expected
    assert len(started) == 2 + 4
    assert all_rows(qc_database) == rows
    assert [one.document_id for one in expected] == [1, 2, 3, 4, 5, 7, 8]
