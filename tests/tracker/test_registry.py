"""Centres and file sources: registered, listed, changed, removed; no secret ever shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import Connection, Engine, func, update

from dcc.databases.transactions import insert_rows, writing
from dcc.errors import ConfigurationError, NotFoundError
from dcc.runtime.clock import utc_now
from dcc.sources.base import SourceAddress
from dcc.sources.crawl_policy import DueReason, Pause
from dcc.sources.host_keys import HostKey
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.models import CrawlingSession, FileSource, FileSourceHasZip, SourceCrawlRow
from dcc.tracker.register import centres, column_texts, file_sources
from dcc.tracker.register.centres import CentreDetails
from dcc.tracker.register.file_sources import SourceEntry, change_source, list_sources
from dcc.tracker.register.source_addresses import load_addresses, pin_host_keys, pinned_keys
from dcc.tracker.register.source_schedules import load_crawl_dues, paused_sources, set_pause
from dcc.vocabulary import SourceState
from tests.support.asking import in_reading, in_writing
from tests.support.databases import seed_hosting, seed_source, seed_submission
from tests.support.installations import Installation

SECRET = "correct horse battery staple"


def add_centre(tracker: Engine, code: str = "H", **details: str) -> int:
    return in_writing(tracker, centres.add_centre, CentreDetails(code, **details))


def address(centre: str = "H", **changes: object) -> SourceAddress:
    place = ("sftp.example.org:2222", "dcc", SecretStr("env:HARWELL"), "/impc")
    return replace(SourceAddress(0, centre, SourceProtocol.SFTP, *place), **changes)  # type: ignore[arg-type]


def add_source(tracker: Engine, *keys: HostKey, **changes: object) -> int:
    with writing(tracker) as connection:
        return file_sources.add_source(connection, address(**changes), keys)  # type: ignore[arg-type]


def listed(tracker: Engine) -> list[SourceEntry]:
    return in_reading(tracker, file_sources.list_sources)


def test_a_code_that_file_names_cannot_hold_is_refused(tracker: Engine) -> None:
    for code in ("", "H1", "H.", "H/..", "é", "x" * 33, "H\n"):
        with pytest.raises(ConfigurationError, match="centre code"):
            add_centre(tracker, code, full_name="Some centre")


def test_only_available_sources_are_crawled_and_removed_ones_stay_known(tracker: Engine) -> None:
    add_centre(tracker)
    source = add_source(tracker)
    for state, expected in (
        (SourceState.MAINTENANCE, []),
        (SourceState.REMOVED, []),
        (SourceState.AVAILABLE, [source]),
    ):
        in_writing(tracker, file_sources.set_source_state, source, state)
        assert [found.id for found in in_reading(tracker, load_addresses)] == expected
        assert [entry.state for entry in listed(tracker)] == [state]
        assert in_reading(tracker, centres.list_centres)[0].sources == (0 if state is SourceState.REMOVED else 1)
    with pytest.raises(NotFoundError, match="No file source 99"), writing(tracker) as connection:
        file_sources.set_source_state(connection, 99, SourceState.REMOVED)


@pytest.mark.parametrize(
    ("accesskey", "shown"),
    [
        (SECRET, "***"),
        ("", ""),
        ("env:NAME", "env:NAME"),
        ("file:/run/secret", "file:/run/secret"),
        ("key:/home/dcc/.ssh/id", "key:/home/dcc/.ssh/id"),
        ("key:/id?passphrase=env:NAME", "key:/id?passphrase=env:NAME"),
        (f"key:/id?passphrase={SECRET}", "key:/id?passphrase=***"),
        ("/no/such/file", "***"),
    ],
)
def test_an_access_key_is_shown_only_as_a_reference(accesskey: str, shown: str) -> None:
    assert column_texts.shown_accesskey(SecretStr(accesskey)) == shown


def test_no_listing_or_message_holds_a_secret(tracker: Engine) -> None:
    add_centre(tracker)
    add_source(tracker, accesskey=SecretStr(SECRET))
    assert SECRET not in repr(listed(tracker))
    for bad in (SECRET * 20, f"{SECRET}\n"):
        with pytest.raises(ConfigurationError) as caught:
            add_source(tracker, username="other", accesskey=SecretStr(bad))
        assert SECRET not in str(caught.value)


def test_a_source_counts_what_it_hosts_at_present(tracker: Engine) -> None:
    centre = add_centre(tracker)
    source, other = seed_source(tracker, centre), seed_source(tracker, centre, username="other")
    first = seed_submission(tracker, source)
    second = seed_submission(tracker, source, "H.2026-01-31.2.impc.zip")
    seed_hosting(tracker, first.za_id, other)
    with writing(tracker) as connection:
        hosting = FileSourceHasZip.__table__
        connection.execute(
            hosting.update().where(hosting.c.id == second.hosting_id).values(gone_since=func.current_timestamp())
        )
    assert [(entry.id, entry.hosted) for entry in listed(tracker)] == [(source, 1), (other, 1)]
    with tracker.connect() as connection:
        assert [entry.id for entry in file_sources.list_sources(connection, [other])] == [other]
        with pytest.raises(NotFoundError, match="No file source 99"):
            file_sources.list_sources(connection, [other, 99])


def test_what_cannot_be_changed_of_a_source_is_refused(tracker: Engine) -> None:
    add_centre(tracker)
    source = add_source(tracker)
    with pytest.raises(NotFoundError), writing(tracker) as connection:
        file_sources.change_source(connection, 99, username="x")
    hours = [f"{hour:02}:00-{hour:02}:30" for hour in range(24)]
    too_long = {"hostname": "x" * 513, "windows": ", ".join(hours), "schedule": "Mon 06:00, " * 25 + "Tue 06:00"}
    for name, text in too_long.items():
        with pytest.raises(ConfigurationError, match=rf"{name} .* characters"), writing(tracker) as connection:
            file_sources.change_source(connection, source, **{name: text})


def test_no_detail_of_a_centre_is_longer_than_its_column(tracker: Engine) -> None:
    add_centre(tracker)
    for name in {field.name for field in fields(CentreDetails)} - {"short_name", "email", "language"}:
        words = name.replace("_", " ")
        with pytest.raises(ConfigurationError, match=f"{words} .* characters"), writing(tracker) as connection:
            centres.change_centre(connection, "H", **{name: "x" * 999})


def test_a_newly_accepted_host_key_takes_the_place_of_the_old_one(tracker: Engine) -> None:
    add_centre(tracker)
    old, new = HostKey("ssh-ed25519", "AAAA"), HostKey("ssh-rsa", "BBBB")
    source = add_source(tracker, old)
    other = add_source(tracker, old, username="other")
    in_writing(tracker, pin_host_keys, source, [new])
    assert in_reading(tracker, pinned_keys, source) == [new]
    assert in_reading(tracker, pinned_keys, other) == [old]


HOUR = timedelta(hours=1)
NOW = utc_now()


def why(installation: Installation, source: int, **given: int) -> DueReason:
    return in_reading(installation.tracker, load_crawl_dues, 3, NOW, named=given.values())[source].why


@pytest.mark.both_databases
def test_past_crawls_decide_whether_a_source_is_due(installation: Installation) -> None:
    source = installation.add_folder().source_id
    with writing(installation.tracker) as connection:
        (session,) = insert_rows(
            connection, CrawlingSession.__table__, [{"start_time": NOW, "status": 0, "created": NOW}]
        )
        change_source(connection, source, every="6h")
        connection.execute(update(FileSource).values(last_update=NOW - 9 * HOUR))

    def crawled(hours: float, outcome: str) -> None:
        at = NOW - hours * HOUR
        row = {"session_id": session, "file_source_id": source, "start_time": at, "finish_time": at, "outcome": outcome}
        in_writing(installation.tracker, insert_rows, SourceCrawlRow.__table__, [row])

    assert why(installation, source) is DueReason.DUE
    for hours, outcome, expected in (
        (8, "ok", DueReason.DUE),
        (4, "partial", DueReason.RECENT),
        (3.5, "failed", DueReason.RECENT),
        (3, "failed", DueReason.RECENT),
        (0.5, "failed", DueReason.FAILING),
    ):
        crawled(hours, outcome)
        assert why(installation, source) is expected, (hours, outcome)
    assert why(installation, source, named=source) is DueReason.DUE
    mended: tuple[Callable[[Connection], None], ...] = (
        lambda connection: change_source(connection, source, every="3h", windows="00:00-24:00"),
        lambda connection: set_pause(connection, source, None),
        lambda connection: pin_host_keys(connection, source, []),
    )
    for mend in mended:
        with writing(installation.tracker) as connection:
            change_source(connection, source, every="2h")
            connection.execute(update(FileSource).values(last_update=NOW - 9 * HOUR))
        assert why(installation, source) is DueReason.FAILING
        in_writing(installation.tracker, mend)
        assert why(installation, source) is DueReason.DUE


@pytest.mark.both_databases
def test_a_paused_source_is_used_by_nobody_until_its_pause_ends(installation: Installation) -> None:
    source = installation.add_folder().source_id

    def used() -> bool:
        return bool(in_reading(installation.tracker, load_addresses))

    for until, is_used in ((None, False), (NOW + HOUR, False), (NOW - HOUR, True)):
        in_writing(installation.tracker, set_pause, source, Pause("a move", "ann", NOW - 2 * HOUR, until))
        assert used() == is_used
        assert (why(installation, source, named=source) is DueReason.PAUSED) == (not is_used)
        assert bool(in_reading(installation.tracker, list_sources)[0].pause) == (not is_used)
        assert in_reading(installation.tracker, paused_sources) == (set() if is_used else {source})
    in_writing(installation.tracker, set_pause, source, None)
    assert used()
    with pytest.raises(NotFoundError, match="No file source 99"), writing(installation.tracker) as connection:
        set_pause(connection, 99, None)


def test_a_schedule_that_cannot_be_read_changes_nothing(installation: Installation) -> None:
    source = installation.add_folder().source_id
    for given in ({"every": "often"}, {"windows": "at night"}, {"schedule": "06"}, {"every": "99999w"}):
        with pytest.raises(ConfigurationError, match="Write"), writing(installation.tracker) as connection:
            change_source(connection, source, **given)
    (entry,) = in_reading(installation.tracker, list_sources)
    assert (entry.every, entry.windows) == ("", "")
