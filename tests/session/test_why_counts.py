"""What keeps the archives of a source from being taken: each archive is counted once, under what is true of it."""

import time
from collections import Counter

from dcc.cli.demo import submissions
from dcc.reports.causes.skipped_archives import SkipReason, skipped_entries
from tests.support.asking import in_reading
from tests.support.databases import only_sqlite
from tests.support.installations import (
    MODIFIED,
    Folder,
    Installation,
    growing,
    note_uploaded,
    specimens,
    until_the_next_second,
)

TAKEN, CHANGED, UPLOADING, BROKEN, HELD, REFUSED = (
    "add/H.2013-10-31.1.impc.zip",
    "add/H.2013-10-31.2.impc.zip",
    "add/H.2013-10-31.3.impc.zip",
    "add/H.2013-10-31.4.impc.zip",
    "add/J.2013-10-31.1.impc.zip",
    "add/nonsense.zip",
)


def told(installation: Installation, source_id: int) -> dict[str | None, Counter[SkipReason]]:
    """How many archives are told under each reason, by name and (None) counted."""
    found: dict[str | None, Counter[SkipReason]] = {}
    for row in in_reading(installation.tracker, skipped_entries, source_id):
        found.setdefault(row.entry, Counter())[row.why] += row.number
    return found


@only_sqlite
def test_each_archive_is_told_once_under_what_is_true_of_it(installation: Installation, folder: Folder) -> None:
    careful = installation.with_settings(quiet_seconds=1.0)
    for key in (TAKEN, CHANGED, REFUSED, HELD):
        folder.put(key)
    folder.put(BROKEN, b"no archive")
    (folder.path / "add" / "notes.txt").write_text("hello")
    installation.run_session()
    note_uploaded(installation.tracker)
    until_the_next_second()
    folder.put(CHANGED, specimens(mice=3), MODIFIED + 60)
    content = submissions.archive(specimens())
    with growing(folder.path / UPLOADING, content), growing(folder.path / BROKEN, content):
        careful.run_session()
    assert told(installation, folder.source_id) == {
        REFUSED: {SkipReason.REFUSED: 1},
        HELD: {SkipReason.HELD: 1},
        CHANGED: {SkipReason.CHANGED: 1},
        UPLOADING: {SkipReason.UPLOADING: 1},
        BROKEN: {SkipReason.UPLOADING: 1},
        None: {SkipReason.KNOWN: 1, SkipReason.IGNORED: 1},
    }
    for key in (UPLOADING, BROKEN):
        folder.put(key, content, int(time.time()) - 60)
    careful.run_session()
    assert told(installation, folder.source_id)[None] == {SkipReason.KNOWN: 3, SkipReason.IGNORED: 1}
