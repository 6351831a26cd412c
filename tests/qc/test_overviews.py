"""What the overviews show, on each database; and that they are what a rebuild from nothing would show."""

import json
import random
from hashlib import md5
from typing import Any

import pytest
from sqlalchemy import Engine, delete, insert, select, update

from dcc.databases.transactions import writing
from dcc.documents.contents import Experiment, MediaParameter, Metadata
from dcc.naming import Action
from dcc.qc import models
from dcc.qc.contexts import builds
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.metadata_groups import group_of
from dcc.qc.contexts.overviews import build_overviews
from tests.support.asking import rows_in
from tests.support.databases import only_mariadb
from tests.support.qc_contexts import (
    OVERVIEWS,
    TABLES,
    assert_contexts_are_right,
    know,
    know_colonies,
    know_important_metadata,
    submit,
)
from tests.support.qc_documents import experiment, housing, line, specimen

CENTRE = "H"


def build(engine: Engine) -> None:
    build_contexts(engine)
    build_overviews(engine)


def rows_of(engine: Engine, name: str) -> list[dict[str, Any]]:
    table = TABLES[name]
    return [dict(row._mapping) for row in rows_in(engine, select(table).order_by(*table.primary_key))]


def under(name: str, *values: str | None, **options: Any) -> Experiment:
    """An experiment with these values of the metadata parameter IMPC_CBC_003_001, and so on."""
    made = experiment(name, **options)
    assert made.procedure is not None
    metadata = [Metadata(9, f"IMPC_CBC_00{place}_001", None, None, value) for place, value in enumerate(values, 3)]
    return made._replace(procedure=made.procedure._replace(metadata=tuple(metadata)))


def test_genotypes_and_strains_count_current_valid_specimens(qc_database: Engine) -> None:
    names = {"MGI:7": "C57BL/6N", "MGI:9": "of no animal"}
    know(qc_database, "strains", "known_strain", [{"strain_id": key, "name": name} for key, name in names.items()])
    know_colonies(qc_database, C1="MGI:7")
    wild = specimen("W", is_baseline="true", colony_id=None, strain_id="MGI:8")
    others = (specimen("no"), specimen("unknown", colony_id=None))
    submit(qc_database, Action.ADD, specimen("A"), specimen("B"), wild, *others, faulty=[4])
    build(qc_database)
    (baseline, mutant, unknown) = sorted(
        rows_of(qc_database, "overview_genotype"), key=lambda row: -len(row["genotype"])
    )
    assert (unknown["genotype"], unknown["strain_id"], unknown["specimens"]) == ("", "", 1)
    assert (baseline["genotype"], baseline["strain_id"], baseline["specimens"]) == ("baseline", "MGI:8", 1)
    assert (mutant["genotype"], mutant["strain_id"], mutant["specimens"]) == ("C1", "MGI:7", 2)
    assert (mutant["gene_id"], mutant["gene_symbol"], mutant["allele_id"]) == ("MGI:C1", "gene C1", "MGI:aC1")
    assert rows_of(qc_database, "overview_strain") == [
        {"strain_id": "MGI:7", "name": "C57BL/6N", "specimens": 2},
        {"strain_id": "MGI:8", "name": None, "specimens": 1},
    ]


def test_genotypes_are_told_apart_to_the_letter_and_by_centre(qc_database: Engine) -> None:
    """With those of baseline animals and of unknown colonies, for which all of a centre is looked at, and without."""
    names = ["C1", "c1", "C1!", 'it\'s "so" \\ %s :x', "\u00e9", "\U0001f42d", "baseline"]
    mutants = [specimen(f"S{place}", colony_id=name) for place, name in enumerate(names)]
    behind = specimen("behind", colony_id="C1  ", strain_id="MGI:1 ")
    submit(qc_database, Action.ADD, *mutants, behind)
    submit(qc_database, Action.ADD, specimen("elsewhere"), centre="J")
    build(qc_database)

    def shown() -> dict[tuple[str, str, str], int]:
        rows = rows_of(qc_database, "overview_genotype")
        return {(row["centre"], row["genotype"], row["strain_id"]): row["specimens"] for row in rows}

    expected = {(CENTRE, name, ""): 1 for name in names} | {(CENTRE, "C1", "MGI:1"): 1, ("J", "C1", ""): 1}
    assert shown() == expected
    wild = specimen("W", is_baseline="true", colony_id="C1")
    submit(qc_database, Action.ADD, wild, specimen("unknown", colony_id=None), specimen("C1 too"))
    build(qc_database)
    expected |= {(CENTRE, "baseline", ""): 2, (CENTRE, "", ""): 1, (CENTRE, "C1", ""): 2}
    assert shown() == expected
    forget_overviews(qc_database)
    build(qc_database)
    assert shown() == expected


