"""What is wrong with submissions, told by its causes: from both databases, on SQLite and on MariaDB."""

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree
from zipfile import ZipFile

import pytest
from sqlalchemy import Engine, insert, select, update

from dcc.cli.demo import submissions
from dcc.databases.transactions import writing
from dcc.declarations import cause_id
from dcc.notify.digests import collect_digests
from dcc.outcomes import SubmissionKey
from dcc.phases import Status
from dcc.qc import models
from dcc.qc.models import DOCUMENT, FINDING
from dcc.qc.reference import snapshots
from dcc.reference.impress import Impress
from dcc.reference.loading import load_shipped
from dcc.reference.snapshots import Colonies
from dcc.reports.causes import data_facts
from dcc.reports.causes.cause import Cause, cause_as_json
from dcc.reports.causes.collecting import FoundCauses, Subject, find_causes
from dcc.reports.causes.permitted import Permitted
from dcc.reports.causes.scopes import Scope
from dcc.reports.causes.skipped_archives import SkipReason, skipped_entries
from dcc.reports.causes.spreadsheet import WrittenSpreadsheet, write_findings_spreadsheet
from dcc.reports.languages import Catalogue, load_catalogue
from dcc.reports.submissions.collecting import collect_centre, collect_submission, language_of
from dcc.reports.submissions.model import Tone
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.plain_text import render_text
from dcc.reports.submissions.submission_lines import submissions_of_centre
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.tracker import progress
from dcc.tracker.crawls import list_sessions
from dcc.tracker.decisions import DecisionKind, record_decisions
from dcc.tracker.listings.findings import LISTED_TWICE
from dcc.tracker.models import Centre, CrawlFinding, ZipAction
from dcc.tracker.models import ZipFile as ZipFileRow
from dcc.tracker.queries.session_submissions import of_centres
from dcc.tracker.queries.state_counts import count_documents
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.queries.submission_lists import find_submissions, select_submissions
from dcc.tracker.register import centres, file_sources
from dcc.vocabulary import Actor, SourceState
from tests.support.asking import column_in, execute_in, in_reading
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.installations import note_withdrawn, until_the_next_second
from tests.support.sent_statements import sent_statements

GOOD, SCHEMA, BROKEN, NAMED = (
    "add/H.2013-10-31.1.impc.zip",
    "add/H.2013-11-01.2.impc.zip",
    "add/H.2013-11-02.3.impc.zip",
    "add/X.2013-10-31.1.impc.zip",
)

AVAILABLE, MAINTENANCE = SourceState.AVAILABLE, SourceState.MAINTENANCE


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return load_catalogue("en", Settings(home=tmp_path))


def _misspelt(colonies: Colonies | None) -> Colonies:
    """The colonies, but that the first one of H is spelt otherwise."""
    productions = dict(colonies.productions)
    first = next(name for name in productions if name.startswith("H-"))
    productions[first.lower()] = productions.pop(first)
    return replace(colonies, productions=productions)


@pytest.fixture
def bad(data: DataInstallation) -> DataInstallation:
    """A submission with an unknown colony, one that breaks the schema, one that is no archive, one of no centre."""
    with writing(data.qc) as connection:
        # Of the same checksum, so that no session puts what is shipped in its place.
        colonies = update(models.SNAPSHOT).where(models.SNAPSHOT.c.name == "colonies")
        connection.execute(colonies.values(is_active=False))
        snapshots.save(connection, _misspelt(load_shipped().colonies))
    data.put(GOOD, specimens(), experiments())
    ((name, document),) = specimens("2013-11-01.2", first=11).items()
    data.put(SCHEMA, {name: document.replace(b'gender="male"', b'gender="mal"')})
    data.folder.put(BROKEN, b"no archive")
    data.folder.put(NAMED, b"")
    (data.folder.path / "add" / "readme.txt").write_text("Read me.")
    data.run()
    return data


def causes(data: DataInstallation, subject: Subject | None) -> dict[str, Cause]:
    """The causes of a subject, by kind."""
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        found = {cause.kind: cause for cause in find_causes(tracker, qc, subject, data.settings).causes}
        # MariaDB streams one answer at a time: whoever asks in a loop on the same connection would lose rows.
        assert "yield_per" not in {**tracker.get_execution_options(), **qc.get_execution_options()}
        return found


