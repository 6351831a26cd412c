"""Copies of archives that are bad at one file source: the others are tried, and the bad ones are not fetched again."""

import re
from collections.abc import Callable
from itertools import product

import pytest
from pydantic import SecretStr
from sqlalchemy import select, update

from dcc.cli.demo import submissions
from dcc.cli.shell.error_advice import explanations
from dcc.outcomes import EndReason
from dcc.reports.causes.collecting import find_causes
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.labels import OUTCOME_TEXTS
from dcc.reports.submissions.model import Outcome
from dcc.session.data.document_log import rewrite_log
from dcc.session.data.document_problems import held_problem
from dcc.sources import connect, protocols
from dcc.sources.base import SourceAddress
from dcc.sources.folder import LocalConnection
from dcc.tracker import progress
from dcc.tracker.models import BadCopy, FileSourceHasZip, XmlFile
from dcc.tracker.register import centres
from dcc.tracker.states import NOT_UPLOADED
from dcc.vocabulary import Actor
from tests.hostile import archives as hostile
from tests.hostile.archives import UTF_8, Member
from tests.support import dying_session
from tests.support.asking import execute_in, in_reading, in_writing, value_in
from tests.support.databases import only_sqlite
from tests.support.installations import MODIFIED, Fetches, Folder, Installation, growing, md5, specimens
from tests.support.prepared_processes import run_dying
from tests.support.raising import raising
from tests.support.served_sources import logged
from tests.support.session_reports import session_report
from tests.support.trials import usually

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
GOOD = submissions.archive(specimens())
OTHER = submissions.archive(specimens(mice=5))
DAMAGED = b"#" * len(GOOD)
SHORT = GOOD[:-200]
SPECIMEN = b"H.2013-10-31.1.specimen.impc.xml"
ENCRYPTED = hostile.archive([Member(SPECIMEN, flags=1)])
WITH_ONE_TWICE = hostile.archive([Member(SPECIMEN), Member(SPECIMEN, b"<b/>")])
MISNAMED = hostile.archive([Member(b"\xff.xml", flags=UTF_8)])
"""A name in it is said to be UTF-8, and is not."""


def publish(folder: Folder, content: bytes, key: str = KEY) -> None:
    (folder.path / f"{key}.md5").write_text(f"{md5(content)}  {key.rpartition('/')[2]}\n")


@pytest.fixture
def mirror(installation: Installation, folder: Folder) -> Folder:
    """A folder of another centre, to which H has delegated: copies there count also where they differ from its own."""
    in_writing(installation.tracker, centres.delegate, "H", "J", recorded_by="wrangler")
    return installation.add_folder("J", "mirror")


CASES = (
    (DAMAGED, GOOD, None, "xsd done", ["unzip failed", "xsd done"]),
    (SHORT, GOOD, None, "xsd done", ["unzip failed", "xsd done"]),
    (DAMAGED, GOOD, GOOD, "xsd done", ["zip_md5 failed", "xsd done"]),
    (DAMAGED, SHORT, None, "unzip failed", ["unzip failed"] * 2),
    (DAMAGED, DAMAGED, None, "unzip failed", ["unzip failed"] * 2),
    (OTHER, GOOD, DAMAGED, "zip_md5 failed", ["zip_md5 failed"] * 2),
    (DAMAGED, GOOD, DAMAGED, "unzip failed", ["unzip failed"]),
    (OTHER, GOOD, None, "xsd done", ["xsd done"]),
)
"""The own copy and that of the mirror, which content the MD5 is of that is published, and how archive and tries end."""


