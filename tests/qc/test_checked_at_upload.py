"""Documents checked while they are read for the upload: they come to what they come to when they are read again."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from types import CodeType
from typing import Any

import pytest
from sqlalchemy import text

from dcc.cli.demo.submissions import damaged
from dcc.documents.reading import read_bytes
from dcc.naming import DocumentKind
from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.apply import reading_ahead, reading_turns
from dcc.qc.judging import checked_at_upload, checking_while_reading
from dcc.qc.judging.checked_at_upload import CheckedAtUpload
from dcc.qc.judging.documents import Basis
from dcc.reference.loading import load_shipped
from dcc.rules.checking import ABOUT_SPECIMENS, JUDGED_AT_UPLOAD, all_rules
from dcc.session.data import checking, upload_groups
from dcc.session.data.corrections import recheck
from dcc.session.data.uploading import upload_documents
from tests.support.data_installations import EXPERIMENTS, SPECIMENS, DataInstallation, experiments, specimens
from tests.support.databases import only_sqlite
from tests.support.judging_cases import Reference

ZIP = "add/H.2013-10-31.1.impc.zip"
LATER = "edit/H.2013-11-05.1.impc.zip"


@pytest.fixture(autouse=True)
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of any size are applied together, and read by other processes, two documents each at a time."""
    monkeypatch.setattr(upload_groups, "LARGE", 0)
    monkeypatch.setattr(reading_ahead, "LARGE", 0)
    monkeypatch.setattr(reading_turns, "MANY", 0)
    monkeypatch.setattr(reading_turns, "_LOT_DOCUMENTS", 2)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@pytest.fixture
def read_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the documents that were read to be judged, in their order."""
    names: list[str] = []
    judge = checking._judge

    def noting(work: Any, document: Any, *more: Any) -> Any:
        names.append(document.name.file_name)
        return judge(work, document, *more)

    monkeypatch.setattr(checking, "_judge", noting)
    return names


def change(documents: dict[str, bytes], old: str, new: str) -> dict[str, bytes]:
    """The documents, with something else in each."""
    return {name: damaged(content, old, new) for name, content in documents.items()}


def mixed(data: DataInstallation) -> None:
    """Have an archive with documents that are sound, and with all sorts of faults, of their own and with animals."""
    animal = '<relatedSpecimen specimenID="H-M000001" relationship="littermate"/>'
    data.put(
        ZIP,
        specimens(mice=6),
        experiments(animals=3),
        change(experiments("2013-10-31.2", procedure="IMPC_GRS_001"), 'unit="g"', 'unit="kg"'),
        change(experiments("2013-10-31.3", procedure="IMPC_IPG_001"), "IMPC_001", "NONE_001"),
        experiments("2013-10-31.4", first=90, procedure="IMPC_CBC_001"),
        change(
            experiments("2013-10-31.5", procedure="IMPC_HEM_001"), 'dateOfExperiment="2013', 'dateOfExperiment="2010'
        ),
        change(experiments("2013-10-31.6", first=4), 'dateOfExperiment="2013', 'dateOfExperiment="2113'),
        change(specimens("2013-11-01.1", first=20), animal.replace("01", "20"), animal.replace("01", "77")),
        change(specimens("2013-11-02.1", first=40), 'relationship="littermate"', 'relationship="mother"'),
        change(specimens("2013-11-03.1", first=60), 'project="BaSH"', 'project="Nobody"'),
    )


def findings(data: DataInstallation) -> list[tuple[Any, ...]]:
    return data.rows(models.Finding, "id", "document_id", "rule", "message", "line", "path", "entity_id", "is_active")


def test_a_session_that_checks_while_it_reads_comes_to_the_same_findings_as_one_that_reads_again(
    data: DataInstallation, read_again: list[str]
) -> None:
    mixed(data)
    data.run()
    ending, found = data.ending(), findings(data)
    doubtful = set(read_again)
    assert {row[2] for row in found} >= {"E1", "E4", "E8", "P11", "S12", "S14", "X8"}
    assert SPECIMENS not in doubtful
    assert EXPERIMENTS not in doubtful
    recheck(data.tracker, data.qc, data.settings, author="someone", reason="A test.")
    data.take_up()
    assert set(data.documents()) - set(read_again) == set()
    assert findings(data) == found
    assert data.ending() == ending


@only_sqlite
def test_nothing_is_read_again_but_what_rules_about_other_specimens_may_object_to(
    data: DataInstallation, read_again: list[str]
) -> None:
    mixed(data)
    data.run()
    in_doubt = {row[1] for row in findings(data) if row[2] in ABOUT_SPECIMENS}
    names = {row[0]: row[1] for row in data.rows(models.Document, "id", "file_name")}
    assert set(read_again) == {names[document_id] for document_id in in_doubt}


@only_sqlite
def test_a_session_after_one_that_was_killed_when_all_was_uploaded_reads_again(
    data: DataInstallation, read_again: list[str]
) -> None:
    """What was found is known to the session that read alone."""
    mixed(data)
    data.validate()
    data.take_up(until=Phase.UPLOAD)
    data.take_up()
    assert set(read_again) == set(data.documents())


@pytest.mark.parametrize("limit", [0, 1])
@only_sqlite
def test_findings_that_are_not_held_are_found_again(
    data: DataInstallation, read_again: list[str], monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(checked_at_upload, "MOST_FINDINGS", limit)
    data.put(
        ZIP, specimens(mice=1), *(change(specimens(f"2013-11-0{day}.1", first=day * 9), "BaSH", "No") for day in (1, 2))
    )
    data.run()
    assert read_again.count(SPECIMENS) == 0
    assert [row[2] for row in findings(data)].count("S12") == 2
    assert len(read_again) == 2


@only_sqlite
def test_what_was_applied_since_the_database_was_asked_counts(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a document would pass although the animal that it is about was no more of that age when it was judged."""
    data.put(ZIP, specimens(), experiments())
    data.put(LATER, change(specimens("2013-11-05.1"), 'DOB="2013', 'DOB="2020'))
    data.validate()
    known = checking._known

    def known_before_an_edit(work: Any, due: Any, basis: Any) -> set[int]:
        found = known(work, due, basis)
        list(upload_documents(replace(work, keys=None)))
        return found

    monkeypatch.setattr(checking, "_known", known_before_an_edit)
    data.take_up(until=Phase.DATA, keys=[ZIP])
    assert data.documents()[EXPERIMENTS] == "data failed"
    assert data.log(EXPERIMENTS) == ["E8"]


