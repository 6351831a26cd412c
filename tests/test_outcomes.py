"""Outcomes: what zip actions and file sources are called, in commands and in Dagster, and how they ended."""

from datetime import datetime
from itertools import product
from typing import get_args

from dagster._core.definitions.partitions.utils.base import raise_error_on_invalid_partition_key_substring
from hypothesis import example, given
from hypothesis import strategies as st

from dcc.naming import Action
from dcc.outcomes import SubmissionKey, SubmissionOutcome
from dcc.phases import LastPhase, Phase, Status
from dcc.reports.submissions.collecting import DOCUMENT_PHASES
from dcc.reports.submissions.labels import PHASE_LABELS, PHASE_MEANINGS
from dcc.tracker.archive_names import stored_name


def test_every_phase_has_its_words_and_sessions_may_end_with_it() -> None:
    names = [phase.short_name for phase in Phase if phase >= Phase.XSD]
    assert [*get_args(LastPhase)] == ["zip_name", *names], "Correct KeptPhase in dcc/phases.py."
    lacking = {*Phase} - PHASE_LABELS.keys() | {*DOCUMENT_PHASES} - PHASE_MEANINGS.keys()
    assert not lacking, f"Give {lacking} its words in dcc/reports/submissions/labels.py."


_keys = st.builds(SubmissionKey, st.sampled_from(Action), st.text(min_size=1, max_size=140))


def test_the_partition_of_a_conforming_name_is_the_name_that_users_see() -> None:
    key = SubmissionKey(Action.EDIT, "J.2013-10-31.26.impc.zip")
    assert (key.partition, str(key)) == ("edit/J.2013-10-31.26.impc.zip", "edit/J.2013-10-31.26.impc.zip")


def test_the_longest_conforming_name_needs_no_digest() -> None:
    key = SubmissionKey(Action.DELETE, f"{'C' * 31}.2013-10-31.99999.impc.zip")
    assert key.partition == str(key)


@given(_keys)
@example(SubmissionKey(Action.ADD, "two..........dots.zip"))
@example(SubmissionKey(Action.ADD, "\a\b\f\n\r\t\v\0\x7f.zip"))
@example(SubmissionKey(Action.ADD, "x" * 47 + "\n.zip"))
@example(SubmissionKey(Action.ADD, "x" * 46 + "....zip"))
def test_every_name_has_a_partition_key_that_dagster_takes_and_mysql_tells_apart(key: SubmissionKey) -> None:
    assert len(key.partition) <= 64
    raise_error_on_invalid_partition_key_substring([key.partition])
    assert key.partition.startswith(f"{key.action}/")


_printable = st.text(st.characters(exclude_categories=["C"], exclude_characters="\\"), min_size=1, max_size=140)


@given(_printable, _printable)
@example("x" * 80 + "a", "x" * 80 + "b")
@example("a...b", "a....b")
def test_different_names_have_different_partition_keys(one: str, other: str) -> None:
    keys = [SubmissionKey(Action.ADD, one), SubmissionKey(Action.ADD, other)]
    assert (keys[0].partition == keys[1].partition) == (one == other)


def test_a_name_that_the_tracker_had_to_shorten_has_a_partition_key_too() -> None:
    for name in ("\\xff" * 200 + ".zip", "é" * 200 + ".zip", "x" * 300 + ".zip"):
        shortened = stored_name(name)
        assert len(shortened) == 128
        assert len(SubmissionKey(Action.ADD, shortened).partition) == 64


@given(st.text(max_size=300), st.text(max_size=300))
def test_stored_names_fit_their_column_and_differ_where_the_names_differ(one: str, other: str) -> None:
    assert len(stored_name(one)) <= 128
    assert (stored_name(one) == stored_name(other)) == (one == other)
    if len(one) <= 128:
        assert stored_name(one) == one


def test_a_zip_action_succeeded_from_the_end_of_xsd_validation_on_and_failed_in_any_phase() -> None:
    key = SubmissionKey(Action.ADD, "H.2013-10-31.1.impc.zip")
    for phase, status in product(Phase, Status):
        outcome = SubmissionOutcome(key, "H", phase, status, datetime(2026, 1, 31))
        assert outcome.failed == (status is Status.FAILED)
        assert outcome.succeeded == (status is Status.DONE and phase >= Phase.XSD)
