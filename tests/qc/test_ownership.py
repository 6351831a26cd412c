"""An archive speaks for its centre: what it does with data of another one, delegated and not."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import select

from dcc.databases.transactions import writing
from dcc.errors import NotDelegatedError, NotFoundError
from dcc.phases import Phase, Status
from dcc.qc import models
from dcc.reports.causes.collecting import find_causes
from dcc.reports.causes.skipped_archives import SkipReason, skipped_entries
from dcc.reports.languages import load_catalogue
from dcc.runtime.clock import utc_now
from dcc.session.data.document_plans import plan_submission
from dcc.session.data.upload_phase import Uploader
from dcc.tracker.hostings.foreign_archives import unfetched_archives
from dcc.tracker.hostings.owner_notices import notices_since
from dcc.tracker.hostings.retries import require_retriable
from dcc.tracker.models import OwnerNotice
from dcc.tracker.queries.state_counts import held_documents
from dcc.tracker.queries.submission_stories import submission_story
from dcc.tracker.queries.waiting_work import waiting_submissions
from dcc.tracker.register import centres
from dcc.vocabulary import Actor
from tests.support.asking import in_both, in_reading, in_writing, rows_in
from tests.support.data_installations import DataInstallation, DataResult, key_of, specimens
from tests.support.databases import only_sqlite
from tests.support.installations import Folder
from tests.support.prepared_installations import PreparedInstallations
from tests.support.raising import raising

OWN = "add/H.2013-10-31.1.impc.zip"
OTHERS = "J.2013-11-01.1.impc.zip"
DOCUMENT = "J.2013-11-01.1.specimen.impc.xml"
WHO = {"author": "someone", "reason": "It is meant."}


def named_for(centre: str, stem: str, documents: dict[str, bytes]) -> dict[str, bytes]:
    """Documents of centre H under names of a centre."""
    return {name.replace(f"H.{stem}", f"{centre}.{stem}"): content for name, content in documents.items()}


def delegate(data: DataInstallation, owner: str = "H", to: str = "J") -> None:
    in_writing(data.tracker, centres.delegate, owner, to, recorded_by="wrangler")


def revoke(data: DataInstallation, owner: str = "H", to: str = "J") -> None:
    in_writing(data.tracker, centres.revoke_delegation, owner, to, revoked_by="wrangler")


def notices(data: DataInstallation) -> list[tuple[str, str, str, str, dict[str, int]]]:
    """What owners are to be told: owner, zip action, document, outcome, counts."""
    return [
        (one.owner, str(one.key), one.file_name, str(one.outcome), dict(one.counts))
        for one in in_reading(data.tracker, notices_since, utc_now() - timedelta(days=1))
    ]


def current(data: DataInstallation) -> list[str]:
    """The current specimens of H."""
    rows = data.rows(models.SPECIMEN, "specimen_id", "centre", "is_current")
    return sorted(name for name, centre, is_current in rows if centre == "H" and is_current)


def remedies(data: DataInstallation, *, for_centre: bool = False) -> str:
    """What is to be done about all that is wrong, as wranglers or as centres are told."""
    catalogue = load_catalogue("en", data.settings)
    causes = in_both(data, find_causes, None, data.settings).causes
    said = [cause.remedy_for_centre(catalogue) if for_centre else cause.remedy(catalogue) for cause in causes]
    return " ".join(said)


@pytest.fixture
def other(data: DataInstallation, prepared_installations: PreparedInstallations) -> Folder:
    """A source of J; H has three animals in the QC database."""
    prepared_installations.begin(data, submit_animals)
    return Folder(data.base.root / "other", 2)


def submit_animals(data: DataInstallation) -> None:
    data.put(OWN, specimens())
    data.base.add_folder("J", "other")
    data.run()
    assert len(current(data)) == 3


def submit(data: DataInstallation, other: Folder, action: str, *, first: int = 1, named: str = "J") -> DataResult:
    """J submits animals of H, the ones from `first` on, in a document named for a centre; a session takes them."""
    other.put(f"{action}/{OTHERS}", named_for(named, "2013-11-01.1", specimens("2013-11-01.1", first=first)))
    return data.run()


def rows_of_centre(data: DataInstallation) -> list[tuple[object, ...]]:
    """All that is current of H, and what its contexts count."""
    return [
        *(row for row in data.rows(models.SPECIMEN, "centre", "specimen_id", "litter_id", "is_current") if row[-1]),
        *(row for row in data.rows(models.EXPERIMENT, "centre", "experiment_id", "is_current") if row[-1]),
        *data.rows(models.CONTEXT, "centre", "parameter_id", "measurements"),
    ]


@pytest.mark.parametrize(("action", "named"), [("edit", "J"), ("delete", "H")])
def test_another_centre_s_data_are_not_edited_or_deleted_without_delegation(
    data: DataInstallation, other: Folder, action: str, named: str
) -> None:
    before = rows_of_centre(data)
    document = f"{named}.2013-11-01.1.specimen.impc.xml"
    told = submit(data, other, action, named=named).document(document, Phase.UPLOAD)
    assert rows_of_centre(data) == before
    assert (told.status, told.document_id is not None) == (Status.FAILED, True)
    assert data.documents()[document] == "upload failed"
    assert data.log(document) == ["Q6"]
    ((rule, line, path, value),) = [(one.rule, one.line, one.path, one.value) for one in told.findings]
    assert (rule, line, path, value) == ("Q6", 3, "/centreSpecimenSet/centre[1]", "H")
    # The centre reads what it can do; the command for the wrangler is told with the causes.
    assert "ask your data wrangler" in told.findings[0].message
    assert "dcc " not in told.findings[0].message
    assert "dcc centre delegate H --to J" in remedies(data)
    assert "dcc " not in remedies(data, for_centre=True)
    assert notices(data) == [("H", f"{action}/{OTHERS}", document, "refused", {"specimen": 3})]
    # The archive's centre has to correct it, whomever its documents are named for.
    whose = {centre: in_both(data, find_causes, centre, data.settings).causes for centre in ("H", "J", None)}
    assert [[(cause.kind, cause.centre) for cause in found] for found in whose.values()] == [[], *2 * [[("Q6", "J")]]]
    # A retry meets the same decision, and the owner is told of it once more, for it is another attempt.
    data.retry(f"{action}/{OTHERS}")
    assert rows_of_centre(data) == before
    assert data.documents()[document] == "upload failed"
    # Once the owner has delegated, it takes effect, and the owner is told.
    delegate(data)
    data.retry(f"{action}/{OTHERS}")
    assert data.documents()[document] == "qc done"
    assert len(current(data)) == (3 if action == "edit" else 0)
    assert notices(data)[-1] == ("H", f"{action}/{OTHERS}", document, "done", {"specimen": 3})


def test_one_document_with_data_of_both_centres_is_refused_as_a_whole(data: DataInstallation, other: Folder) -> None:
    other.put("add/J.2013-10-31.1.impc.zip", specimens("2013-10-31.1", centre="J"))
    data.run()
    ((name, own),) = specimens("2013-11-01.1", centre="J").items()
    ((_, foreign),) = specimens("2013-11-01.1").items()
    block = foreign[foreign.index(b"<centre ") : foreign.rindex(b"</centre>") + len(b"</centre>")]
    end = own.rindex(b"</centre>") + len(b"</centre>")
    before = data.rows(models.SPECIMEN, "centre", "specimen_id", "is_current")
    other.put(f"delete/{OTHERS}", {name: own[:end] + b"\n" + block + own[end:]})
    data.run()
    assert data.log(name) == ["Q6"]
    standing = data.rows(models.SPECIMEN, "centre", "specimen_id", "is_current")
    assert [row for row in standing if row[-1]] == [row for row in before if row[-1]]


def test_an_addition_of_another_centre_s_data_is_held_until_somebody_confirms_it(
    data: DataInstallation, other: Folder
) -> None:
    result = submit(data, other, "add", first=50)
    assert result.document(DOCUMENT, Phase.UPLOAD).held
    assert (data.documents()[DOCUMENT], data.log(DOCUMENT), len(current(data))) == ("upload pending", ["held"], 3)
    ((key, name, message),) = in_reading(data.tracker, held_documents)
    assert (str(key), name) == (f"add/{OTHERS}", DOCUMENT)
    assert "dcc data confirm add/" in message
    assert "dcc centre delegate H --to J" in message
    (plan,) = plan_submission(data.tracker, data.qc, data.settings, key)
    assert (plan.plan.would_be.opened, plan.is_held(10_000)) == ({"specimen": 3}, True)
    # Later sessions leave it alone.
    data.take_up()
    assert data.documents()[DOCUMENT] == "upload pending"
    (confirmed,) = data.confirm(key, **WHO)
    assert confirmed.status is Status.DONE
    assert len(current(data)) == 6
    data.take_up()
    assert data.documents()[DOCUMENT] == "qc done"
    assert [(one[0], one[3], one[4]) for one in notices(data)] == [
        ("H", "held", {"specimen": 3}),
        ("H", "confirmed", {"specimen": 3}),
    ]


def test_to_confirm_a_change_of_much_permits_no_change_of_another_centre_s_data(
    data: DataInstallation, other: Folder
) -> None:
    careful = data.with_settings(hold_threshold=1)
    delegate(careful)
    submit(careful, other, "delete")
    assert careful.documents()[DOCUMENT] == "upload pending"
    before = rows_of_centre(careful)
    revoke(careful)
    key = key_of(f"delete/{OTHERS}")
    (refused,) = careful.confirm(key, **WHO)
    assert (refused.status, [found.rule for found in refused.findings]) == (Status.FAILED, ["Q6"])
    assert rows_of_centre(careful) == before


@pytest.mark.both_databases
def test_a_held_addition_can_be_turned_down_without_delegation(data: DataInstallation, other: Folder) -> None:
    submit(data, other, "add", first=50)
    data.withdraw(f"add/{OTHERS}", **WHO)
    assert data.documents()[DOCUMENT] == "upload cancelled"
    assert len(current(data)) == 3
    assert not [row for row in data.rows(models.FINDING, "rule", "is_active") if row == ("Q6", True)]


@pytest.mark.both_databases(first_only=True)
@pytest.mark.parametrize("action", ["add", "delete"])
def test_what_was_done_under_a_delegation_is_withdrawn_only_under_one(
    data: DataInstallation, other: Folder, action: str
) -> None:
    delegate(data)
    submit(data, other, action, first=50 if action == "add" else 1)
    assert [one[3] for one in notices(data)] == ["done"]
    revoke(data)
    before = data.ending()
    key = key_of(f"{action}/{OTHERS}")
    with pytest.raises(NotDelegatedError, match="dcc centre delegate H --to J"):
        data.withdraw(key, **WHO)
    assert data.ending() == before
    delegate(data)
    undone = data.withdraw(key, **WHO | {"reason": "x" * 256})
    assert (len(undone.undone_by), undone.others) == (1, ("H",))
    assert len(current(data)) == 3
    assert notices(data)[-1][:4] == ("H", str(key), "", "withdrawn")
    told = select(OwnerNotice.done_by, OwnerNotice.reason).order_by(OwnerNotice.id)
    assert rows_in(data.tracker, told)[-1] == ("someone", "x" * 255)


@contextmanager
def interrupted_before_the_tracker_hears() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Uploader, "result_of", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            yield


def test_a_refusal_that_the_tracker_did_not_hear_of_stays_one(data: DataInstallation, other: Folder) -> None:
    with interrupted_before_the_tracker_hears():
        submit(data, other, "delete")
    data.take_up()
    assert (data.documents()[DOCUMENT], data.log(DOCUMENT), len(current(data))) == ("upload failed", ["Q6"], 3)
    assert [(one[0], one[3]) for one in notices(data)] == [("H", "refused")]


def test_what_was_confirmed_before_the_tracker_heard_of_it_is_told_as_confirmed(
    data: DataInstallation, other: Folder
) -> None:
    submit(data, other, "add", first=50)
    with interrupted_before_the_tracker_hears():
        data.confirm(f"add/{OTHERS}", **WHO)
    data.take_up()
    assert [one[3] for one in notices(data)] == ["held", "confirmed"]
    assert len(current(data)) == 6


def test_the_owner_is_told_of_each_withdrawal(data: DataInstallation, other: Folder) -> None:
    delegate(data)
    submit(data, other, "edit")
    data.withdraw(f"edit/{OTHERS}", **WHO)
    data.retry(f"edit/{OTHERS}")
    data.withdraw(f"edit/{OTHERS}", **WHO)
    assert [one[3] for one in notices(data)] == ["done", "withdrawn"] * 2


# Archives on another centre's source

PLANTED = "add/J.2013-11-01.1.impc.zip"


def unfetched(data: DataInstallation) -> list[str]:
    with data.tracker.connect() as connection:
        found = {str(one.key) for one in unfetched_archives(connection)}
        assert found.isdisjoint(map(str, waiting_submissions(connection)))
        return sorted(found)


@pytest.mark.both_databases
def test_an_archive_that_is_planted_on_another_centre_s_source_is_not_taken(data: DataInstallation) -> None:
    data.put(PLANTED, specimens("2013-11-01.1", centre="J"))
    result = data.base.run_session()
    assert (data.states(), data.base.attempts(PLANTED), unfetched(data)) == ({PLANTED: "zip_name done"}, [], [PLANTED])
    (outcome,) = result.zips.values()
    assert (outcome.failed, [reason.kind for reason in outcome.reasons]) == (False, ["held"])
    assert "dcc centre delegate J --to H" in outcome.reasons[0].message
    assert notices(data) == [("J", PLANTED, "", "held", {})]
    with data.tracker.connect() as connection:
        assert "dcc centre delegate J --to H" in submission_story(connection, key_of(PLANTED)).reasons[-1].message
        with pytest.raises(NotFoundError, match="dcc centre delegate J --to H"):
            require_retriable(connection, [key_of(PLANTED)])
        told = skipped_entries(connection, data.folder.source_id)
    assert [(one.entry, one.why, one.acts) for one in told] == [(PLANTED, SkipReason.HELD, Actor.CENTRE)]
    # It is told once, and stays where it is.
    assert data.base.run_session().zips == {}
    assert unfetched(data) == [PLANTED]


@pytest.mark.parametrize("later", [True, False])
def test_a_planted_archive_does_not_keep_the_own_one_from_being_taken(data: DataInstallation, later: bool) -> None:
    data.put(PLANTED, specimens("2013-11-01.1", centre="J", first=70))
    other = data.base.add_folder("J", "other")
    if later:
        data.base.run_session()
    own = specimens("2013-11-01.1", centre="J", mice=5)
    content = other.put(PLANTED, own)
    data.run()
    assert data.states() == {PLANTED: "qc done"}
    assert data.base.attempts(PLANTED) == [(other.source_id, "qc done")]
    assert data.base.staged()[PLANTED] == content
    assert len([row for row in data.rows(models.SPECIMEN, "centre") if row == ("J",)]) == 5
    assert unfetched(data) == []


@pytest.mark.parametrize(("mice", "state"), [(3, "xsd done"), (5, "zip_name done")])
def test_a_copy_on_another_centre_s_source_serves_while_the_own_source_is_down_if_it_is_as_large_as_the_own_one(
    data: DataInstallation, mice: int, state: str
) -> None:
    other = data.base.add_folder("J", "other")
    other.put(PLANTED, specimens("2013-11-01.1", centre="J"))
    data.folder.put(PLANTED, specimens("2013-11-01.1", centre="J", mice=mice))
    data.base.crawl()
    other.path.rename(other.path.with_name("away"))
    data.base.run_session()
    assert data.states() == {PLANTED: state}


def test_what_the_own_source_lists_no_more_is_not_fetched_from_another_centre_s(data: DataInstallation) -> None:
    other = data.base.add_folder("J", "other")
    other.put("add/J.2013-11-01.2.impc.zip", specimens("2013-11-01.2", centre="J", first=50))
    data.folder.put(PLANTED, other.put(PLANTED, specimens("2013-11-01.1", centre="J")))
    data.base.crawl()
    assert unfetched(data) == []
    (other.path / PLANTED).unlink()
    data.base.crawl()
    assert unfetched(data) == [PLANTED]


# Delegations


@only_sqlite
def test_a_delegation_is_replaced_by_another_and_gives_rights_in_one_direction(data: DataInstallation) -> None:
    with writing(data.tracker) as connection:
        centres.delegate(connection, "H", "J", recorded_by="a")
        centres.delegate(connection, "H", "J", recorded_by="b", until=utc_now().date())
        assert [entry.recorded_by for entry in centres.list_delegations(connection)] == ["b"]
        assert centres.load_delegations(connection).rights_of("J").permit("H")
        assert not centres.load_delegations(connection).rights_of("H").permit("J")
        assert not centres.load_delegations(connection).rights_of(None).permit("H")
        centres.revoke_delegation(connection, "H", "J", revoked_by="c")
        assert [one.revoked_by for one in centres.list_delegations(connection, everything=True)] == ["b", "c"]


@only_sqlite
def test_a_delegation_ends_with_its_last_day(data: DataInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    in_writing(data.tracker, centres.delegate, "H", "J", recorded_by="a", until=utc_now().date())
    tomorrow = utc_now() + timedelta(days=1)
    monkeypatch.setattr(centres, "utc_now", lambda: tomorrow)
    assert not in_reading(data.tracker, centres.load_delegations).rights_of("J").permit("H")
    (entry,) = in_reading(data.tracker, centres.list_delegations, everything=True)
    assert not entry.in_force