def test_a_bad_submission_is_told_by_its_causes(bad: DataInstallation, catalogue: Catalogue, tmp_path: Path) -> None:
    found = causes(bad, "H")
    assert set(found) >= {"S4", "schema-violation", "corrupt-archive", "bad-file-name"}
    colony = found["S4"]
    assert (colony.acts, colony.centre, colony.documents, colony.zips) == (Actor.REGISTRY, "H", 1, 1)
    assert colony.clears_documents == colony.clears_zips == 1
    assert colony.waiting_experiments >= 1
    assert colony.example.nearest == colony.subject.lower()
    assert f"The colony '{colony.subject}' is not registered" in colony.title(catalogue)
    assert colony.example.line is not None

    schema = found["schema-violation"]
    assert schema.subject.startswith('Attribute "gender" of <mouse>')
    assert (schema.example.value, schema.example.nearest) == ("mal", "male")
    assert "male" in schema.example.permitted
    assert schema.example.column is not None
    assert schema.documents == schema.clears_documents == schema.clears_zips == 1
    assert found["corrupt-archive"].zips == found["corrupt-archive"].clears_zips == 1
    assert found["bad-file-name"].subject == "X"
    assert cause_as_json(schema, catalogue)["example"]["nearest"] == "male"  # type: ignore[index]

    assert causes(bad, None).keys() == found.keys()
    assert set(causes(bad, "J")) == set()
    assert set(causes(bad, key_of(GOOD))) == {"S4"}
    assert set(causes(bad, key_of(SCHEMA))) == {"schema-violation"}
    assert set(causes(bad, key_of(NAMED))) == {"bad-file-name"}
    assert set(causes(bad, 1)) >= {"schema-violation", "corrupt-archive", "bad-file-name"}
    _check_spreadsheet(bad, catalogue, tmp_path / "H.xlsx")
    _check_why(bad, catalogue)


def test_what_is_nearest_is_named_of_status_codes_for_the_place_and_of_colonies_of_the_centre(
    data: DataInstallation,
) -> None:
    ((name, document),) = specimens("2013-11-02.3", mice=2, first=50).items()
    for code in (b"IMPC_PSC_001", b"IMPC_SSC_01"):
        document = document.replace(b"</mouse>", b"<statusCode>" + code + b"</statusCode></ mouse>", 1)
    data.put(BROKEN, {name: document.replace(b"</ mouse>", b"</mouse>")})
    folders = {"H": data.folder, "J": data.base.add_folder("J", "others")}
    for centre, folder in folders.items():
        document = submissions.specimen_document(centre, mice=3)
        cut = document.replace(f'colonyID="{centre}-'.encode(), b'colonyID="')
        folder.put(f"add/{centre}.2013-10-31.1.impc.zip", {f"{centre}.2013-10-31.1.specimen.impc.xml": cut})
    data.run()
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        causes = find_causes(tracker, qc, key_of(BROKEN), data.settings).causes
        found = {cause.example.value: cause.example for cause in causes}
        for centre in folders:
            key = key_of(f"add/{centre}.2013-10-31.1.impc.zip")
            (cause,) = find_causes(tracker, qc, key, data.settings).causes
            assert (cause.example.value, cause.example.nearest) == ("Akt2-A", f"{centre}-Akt2-A")
    permitted = tuple(f"IMPC_SSC_00{number}" for number in range(1, 5))
    assert {found[code].permitted for code in ("IMPC_PSC_001", "IMPC_SSC_01")} == {permitted}
    assert (found["IMPC_PSC_001"].nearest, found["IMPC_SSC_01"].nearest) == (None, "IMPC_SSC_001")


def test_no_term_that_is_retired_is_the_nearest(data: DataInstallation) -> None:
    data.run()
    snapshot = select(models.SNAPSHOT.c.id).where(models.SNAPSHOT.c.name == Impress.NAME).scalar_subquery()
    known = {"snapshot_id": snapshot, "parameter_id": "TERM", "variant": 1}
    for position, is_active in enumerate((True, None, False), 1):
        term = {"position": position, "ontology_id": f"MP:000000{position}", "is_active": is_active}
        execute_in(data.qc, insert(models.ONTOLOGY_OPTION).values(**known, **term))
    with data.qc.connect() as qc:
        assert Permitted(qc).advice("P12", "MP-0000003", {"parameter": "TERM"}) == (("MP:0000001", "MP:0000002"), None)