def test_other_sources_are_tried_before_the_centre_is_blamed(
    installation: Installation, folder: Folder, mirror: Folder
) -> None:
    cases = {f"add/H.2013-10-31.{inc}.impc.zip": case for inc, case in enumerate(CASES, 1)}
    for key, (own, other, published, *_) in cases.items():
        folder.put(key, own)
        mirror.put(key, other)
        if published is not None:
            publish(folder, published, key)

    outcomes = installation.run_session().zips

    assert installation.states() == {key: ends for key, (*_, ends, _) in cases.items()}
    sources, told = [folder.source_id, mirror.source_id], logged(installation)
    assert sorted(told) == sorted(reason.message for outcome in outcomes.values() for reason in outcome.reasons)
    for key, (_, other, _, ends, states) in cases.items():
        outcome = outcomes[key]
        assert f"{outcome.phase.short_name} {outcome.status.short_name}" == ends
        assert installation.attempts(key) == list(zip(sources, states, strict=False))
        if ends == "xsd done" and states[0] != ends:
            assert installation.staged()[key] == other
        if len(states) == 2 and ends != "xsd done":
            assert all(f"file source {number} (MD5 " in outcome.reasons[-1].message for number in sources)
            assert ("its .md5" in outcome.reasons[-1].message) == (ends == "zip_md5 failed")
            german = load_catalogue("de", installation.settings).tell(outcome.reasons[-1].fact)
            assert all(f"Dateiquelle {number} (MD5 " in german for number in sources)
            assert "file source" not in german


@only_sqlite
def test_a_copy_that_a_package_s_protocol_delivers_twice_the_same_is_bad(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "added_names", lambda _: ("acme",))
    monkeypatch.setattr(connect, "load_added", lambda *_: [LocalConnection])
    path = installation.root / "acme"
    path.mkdir()
    source_id = installation.add_source(SourceAddress(0, "H", "acme", "share", "", SecretStr(""), str(path)))
    Folder(path, source_id).put(KEY, DAMAGED)
    installation.run_session()
    assert installation.attempts(KEY) == [(source_id, "unzip failed")] * 2
    assert installation.count(BadCopy) == 1


@pytest.mark.parametrize("has_times", [True, False], ids=["times", "no times"])
def test_a_copy_of_another_size_needs_no_delegation_once_the_own_one_is_known_to_be_bad(
    installation: Installation, folder: Folder, has_times: bool
) -> None:
    other = installation.add_folder("J", "mirror")
    folder.put(KEY, SHORT)
    installation.run_session()
    if not has_times:
        # As a server leaves them that lists none.
        execute_in(
            installation.tracker, *(update(model).values(modified=None) for model in (BadCopy, FileSourceHasZip))
        )
    other.put(KEY, GOOD)
    folder.path.rename(folder.path.with_name("away"))
    installation.run_session()
    assert installation.attempts(KEY) == [(folder.source_id, "unzip failed"), (other.source_id, "xsd done")]


@pytest.mark.parametrize("published", [None, GOOD], ids=["damaged", "not as published"])
def test_a_mirror_that_is_away_is_not_told_as_the_reason_of_a_bad_copy_and_is_tried_later(
    installation: Installation, folder: Folder, mirror: Folder, fetches: Fetches, published: bytes | None
) -> None:
    folder.put(KEY, DAMAGED)
    mirror.put(KEY, GOOD)
    if published is not None:
        publish(folder, published)
    fetches.away.add("mirror")

    once = installation.with_settings(max_retries=0)
    session = once.run_session()

    outcome, said = session.zips[KEY], "is neither a zip nor a tar archive" if published is None else md5(GOOD)
    assert outcome.main_reason is not None
    assert said in outcome.main_reason.message
    assert "mirror broke off" in outcome.reasons[-1].message
    told = " ".join(in_reading(installation.tracker, session_report, session.id).text.split())
    assert said in told
    assert "broke off" not in told
    failed = installation.states()
    assert once.run_session().ended is EndReason.FAULTS, "a mirror that could not deliver is one"
    assert installation.states() == failed
    fetches.away.clear()
    assert once.run_session().zips[KEY].succeeded
    assert fetches.folders == ["centre", "mirror"]


