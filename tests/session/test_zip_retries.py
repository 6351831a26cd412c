"""Archives at several file sources: which is asked, when again, and what a later session or `dcc retry` takes up."""

import pytest
from sqlalchemy import select, update

from dcc.cli.demo import submissions
from dcc.errors import ConfigurationError, NotFoundError
from dcc.phases import Phase, Status
from dcc.tracker.models import FileSourceHasZip, Reopening, XmlFile, XmlLog
from tests.support.asking import value_in
from tests.support.installations import (
    Fetches,
    Folder,
    Installation,
    experiments,
    note_uploaded,
    note_withdrawn,
    specimens,
)

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
SPECIMENS = "H.2013-10-31.1.specimen.impc.xml"


def test_sources_are_tried_in_order_and_in_rounds(installation: Installation, fetches: Fetches) -> None:
    """All tried, the producer's own first, ties to the older source."""
    foreign = installation.add_folder("J", "foreign")
    own, other = installation.add_folder("H", "own"), installation.add_folder("H", "other")
    for place in (foreign, own, other):
        place.put(KEY)
        fetches.break_off[place.path.name] = 9
    outcome = installation.with_settings(max_retries=1).run_session().zips[KEY]
    ids = [own.source_id, other.source_id, foreign.source_id]
    assert installation.attempts(KEY) == [(number, "download failed") for number in ids * 2]
    assert outcome.failed
    assert outcome.attempts == 6
    assert installation.states() == {KEY: "download failed"}


@pytest.mark.both_databases
def test_retries_are_counted_across_sessions(installation: Installation, folder: Folder, fetches: Fetches) -> None:
    """A later session tries again by itself; `num_retries` counts it."""
    folder.put(KEY)
    fetches.break_off["centre"] = 3
    once = installation.with_settings(max_retries=0)
    for _ in range(3):
        assert once.run_session().zips[KEY].failed
    assert once.run_session().zips[KEY].succeeded
    assert value_in(installation.tracker, select(FileSourceHasZip.num_retries)) == 3
    assert [state for _, state in installation.attempts(KEY)] == ["download failed"] * 3 + ["xsd done"]


def test_an_archive_put_together_from_two_attempts_is_fetched_whole_before_the_centre_is_blamed(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    archive = folder.put(KEY)
    fetches.break_off["centre"] = 1
    installation.with_settings(max_retries=0).run_session()
    part = installation.settings.staging_directory / f"{KEY}.part"
    part.write_bytes(b"#" * part.stat().st_size)
    outcome = installation.run_session().zips[KEY]
    assert outcome.succeeded
    assert [reason.kind for reason in outcome.reasons] == ["CorruptArchiveError"]
    assert [state for _, state in installation.attempts(KEY)] == ["download failed", "unzip cancelled", "xsd done"]
    assert installation.staged()[KEY] == archive


def test_documents_left_beside_a_failed_one_are_validated_by_the_next_session(
    installation: Installation, folder: Folder
) -> None:
    """A submission that has failed already may have documents to be validated yet."""
    wrong = experiments()
    (name,) = wrong
    wrong[name] = submissions.damaged(wrong[name], 'centreID="', 'centerID="')
    folder.put(KEY, specimens() | wrong | {"results.xml": b"<a/>"})
    installation.run_session()
    # As a session of a former version left it that was killed when one document was validated and the other was not.
    pending = {"phase_id": int(Phase.XSD), "status_id": int(Status.PENDING)}
    with installation.tracker.begin() as connection:
        connection.execute(update(XmlFile).where(XmlFile.fname == SPECIMENS).values(**pending))
    assert installation.states() == {KEY: "xml_name failed"}
    states = {SPECIMENS: "xsd pending", name: "xsd failed", "results.xml": "xml_name failed"}
    assert dict(installation.documents()) == states
    outcome = installation.run_session().zips[KEY]
    assert dict(installation.documents()) == states | {SPECIMENS: "xsd done"}
    errors = {document.file_name: document.errors for document in outcome.documents}
    assert (errors[SPECIMENS], len(errors["results.xml"])) == ((), 1)
    with installation.tracker.connect() as connection:
        query = select(XmlLog.message).join(XmlFile, XmlFile.id == XmlLog.xml_id).order_by(XmlLog.id)
        assert [error.message for error in errors[name]] == list(connection.scalars(query.where(XmlFile.fname == name)))
        assert errors[name]
        assert len(list(connection.scalars(query.where(XmlFile.fname == "results.xml")))) == 1
    assert installation.run_session().zips == {}


def test_an_archive_that_was_bad_is_no_failed_download(installation: Installation, folder: Folder) -> None:
    """`num_retries` counts attempts after a download error."""
    folder.put(KEY, b"no zip at all")
    installation.run_session()
    folder.put(KEY)
    installation.run_session()
    assert installation.process_again(KEY).zips[KEY].succeeded
    assert value_in(installation.tracker, select(FileSourceHasZip.num_retries)) == 0


@pytest.mark.both_databases
def test_a_retry_fetches_the_changed_file_once_its_data_are_withdrawn_and_says_who_asked(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    installation.run_session()
    note_uploaded(installation.tracker)
    changed = folder.put(KEY, specimens(mice=3))
    result = installation.run_session()
    assert (result.crawls[folder.source_id].changed, result.zips) == (1, {})
    (finding,) = result.crawls[folder.source_id].findings
    assert finding.endswith(f"withdraw these with `dcc data undo`, then take it with: dcc retry {KEY}")
    assert installation.states() == {KEY: "xsd done"}
    assert installation.staged()[KEY] != changed
    with pytest.raises(ConfigurationError, match=f"dcc data undo {KEY}"):
        installation.process_again(KEY)
    assert installation.states() == {KEY: "xsd done"}
    note_withdrawn(installation.tracker)
    assert installation.process_again(KEY).zips[KEY].succeeded
    assert installation.staged()[KEY] == changed
    assert value_in(installation.tracker, select(Reopening.requested_by)) == "tester"


def test_a_retry_of_what_no_source_hosts_says_so_and_changes_nothing(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    installation.run_session()
    (folder.path / KEY).unlink()
    for why in ("did not list it the last time", "does not list it any more"):
        installation.run_session()
        with pytest.raises(NotFoundError, match=f"No available file source hosts add/H.*{why}"):
            installation.process_again(KEY)
    assert installation.states() == {KEY: "xsd done"}
    with pytest.raises(NotFoundError, match="dcc zips"):
        installation.process_again("add/J.2013-10-31.1.impc.zip")