def _check_spreadsheet(data: DataInstallation, catalogue: Catalogue, path: Path) -> None:
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        found = find_causes(tracker, qc, "H", data.settings)
        written = write_findings_spreadsheet(path, tracker, qc, found, catalogue)
        cut = write_findings_spreadsheet(path.with_name("cut.xlsx"), tracker, qc, found, catalogue, max_rows=3)
    told, rows = sheets(path)
    assert written == WrittenSpreadsheet(found.total, len(rows) - 1, is_cut=False)
    assert (len(told), len(rows)) == (found.total + 1, found.findings + 1)
    assert {row[0] for row in rows if not row[1]} == {BROKEN, NAMED}
    schema = next(row for row in rows if row[9] == "schema-violation")
    assert schema[1] == "H.2013-11-01.2.specimen.impc.xml"
    assert schema[5] == "mal"
    assert "male" in schema[6].split(", ")
    assert (schema[7], schema[11]) == ("male", "centre")
    colony = next(row for row in rows if row[9] == "S4")
    assert colony[7] == colony[5].lower()
    assert "registry" in colony[11]
    assert cut == WrittenSpreadsheet(2, 1, is_cut=True)
    assert "left out" in sheets(path.with_name("cut.xlsx"))[1][-1][0]


def _check_why(data: DataInstallation, catalogue: Catalogue) -> None:
    rows = in_reading(data.tracker, skipped_entries, data.folder.source_id)
    by_entry = {row.entry: row for row in rows if row.entry}
    assert (by_entry[NAMED].why, by_entry[NAMED].acts) == (SkipReason.REFUSED, Actor.CENTRE)
    assert "not registered" in by_entry[NAMED].reason(catalogue)
    assert by_entry[BROKEN].why is SkipReason.FAILED
    assert "unzip" in by_entry[BROKEN].reason(catalogue)
    counted = {row.why: row.number for row in rows if row.entry is None}
    assert counted == {SkipReason.IGNORED: 1}


def sheets(path: Path | BytesIO) -> list[list[list[str]]]:
    """The texts of each sheet of an Excel file, row by row; a formula fails."""
    space = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    found = []
    with ZipFile(path) as book:
        for name in sorted(each for each in book.namelist() if each.startswith("xl/worksheets/sheet")):
            sheet = ElementTree.fromstring(book.read(name))
            assert sheet.find(f".//{space}f") is None
            assert sheet.find(f".//{space}autoFilter") is not None
            assert sheet.find(f".//{space}pane[@state='frozen']") is not None
            assert sheet.find(f".//{space}hyperlink") is None
            rows = []
            for row in sheet.iter(f"{space}row"):
                cells = {_column(cell.attrib["r"]): _text(cell, space) for cell in row}
                rows.append([cells.get(number, "") for number in range(max(cells, default=-1) + 1)])
            found.append(rows)
    return found


def _column(reference: str) -> int:
    number = 0
    for letter in reference.rstrip("0123456789"):
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _text(cell: ElementTree.Element, space: str) -> str:
    return "".join(part.text or "" for part in cell.iter() if part.tag in (f"{space}t", f"{space}v"))


def add_findings(qc: Engine, number: int, documents: int, value: str = "C{}") -> None:
    """Findings of unregistered colonies in documents of H, evenly."""
    of_h = {"zip_action": "add", "kind": "specimen", "centre": "H", "action": "add", "state": "applied"}
    named = [
        {
            "id": one,
            "zip_file": f"H.2013-10-31.{one // 2}.impc.zip",
            "file_name": f"H.2013-10-31.{one}.specimen.impc.xml",
        }
        for one in range(1, documents + 1)
    ]
    alike = {"rule": "S4", "code": "S4", "severity": "error", "message": "=HYPERLINK(1)", "path": "+1"}
    alike |= {"entity_kind": "specimen", "created": utc_now(), "details": '{"specimen":"M1"}'}
    found = []
    for one in range(number):
        said = value.format(one % 7)
        place = {"document_id": one % documents + 1, "line": one, "entity_id": one}
        found.append(alike | place | {"value": said, "cause": cause_id("S4", {"value": said})})
    with writing(qc) as connection:
        connection.execute(insert(DOCUMENT), [of_h | one for one in named])
        connection.execute(insert(FINDING), found)