def test_two_sources_with_the_same_bad_checksum_end_the_tries(
    installation: Installation, folder: Folder, mirror: Folder, fetches: Fetches
) -> None:
    third = installation.add_folder("J", "third")
    for place, content in ((folder, DAMAGED), (mirror, DAMAGED), (third, GOOD)):
        place.put(KEY, content)
    installation.run_session()
    assert fetches.folders == ["centre", "mirror"]
    assert installation.states() == {KEY: "unzip failed"}
    assert installation.run_session().zips == {}
    assert fetches.folders == ["centre", "mirror"]


def test_copies_of_others_that_are_bad_alike_keep_no_session_from_the_own_one(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    others = [installation.add_folder("J", name) for name in ("mirror", "second mirror")]
    folder.put(KEY, GOOD)
    for other in others:
        other.put(KEY, DAMAGED)
    fetches.away.add("centre")
    assert installation.with_settings(max_retries=0).run_session().zips[KEY].failed
    fetches.away.clear()
    assert installation.run_session().zips[KEY].succeeded
    ids = [folder.source_id, *(other.source_id for other in others)]
    states = ["download failed", "unzip failed", "unzip failed", "xsd done"]
    assert installation.attempts(KEY) == list(zip([*ids, folder.source_id], states, strict=True))


@only_sqlite
@pytest.mark.parametrize("published", [False, True], ids=["as before", "with a checksum by now"])
def test_a_copy_that_is_uploaded_anew_is_awaited_whatever_becomes_of_the_own_one(
    installation: Installation, folder: Folder, published: bool
) -> None:
    other = installation.add_folder("J", "mirror")
    folder.put(KEY, DAMAGED)
    other.put(KEY, SHORT)
    installation.run_session()
    if published:
        publish(folder, GOOD)
    with growing(other.path / KEY, SHORT):
        installation.with_settings(quiet_seconds=1.5).run_session()
    assert installation.states() == {KEY: "zip_name done"}
    other.put(KEY, GOOD, modified=MODIFIED + 60)
    assert installation.run_session().zips[KEY].succeeded


@pytest.mark.parametrize("beside_mirror", [None, OTHER], ids=["none", "another"])
def test_the_checksum_of_the_producer_binds_every_mirror(
    installation: Installation, folder: Folder, mirror: Folder, fetches: Fetches, beside_mirror: bytes | None
) -> None:
    folder.put(KEY, GOOD)
    publish(folder, GOOD)
    mirror.put(KEY, bytes(reversed(GOOD)))
    if beside_mirror is not None:
        publish(mirror, beside_mirror)
    fetches.away.add("centre")

    session = installation.with_settings(max_retries=0).run_session()

    assert installation.attempts(KEY) == [
        (folder.source_id, "download failed"),
        (mirror.source_id, "zip_md5 failed"),
    ]
    assert md5(GOOD) in session.zips[KEY].reasons[-1].message
    assert session.ended is EndReason.FAULTS, "a source that could not deliver is one"
    mirror.put(KEY, GOOD, modified=MODIFIED + 60)
    assert installation.with_settings(max_retries=0).run_session().zips[KEY].succeeded
    assert installation.attempts(KEY)[-1] == (mirror.source_id, "xsd done")


def test_the_last_known_checksum_of_the_producer_counts_while_its_source_is_away(
    installation: Installation, folder: Folder, mirror: Folder, fetches: Fetches
) -> None:
    folder.put(KEY, GOOD)
    publish(folder, GOOD)
    fetches.away.add("centre")
    assert installation.with_settings(max_retries=0).run_session().zips[KEY].failed
    # Read though nothing could be fetched, for the mirrors depend on it.
    moved = folder.path.rename(folder.path.with_name("away"))
    mirror.put(KEY, OTHER)

    assert installation.with_settings(max_retries=0).run_session().zips[KEY].failed
    assert installation.states() == {KEY: "zip_md5 failed"}

    moved.rename(folder.path)
    folder.put(KEY, OTHER, modified=MODIFIED + 60)
    (folder.path / f"{KEY}.md5").unlink()
    assert installation.with_settings(max_retries=0).run_session().zips[KEY].succeeded


def test_a_held_archive_that_is_replaced_still_waits_if_its_new_content_does_not_arrive(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    once, key = installation.with_settings(max_retries=0), f"edit/{NAME}"
    folder.put(key)
    once.run_session()
    document = value_in(installation.tracker, select(XmlFile.id))
    held = progress.StateReport(progress.Subject.XML_FILE, document, NOT_UPLOADED)
    in_writing(installation.tracker, progress.report, [held])
    in_writing(installation.tracker, rewrite_log, {document: [held_problem(key, {"specimen": 3})]})
    folder.put(key, OTHER, modified=MODIFIED + 60)
    fetches.away.add("centre")
    once.run_session()
    assert installation.states() == {key: "upload pending"}
    fetches.away.clear()
    once.run_session()
    assert installation.states() == {key: "xsd done"}


def test_the_one_advice_about_an_archive_that_cannot_be_opened_is_what_works(
    installation: Installation, folder: Folder
) -> None:
    """A good one under the same name; another name would leave the bad one there, failed."""
    leads_elsewhere, without_documents = ({"../x.xml": b"<a/>"}, {"notes.txt": b"none"})
    contents = [MISNAMED, DAMAGED, SHORT, b"", ENCRYPTED, WITH_ONE_TWICE]
    contents += map(submissions.archive, (leads_elsewhere, without_documents))
    keys = [f"add/H.2013-10-31.{inc}.impc.zip" for inc, _ in enumerate(contents)]
    for key, content in zip(keys, contents, strict=True):
        folder.put(key, content)
    outcomes = installation.run_session().zips
    assert installation.states() == dict.fromkeys(keys, "unzip failed")
    assert "UTF-8" in outcomes[keys[0]].reasons[-1].message
    for key in keys:
        reason = outcomes[key].reasons[-1]
        (cause,) = in_reading(installation.tracker, find_causes, None, outcomes[key].key, installation.settings).causes
        advice = (
            reason.message,
            cause.remedy(load_catalogue("en", installation.settings)),
            *OUTCOME_TEXTS[Outcome.UNREADABLE].next,
            next(one.advice for one in explanations() if one.name == reason.kind),
        )
        for text in advice:
            assert re.search("under the same names?[.:]", text), text
            assert not re.search("new (name|increment)", text), text
        folder.put(key, GOOD, modified=MODIFIED + 60)
    installation.run_session()
    assert installation.states() == dict.fromkeys(keys, "xsd done")


def test_a_retry_fetches_a_bad_copy_again_as_a_good_one_may_lie_there_with_its_size_and_time(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    """Programs for uploads keep the time of a file: a copy that arrived damaged looks like the whole one."""
    folder.put(KEY, DAMAGED)
    installation.run_session()
    assert installation.process_again(KEY).zips[KEY].md5 == md5(DAMAGED)
    assert installation.states() == {KEY: "unzip failed"}
    folder.put(KEY, GOOD)
    assert installation.run_session().zips == {}
    assert installation.process_again(KEY).zips[KEY].succeeded
    assert fetches.folders == ["centre"] * 3
    assert installation.count(BadCopy) == 0
    # What counts as a retry is an attempt after one that failed; an archive that was bad is no failed download.
    assert value_in(installation.tracker, select(FileSourceHasZip.num_retries)) == 0


@pytest.mark.parametrize(
    "correct",
    [lambda folder: publish(folder, OTHER), lambda folder: (folder.path / f"{KEY}.md5").unlink()],
    ids=["corrected", "removed"],
)
def test_a_checksum_that_is_corrected_lets_the_copy_be_fetched_again(
    installation: Installation, folder: Folder, fetches: Fetches, correct: Callable[[Folder], None]
) -> None:
    folder.put(KEY, OTHER)
    publish(folder, GOOD)
    installation.run_session()
    session = installation.run_session()
    later = session.zips[KEY]
    # What the centre has to correct is no fault.
    assert (later.kept, session.ended) == (True, EndReason.FINISHED)
    assert "still publishes" in later.reasons[-1].message
    assert fetches.folders == ["centre"]
    assert installation.states() == {KEY: "zip_md5 failed"}
    assert installation.attempts(KEY) == [
        (folder.source_id, "zip_md5 failed"),
        (folder.source_id, "download cancelled"),
    ]
    correct(folder)
    assert installation.run_session().zips[KEY].succeeded
    assert fetches.folders == ["centre"] * 2
    assert installation.count(BadCopy) == 0


@pytest.mark.parametrize("content", [b"x", b"", bytes(2_000_000)], ids=["words", "empty", "zeros"])
def test_a_checksum_file_without_a_checksum_is_the_centre_s_to_correct_and_read_again_by_each_session(
    installation: Installation, folder: Folder, fetches: Fetches, content: bytes
) -> None:
    folder.put(KEY, GOOD)
    (folder.path / f"{KEY}.md5").write_bytes(content)
    for session in (1, 2):
        result = installation.run_session()
        # What the centre has to correct is no fault, and another try in the same session is of no use.
        assert result.ended is EndReason.FINISHED
        assert installation.states() == {KEY: "zip_md5 failed"}
        assert installation.attempts(KEY) == [(folder.source_id, "zip_md5 failed")] * session
        assert not result.zips[KEY].kept
    assert f"{NAME}.md5 holds no MD5 checksum" in result.zips[KEY].reasons[-1].message
    (cause,) = in_reading(installation.tracker, find_causes, None, None, installation.settings).causes
    assert (cause.code, cause.acts, cause.zips) == ("bad-checksum-file", Actor.CENTRE, 1)
    assert fetches.folders == []
    publish(folder, GOOD)
    assert installation.run_session().zips[KEY].succeeded


@only_sqlite
def test_an_archive_that_may_not_be_read_is_tried_once_a_session_and_the_centre_acts(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(KEY, GOOD)
    with monkeypatch.context() as forbidden:
        forbidden.setattr(LocalConnection, "_opened", raising(PermissionError(13, "Permission denied")))
        installation.run_session()
    assert installation.attempts(KEY) == [(folder.source_id, "download failed")]
    (cause,) = in_reading(installation.tracker, find_causes, None, None, installation.settings).causes
    assert (cause.code, cause.acts) == ("file-not-readable", Actor.CENTRE)
    assert installation.run_session().zips[KEY].succeeded


def test_a_checksum_that_the_producer_publishes_later_makes_a_mirrors_copy_good_at_once(
    installation: Installation, folder: Folder, mirror: Folder
) -> None:
    folder.put(KEY, DAMAGED)
    mirror.put(KEY, GOOD)
    publish(mirror, OTHER)
    assert installation.run_session().zips[KEY].failed
    publish(folder, GOOD)
    assert installation.run_session().zips[KEY].succeeded


KILLS = list(
    product(("when a copy is bad", "before a checksum is taken", "when an archive has arrived"), (GOOD, SHORT))
)
"""Where a session is killed, and the copy of the mirror."""


@pytest.mark.parametrize(
    ("point", "other"),
    usually(KILLS[1:3], KILLS),
    ids=lambda value: {GOOD: "good", SHORT: "damaged"}.get(value),
)
def test_a_session_that_is_killed_at_a_bad_copy_is_continued_at_the_mirror(
    installation: Installation, folder: Folder, mirror: Folder, other: bytes, point: str
) -> None:
    ends = "xsd done" if other == GOOD else "unzip failed"
    folder.put(KEY, DAMAGED)
    mirror.put(KEY, other)
    run_dying(dying_session.main, point, installation.settings)
    installation.run_session()
    assert installation.states() == {KEY: ends}
    finished = [attempt for attempt in installation.attempts(KEY) if "cancelled" not in attempt[1]]
    assert finished == [(folder.source_id, "unzip failed"), (mirror.source_id, ends)]
    assert installation.run_session().zips == {}
