"""Reference data in the QC database: what is saved comes back as it was, and only the newest of a set is active."""

from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, func, select

from dcc.databases.transactions import insert_rows, writing
from dcc.errors import ReferenceDataError
from dcc.qc import models
from dcc.qc.reference import snapshots
from dcc.qc.reference.snapshots import active_snapshots, load_active, save
from dcc.reference.impress import Impress, Increment, Option, Parameter, ParameterType, Pipeline, Procedure, required_of
from dcc.reference.loading import ReferenceData, load_shipped
from dcc.reference.snapshots import Colonies, Colony, Projects, Provenance, Snapshot, StatusCodes, Strains
from tests.support.asking import column_in, in_reading, in_writing

WHEN = datetime(2026, 11, 20, 12)
BEYOND_BMP = "\U0001f401 µ – é"


def provenance(number: int = 1, when: datetime = WHEN) -> Provenance:
    return Provenance(f"http://reference.example/{number}", when, f"{number:064x}")


def projects(*names: str, number: int = 1, when: datetime = WHEN) -> Projects:
    return Projects(provenance(number, when), frozenset(names))


def parameter(key: str, **changes: Any) -> Parameter:
    values: dict[str, Any] = {"type": ParameterType.SERIES, "value_type": "FLOAT", "unit": "g", "is_required": True}
    values |= {"is_active": True, "options": (), "increments": (), "ontology_terms": ()}
    values |= {"qc_minimum": None, "qc_maximum": None}
    return Parameter(key=key, **values | changes)


def procedure(key: str, *parameters: Parameter, is_active: bool = True, name: str = "") -> Procedure:
    by_key = {each.key: each for each in parameters}
    return Procedure(key, is_active, by_key, required_of(by_key), name)


def impress(number: int = 1) -> Impress:
    """With all that can be said: options, increments, terms, procedures that differ between pipelines."""
    options = (Option("Yes", True), Option(BEYOND_BMP, False), Option("x" * 1_024, True))
    increments = (Increment("0", "float", "minutes", 0, True), Increment("", "repeat", "", 2, False))
    rich = parameter("A_001", options=options, increments=increments, qc_minimum=0.1, qc_maximum=1e-300)
    bare = parameter(
        "B_001", value_type="", unit="", is_required=False, is_active=False, name="Bare", is_important=True
    )
    terms = parameter("C_001", type=ParameterType.ONTOLOGY, ontology_terms=("MP:2", "MP:1", "MP:2"))
    fewer = replace(terms, retired_terms=frozenset({"MP:2"}))
    shared = procedure("P_001", rich, bare, name="Shared")
    pipelines = (
        Pipeline("ONE_001", {"P_001": shared, "Q_001": procedure("Q_001", terms, is_active=False)}, "One"),
        Pipeline("TWO_001", {"P_001": shared, "Q_001": procedure("Q_001", terms, replace(rich, options=()))}),
        Pipeline("THREE_001", {"P_001": procedure("P_001"), "Q_001": procedure("Q_001", replace(fewer, unit="s"))}),
        Pipeline("EMPTY_001", {}),
    )
    return Impress(provenance(number), {pipeline.key: pipeline for pipeline in pipelines})


COLONIES = (
    Colony("c1", "HMGU", "Phenotyping Complete", date(2012, 3, 4), "MGI:1", "MGI:2", "Nf1", "MGI:3", "Nf1<tm1a>"),
    Colony("c1", "JAX", "Phenotyping Started", None),
)
EVERY_KIND = (
    impress(),
    StatusCodes(provenance(2), {"IMPC_PSC_001": BEYOND_BMP, "IMPC_PSC_016": ""}),
    projects("BaSH", "a\\b\t\n'c'", number=3),
    Colonies(provenance(4), {"c1": COLONIES, "C1": (replace(COLONIES[1], colony_id="C1"),)}),
    Strains(provenance(5), {"MGI:2159965": "C57BL/6N", "MGI:1": ""}),
)


