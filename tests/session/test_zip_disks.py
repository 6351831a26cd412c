"""A disk that is full, or a staging area that cannot be used, while archives are fetched and extracted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select

from dcc.errors import ConfigurationError, DiskFullError
from dcc.naming import Action
from dcc.phases import Phase
from dcc.session.archives import attempts
from dcc.session.prepare.archive_checks import ArchiveChecker
from dcc.sources.base import ActionListing
from dcc.sources.folder import LocalConnection
from dcc.tracker.models import CrawlingSession
from tests.support.asking import column_in
from tests.support.installations import Fetches, Folder, Installation, specimens
from tests.support.raising import raising

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"


def test_a_full_disk_costs_only_what_does_not_fit_and_the_next_session_goes_on(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    full = installation.with_settings(min_free_bytes=1 << 60)
    outcome = full.run_session().zips[KEY]
    assert [reason.kind for reason in outcome.reasons] == ["DiskFullError"]
    assert not outcome.failed
    assert installation.states() == {KEY: "zip_name done"}
    assert installation.run_session().zips[KEY].succeeded


def test_archives_too_large_for_the_disk_keep_no_other_from_arriving(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three in a row that cannot fit, as a server may claim, at the head of each session's queue."""
    keys = [f"add/H.2013-10-31.{inc}.impc.zip" for inc in range(1, 7)]
    for inc, key in enumerate(keys, start=1):
        folder.put(key, specimens(stem=f"2013-10-31.{inc}"))
    list_action = LocalConnection.list_action

    def lying(self: LocalConnection, action: Action) -> ActionListing:
        listing = list_action(self, action)
        zips = [replace(file, size_bytes=1 << 60) if f"add/{file.name}" in keys[:4] else file for file in listing.zips]
        return replace(listing, zips=tuple(zips))

    monkeypatch.setattr(LocalConnection, "list_action", lying)
    monkeypatch.setattr(attempts, "MAX_QUEUED", 1)
    installation.with_settings(source_failure_limit=2).run_session()
    states = installation.states()
    assert {states.pop(key) for key in keys[:4]} == {"zip_name done"}
    assert states == dict.fromkeys(keys[4:], "xsd done")


def test_a_disk_too_full_to_extract_on_fails_the_session_and_not_the_zip(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(KEY)

    with monkeypatch.context() as patched:
        patched.setattr(ArchiveChecker, "extract", raising(DiskFullError("No room. Free some space.")))
        outcome = installation.run_session().zips[KEY]
    assert [reason.kind for reason in outcome.reasons] == ["DiskFullError"]
    assert not outcome.failed
    assert installation.run_session().zips[KEY].succeeded
    statuses = column_in(installation.tracker, select(CrawlingSession.status).order_by(CrawlingSession.id))
    assert statuses == [int(Phase.XSD), 0]


def test_a_staging_area_that_cannot_be_used_is_said_before_anything_is_tried(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    (installation.root / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"Not a directory\. Correct DCC_STAGING"):
        installation.with_settings(staging=installation.root / "file" / "staging").run_session()
    assert (installation.states(), installation.attempts(KEY)) == ({KEY: "zip_name done"}, [])
    assert installation.run_session().zips[KEY].succeeded


def test_a_disk_full_at_the_second_source_leaves_the_bad_copy_of_the_first_undecided(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    """The good mirror was not tried: nobody is blamed until there was room for it."""
    good = folder.put(KEY)
    mirror = installation.add_folder("J", "mirror")
    mirror.put(KEY, good)
    folder.put(KEY, good[:40] + bytes(byte ^ 0xFF for byte in good[40:60]) + good[60:])
    fetches.full.add("mirror")
    outcome = installation.run_session().zips[KEY]
    fetches.full.clear()
    assert outcome.lacks_room
    assert not outcome.failed
    assert installation.run_session().zips[KEY].succeeded