@pytest.mark.parametrize("document", ["1", "add/H.2013-10-31.0.impc.zip/H.2013-10-31.1.specimen.impc.xml"])
def test_what_is_there_already_is_told_with_the_name_of_its_document(
    tracker: Engine, qc_database: Engine, catalogue: Catalogue, tmp_path: Path, document: str
) -> None:
    """Findings up to version 1.0.0 have the document's number in the QC database."""
    add_findings(qc_database, 1, 1)
    details = json.dumps({"entity": "Specimen M1 of H", "document": document})
    execute_in(qc_database, update(FINDING).values(rule="S13", code="S13.there", details=details))
    with tracker.connect() as one, qc_database.connect() as other:
        (cause,) = find_causes(one, other, None, Settings(home=tmp_path)).causes
    assert "H.2013-10-31.1.specimen.impc.xml" in cause.title(catalogue)


def test_causes_take_a_few_statements_whatever_the_number_of_findings(
    tracker: Engine, qc_database: Engine, tmp_path: Path
) -> None:
    number, documents = 3_000, 40
    add_findings(qc_database, number, documents)
    with (
        sent_statements(tracker) as of_tracker,
        sent_statements(qc_database) as of_qc,
        tracker.connect() as one,
        qc_database.connect() as other,
    ):
        found = find_causes(one, other, "H", Settings(home=tmp_path)).causes
    with tracker.connect() as one, qc_database.connect() as other:
        few = find_causes(one, other, "H", Settings(home=tmp_path), limit=3)
    assert (len(few.causes), few.total, few.findings) == (3, 7, number)
    assert sum(cause.findings for cause in found) == number
    assert len(found) == 7
    assert sum(cause.documents for cause in found) >= documents
    assert len(of_tracker) <= 16
    # The findings, an example of each cause, experiments that wait; which snapshots are in use.
    assert len([one for one in of_qc if one.startswith("SELECT")]) <= 5


def test_a_spreadsheet_has_every_finding_once_and_no_formula(
    tracker: Engine, qc_database: Engine, catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_facts, "_PAGE", 7)
    add_findings(qc_database, 50, 4, value='=cmd|"/c calc"!A{}')
    path = tmp_path / "all.xlsx"
    with tracker.connect() as one, qc_database.connect() as other:
        found = find_causes(one, other, None, Settings(home=tmp_path))
        written = write_findings_spreadsheet(path, one, other, found, catalogue)
        zips = [SubmissionKey(key_of("add/x").action, f"H.2013-10-31.{number}.impc.zip") for number in (0, 1)]
        some = write_findings_spreadsheet(
            tmp_path / "some.xlsx", one, other, FoundCauses([], 0, 0, Scope(zips=zips)), catalogue
        )
    assert written.findings == 50
    rows = sheets(path)[1][1:]
    assert sorted(int(row[2]) for row in rows if row[2]) == list(range(50))
    assert {row[5] for row in rows} == {f'=cmd|"/c calc"!A{number}' for number in range(7)}
    said = {f"The colony '=cmd|\"/c calc\"!A{number}' of 'M1' is not registered." for number in range(7)}
    assert {row[8].partition(" Correct")[0] for row in rows} == said
    with qc_database.connect() as connection:
        wanted = select(DOCUMENT.c.id).where(DOCUMENT.c.zip_file.in_([key.file_name for key in zips]))
        in_zips = len(connection.scalars(wanted).all())
    assert some.findings == sum(1 for row in rows if row[0] in {str(key) for key in zips}) > 0
    assert in_zips == 3


def test_a_source_that_is_not_visited_says_so(data: DataInstallation, catalogue: Catalogue) -> None:
    source = data.folder.source_id

    def why() -> set[SkipReason]:
        rows = in_reading(data.tracker, skipped_entries, source)
        assert all(row.reason(catalogue) for row in rows)
        return {row.why for row in rows}

    assert why() == {SkipReason.NEVER_CRAWLED}
    data.validate()
    assert why() == {SkipReason.EMPTY}
    with writing(data.tracker) as connection:
        file_sources.set_source_state(connection, source, MAINTENANCE)
        centres.set_centre_active(connection, "H", active=False)
    assert why() == {SkipReason.STATE, SkipReason.INACTIVE, SkipReason.EMPTY}
    # Nor has anybody to correct it meanwhile.
    data.folder.path.rename(data.folder.path.with_name("moved"))
    for state, is_active in ((AVAILABLE, True), (AVAILABLE, False), (MAINTENANCE, True)):
        with writing(data.tracker) as connection:
            file_sources.set_source_state(connection, source, state)
            centres.set_centre_active(connection, "H", active=is_active)
        data.validate()
        assert bool(causes(data, "H")) is (state is AVAILABLE and is_active)