def test_what_was_found_goes_by_the_reference_data_and_the_day() -> None:
    today = date(2026, 11, 21)
    basis = Basis(Reference(load_shipped(), {"impress": 7}), (), today)
    checked = CheckedAtUpload(basis)
    assert checked.goes_by(replace(basis, limit=7))
    assert not checked.goes_by(replace(basis, today=today + timedelta(days=1)))
    assert not checked.goes_by(replace(basis, reference=Reference(load_shipped(), {"impress": 8})))


def test_only_the_rules_about_specimens_look_at_what_the_database_holds() -> None:
    """All others say the same whatever it holds, so that they can be asked before it is known."""

    asking = {rule.id for rule in all_rules().values() if "answers" in names_in(rule.check.__code__)}
    assert asking == ABOUT_SPECIMENS | JUDGED_AT_UPLOAD == checking_while_reading.LEFT_OUT


def names_in(code: CodeType) -> set[str]:
    """The names that a function refers to, and those within it."""
    within = (one for one in code.co_consts if isinstance(one, CodeType))
    return set(code.co_names).union(*map(names_in, within))


@only_sqlite
def test_a_rule_that_breaks_down_while_a_document_is_read_is_said_to_be_unchecked(data: DataInstallation) -> None:
    """The process that reads it lives on, and the other rules say what they find."""
    reference = load_shipped()
    assert reference.projects is not None
    nothing: Any = None
    broken = replace(reference, projects=replace(reference.projects, names=nothing))
    look_at = checking_while_reading._look_by(checking_while_reading.looking(broken, date(2026, 11, 21)).basis)
    (content,) = change(specimens(mice=1), 'phenotypingCentre="H"', 'phenotypingCentre="J"').values()
    noted = look_at(checking_while_reading.about(ZIP, SPECIMENS, "H", None))(read_bytes(content, DocumentKind.SPECIMEN))
    assert {(one[0], one[1]) for one in noted or ()} == {("S12", "unchecked"), ("X4", "warning")}


def test_the_statistics_of_a_server_are_up_to_date_when_documents_are_judged(data: DataInstallation) -> None:
    """Else tables that were empty are taken for empty ones, and statements take minutes."""
    if data.qc.dialect.name == "sqlite":
        pytest.skip("SQLite keeps no statistics")
    data.put(ZIP, specimens(mice=9), experiments(animals=9))
    data.validate()
    data.take_up(until=Phase.UPLOAD)
    here = "table_schema = DATABASE() AND table_name = 'measurement'"
    of_table = text(f"SELECT table_rows FROM information_schema.tables WHERE {here}")
    with data.qc.connect() as connection:
        assert connection.scalar(of_table) == len(data.rows(models.Measurement, "id"))