@pytest.mark.both_databases
def test_what_was_saved_is_loaded_as_it_was(qc_database: Engine) -> None:
    """All that can be said, and then the set that is shipped."""
    for saved in (ReferenceData(*EVERY_KIND), load_shipped()):
        with writing(qc_database) as connection:
            ids = {snapshot.name: save(connection, snapshot) for snapshot in saved}
        assert in_reading(qc_database, load_active) == snapshots.ActiveReference(saved, ids)


def test_what_is_found_unchanged_is_only_noted(qc_database: Engine) -> None:
    later = datetime(2026, 11, 21, 12)
    first = in_writing(qc_database, save, projects("BaSH"))
    with writing(qc_database) as connection:
        assert save(connection, projects("BaSH", when=later).with_source("http://elsewhere.example/")) == first
        assert save(connection, projects("BaSH", when=datetime(2026, 11, 1)).with_source("/there")) == first
        (stored,) = active_snapshots(connection).values()
        assert load_active(connection).data.projects == projects("BaSH").with_source("/there")
    assert (stored.retrieved, stored.checked, stored.source) == (WHEN, later, "/there")


@pytest.mark.both_databases
def test_what_has_changed_takes_the_place_of_what_was_active(qc_database: Engine) -> None:
    with writing(qc_database) as connection:
        first = save(connection, projects("BaSH"))
        other = save(connection, EVERY_KIND[1])
        second = save(connection, projects("BaSH", "JAX", number=2))
    with qc_database.connect() as connection:
        active = load_active(connection)
        kept = select(func.count()).select_from(models.PROJECT).where(models.PROJECT.c.snapshot_id == first)
        assert connection.scalar(kept) == 1, "what the old one said can still be looked up"
    assert active.snapshot_ids == {"projects": second, "status_codes": other}
    assert active.data.projects == projects("BaSH", "JAX", number=2)


def _finding_of(connection: Connection, snapshot_id: int) -> None:
    row = {"rule": "S12", "severity": "warning", "message": "?", "snapshot_id": snapshot_id, "created": WHEN}
    insert_rows(connection, models.FINDING, [row])


@pytest.mark.both_databases
def test_old_snapshots_go_but_for_the_last_few_and_those_that_findings_name(qc_database: Engine) -> None:
    ids = []
    with writing(qc_database) as connection:
        strains = save(connection, EVERY_KIND[4])
        for number in range(10, 20):
            ids.append(save(connection, projects("BaSH", number=number)))
            if number == 12:
                _finding_of(connection, ids[-1])
    left = column_in(qc_database, select(models.SNAPSHOT.c.id).order_by(models.SNAPSHOT.c.id))
    assert set(column_in(qc_database, select(models.PROJECT.c.snapshot_id))) == set(left) - {strains}
    assert left == [strains, ids[2], *ids[-4:]]


@pytest.mark.both_databases
def test_what_the_database_cannot_hold_is_refused_and_what_was_active_stays(qc_database: Engine) -> None:
    too_large = parameter("R", increments=(Increment("", "", "", 2**31, True),))
    cases: list[tuple[Snapshot, str]] = [
        (projects("x" * 129), "name 'xxx.* 129 characters, of which 128"),
        (projects("\ud800"), "no text"),
        (StatusCodes(provenance(), {"A": "é" * 40_000}), "80,000 bytes"),
        (projects("BaSH").with_source("/" * 1_025), "source"),
        (Impress(provenance(), {"P": Pipeline("P", {"Q": procedure("Q", too_large)})}), "too large"),
    ]
    first = in_writing(qc_database, save, projects("BaSH", number=9))
    for snapshot, said in cases:
        with pytest.raises(ReferenceDataError, match=said), writing(qc_database) as connection:
            save(connection, snapshot)
        assert in_reading(qc_database, load_active).snapshot_ids == {"projects": first}