def test_an_archive_that_changed_after_it_was_taken_is_a_cause_until_it_is_taken_anew(data: DataInstallation) -> None:
    data.put(BROKEN, specimens(stem="2013-11-02.3"))
    data.folder.put(SCHEMA, b"no archive either")
    data.run()
    until_the_next_second()
    data.folder.put(BROKEN, b"another one", modified=1_500_000_000)
    data.folder.put(SCHEMA, b"yet another", modified=1_500_000_000)
    data.validate()
    assert causes(data, key_of(SCHEMA))["listing:taken_anew"].acts is Actor.NOBODY
    noticed = causes(data, key_of(BROKEN))["listing:changed"]
    assert (noticed.acts, noticed.fails, noticed.zips, noticed.centre) == (Actor.DCC, False, 1, "H")
    assert noticed.example.zip == BROKEN
    assert "The new content is not taken by itself." in noticed.example.message.text
    assert "listing:changed" not in causes(data, key_of(SCHEMA))
    assert causes(data, "H")["listing:changed"].key == noticed.key
    told = [(row.entry, row.why) for row in in_reading(data.tracker, skipped_entries, data.folder.source_id)]
    # The other one was taken anew, and failed again.
    assert sorted(told) == sorted([(BROKEN, SkipReason.CHANGED), (SCHEMA, SkipReason.FAILED)])
    note_withdrawn(data.tracker)
    data.base.process_again(BROKEN)
    data.validate()
    assert "listing:changed" not in causes(data, key_of(BROKEN))


def test_file_sources_are_read_for_a_submission_only_if_a_crawl_noticed_something_of_it(data: DataInstallation) -> None:
    data.run(GOOD, specimens())
    with sent_statements(data.tracker, lambda sent: sent.startswith("SELECT file_source.id")) as read:
        assert causes(data, key_of(GOOD)) == {}
    assert read == []
    # So is an archive recorded that a listing has twice: by its name.
    columns = {"session_id": 1, "file_source_id": 1, "file_name": GOOD, "kind": LISTED_TWICE, "created": utc_now()}
    execute_in(data.tracker, insert(CrawlFinding).values(message="There are two of it.", **columns))
    assert set(causes(data, key_of(GOOD))) == {"listing:listed_twice"}


def test_nobody_has_to_act_on_a_refused_name_after_the_file_was_renamed(data: DataInstallation) -> None:
    refused = data.folder.path / NAMED
    data.folder.put(NAMED, specimens())
    data.run()
    failing = SubmissionFilter(status=Status.FAILED, acknowledged=False)
    for is_renamed in (False, True):
        if is_renamed:
            refused.rename(data.folder.path / GOOD)
            data.run()
            data.run()
        with data.tracker.connect() as tracker, data.qc.connect() as qc:
            lines = [str(line.key) for line in submissions_of_centre(tracker, "H", qc)]
            assert find_submissions(tracker, failing) == [] or not is_renamed
        assert lines == [GOOD if is_renamed else NAMED]
        for subject in (None, "H"):
            assert ("bad-file-name" in causes(data, subject)) is not is_renamed
        assert "bad-file-name" in causes(data, key_of(NAMED))


def test_a_refused_archive_that_moved_is_of_the_centre_on_whose_source_it_is_now(data: DataInstallation) -> None:
    other = data.base.add_folder("J", "other")
    execute_in(data.tracker, update(Centre).values(email=Centre.short_name + "@example.org", language="de"))
    execute_in(data.tracker, update(Centre).where(Centre.short_name == "H").values(language="en"))
    data.put(GOOD, specimens())
    data.folder.put(NAMED, b"")
    data.run()
    (data.folder.path / NAMED).unlink()
    other.put(NAMED, b"")
    data.run()
    assert causes(data, None)["bad-file-name"].centre == "J"
    assert ["bad-file-name" in causes(data, centre) for centre in ("H", "J")] == [False, True]
    (refused,) = in_reading(data.tracker, find_submissions, SubmissionFilter(status=Status.FAILED))
    assert (refused.contact, in_reading(data.tracker, language_of, key_of(NAMED))) == ("J@example.org", "de")
    of_h = select(ZipAction.id).join(ZipFileRow).where(of_centres(["H"]))
    of_j = select(ZipAction.id).join(ZipFileRow).where(of_centres(["J"]))
    assert [len(column_in(data.tracker, query)) for query in (of_h, of_j)] == [1, 1]


