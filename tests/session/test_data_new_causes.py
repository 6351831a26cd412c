"""Documents judged again by the next session because reference data or waivers have changed, each once for a cause."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.judging.waiver_store import add_waiver, revoke_waiver
from dcc.qc.models import CONTEXT, DOCUMENT, WAIVER
from dcc.qc.reference.refresh import RefreshOutcome, refresh
from dcc.rules.waivers import Waiver
from dcc.session.data.corrections import recheck
from dcc.vocabulary import WaiverEffect
from tests.support.asking import execute_in, in_writing, rows_in
from tests.support.data_installations import EXPERIMENTS, SPECIMENS, DataInstallation, experiments, specimens

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
    data.put(ZIP, experiments())
    data.run()
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
    data.put(ZIP, experiments())
    data.run()
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
