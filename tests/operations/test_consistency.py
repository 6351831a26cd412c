"""The consistency checker says nothing of what is well, and of what is broken that which is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from dcc.operations.consistency.inconsistency import RULES
from dcc.operations.sessions import open_session
from dcc.tracker.models import FileSource
from dcc.tracker.register.file_sources import purge_source
from tests.support.asking import column_in
from tests.support.healthy_installation import DAMAGED, FAULTY, GOOD, Inspected

Damage = Callable[[Inspected], None]

_BEGUN = "INSERT INTO crawling_session (start_time, status, created, last_update) VALUES "


def test_nothing_is_said_where_staging_was_cleaned(healthy_copy: Inspected) -> None:
    for path in sorted(healthy_copy.staging.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()

    assert healthy_copy.check() == []


def test_submissions_may_have_no_source_after_one_was_removed_with_its_history(healthy_copy: Inspected) -> None:
    with healthy_copy.tracker.begin() as connection:
        for source_id in connection.scalars(select(FileSource.id)).all():
            purge_source(connection, source_id)

    assert healthy_copy.rules() & {"C1", "C3"} == set()


def _in_tracker(statement: str) -> Damage:
    return lambda inspected: inspected.damage("tracker", statement)


def _in_qc(statement: str) -> Damage:
    return lambda inspected: inspected.damage("qc", statement)


def _write(path: str, content: bytes | None = None) -> Damage:
    """Put a file into staging; without contents, half of those that it has."""

    def damage(inspected: Inspected) -> None:
        file: Path = inspected.staging / path
        old = file.read_bytes() if content is None else b""
        file.write_bytes(old[: len(old) // 2] if content is None else content)

    return damage


def _flip(path: str) -> Damage:
    """Change one byte of a file in staging."""

    def damage(inspected: Inspected) -> None:
        file = inspected.staging / path
        old = file.read_bytes()
        file.write_bytes(old[:5] + bytes([old[5] ^ 1]) + old[6:])

    return damage


_GOOD_NAME = GOOD.partition("/")[2]
_GOOD_ID = f"(SELECT za.id FROM zip_action za JOIN zip_file z ON z.id = za.zip_id WHERE z.file_name = '{_GOOD_NAME}')"
_GOOD_HOSTING = f"(SELECT id FROM file_source_has_zip WHERE za_id = {_GOOD_ID})"
_SPECIMENS = f"{GOOD}.contents/H.2013-10-31.1.specimen.impc.xml"


def _newest(table: str, column: str = "id", condition: str = "1 = 1") -> str:
    """The highest id in a table; nested, as MariaDB will have it where the table itself is changed."""
    return f"(SELECT n FROM (SELECT max({column}) AS n FROM {table} WHERE {condition}) AS newest)"


_E4 = "cleared IS NULL AND exception_id = (SELECT id FROM an_exception WHERE short_name = 'E4')"
_ENDED = "entity_kind = 'experiment' AND ended_by IS NOT NULL"
_COLUMNS = "zf_id, request, received, downloaded_size_bytes"

UNDER_WAY = _in_tracker(f"UPDATE xml_file SET phase_id = 8, status_id = 2 WHERE id = {_newest('xml_file')}")

TURNS: list[dict[str, tuple[str, Damage]]] = [
    {
        "a submission without a hosting": (
            "C1",
            _in_tracker(f"DELETE FROM file_source_has_zip WHERE za_id = {_GOOD_ID}"),
        ),
        "a delivered archive that the archive store does not know": (
            "C23",
            _in_tracker("DELETE FROM stored_archive"),
        ),
        "a session that never ended": (
            "C6",
            _in_tracker(f"{_BEGUN}('2026-01-01 00:00:00', -1, '2026-01-01 00:00:00', '2026-01-01 00:00:00')"),
        ),
        "a document that is there twice": (
            "C7",
            _in_tracker(
                "INSERT INTO xml_file (zip_id, fname, centre_id, phase_id, status_id, last_update) "
                "SELECT zip_id, fname, centre_id, phase_id, status_id, last_update FROM xml_file "
                f"WHERE id = {_newest('xml_file')}"
            ),
        ),
        "an invalid document without a reason": ("C8", _in_tracker("DELETE FROM xml_log")),
        "a part of an archive that arrived": ("C11", _write(f"{GOOD}.part", b"half")),
        "a lifetime that ended before it began": (
            "C14",
            _in_qc(f"UPDATE lifetime SET ended_by = opened_by - 1 WHERE id = {_newest('lifetime')}"),
        ),
        "a measurement lost": ("C15", _in_qc(f"DELETE FROM measurement WHERE id = {_newest('measurement')}")),
        "a run counted nowhere": (
            "C17",
            _in_qc(
                f"DELETE FROM context_member WHERE procedure_run_id = {_newest('context_member', 'procedure_run_id')}"
            ),
        ),
        "a finding that counts and was closed": (
            "C19",
            _in_qc("UPDATE finding SET closed = '2026-01-01 00:00:00' WHERE id = 1"),
        ),
    },
    {
        "an archive that is never mentioned": (
            "C1",
            _in_tracker(
                "INSERT INTO zip_file (file_name, last_update) VALUES ('H.2014-01-01.1.impc.zip', '2026-01-01')"
            ),
        ),
        "a listed archive lost": (
            "C2",
            _in_tracker(f"UPDATE source_crawl SET listed = listed + 1 WHERE id = {_newest('source_crawl')}"),
        ),
        "a submission behind its download": (
            "C3",
            _in_tracker(f"UPDATE zip_action SET phase_id = 9, status_id = 3 WHERE id = {_GOOD_ID}"),
        ),
        "a download that lost its documents": (
            "C4",
            _in_tracker(
                f"DELETE FROM xml_file WHERE zip_id = (SELECT id FROM zip_download WHERE zf_id = {_GOOD_HOSTING})"
            ),
        ),
        "a task that never ended": (
            "C6",
            _in_tracker(f"UPDATE session_task SET finish_time = NULL WHERE id = {_newest('session_task')}"),
        ),
        "a refusal without a reason": ("C8", _in_tracker("DELETE FROM zip_action_log")),
        "an archive with a byte changed": ("C9", _flip(DAMAGED)),
        "a part of an archive that nobody knows": ("C11", _write("add/H.2001-01-01.1.impc.zip.part", b"half")),
        "a document that the QC database lost": (
            "C12",
            _in_qc(f"UPDATE document SET tracker_id = NULL WHERE id = {_newest('document')}"),
        ),
        "an animal with two current versions": (
            "C13",
            _in_qc("UPDATE specimen SET specimen_id = (SELECT specimen_id FROM specimen WHERE id = 1) WHERE id = 2"),
        ),
        "an animal more than was said": (
            "C15",
            _in_qc(f"UPDATE document SET specimens = specimens - 1 WHERE id = {_newest('specimen', 'document_id')}"),
        ),
        "a context that says too much": (
            "C16",
            _in_qc("UPDATE data_context SET measurements = measurements + 1 WHERE id = 1"),
        ),
        "a finding that the log lost": (
            "C18",
            _in_tracker(f"DELETE FROM xml_log WHERE id = {_newest('xml_log', condition=_E4)}"),
        ),
    },
    {
        "a submission back at its beginning": (
            "C3",
            _in_tracker(f"UPDATE zip_action SET phase_id = 2, status_id = 3 WHERE id = {_GOOD_ID}"),
        ),
        "a document under way without a session": ("C5", UNDER_WAY),
        "a failed archive without a reason": ("C8", _in_tracker("DELETE FROM zip_log")),
        "something half unpacked": ("C11", _write(f"add/.{_GOOD_NAME}.unpacking-x", b"half")),
        "a document that the tracker has not heard of": (
            "C12",
            _in_tracker(
                "UPDATE xml_file SET phase_id = 7, status_id = 1 WHERE fname = 'H.2013-11-06.1.specimen.impc.xml'"
            ),
        ),
        "an ended version that is current": (
            "C13",
            _in_qc(f"UPDATE experiment SET is_current = 1 WHERE id = {_newest('lifetime', 'entity_id', _ENDED)}"),
        ),
        "rows of a document that is not there": (
            "C15",
            _in_qc("UPDATE measurement SET document_id = 999 WHERE document_id = 1 OR document_id = 2"),
        ),
        "a context with other measurements": (
            "C16",
            _in_qc(
                "UPDATE measurement SET fingerprint = fingerprint + 1 "
                "WHERE procedure_run_id IN (SELECT procedure_run_id FROM context_member)"
            ),
        ),
        "a failure without a finding": (
            "C18",
            _in_qc("UPDATE finding SET is_active = 0, closed = '2026-01-01 00:00:00' WHERE rule = 'E4'"),
        ),
    },
    {
        "a download under way without a session": (
            "C5",
            _in_tracker(f"UPDATE zip_download SET phase_id = 1, status_id = 1 WHERE zf_id = {_GOOD_HOSTING}"),
        ),
        "half a document": ("C10", _write(_SPECIMENS)),
        "a version without a lifetime": ("C13", _in_qc(f"DELETE FROM lifetime WHERE id = {_newest('lifetime')}")),
        "a lifetime that a refused document opened": (
            "C14",
            _in_qc(f"UPDATE document SET state = 'refused' WHERE id = {_newest('document')}"),
        ),
        "a context whose history is lost": ("C16", _in_qc("DELETE FROM context_history")),
    },
    {
        "a download behind its documents": (
            "C4",
            _in_tracker(f"UPDATE zip_download SET phase_id = 9, status_id = 3 WHERE zf_id = {_GOOD_HOSTING}"),
        ),
        "half an archive under its final name": ("C9", _write(GOOD)),
        "a document with a byte changed": ("C10", _flip(_SPECIMENS)),
    },
    {
        "a document gone from beside another": ("C10", lambda inspected: (inspected.staging / _SPECIMENS).unlink()),
    },
    {
        "an archive that arrived twice": (
            "C7",
            _in_tracker(
                f"INSERT INTO zip_download ({_COLUMNS}, phase_id, status_id, last_update) "
                f"SELECT {_COLUMNS}, 6, 3, last_update FROM zip_download "
                f"WHERE zf_id = {_GOOD_HOSTING}"
            ),
        ),
    },
]
"""Damages, each with the rule that it breaks. Those of one turn are done together: none breaks the rule of another."""


@pytest.mark.parametrize("turn", range(len(TURNS)))
def test_what_is_broken_is_said(turn: int, healthy_copy: Inspected) -> None:
    for _, damage in TURNS[turn].values():
        damage(healthy_copy)

    found = healthy_copy.check()
    rules = {one.rule for one in found}
    assert [case for case, (rule, _) in TURNS[turn].items() if rule not in rules] == []
    assert all(one.subject and one.message for one in found)


def test_each_rule_of_the_databases_and_of_staging_has_a_case() -> None:
    assert {rule for turn in TURNS for rule, _ in turn.values()} == set(RULES) - {"C20", "C21", "C22"}


def test_what_a_session_has_under_way_is_not_looked_at(healthy_copy: Inspected) -> None:
    UNDER_WAY(healthy_copy)

    with open_session(healthy_copy.tracker, healthy_copy.settings):
        assert healthy_copy.check() == []

    assert "C5" in healthy_copy.rules()


def test_a_faulty_submission_is_no_inconsistency(healthy_copy: Inspected) -> None:
    names = set(column_in(healthy_copy.tracker, "SELECT DISTINCT file_name FROM zip_file"))

    assert {FAULTY.partition("/")[2], DAMAGED.partition("/")[2]} <= names
    assert healthy_copy.check() == []