def test_archives_that_are_gone_are_a_cause_until_they_are_back(data: DataInstallation, catalogue: Catalogue) -> None:
    paths = []
    for number in range(1, 4):
        data.folder.put(f"add/H.2013-10-31.{number}.impc.zip", b"no archive")
        paths.append(data.folder.path / f"add/H.2013-10-31.{number}.impc.zip")
    data.validate()
    for path in paths:
        path.rename(data.folder.path / path.name)
    data.validate()
    data.validate()
    session = in_reading(data.tracker, list_sessions)[0].id

    def gone() -> list[Cause]:
        told = [causes(data, "H"), causes(data, session)]
        assert [each.get("listing:gone") is None for each in told] in ([True, True], [False, False])
        return [each["listing:gone"] for each in told if "listing:gone" in each]

    for cause in gone():
        assert (cause.zips, cause.findings, cause.centre, cause.acts) == (3, 1, "H", Actor.CENTRE)
        assert cause.title(catalogue).endswith(": 3 archives")
        assert (cause.example.zip, str(cause.example.message)[:18]) == (None, "add: 3 archives of")
    assert len(gone()) == 2
    for path in paths:
        (data.folder.path / path.name).rename(path)
    data.validate()
    assert gone() == []


def test_what_somebody_acknowledged_has_no_causes_but_its_own(
    data: DataInstallation, catalogue: Catalogue, tmp_path: Path
) -> None:
    data.put("add/H.2013-10-31.2.impc.zip", experiments(first=100, stem="2013-10-31.2"))
    data.base.run_session()
    data.take_up()
    with writing(data.tracker) as tracker, data.qc.connect() as qc:
        assert find_causes(tracker, qc, None, data.settings).causes
        assert collect_digests(tracker, data.settings, 1)
        ids = [one.id for one in select_submissions(tracker, SubmissionFilter(status=Status.FAILED))]
        record_decisions(tracker, DecisionKind.ACKNOWLEDGE, ids, by="tester", reason="hopeless")
        _, _, of_centre = found = [find_causes(tracker, qc, subject, data.settings) for subject in (None, 1, "H")]
        assert (len(ids), [one.causes for one in found]) == (1, [[], [], []])
        written = write_findings_spreadsheet(tmp_path / "H.xlsx", tracker, qc, of_centre, catalogue)
        assert written.findings == 0
        assert collect_digests(tracker, data.settings, 1) == []
        key = key_of("add/H.2013-10-31.2.impc.zip")
        assert find_causes(tracker, qc, key, data.settings).causes
        summary = collect_centre(tracker, qc, "H", data.settings)
        report = collect_submission(tracker, qc, key, data.settings)
    # And its centre has nothing to correct any more.
    assert summary.tone is Tone.GOOD
    assert [(line.needs_nobody, line.to_be_corrected) for line in summary.zips] == [(True, 0)]
    assert [(row.entry, row.acts) for row in summary.sources[0].not_taken] == [(str(key), Actor.NOBODY)]
    assert f"{key}: Waits for other data. Nobody has to act.\n" in render_text(summary, catalogue)
    assert "Nobody has to act." in render_html(summary, catalogue, data.settings)
    assert "Who acts: Nobody: it is decided\n" in render_text(report, catalogue)


def test_a_cancelled_submission_has_nothing_to_correct(
    bad: DataInstallation, catalogue: Catalogue, tmp_path: Path
) -> None:
    key = key_of(SCHEMA)
    with writing(bad.tracker) as tracker, bad.qc.connect() as qc:
        za_id = next(one.id for one in select_submissions(tracker, SubmissionFilter(), [SCHEMA]))
        before = sum(one.count for one in count_documents(tracker))
        progress.cancel(tracker, [za_id], "tester", "Not meant.")
        assert sum(one.count for one in count_documents(tracker)) == before - 1
        found = find_causes(tracker, qc, key, bad.settings)
        assert found.causes == []
        assert "schema-violation" not in {cause.kind for cause in find_causes(tracker, qc, "H", bad.settings).causes}
        assert write_findings_spreadsheet(tmp_path / "H.xlsx", tracker, qc, found, catalogue).findings == 0
        (line,) = (line for line in submissions_of_centre(tracker, "H", qc) if line.key == key)
        report = render_text(collect_submission(tracker, qc, key, bad.settings), catalogue)
    assert line.to_be_corrected == 0
    assert "None of its data count. What it had changed, if anything, was taken back." in report
    assert "What to correct" not in report
