"""Replays of stored archives: judged under a proposal as in an empty installation, and nothing is written."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from threading import Semaphore

import pytest
from sqlalchemy import update

from benchmarks.replay import Facts, facts_of, recorded, rows
from dcc.cli.demo.submissions import damaged
from dcc.databases.transactions import writing
from dcc.documents.schema_set import OWN_SCHEMAS
from dcc.errors import DccError
from dcc.phases import Phase, Status
from dcc.qc.judging.waiver_store import add_waiver
from dcc.replay.replay import ReplayProposal, replay
from dcc.replay.verdicts import ACCEPTED, Replay
from dcc.rules.waivers import Waiver
from dcc.session.data.rechecks import recheck
from dcc.tracker.models import XmlFile
from dcc.tracker.register import centres
from dcc.vocabulary import WaiverEffect
from tests.session.test_session_data_faults import change, mixed
from tests.support.asking import execute_in, in_writing
from tests.support.data_installations import SPECIMENS, DataInstallation, experiments, key_of, specimens
from tests.support.installations import MODIFIED, folder_address
from tests.support.prepared_databases import PreparedFile
from tests.support.prepared_installations import opened_installation
from tests.support.raising import raising

LATER = "add/H.2013-11-20.1.impc.zip"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, forked_workers: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, in which nothing is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert [path.name for path in folder.iterdir() if "replay" in path.name] == []


def run(data: DataInstallation, proposal: ReplayProposal, processes: int = 1, **options: object) -> Replay:
    """A replay, which changes no row; by one process, as each loads the platform, unless more are asked for."""
    before = rows(data.tracker), rows(data.qc)
    settings = data.settings.model_copy(update={"workers": processes})
    found = replay(data.tracker, data.qc, settings, proposal, **options)  # type: ignore[arg-type]
    assert (rows(data.tracker), rows(data.qc)) == before
    return found


def fill(data: DataInstallation) -> None:
    """Submissions with all sorts of faults, in three sessions, of two centres."""
    mixed(data)
    data.put("add/H.2013-11-04.1.impc.zip", {"H.2013-11-04.1.specimen.impc.xml": b"<nothing/>", "odd.xml": b"<a/>"})
    data.run()
    later = change(specimens("2013-11-10.1", mice=2), 'gender="female"', 'gender="male"')
    data.put("edit/H.2013-11-10.1.impc.zip", later)
    data.put("delete/H.2013-11-11.1.impc.zip", experiments("2013-11-11.1"), specimens("2013-11-11.1", mice=1, first=5))
    data.put("add/H.2013-11-12.1.impc.zip", experiments("2013-11-12.1", procedure="IMPC_CBC_001"))
    data.put("add/H.2013-11-12.2.impc.zip", experiments("2013-11-12.2", procedure="IMPC_CBC_001"))
    data.folder.put("add/H.2013-11-13.1.impc.zip", b"no archive")
    no_pipeline = change(experiments("2013-11-14.1", first=900), 'pipeline="IMPC_001"', 'pipeline="NONE_001"')
    data.put("add/H.2013-11-14.1.impc.zip", no_pipeline)
    data.run()
    data.put("add/H.2013-10-01.1.impc.zip", specimens("2013-10-01.1", first=200))
    data.put("add/H.2013-10-02.1.impc.zip", specimens("2013-10-02.1", centre="J"))
    data.run()


def test_nothing_changes_under_the_present_set(data: DataInstallation) -> None:
    fill(data)
    found = run(data, ReplayProposal())
    assert found.changes == ()
    present = {key: facts for key, facts in recorded(data.tracker, data.qc).items() if facts[0] is not None}
    verdicts = {(str(key.archive), key.file_name): facts_of(one) for key, one in found.verdicts.items()}
    assert present.items() <= verdicts.items()
    assert sum(found.documents.values()) == len([name for _, name in present if name])
    outcomes = {facts[0] for facts in present.values()}
    assert outcomes >= {"accepted", "failed xml_name", "failed xsd", "failed data", "archive not opened"}


def proposed(folder: Path) -> ReplayProposal:
    """Schemas without the relationship "mother", and projects without BaSH."""
    schemas = shutil.copytree(OWN_SCHEMAS, folder / "schemas")
    file = schemas / "specimen_definition.xsd"
    file.write_bytes(damaged(file.read_bytes(), '<xs:enumeration value="mother"/>', ""))
    projects = folder / "projects.csv"
    projects.write_text("project\nNobody\n")
    return ReplayProposal(schemas, {"projects": str(projects)})


def judged_anew(
    data: DataInstallation, proposal: ReplayProposal, made: DataInstallation
) -> dict[tuple[str, str], Facts]:
    """The verdicts of one session of an empty installation by what is proposed."""
    reference = {f"reference_{name}": source for name, source in proposal.reference.items()}
    made = made.with_settings(xsd_dir=proposal.xsd, **reference)
    made.base.add_centre("H", "J")
    made.base.add_source(folder_address(data.folder.path))
    made.run()
    return recorded(made.tracker, made.qc)


def test_a_replay_is_judging_anew(
    data: DataInstallation, tmp_path: Path, prepared_files: dict[str, PreparedFile]
) -> None:
    mixed(data)
    data.put(LATER, experiments("2013-11-20.1", animals=2, first=40))
    data.put("edit/H.2013-11-21.1.impc.zip", change(specimens("2013-11-21.1"), "female", "male"))
    data.put("delete/H.2013-11-22.1.impc.zip", specimens("2013-11-22.1", mice=1, first=5))
    data.run()
    proposal = proposed(tmp_path)
    found = run(data, proposal, processes=2)
    verdicts = {(str(key.archive), key.file_name): facts_of(one) for key, one in found.verdicts.items()}
    assert verdicts == judged_anew(data, proposal, opened_installation(tmp_path / "anew", prepared_files))
    changes = {one.document.file_name: (one.before, one.after) for one in found.changes if one.is_verdict}
    assert changes["H.2013-11-02.1.specimen.impc.xml"] == (ACCEPTED, "failed xsd")
    assert changes["H.2013-11-20.1.experiment.impc.xml"] == (ACCEPTED, "failed data")
    (centre,) = found.centres
    assert (centre.centre, centre.documents, centre.lost) == ("H", len(verdicts), len(changes))
    assert "S12" in {one.code for one in found.causes}


def test_a_process_that_replays_knows_what_errors_group_by() -> None:
    """Other modules of this process do; without them, each place of a schema error was a cause."""
    program = (
        "import dcc.replay.verdicts; from dcc.declarations import declaration_of;"
        "print(declaration_of('schema-violation.missing_attribute').cause)"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert told == 'Elements <{element}> lack the required attribute "{attribute}"\n'


@pytest.mark.both_databases
def test_archives_of_other_dates_and_centres_are_applied_and_not_reported(data: DataInstallation) -> None:
    """Nor are those named that nobody asked for; of the others, none is judged of which no copy is left."""
    data.put("add/H.2013-10-31.1.impc.zip", specimens())
    data.base.add_folder("J", "jax").put("add/J.2013-10-31.1.impc.zip", specimens(centre="J"))
    data.put(LATER, experiments("2013-11-20.1"))
    # The archive store has no manifests: without its own, this archive would count as accepted.
    refused = "add/H.2013-11-20.2.impc.zip"
    data.put(refused, specimens("2013-11-20.2"))
    (data.folder.path / f"{refused}.manifest.json").write_text('[{"file": "other.xml"}]')
    data.run()
    assert data.states()[refused] == "unzip failed"
    assert run(data, ReplayProposal(), centres=["H"]).archives == 3
    shutil.rmtree(data.settings.staging_directory)
    found = run(data, ReplayProposal(), since=date(2013, 11, 20))
    assert (found.archives, found.changes, [str(key) for key in found.missing]) == (1, (), [refused])
    assert {key.file_name for key in found.verdicts} == {"H.2013-11-20.1.experiment.impc.xml"}
    for copy in (data.settings.home / "archive").glob("??/*"):
        copy.unlink()
    lost = run(data, ReplayProposal(), centres=["J"])
    assert ([str(key) for key in lost.missing], lost.archives) == (["add/J.2013-10-31.1.impc.zip"], 0)


@pytest.mark.parametrize("named", ["H", "J"])
def test_animals_in_an_archive_of_another_centre_are_there(data: DataInstallation, named: str) -> None:
    """In a document that is named after either centre."""
    in_writing(data.tracker, centres.delegate, "J", "H", recorded_by="wrangler")
    ((_, animals),) = specimens(centre="J").items()
    data.put("add/H.2013-10-31.1.impc.zip", {f"{named}.2013-10-31.1.specimen.impc.xml": animals})
    data.base.add_folder("J", "jax").put("add/J.2013-11-20.1.impc.zip", experiments("2013-11-20.1", centre="J"))
    data.run()
    # What was applied stays so.
    in_writing(data.tracker, centres.revoke_delegation, "J", "H", revoked_by="wrangler")
    found = run(data, ReplayProposal(), centres=["J"])
    assert (found.archives, found.changes) == (1, ())


def test_what_people_decided_stays(data: DataInstallation) -> None:
    data = data.with_settings(hold_threshold=0)
    data.put("add/H.2013-10-31.1.impc.zip", specimens(), change(experiments(), 'Experiment="2013', 'Experiment="2010'))
    data.run()
    with writing(data.qc) as connection:
        today = date.today()
        add_waiver(connection, Waiver("E8", WaiverEffect.WAIVE, "A test.", "tester", today), today)
    key = "edit/H.2013-11-10.1.impc.zip"
    data.put(key, change(specimens("2013-11-10.1", mice=2), 'gender="female"', 'gender="male"'))
    data.run()
    assert set(data.documents().values()) == {"qc pending", "qc done", "upload pending"}
    held = run(data, ReplayProposal())
    assert (held.unjudged, held.changes) == (1, ())
    data.confirm(key, author="tester", reason="A test.")
    data.take_up()
    confirmed = run(data, ReplayProposal())
    assert (confirmed.unjudged, confirmed.changes) == (0, ())


@pytest.mark.parametrize("reached", [Phase.UPLOAD, Phase.DATA])
def test_animals_that_wait_to_be_judged_again_are_there(data: DataInstallation, reached: Phase) -> None:
    """As after `dcc data recheck`, and while a session judges them."""
    key = "add/H.2013-10-31.1.impc.zip"
    data.put(key, specimens())
    data.put(LATER, experiments("2013-11-20.1"))
    data.run()
    recheck(data.tracker, data.qc, data.settings, keys=[key_of(key)], author="tester", reason="A test.")
    if reached is Phase.DATA:
        pending = {"phase_id": Phase.DATA, "status_id": Status.PENDING}
        execute_in(data.tracker, update(XmlFile).where(XmlFile.fname == SPECIMENS).values(pending))
    found = run(data, ReplayProposal())
    assert (found.unjudged, found.changes) == (1, ())


def test_what_cannot_be_used_is_one_clear_error_and_what_is_interrupted_leaves_nothing(
    data: DataInstallation, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("def")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "specimen_definition.xsd").write_text("<schema")
    for proposal, said in (
        (
            ReplayProposal(rules=f"{tmp_path}/broken.py"),
            "The module broken, proposed as dcc.rules, cannot .*: SyntaxError",
        ),
        (ReplayProposal(rules=f"{tmp_path}/empty.py"), "The module empty registers no rule"),
        (ReplayProposal(tmp_path / "nowhere"), "does not exist"),
        (ReplayProposal(tmp_path), "cannot be used|not well-formed|specimen_definition"),
        (ReplayProposal(reference={"mice": "x"}), "No set of reference data 'mice' exists"),
        (ReplayProposal(reference={"colonies": f"{tmp_path}/none.csv"}), "none.csv"),
        (ReplayProposal(reference={"colonies": "http://127.0.0.1:9/colonies.csv"}), "could not be read"),
    ):
        with pytest.raises(DccError, match=said):
            run(data, proposal)

    data.put(LATER, specimens())
    data.run()

    with pytest.raises(KeyboardInterrupt):
        run(data, ReplayProposal(), on_progress=raising(KeyboardInterrupt))


def test_an_interrupt_does_not_wait_for_archives_that_are_being_prepared(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.put(LATER, specimens())
    data.run()
    last = "add/H.2013-11-21.1.impc.zip"
    data.put(last, specimens("2013-11-21.1", first=50))
    data.run()
    answers: dict[str, Future[list[object]]] = {LATER: Future(), last: Future()}
    asked = Semaphore(0)

    @contextmanager
    def processes(*_: object) -> Iterator[object]:
        def begin(_task: str, archive: str, *_: object) -> Future[list[object]]:
            asked.release()
            return answers[archive]

        yield begin

    def interrupt(*_: object) -> None:
        assert asked.acquire(timeout=20)
        raise KeyboardInterrupt

    monkeypatch.setattr("dcc.replay.replay.processes_of", processes)
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(run, data, ReplayProposal(), on_progress=interrupt)
        try:
            assert asked.acquire(timeout=20)
            answers[LATER].set_result([([], [])])
            assert isinstance(ended.exception(20), KeyboardInterrupt)
        finally:
            answers[last].set_result([([], [])])


def test_what_did_not_have_its_published_checksum_is_not_replayed_as_what_was_fetched_before(
    data: DataInstallation,
) -> None:
    data.run(LATER, {"H.2013-11-20.1.specimen.impc.xml": b"<nothing/>"})
    data.folder.put(LATER, specimens("2013-11-20.1"), MODIFIED + 60)
    (data.folder.path / f"{LATER}.md5").write_text("0" * 32)
    data.run()
    assert data.states() == {LATER: "zip_md5 failed"}
    found = run(data, ReplayProposal())
    assert (found.changes, found.missing) == ((), (key_of(LATER),))
