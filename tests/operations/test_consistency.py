"""The consistency checker says nothing of what is well, and of what is broken that which is."""

import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import Connection, select

from dcc.operations.consistency.check import check_at_rest
from dcc.operations.consistency.inconsistency import CONSISTENCY_RULES, Inconsistency
from dcc.operations.consistency.paged_rows import pages
from dcc.operations.session_work import open_session
from dcc.phases import Phase
from dcc.session.data.withdrawals import withdraw_submission
from dcc.tracker import progress
from dcc.tracker.models import FileSource, ZipFile
from dcc.tracker.register.file_sources import purge_source
from dcc.tracker.submission_rows import find_submission
from tests.support.asking import in_reading, in_writing
from tests.support.data_installations import key_of
from tests.support.healthy_installation import DAMAGED, FAULTY, GOOD, HELD, MISNAMED, Inspected

Damage = Callable[[Inspected], None]

_BEGUN = "INSERT INTO crawling_session (start_time, status, created, last_update) VALUES "


def test_nothing_is_said_of_faulty_submissions_nor_where_staging_was_cleaned(healthy_copy: Inspected) -> None:
    assert healthy_copy.check() == []

    for path in sorted(healthy_copy.staging.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()

    assert healthy_copy.check() == []


def test_nothing_is_said_of_what_settings_leave_away_nor_of_a_source_shown_in_part_or_a_waived_finding(
    healthy_copy: Inspected,
) -> None:
    changed = {"archive_keep_days": 1, "max_document_errors": 1}
    healthy_copy.settings = healthy_copy.settings.model_copy(update=changed)
    healthy_copy.damage(
        "tracker", "DELETE FROM stored_archive", "UPDATE source_crawl SET listed = 0, outcome = 'partial'"
    )
    healthy_copy.damage(
        "qc",
        "INSERT INTO waiver (rule, valid_from, effect, reason, author, created) "
        "VALUES ('E4', '2026-01-01', 'waive', 'try', 'me', '2026-01-01 00:00:00')",
        "UPDATE finding SET is_active = 0, waiver_id = 1 WHERE id = (SELECT max(id) FROM finding WHERE rule = 'E4')",
    )

    assert healthy_copy.check() == []


def test_submissions_may_have_no_source_after_one_was_removed_with_its_history(healthy_copy: Inspected) -> None:
    with healthy_copy.tracker.begin() as connection:
        for source_id in connection.scalars(select(FileSource.id)).all():
            purge_source(connection, source_id)

    assert healthy_copy.rules() & {"C1", "C3"} == set()


def test_nothing_is_said_of_what_was_withdrawn_or_cancelled_or_opened_again(healthy_copy: Inspected) -> None:
    installation = healthy_copy.tracker, healthy_copy.qc, healthy_copy.settings
    for key in (GOOD, FAULTY, HELD):
        withdraw_submission(*installation, key_of(key), author="me", reason="try")
        assert healthy_copy.check() == [], key
    for change in (progress.cancel, progress.reopen):
        for key in (DAMAGED, MISNAMED, GOOD):
            za_id = in_reading(healthy_copy.tracker, find_submission, key_of(key)).za_id
            in_writing(healthy_copy.tracker, change, [za_id], "me", "try")
        assert healthy_copy.check() == [], change


def _write(path: str, inspected: Inspected, content: Callable[[bytes], bytes]) -> None:
    """Have a file in staging contain something else."""
    file = inspected.staging / path
    file.write_bytes(content(file.read_bytes() if file.exists() else b""))


HOW: dict[str, Callable[[str, Inspected], None]] = {
    "tracker": lambda statement, inspected: inspected.damage("tracker", statement),
    "qc": lambda statement, inspected: inspected.damage("qc", statement),
    "begin": partial(_write, content=lambda _: b"half"),
    "halve": partial(_write, content=lambda old: old[: len(old) // 2]),
    "flip": partial(_write, content=lambda old: old[:5] + bytes([old[5] ^ 1]) + old[6:]),
    "remove": lambda path, inspected: (inspected.staging / path).unlink(),
    "fold": lambda path, inspected: ((inspected.staging / path).unlink(), (inspected.staging / path).mkdir()),
}
"""What is done with the statement, or to the file in staging."""

_GOOD_NAME = GOOD.partition("/")[2]
_GOOD_ID = f"(SELECT za.id FROM zip_action za JOIN zip_file z ON z.id = za.zip_id WHERE z.file_name = '{_GOOD_NAME}')"
_GOOD_HOSTING = f"(SELECT id FROM file_source_has_zip WHERE za_id = {_GOOD_ID})"
_SPECIMENS = f"{GOOD}.contents/H.2013-10-31.1.specimen.impc.xml"


def _newest(table: str, column: str = "id", condition: str = "1 = 1") -> str:
    """The highest id in a table; nested, as MariaDB will have it where the table itself is changed."""
    return f"(SELECT n FROM (SELECT max({column}) AS n FROM {table} WHERE {condition}) AS newest)"


_E4 = "cleared IS NULL AND exception_id = (SELECT id FROM an_exception WHERE short_name = 'E4')"
_LATER = "H.2013-11-06.1.experiment.impc.xml"
_KINDS = "more", "left_out_data", "left_out_context"
_WITH_KINDS = "INSERT INTO an_exception (short_name) VALUES " + ", ".join(f"('{kind}')" for kind in _KINDS)
_MORE, _LEFT_OUT_DATA, _LEFT_OUT_CONTEXT, _Q5 = (
    f"(SELECT id FROM an_exception WHERE short_name = '{kind}')" for kind in (*_KINDS, "Q5")
)
_WARNED = "(SELECT document_id FROM finding WHERE rule = 'Q5')"
_ENDED = "entity_kind = 'experiment' AND ended_by IS NOT NULL"
_COLUMNS = "zf_id, request, received, downloaded_size_bytes"

UNDER_WAY = f"UPDATE xml_file SET phase_id = 8, status_id = 2 WHERE fname = '{_LATER}'"

DAMAGES = f"""
C1: a submission without a hosting
    tracker: DELETE FROM file_source_has_zip WHERE za_id = {_GOOD_ID}
C23: a delivered archive that the archive store does not know
    tracker: DELETE FROM stored_archive
C6: a session that never ended
    tracker: {_BEGUN}('2026-01-01 00:00:00', -1, '2026-01-01 00:00:00', '2026-01-01 00:00:00')
C7: a document that is there twice
    tracker: INSERT INTO xml_file (zip_id, fname, centre_id, phase_id, status_id, last_update) SELECT zip_id,
    fname, centre_id, phase_id, status_id, last_update FROM xml_file WHERE fname = '{_LATER}'
C8: an invalid document without a reason
    tracker: UPDATE xml_log SET cleared = '2026-01-01'
C11: a part of an archive that arrived
    begin: {GOOD}.part
C14: a lifetime that ended before it began
    qc: UPDATE lifetime SET ended_by = opened_by - 1 WHERE id = {_newest("lifetime")}
C15: a measurement lost
    qc: DELETE FROM measurement WHERE id = 1
C17: a run counted nowhere
    qc: DELETE FROM context_member WHERE procedure_run_id = 3
C19: a finding that counts and was closed
    qc: UPDATE finding SET closed = '2026-01-01 00:00:00' WHERE id = 1

C1: an archive that is never mentioned
    tracker: INSERT INTO zip_file (file_name, last_update) VALUES ('H.2014-01-01.1.impc.zip', '2026-01-01')
C2: a listed archive lost
    tracker: UPDATE source_crawl SET listed = listed + 1 WHERE id = {_newest("source_crawl")}
C3: a submission behind its download
    tracker: UPDATE zip_action SET phase_id = 9, status_id = 3 WHERE id = {_GOOD_ID}
C4: a download that lost its documents
    tracker: DELETE FROM xml_file WHERE zip_id = (SELECT id FROM zip_download WHERE zf_id = {_GOOD_HOSTING})
C6: a task that never ended
    tracker: UPDATE session_task SET finish_time = NULL WHERE id = {_newest("session_task")}
C8: a refusal without a reason
    tracker: DELETE FROM zip_action_log
C9: an archive with a byte changed
    flip: {DAMAGED}
C11: a part of an archive that nobody knows
    begin: add/H.2001-01-01.1.impc.zip.part
C12: a document that the QC database lost
    qc: UPDATE document SET tracker_id = NULL WHERE id = {_newest("document")}
C13: an animal with two current versions
    qc: UPDATE specimen SET specimen_id = (SELECT specimen_id FROM specimen WHERE id = 1) WHERE id = 2
C15: an animal more than was said
    qc: UPDATE document SET specimens = specimens - 1 WHERE id = {_newest("specimen", "document_id")}
C16: a context that says too much
    qc: UPDATE data_context SET measurements = measurements + 1 WHERE id = 1
C18: a finding that the log lost
    tracker: DELETE FROM xml_log WHERE id = {_newest("xml_log", condition=_E4)}

C3: a submission back at its beginning
    tracker: UPDATE zip_action SET phase_id = 2, status_id = 3 WHERE id = {_GOOD_ID}
C5: a document under way without a session
    tracker: {UNDER_WAY}
C6: a session that ended and is said not to have
    tracker: UPDATE crawling_session SET status = -1
C8: a failed archive without a reason
    tracker: DELETE FROM zip_log
C11: something half unpacked
    begin: add/.{_GOOD_NAME}.unpacking-x
C12: a document that the tracker has not heard of
    tracker: UPDATE xml_file SET phase_id = 7, status_id = 1 WHERE fname = 'H.2013-11-06.1.specimen.impc.xml'
C13: an ended version that is current
    qc: UPDATE experiment SET is_current = 1 WHERE id = {_newest("lifetime", "entity_id", _ENDED)}
C15: rows of a document that is not there
    qc: UPDATE measurement SET document_id = 999 WHERE document_id = 1 OR document_id = 2
C16: a context with other measurements
    qc: UPDATE measurement SET fingerprint = fingerprint + 1 WHERE procedure_run_id IN (SELECT procedure_run_id
    FROM context_member)
C18: a failure without a finding
    qc: UPDATE finding SET is_active = 0, closed = '2026-01-01 00:00:00' WHERE rule = 'E4'

C2: an archive that a source shows and that is said to be gone
    tracker: UPDATE file_source_has_zip SET gone_since = '2026-01-01' WHERE za_id = {_GOOD_ID}
C5: a download under way without a session
    tracker: UPDATE zip_download SET phase_id = 1, status_id = 1 WHERE zf_id = {_GOOD_HOSTING}
C6: a session without an end that is said to have ended
    tracker: UPDATE crawling_session SET finish_time = NULL
C10: half a document
    halve: {_SPECIMENS}
C12: a refused document that the tracker says is through
    qc: UPDATE document SET state = 'refused' WHERE id = {_newest("document")}
C13: a version without a lifetime
    qc: DELETE FROM lifetime WHERE id = {_newest("lifetime")}
C14: a lifetime that a refused document opened
    qc: UPDATE document SET state = 'refused' WHERE id = {_newest("document")}
C16: a context whose history is lost
    qc: DELETE FROM context_history

C2: a source shown in part that has fewer archives than it showed
    tracker: UPDATE source_crawl SET listed = listed + 1, outcome = 'partial' WHERE id = {_newest("source_crawl")}
C4: a download behind its documents
    tracker: UPDATE zip_download SET phase_id = 9, status_id = 3 WHERE zf_id = {_GOOD_HOSTING}
C6: a task that ended and is said not to have
    tracker: UPDATE session_task SET status = -1
C9: half an archive under its final name
    halve: {GOOD}
C10: a document with a byte changed
    flip: {_SPECIMENS}
C12: a withdrawn document that the tracker says is through
    qc: UPDATE document SET state = 'undone' WHERE id = {_newest("document")}
C13: an old version without an end
    qc: UPDATE specimen SET is_current = 0 WHERE id = 1
C14: a lifetime that a withdrawn document opened
    qc: UPDATE document SET state = 'undone' WHERE id = {_newest("document")}
C16: a document that says too much of a context
    qc: UPDATE document_context SET measurements = measurements + 1
C19: a finding that does not count and is open
    qc: UPDATE finding SET is_active = 0 WHERE id = 1

C4: a download that failed, though its documents have not
    tracker: UPDATE zip_download SET phase_id = 8, status_id = 5 WHERE zf_id = {_GOOD_HOSTING}
C9: an archive that cannot be read
    fold: {GOOD}
C10: a document gone from beside another
    remove: {_SPECIMENS}
C12: a held document that the tracker says is through
    qc: UPDATE document SET state = 'held' WHERE id = {_newest("document")}
C14: a lifetime that a held document opened
    qc: UPDATE document SET state = 'held' WHERE id = {_newest("document")}
C16: a context in another state than its history says
    qc: UPDATE context_history SET state = 'other'
C18: a document that passed, though its findings fail it
    tracker: UPDATE xml_file SET status_id = 3 WHERE phase_id = 8 AND status_id = 5

C12: a document that counts and the tracker says was withdrawn
    tracker: UPDATE xml_file SET phase_id = 7, status_id = 4 WHERE fname = '{_LATER}'
C15: an animal fewer than was said
    qc: UPDATE document SET specimens = specimens + 1 WHERE id = {_newest("specimen", "document_id")}
C16: a context with an issue that nobody raised
    qc: UPDATE data_context SET issues = issues + 1

C15: a document that lost all its measurements
    qc: DELETE FROM measurement WHERE document_id = {_WARNED}
C18: a finding in a log with more than that, which the QC database lost
    tracker: UPDATE xml_log SET exception_id = CASE id WHEN {_newest("xml_log", condition=_E4)} THEN {_MORE} ELSE
    {_Q5} END WHERE {_E4}
C7: an archive that arrived twice
    tracker: INSERT INTO zip_download ({_COLUMNS}, phase_id, status_id, last_update) SELECT {_COLUMNS}, 6, 3,
    last_update FROM zip_download WHERE zf_id = {_GOOD_HOSTING}
"""
"""Damages below the rule that each breaks. Those of one paragraph are done together: none breaks another's rule."""


EXCEPTIONS = f"""
C15: a refused document has no rows
    qc: UPDATE document SET state = 'refused' WHERE state = 'held'
C15: an entity that the upload refused has no row
    qc: UPDATE document SET experiments = experiments + 1 WHERE id = {_WARNED}
C18: a document whose judging was cancelled
    tracker: UPDATE xml_file SET status_id = 4 WHERE phase_id = 8
C18: the settings leave a step after judging out
    tracker: INSERT INTO xml_log (xml_id, exception_id) SELECT id, {_LEFT_OUT_CONTEXT} FROM xml_file WHERE phase_id = 11

C18: the settings leave judging out
    tracker: UPDATE xml_log SET exception_id = {_LEFT_OUT_DATA} WHERE exception_id = {_Q5}
C18: the log has fewer findings by an earlier setting
    tracker: UPDATE xml_log SET exception_id = {_MORE} WHERE id = {_newest("xml_log", condition=_E4)}

C18: documents that are not applied
    qc: UPDATE document SET state = 'undone'
C18: the findings of those, which their logs lost
    tracker: UPDATE xml_log SET cleared = '2026-01-01'

C18: more was found than is recorded
    qc: INSERT INTO finding (document_id, rule, severity, message, is_active, created)
    VALUES ({_WARNED}, 'more', 'warning', 'And more.', 1, '2026-01-01 00:00:00')
"""
"""What looks damaged and is not, below the rule that permits it."""


def _case(text: str) -> tuple[tuple[str, str], Damage]:
    """The rule and the name of a damage, and what does it."""
    (rule, name), (how, what) = (part.split(": ", 1) for part in text.split("\n", 1))
    return (rule, name), partial(HOW[how.strip()], " ".join(what.split()))


def _turns(text: str) -> list[dict[tuple[str, str], Damage]]:
    return [dict(map(_case, re.split(r"\n(?=C)", turn))) for turn in text.strip().split("\n\n")]


TURNS = _turns(DAMAGES)


@pytest.mark.parametrize("turn", range(len(TURNS)))
def test_what_is_broken_is_said(turn: int, healthy_copy: Inspected) -> None:
    healthy_copy.damage("tracker", _WITH_KINDS)
    for damage in TURNS[turn].values():
        damage(healthy_copy)

    found = healthy_copy.check()
    rules = {one.rule for one in found}
    assert [name for rule, name in TURNS[turn] if rule not in rules] == []
    assert all(one.subject and one.message for one in found)


@pytest.mark.parametrize("turn", _turns(EXCEPTIONS))
def test_nothing_is_said_of_what_a_rule_permits(turn: dict[tuple[str, str], Damage], healthy_copy: Inspected) -> None:
    healthy_copy.damage("tracker", _WITH_KINDS)
    for damage in turn.values():
        damage(healthy_copy)

    assert [one for one in healthy_copy.check() if one.rule in {rule for rule, _ in turn}] == []


def test_each_rule_of_the_databases_and_of_staging_has_a_case() -> None:
    assert {rule for turn in TURNS for rule, _ in turn} == set(CONSISTENCY_RULES) - {"C20", "C21", "C22"}


def test_what_a_session_has_under_way_is_not_looked_at(healthy_copy: Inspected) -> None:
    healthy_copy.damage("tracker", UNDER_WAY)

    with open_session(healthy_copy.tracker, healthy_copy.settings) as session:
        session.start_task(Phase.DATA, "try")
        assert healthy_copy.check() == []

    assert "C5" in healthy_copy.rules()

    def beside_a_session(_: Connection) -> Iterator[Inconsistency]:
        with open_session(healthy_copy.tracker, healthy_copy.settings):
            yield Inconsistency("C5", "a document", "It is under way.")

    assert check_at_rest(healthy_copy.tracker, healthy_copy.settings, beside_a_session) == []


def test_of_what_is_broken_many_times_the_first_are_listed_and_the_others_counted(healthy_copy: Inspected) -> None:
    unused = "INSERT INTO zip_file (file_name, last_update) VALUES ('{}', '2026-01-01')"
    healthy_copy.damage("tracker", *map(unused.format, range(22)))
    assert [one.subject for one in healthy_copy.check()] == [*map(str, range(20)), "2 others"]

    with healthy_copy.tracker.connect() as connection:
        read = [[row.id for row in page] for page in pages(connection, select(ZipFile.id), ZipFile.id, size=29)]
    assert read == [[*range(1, 30)], [30]]
