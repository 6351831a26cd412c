"""Documents judged again because reference data or waivers changed, and those that the tracker counts no more."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest
from sqlalchemy import Table, delete, func, select, update

from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError
from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.judging.waiver_store import add_waiver, revoke_waiver
from dcc.qc.models import CONTEXT, DOCUMENT, WAIVER
from dcc.qc.reference.refresh import RefreshOutcome, refresh
from dcc.rules.waivers import Waiver
from dcc.session.data.judgement_phase import documents_to_judge_now
from dcc.session.data.quality_control import update_qc_states
from dcc.session.data.rechecks import recheck
from dcc.tracker import progress
from dcc.tracker.models import XmlFile, ZipAction
from dcc.tracker.register.centres import CentreDetails, add_centre, change_centre, imits_names
from dcc.vocabulary import WaiverEffect
from tests.support.asking import execute_in, in_reading, in_writing, rows_in
from tests.support.data_installations import EXPERIMENTS, SPECIMENS, DataInstallation, experiments, specimens
from tests.support.judging_cases import IS_VALID

ZIP = "add/H.2013-10-31.1.impc.zip"
OTHERS = "add/J.2013-10-31.1.impc.zip"


def refresh_colonies(data: DataInstallation, *lines: str) -> None:
    """Have the colonies that the settings name be these, and read them."""
    path = Path(str(data.settings.reference_colonies))
    heading, *_ = shipped_colonies()
    path.write_text("\n".join([heading, *lines]), "utf-8")
    (refreshed,) = refresh(data.qc, data.settings, ["colonies"], force=True)
    assert refreshed.outcome is RefreshOutcome.NEW


def shipped_colonies() -> list[str]:
    shipped = files("dcc.reference") / "shipped" / "colonies.csv"
    return shipped.read_text("utf-8").splitlines()


@pytest.fixture
def unregistered(data: DataInstallation, tmp_path: Path) -> DataInstallation:
    """Documents of two centres, and the colonies of H are not registered."""
    data = data.with_settings(reference_colonies=str(tmp_path / "colonies.csv"))
    refresh_colonies(data, *[line for line in shipped_colonies()[1:] if not line.startswith("H-")])
    data.put(ZIP, specimens(), experiments())
    data.base.add_folder("J", "others").put(OTHERS, specimens(centre="J") | experiments(centre="J"))
    data.run()
    assert data.documents()[SPECIMENS] == "data failed"
    assert data.log(SPECIMENS).count("S4") == 3
    return data


def judged(data: DataInstallation) -> list[str]:
    """The documents that a session judges."""
    zips = [told for told in data.take_up().zips if told.reached is Phase.DATA]
    return sorted({one.file_name for told in zips for one in told.documents})


def genotypes(data: DataInstallation, centre: str) -> dict[str, int]:
    """The measurements that contexts of a centre count, by genotype."""
    counted = select(CONTEXT.c.genotype, func.sum(CONTEXT.c.measurements)).where(CONTEXT.c.centre == centre)
    return {genotype: int(number) for genotype, number in rows_in(data.qc, counted.group_by(CONTEXT.c.genotype))}


def test_documents_are_judged_again_when_the_reference_data_that_they_failed_by_are_newer(
    unregistered: DataInstallation,
) -> None:
    """Once by each: S4 heals when the colony is registered; nobody has to ask for it."""
    assert judged(unregistered) == []
    refresh_colonies(unregistered, *[line for line in shipped_colonies()[1:] if not line.startswith(("H-", "Bcm-"))])
    assert judged(unregistered) == [SPECIMENS]
    assert unregistered.documents()[SPECIMENS] == "data failed"
    assert judged(unregistered) == []
    assert_that_experiments_count(unregistered, are_counted=False)
    refresh_colonies(unregistered, *shipped_colonies()[1:])
    assert judged(unregistered) == [SPECIMENS]
    assert unregistered.documents()[SPECIMENS] == "qc done"
    assert unregistered.log(SPECIMENS) == []
    assert unregistered.log(SPECIMENS, cleared=True).count("S4") == 3
    assert_that_experiments_count(unregistered)
    assert judged(unregistered) == []


@pytest.mark.parametrize("wrong", [None, "Praha"])
def test_documents_are_judged_again_when_the_name_of_their_centre_is_registered_or_corrected(
    data: DataInstallation, tmp_path: Path, wrong: str | None
) -> None:
    data = data.with_settings(reference_colonies=str(tmp_path / "colonies.csv"))
    refresh_colonies(data, *[line.replace(",Ph,", ",Prague,") for line in shipped_colonies()[1:]])
    document = specimens(centre="Ph")
    in_writing(data.tracker, add_centre, CentreDetails("Ph", "Institute of Molecular Genetics", imits_name=wrong))
    data.base.add_folder("Ph", "others").put("add/Ph.2013-10-31.1.impc.zip", document)
    data.run()
    (name,) = document
    assert set(data.log(name)) == {"S6"}
    assert (data.documents()[name] == "data failed") == (wrong is not None)
    assert judged(data) == []
    in_writing(data.tracker, change_centre, "Ph", imits_name="Prague")
    assert len(in_reading(data.qc, documents_to_judge_now, in_reading(data.tracker, imits_names))) == 1
    assert judged(data) == [name]
    assert data.log(name) == []
    assert data.documents()[name] == "qc done"
    assert judged(data) == []


def assert_that_experiments_count(data: DataInstallation, *, are_counted: bool = True) -> None:
    """Once the colony of their animals is in order; they have no finding of their own."""
    assert data.log(EXPERIMENTS) == []
    assert {row[0] for row in data.rows(models.OVERVIEW_ANIMAL, "centre")} == ({"H", "J"} if are_counted else {"J"})
    validity = {row[1] for row in data.rows(models.EXPERIMENT, "centre", "validity") if row[0] == "H"}
    assert validity == ({1} if are_counted else {3})
    counted = genotypes(data, "H")
    assert genotypes(data, "J") != {}
    assert bool(counted.keys() - {"baseline"}) == are_counted
    assert "" not in counted
    assert data.documents()[EXPERIMENTS] == ("qc pending" if are_counted else "qc done")


def _waived(data: DataInstallation) -> None:
    waiver = Waiver("S4", WaiverEffect.WAIVE, "they are being registered", "a wrangler", today().date())
    in_writing(data.qc, add_waiver, waiver, today().date())


def _told_to_recheck(data: DataInstallation) -> None:
    refresh_colonies(data, *shipped_colonies()[1:])
    recheck(data.tracker, data.qc, data.settings, centre="H", author="a wrangler", reason="registered")


@pytest.mark.parametrize("heal", [_waived, _told_to_recheck])
def test_experiments_count_once_the_colony_of_their_animals_is_waived_or_judged_anew(
    unregistered: DataInstallation, heal: Callable[[DataInstallation], None]
) -> None:
    heal(unregistered)
    unregistered.take_up()
    assert_that_experiments_count(unregistered)


def today() -> datetime:
    return datetime.now(UTC)


def give(data: DataInstallation, *, begins_in: int = 0, effect: WaiverEffect = WaiverEffect.WAIVE) -> int:
    begins = (today() + timedelta(days=begins_in)).date()
    waiver = Waiver("E4", effect, "the animals are on their way", "a wrangler", begins, None, None, None)
    return in_writing(data.qc, add_waiver, waiver, today().date())


@pytest.mark.parametrize("effect", WaiverEffect)
def test_a_waiver_takes_effect_on_what_was_judged_before_and_ends_when_it_is_revoked(
    data: DataInstallation, effect: WaiverEffect
) -> None:
    data.run(ZIP, experiments())
    assert data.documents() == {EXPERIMENTS: "data failed"}
    number = give(data, effect=effect)
    assert judged(data) == [EXPERIMENTS]
    assert data.documents() == {EXPERIMENTS: "qc pending"}
    assert judged(data) == []
    in_writing(data.qc, revoke_waiver, number, author="a wrangler", reason="they came")
    assert judged(data) == [EXPERIMENTS]
    assert data.documents() == {EXPERIMENTS: "data failed"}
    assert judged(data) == []


def test_a_waiver_takes_effect_on_the_day_on_which_it_begins(data: DataInstallation) -> None:
    data.run(ZIP, experiments())
    number = give(data, begins_in=5)
    assert judged(data) == []
    execute_in(
        data.qc,
        update(WAIVER).where(WAIVER.c.id == number).values(valid_from=today().date()),
        update(WAIVER).values(created=today().replace(tzinfo=None) - timedelta(days=9)),
        update(DOCUMENT).values(judged_at=today().replace(tzinfo=None) - timedelta(days=2)),
    )
    assert judged(data) == [EXPERIMENTS]
    assert judged(data) == []


LATER = "add/H.2013-11-05.1.impc.zip"
WHO = {"author": "someone", "reason": "A mistake."}


def active(data: DataInstallation) -> list[str]:
    return [rule for rule, is_active in data.rows(models.FINDING, "rule", "is_active") if is_active]


def valid(data: DataInstallation, table: Table = models.EXPERIMENT) -> set[bool | None]:
    return {IS_VALID[said] for current, said in data.rows(table, "is_current", "validity") if current}


def counted(data: DataInstallation) -> int:
    return sum(number for (number,) in data.rows(models.CONTEXT, "measurements"))


def take_beside(data: DataInstallation) -> None:
    """Have the changed archive taken while its data stand, as a retry did before that was refused."""
    with pytest.raises(ConfigurationError, match="dcc data undo"):
        data.base.process_again(ZIP)
    with writing(data.tracker) as connection:
        progress.reopen(connection, list(connection.scalars(select(ZipAction.id))), "an earlier version", "Asked for.")
    assert data.base.run_session().zips[ZIP].phase is Phase.XSD


def test_what_an_archive_brought_before_it_changed_heals_too(data: DataInstallation) -> None:
    """What stands is judged, whether the tracker counts the document or a newer one of its archive."""
    data.run(ZIP, experiments())
    data.validate(ZIP, experiments(animals=1, first=9))
    take_beside(data)
    data.take_up()
    assert valid(data) == {False}
    data.run(LATER, specimens("2013-11-05.1"))
    assert sorted(active(data)) == ["E4"]
    assert counted(data) == 3


def test_what_the_tracker_does_not_know_any_more_heals_too(data: DataInstallation) -> None:
    data.run(ZIP, experiments())
    execute_in(data.tracker, delete(XmlFile))
    data.run(LATER, specimens("2013-11-05.1"))
    assert active(data) == []
    assert counted(data) == 3


@pytest.mark.parametrize("is_known", [True, False])
def test_what_an_edit_ended_is_judged_as_it_was_when_the_edit_is_withdrawn(
    data: DataInstallation, is_known: bool
) -> None:
    """Also of an edit that the tracker does not know any more.

    An experiment without its animal; edited to be about one that is there; the edit is withdrawn.
    """
    data.put(LATER, specimens("2013-11-05.1"))
    data.run(ZIP, experiments(first=3, animals=2))
    assert active(data) == ["E4"]
    edit = "edit/H.2013-11-06.1.impc.zip"
    ((name, content),) = experiments("2013-11-06.1", first=3, animals=2).items()
    data.run(edit, {name: content.replace(b"H-M000004", b"H-M000001")})
    assert active(data) == []
    if not is_known:
        execute_in(data.tracker, delete(XmlFile).where(XmlFile.fname == name))
    data.withdraw(edit, **WHO)
    data.take_up()
    assert active(data) == ["E4"]
    assert data.documents()[EXPERIMENTS] == "data failed"


def test_a_row_of_a_tracker_that_was_lost_stands_for_no_document_of_the_new_one(data: DataInstallation) -> None:
    """The ids of a tracker that was made anew begin at 1 again."""
    data.validate(ZIP, specimens(), experiments(), experiments("2013-10-31.2", procedure="IMPC_CBC_001"))
    ids = dict(rows_in(data.tracker, select(XmlFile.fname, XmlFile.id)))
    of_j = {"zip_action": "edit", "zip_file": "J.2012-01-01.1.impc.zip", "kind": "specimen", "centre": "J"}
    of_j |= {"action": "edit", "md5": "0" * 32, "contexts_built": True, "overviews_built": True}
    for number, (state, (name, xml_id)) in enumerate(zip(("refused", "held", "undone"), ids.items(), strict=True), 1):
        row = {"id": number, "tracker_id": xml_id, "file_name": f"J.{number}.{name}", "state": state}
        execute_in(data.qc, DOCUMENT.insert().values(of_j | row))
    data.take_up()
    assert data.documents() == dict.fromkeys(ids, "qc pending") | {SPECIMENS: "qc done"}


def test_documents_are_not_done_because_the_qc_database_was_lost(data: DataInstallation) -> None:
    data.run(ZIP, specimens(), experiments())
    execute_in(data.qc, delete(models.SHARE), update(models.DOCUMENT).values(tracker_id=None))
    update_qc_states(data.tracker, data.qc, data.settings, **WHO)
    assert data.documents()[EXPERIMENTS] == "qc pending"
    data.take_up()
    assert data.documents()[EXPERIMENTS] != "qc done"


def test_contexts_are_as_if_built_anew_after_withdrawals_and_retries(data: DataInstallation) -> None:
    """Over whole sessions: the same documents in two archives and as an edit, withdrawn one by one."""
    edit = "edit/H.2013-10-31.1.impc.zip"
    for key in (ZIP, "add/H.2013-10-31.2.impc.zip"):
        data.put(key, specimens(), experiments())
    changed = {name: content.replace(b"-L0", b"-L1") for name, content in specimens().items()}
    data.run(edit, changed, experiments())
    assert data.states()["add/H.2013-10-31.2.impc.zip"] == "qc done"
    rebuilt(data, 3)
    for number, key in ((3, edit), (0, ZIP)):
        assert data.withdraw(key, **WHO).withdrawn
        data.take_up()
        assert data.states()[key] == "upload cancelled"
        rebuilt(data, number)
    data.retry(ZIP)
    assert data.states()[ZIP] == "qc pending"
    rebuilt(data, 3)
    assert data.withdraw(ZIP, **WHO).withdrawn
    data.take_up()
    rebuilt(data, 0)


def test_an_experiment_that_names_one_specimen_twice_counts_once(data: DataInstallation) -> None:
    ((name, content),) = experiments(animals=1).items()
    named = b"<specimenID>H-M000001</specimenID>"
    data.run(ZIP, specimens(), {name: content.replace(named, named * 2)})
    rebuilt(data, 1)


def rebuilt(data: DataInstallation, measurements: int) -> None:
    """Forget all contexts and build them anew: they are the same, with so many measurements."""
    names = [*CONTEXT.c.keys()]
    columns = [name for name in names if name not in {"id", "state", "data_state", "document_id", "changed", "created"}]
    before = [row for row in data.rows(models.CONTEXT, *columns) if row[columns.index("measurements")]]
    assert counted(data) == measurements
    with writing(data.qc) as connection:
        for model in (models.SHARE, models.HISTORY, models.CONTEXT, models.MEMBER):
            connection.execute(delete(model))
        connection.execute(update(models.DOCUMENT).values(contexts_built=False))
    build_contexts(data.qc)
    assert data.rows(models.CONTEXT, *columns) == before