def test_procedure_runs_are_shown_with_each_of_their_animals(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, specimen("A", gender="female"), specimen("W", is_baseline="true"))
    submit(qc_database, Action.ADD, experiment("E1", ["A", "W"]), line("C1"), housing())
    build(qc_database)
    shown = [
        (row["specimen_id"], row["genotype"], row["is_baseline"], row["gender"], row["measurements"])
        for row in rows_of(qc_database, "overview_animal_procedure")
    ]
    assert shown == [("A", "C1", False, "female", 1), ("W", "baseline", True, "male", 1), (None, "C1", None, None, 1)]


def test_a_metadata_group_is_the_md5_of_important_metadata_of_the_procedure_in_its_pipeline(
    qc_database: Engine,
) -> None:
    names = {"IMPC_CBC_003_001": "Equipment", "IMPC_CBC_004_001": "Equipment (maker)"}
    others = {f"IMPC_CBC_00{number}_001": f"other {number}" for number in (5, 6, 7)}
    know_important_metadata(qc_database, **names, **others)
    parameter, procedure = TABLES["impress_parameter"], TABLES["impress_procedure"]
    with writing(qc_database) as connection:
        changes = ({"is_important": False}, {"type": "simpleParameter"}, {"procedure_variant": 2})
        for number, change in enumerate(changes, 5):
            of_other = parameter.c.parameter_id == f"IMPC_CBC_00{number}_001"
            connection.execute(update(parameter).where(of_other).values(change))
        (known,) = connection.execute(select(procedure)).mappings().all()
        connection.execute(insert(procedure).values({**known, "pipeline": "OTHER_001", "variant": 2}))
    centres = {"phenotyping_centre": CENTRE, "production_centre": CENTRE}
    elsewhere = specimen("made elsewhere", **{**centres, "production_centre": "J"})
    submit(qc_database, Action.ADD, specimen("S1", **centres), elsewhere)
    ignored = ("not important", "no metadata", "of another pipeline")
    pictured = under("E2", "Sysmex", None, *ignored, specimens=["made elsewhere"])
    assert pictured.procedure is not None
    of_picture = (Metadata(9, "IMPC_CBC_003_001", None, None, "of the picture"),)
    picture = MediaParameter(9, "IMPC_CBC_050_001", "a.png", "image/png", None, None, (), of_picture)
    pictured = pictured._replace(procedure=pictured.procedure._replace(media=(picture,)))
    submit(qc_database, Action.ADD, under("E1", "Sysmex", None, *ignored), pictured, under("E3"))
    build(qc_database)
    expected = [
        "Equipment (maker) = null::Equipment = Sysmex",
        "Equipment (maker) = null::Equipment = Sysmex::ProductionCenter = J",
    ]
    sums = [md5(items.encode()).hexdigest() for items in [*expected, ""]]
    assert [row["metadata_group"] for row in rows_of(qc_database, "overview_animal_procedure")] == sums
    groups = {row["checksum"]: json.loads(row["content"]) for row in rows_of(qc_database, "metadata_group")}
    assert groups[sums[1]] == {"Equipment (maker)": "null", "Equipment": "Sysmex", "ProductionCenter": "J"}
    assert groups[sums[2]] == {}


def test_new_reference_data_rebuild_everything(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, specimen("S1"))
    submit(qc_database, Action.ADD, under("E1", "Sysmex"), line("C1"))
    build(qc_database)
    know_important_metadata(qc_database, IMPC_CBC_003_001="Equipment")
    know_colonies(qc_database, C1="MGI:7")
    build(qc_database)
    group = md5(b"Equipment = Sysmex").hexdigest()
    assert [(row["strain_id"], row["metadata_group"]) for row in rows_of(qc_database, "overview_animal_procedure")] == [
        ("MGI:7", group),
        ("MGI:7", group_of([]).checksum),
    ]
    assert [row["strain_id"] for row in rows_of(qc_database, "overview_genotype")] == ["MGI:7"]


def test_new_names_of_strains_are_shown_and_rebuild_nothing(qc_database: Engine) -> None:
    know(qc_database, "strains", "known_strain", [{"strain_id": "MGI:7", "name": "before"}])
    submit(qc_database, Action.ADD, specimen("S1", strain_id="MGI:7"))
    build(qc_database)
    know(qc_database, "strains", "known_strain", [{"strain_id": "MGI:7", "name": "now"}])
    assert build_overviews(qc_database).centres == {}
    assert [row["name"] for row in rows_of(qc_database, "overview_strain")] == ["now"]


