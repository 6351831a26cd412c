"""Sessions of two groups of centres at once: they end as one session of all would, and neither disturbs the other."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from dcc.errors import NotFoundError, SessionActiveError
from dcc.operations.session_work import open_session
from dcc.qc.models import OVERVIEW_GENOTYPE
from dcc.session.archives.archive_phases import process_zip_actions
from dcc.session.data.document_phases import process_data
from dcc.session.leases import read_leases
from dcc.session.session_request import SessionRequest
from dcc.session.source_crawls import crawl_file_sources
from dcc.settings import Settings
from dcc.tracker.crawls import list_open_sessions, list_sessions
from dcc.tracker.database import open_tracker
from dcc.tracker.models import ZipDownload
from dcc.tracker.queries.session_submissions import session_submission_ids, session_submissions
from dcc.tracker.register import centres
from tests.support.asking import column_in, in_reading, in_writing, rows_in
from tests.support.data_installations import EXPERIMENTS, DataInstallation, experiments, specimens
from tests.support.prepared_processes import holding
from tests.support.threads import at_once

PATIENCE = 60
EUROPE, AMERICA = "europe", "america"
GROUPS = "europe=H;america=J"


@pytest.fixture
def grouped(data: DataInstallation) -> DataInstallation:
    """An installation whose centres are in two groups, each with archives that add, edit and delete."""
    folders = {"H": data.folder, "J": data.base.add_folder("J", "other")}
    for centre, folder in folders.items():
        folder.put(
            f"add/{centre}.2013-10-31.1.impc.zip", specimens(centre=centre) | experiments(centre=centre, animals=4)
        )
        folder.put(f"add/{centre}.2013-11-01.1.impc.zip", specimens("2013-11-01.1", centre=centre, first=4))
        folder.put(f"edit/{centre}.2013-11-02.1.impc.zip", specimens("2013-11-02.1", centre=centre))
    return data.with_settings(groups=GROUPS)


def whole_session(installation: DataInstallation, group: str | None) -> int:
    """Crawl, process and take up data in a session of a group, or of all centres; its id."""
    tracker, settings = installation.tracker, installation.settings
    with open_session(tracker, settings, SessionRequest(group=group)) as session:
        for work in (crawl_file_sources(session), process_zip_actions(session), process_data(installation.qc, session)):
            list(work)
    return session.id


def without_order(ending: dict[str, Any]) -> dict[str, Any]:
    """An ending whose rows may have been written in any order."""
    return {name: sorted(rows, key=str) if isinstance(rows, list) else rows for name, rows in ending.items()}


def overviews(qc: Engine) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in rows_in(qc, select(OVERVIEW_GENOTYPE))), key=str)


@pytest.mark.both_databases
def test_two_groups_at_once_end_as_one_session_of_all(grouped: DataInstallation) -> None:
    at_once(lambda: whole_session(grouped, EUROPE), lambda: whole_session(grouped, AMERICA))
    ending, shown = without_order(grouped.ending()), overviews(grouped.qc)
    with grouped.tracker.connect() as connection:
        entries = list_sessions(connection)
        touched = {entry.group: session_submission_ids(connection, entry) for entry in entries}
        zips = {group: {one.centre for one in session_submissions(connection, ids)} for group, ids in touched.items()}
    assert {entry.outcome for entry in entries} == {"finished"}
    assert zips == {EUROPE: {"H"}, AMERICA: {"J"}}
    states = set(ending["documents"].values())
    assert states <= {"qc pending", "qc done", "data failed"}
    # A session of all finds nothing left to do.
    whole_session(grouped, None)
    assert (without_order(grouped.ending()), overviews(grouped.qc)) == (ending, shown)


def test_a_session_of_a_group_does_not_take_up_what_another_is_at(grouped: DataInstallation) -> None:
    """It leaves alone all that is of other centres, also what is left half done as by a dead session."""
    with open_session(grouped.tracker, grouped.settings, SessionRequest(group=AMERICA)) as session:
        list(crawl_file_sources(session))
        processing = process_zip_actions(session)
        next(processing)
        leftover = grouped.settings.staging_directory / "add" / ".J.2013-11-01.1.impc.zip.contents.unpacking-x"
        leftover.mkdir()
        before = {key: state for key, state in grouped.states().items() if "/J." in key}
        whole_session(grouped, EUROPE)
        assert {key: state for key, state in grouped.states().items() if "/J." in key} == before
        assert all(grouped.states()[key].startswith(("qc", "data")) for key in grouped.states().keys() - before.keys())
        assert leftover.is_dir()
        list(processing)
    downloads = column_in(grouped.tracker, select(ZipDownload.id))
    assert len(downloads) == 6
    whole_session(grouped, AMERICA)
    assert not leftover.exists()


def test_what_a_session_of_one_group_heals_is_judged_by_the_next_session_of_the_other(data: DataInstallation) -> None:
    data = data.with_settings(groups=GROUPS)
    in_writing(data.tracker, centres.delegate, "H", "J", recorded_by="wrangler")
    data.base.add_folder("J", "other").put("add/J.2013-10-31.1.impc.zip", experiments())
    whole_session(data, AMERICA)
    data.put("add/H.2013-11-05.1.impc.zip", specimens("2013-11-05.1"))
    whole_session(data, EUROPE)
    assert data.documents()[EXPERIMENTS] == "data failed"
    whole_session(data, AMERICA)
    assert data.documents()[EXPERIMENTS] == "qc pending"


class TestLeases:
    @pytest.mark.both_databases
    def test_groups_exclude_themselves_and_a_session_of_all(self, grouped: DataInstallation) -> None:
        tracker, settings = grouped.tracker, grouped.settings
        with (
            open_session(tracker, settings, SessionRequest(group=EUROPE)) as first,
            open_session(tracker, settings, SessionRequest(group=AMERICA)),
        ):
            for group in (EUROPE, AMERICA, None):
                with (
                    pytest.raises(SessionActiveError, match="is active"),
                    open_session(tracker, settings, SessionRequest(group=group)),
                ):
                    pytest.fail("two sessions of one centre at once")
            with pytest.raises(SessionActiveError, match=f"Session {first.id} of europe is active"):
                whole_session(grouped, EUROPE)
            assert {entry.group for entry in in_reading(tracker, list_open_sessions)} == {EUROPE, AMERICA}
        with open_session(tracker, settings):
            for group in (EUROPE, AMERICA):
                with pytest.raises(SessionActiveError), open_session(tracker, settings, SessionRequest(group=group)):
                    pytest.fail("a session of a group beside one of all centres")
        with pytest.raises(NotFoundError, match="No group of centres 'asia'"):
            whole_session(grouped, "asia")

    def test_a_group_that_shares_a_centre_with_one_at_work_is_refused(self, grouped: DataInstallation) -> None:
        """The setting may have changed since the other session began."""
        changed = grouped.with_settings(groups="world=H,J;nowhere=Rbrc")
        with open_session(grouped.tracker, grouped.settings, SessionRequest(group=EUROPE)):
            with (
                pytest.raises(SessionActiveError),
                open_session(grouped.tracker, changed.settings, SessionRequest(group="world")),
            ):
                pytest.fail("a centre in two sessions at once")
            with open_session(grouped.tracker, changed.settings, SessionRequest(group="nowhere")):
                pass

    def test_a_session_that_was_handed_over_is_resumed_as_of_its_group(self, grouped: DataInstallation) -> None:
        tracker, settings = grouped.tracker, grouped.settings
        with open_session(tracker, settings, SessionRequest(group=EUROPE)) as first:
            first.hand_over()
        with open_session(tracker, settings, SessionRequest(group=AMERICA)):
            pass
        with open_session(tracker, settings, resume=first.id) as second:
            assert (second.id, second.centres) == (first.id, {"H"})
            second.hand_over()
        with open_session(tracker, settings), tracker.connect() as connection:
            assert [lease.group for lease in read_leases(connection, settings)] == [None]

    def test_kill_of_one_group_leaves_the_other_undisturbed(self, grouped: DataInstallation) -> None:
        tracker, settings = grouped.tracker, grouped.settings
        with open_session(tracker, settings, SessionRequest(group=EUROPE)) as living:
            with holding(_hold, settings, AMERICA) as (process, dead):
                os.kill(process.pid or 0, signal.SIGKILL)
                process.join(PATIENCE)
            living.raise_if_over()
            held = {lease.session: lease.is_dead for lease in in_reading(tracker, read_leases, settings)}
            assert held == {living.id: False, dead: True}
            with open_session(tracker, settings, SessionRequest(group=AMERICA)) as following:
                assert [one.session for one in following.dead] == [dead]
            living.write(lambda connection: connection.execute(select(1)) and None)
        outcomes = {entry.id: entry.outcome for entry in in_reading(tracker, list_sessions)}
        assert outcomes == {living.id: "finished", dead: "died", following.id: "finished"}


def _hold(said: Any, settings: Settings, group: str) -> None:
    """Hold a session of a group until killed."""
    with open_session(open_tracker(settings), settings, SessionRequest(group=group)) as session:
        said.send(session.id)
        time.sleep(PATIENCE)


@pytest.mark.both_databases
def test_what_two_sessions_must_not_do_at_once_they_do_one_after_the_other(grouped: DataInstallation) -> None:
    """An archive that two groups' sources list is recorded once."""
    for folder in (grouped.folder.path, Path(grouped.base.root / "other")):
        (folder / "add").mkdir(exist_ok=True)
        (folder / "add" / "H.2014-01-01.1.impc.zip").write_bytes(b"no archive")
    tracker, settings = grouped.tracker, grouped.settings
    together = threading.Barrier(2)

    def crawl(group: str) -> None:
        with open_session(tracker, settings, SessionRequest(group=group)) as session:
            together.wait(PATIENCE)
            outcomes = [crawl.outcome for crawl in crawl_file_sources(session)]
            assert outcomes == ["ok"]

    at_once(lambda: crawl(EUROPE), lambda: crawl(AMERICA))
    assert len(grouped.states()) == 7
