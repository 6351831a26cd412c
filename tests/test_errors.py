"""The tree of errors: what each kind is called, what it says of itself and how the command ends with it."""

import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcc import errors
from dcc.cli.shell.error_advice import errors_page, explain, explanations
from dcc.declarations import ACTOR_NAMES, acting
from dcc.error_declarations import ERROR_KINDS
from dcc.errors import DccError
from dcc.messages import names_in
from dcc.runtime.worker_processes import portable
from dcc.vocabulary import Actor

DOCUMENT = Path(__file__).parents[1] / "docs" / "errors.md"


def _kinds(kind: type[DccError] = DccError) -> Iterator[type[DccError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


OURS = sorted({kind for kind in _kinds() if kind.__module__ == errors.__name__}, key=lambda kind: kind.__name__)


def test_every_kind_has_a_one_line_summary_of_its_own_and_a_name_that_the_tracker_can_hold() -> None:
    for kind in OURS:
        assert kind.__doc__ == kind.summary(), f"one line: {kind}"
        assert kind.summary().endswith("."), kind
        assert [other for other in OURS if other.summary() == kind.summary()] == [kind]
        assert kind.short_name() == kind.__name__
        assert len(kind.short_name()) <= 64
        assert kind is DccError or kind.__name__.endswith("Error")


def test_every_error_is_explained_and_the_page_is_in_step() -> None:
    unexplained = {kind.error_id() for kind in OURS if kind is not DccError} ^ {entry.id for entry in explanations()}
    assert not unexplained, f"Say what to do about {unexplained} in SECTIONS of dcc/cli/shell/error_advice.py."
    assert all(entry.advice.endswith(".") for entry in explanations())
    page = DOCUMENT.read_text("utf-8")
    assert page == errors_page(), "Run: make pages"


def test_who_acts_on_an_error_is_who_its_causes_name() -> None:
    explained = {kind: entry for kind in ERROR_KINDS if (entry := explain(kind)) is not None}
    assert len(explained) > 20
    for kind, entry in explained.items():
        assert entry.who == ", ".join(ACTOR_NAMES[one] for one in acting(kind)), kind
    assert {name for entry in explanations() for name in entry.who.split(", ")} == set(ACTOR_NAMES.values()) - {
        ACTOR_NAMES[Actor.REGISTRY]
    }


def test_a_summary_is_the_first_line_even_where_there_is_more_or_nothing() -> None:
    class LongWindedError(DccError):
        """The first line.

        And more.
        """

    class SilentError(DccError):
        pass

    SilentError.__doc__ = None
    assert LongWindedError.summary() == "The first line."
    assert SilentError.summary() == "SilentError"


def test_the_command_ends_with_the_code_of_each_kind() -> None:
    codes = {
        1: "FaultyData Cleaning ArchiveRemoved StagedDocumentLost StoredObjectLost CopyFailed BuiltOn NotDelegated",
        2: "Configuration SourceMisconfigured",
        3: "SessionActive SessionLost ExportActive BackupActive DaemonActive StorageInUse",
        4: "DiskFull SessionTimeLimit Unreachable",
        70: "InternalFault",
    }
    expected = {getattr(errors, f"{name}Error"): code for code, names in codes.items() for name in names.split()}
    for kind in OURS:
        if kind is not DccError:
            nearest = next(broader for broader in kind.__mro__ if broader in expected)
            assert kind.exit_code == expected[nearest], kind


def test_what_a_file_source_does_wrong_and_what_a_centre_does_wrong_are_told_apart() -> None:
    for kind in (errors.LoginRefusedError, errors.HostKeyChangedError, errors.SizeMismatchError):
        assert issubclass(kind, errors.SourceError)
        assert not issubclass(kind, errors.FaultyDataError)
    for kind in (errors.BadFileNameError, errors.CorruptArchiveError, errors.SchemaViolationError):
        assert issubclass(kind, errors.FaultyDataError)
        assert not issubclass(kind, errors.UnreachableError)
    assert not issubclass(errors.DiskFullError, errors.SourceError)


def test_an_unexpected_error_says_in_which_line_it_was_raised_also_in_another_process() -> None:
    with pytest.raises(ValueError, match="no plain name") as raised:
        names_in("{a.b}")
    place = r"ValueError: .* \(line \d+ of dcc\.messages\)"
    assert re.fullmatch(place, errors.fault_of(raised.value))
    sent = pickle.loads(pickle.dumps(portable(raised.value)))
    assert sent.__traceback__ is None
    assert re.fullmatch(place, errors.fault_of(sent))
    assert errors.fault_of(KeyError("x")) == "KeyError: 'x'"