@pytest.mark.both_databases
def test_mutants_are_compared_with_baselines_under_the_same_circumstances(qc_database: Engine) -> None:
    know_important_metadata(qc_database, IMPC_CBC_003_001="Equipment")
    wild = [specimen(name, is_baseline="true", colony_id=None, strain_id=strain) for name, strain in WILD.items()]
    mutants = [specimen("mutant", strain_id="MGI:1"), specimen("without strain", colony_id=None)]
    submit(qc_database, Action.ADD, *mutants, *wild)
    submit(qc_database, Action.ADD, *wild[:1], centre="J")
    same = ["mutant", "without strain", *WILD]
    submit(
        qc_database,
        Action.ADD,
        *(under(name, "Sysmex", specimens=[name], value=str(value)) for value, name in enumerate(same, 1)),
        under("E1", "Advia", specimens=["like"]),
        under("E2", "Sysmex", specimens=["like"], procedure_id="IMPC_BWT_001"),
    )
    submit(qc_database, Action.ADD, under("E1", "Sysmex", specimens=["like"]), centre="J")
    build(qc_database)
    shown = TABLES["overview_animal_procedure"]
    of_other = shown.c.specimen_id == "other pipeline"
    with writing(qc_database) as connection:
        connection.execute(update(shown).where(of_other).values(pipeline="OTHER_001"))
    compared = rows_in(qc_database, "SELECT centre, specimen_id, baseline_specimen_id FROM overview_comparison")
    assert compared == [(CENTRE, "mutant", "like")]
    columns = "specimen_id, genotype, strain_id, gender, zygosity, procedure_id, parameter_id, number"
    measured = rows_in(qc_database, f"SELECT {columns} FROM overview_measurement ORDER BY id")
    assert len(measured) == len(same) + 3
    what = ("IMPC_CBC_001", "IMPC_CBC_001_001")
    assert measured[:3] == [
        ("mutant", "C1", "MGI:1", "male", "homozygous", *what, 1.0),
        ("without strain", "", "", "male", "homozygous", *what, 2.0),
        ("like", "baseline", "MGI:1", "male", "homozygous", *what, 3.0),
    ]


WILD = {"like": "MGI:1", "other strain": "MGI:2", "other pipeline": "MGI:1", "without strain, too": None}
"""The strains of baseline animals."""


@pytest.mark.parametrize("action", [Action.EDIT, Action.DELETE])
def test_what_was_rebuilt_in_part_is_what_a_rebuild_from_nothing_shows(qc_database: Engine, action: Action) -> None:
    know_important_metadata(qc_database, IMPC_CBC_003_001="Equipment")
    submit(
        qc_database,
        Action.ADD,
        specimen("S1", strain_id="MGI:1"),
        specimen("S2", colony_id="C2"),
        specimen("S3", colony_id="C3 "),
    )
    submit(qc_database, Action.ADD, under("E1", "a"), under("E2", "b", specimens=["S2", "S3"]), line("C1"))
    build(qc_database)
    submit(qc_database, action, under("E1", "c"))
    submit(qc_database, Action.EDIT, specimen("S2", colony_id="C3", is_baseline="false"))
    build(qc_database)
    in_part = overviews_of(qc_database)
    forget_overviews(qc_database)
    build_overviews(qc_database)
    assert overviews_of(qc_database) == in_part
    assert all(in_part)


def overviews_of(engine: Engine) -> list[list[dict[str, Any]]]:
    """All rows of all overviews."""
    return [rows_of(engine, name) for name in OVERVIEWS]


def forget_overviews(engine: Engine) -> None:
    """Have the overviews built from nothing."""
    with writing(engine) as connection:
        for name in OVERVIEWS:
            if name in models.QcBase.metadata.tables:
                connection.execute(delete(TABLES[name]))
        connection.execute(update(TABLES["document"]).values(overviews_built=False))


def change(engine: Engine, chosen: random.Random) -> None:
    """Add, edit and delete a few animals and experiments, of the newest documents and of old ones."""
    for _ in range(chosen.randint(3, 6)):
        action = chosen.choice([Action.ADD, Action.ADD, Action.EDIT, Action.DELETE])
        numbers = chosen.sample(range(8), 3)
        if chosen.random() < 0.4:
            colony = chosen.choice(["C1", "C2", None])
            submit(engine, action, *(specimen(f"S{number}", colony_id=colony) for number in numbers))
        else:
            equipment = chosen.choice(["Sysmex", "Advia"])
            made = [under(f"E{one}", equipment, specimens=[f"S{one}"], value=str(one)) for one in numbers]
            submit(engine, action, *made, faulty=chosen.sample([1, 2, 3], 1) if chosen.random() < 0.2 else ())


@only_mariadb
def test_built_in_parts_they_are_what_they_are_built_at_once(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few documents a transaction takes, and whatever was known of colonies and metadata before."""
    monkeypatch.setattr(builds, "DOCUMENTS_AT_ONCE", 2)
    chosen = random.Random(8)
    for strain in ("MGI:1", "MGI:7", "MGI:7", "MGI:7"):
        know_colonies(qc_database, C1=strain)
        know_important_metadata(qc_database, IMPC_CBC_003_001="Equipment")
        change(qc_database, chosen)
        build(qc_database)
        change(qc_database, chosen)
        build(qc_database)
        assert_contexts_are_right(qc_database)
    in_part = overviews_of(qc_database)
    assert in_part[0]
    forget_overviews(qc_database)
    build_overviews(qc_database)
    assert overviews_of(qc_database) == in_part
