"""Views of the QC database: current data, for analysts; and the overviews for quality control.

A view that changes needs a revision of its own (`dcc.qc.upgrades`), with which all are made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Column, MetaData, String, Table

from dcc.databases.columns import BIG

OVERVIEW_STRAIN: Final = Table(
    "overview_strain",
    MetaData(),
    Column("strain_id", String, primary_key=True),
    Column("name", String),
    Column("specimens", BIG),
)
"""The view of strains of current, valid specimens, and their numbers, all centres together."""

# The experiment, line or housing of a procedure run, and whether that is current.
_OWNERS = """
LEFT JOIN experiment e ON r.owner_kind = 'experiment' AND e.id = r.owner_id
LEFT JOIN line l ON r.owner_kind = 'line' AND l.id = r.owner_id
LEFT JOIN housing h ON r.owner_kind = 'housing' AND h.id = r.owner_id
"""
_IS_CURRENT = "WHERE COALESCE(e.is_current, l.is_current, h.is_current) = 1"
_OF_RUN = "CASE COALESCE(e.validity, l.validity, h.validity)"
_IS_VALID = "WHEN 1 THEN 1 WHEN 2 THEN 0 WHEN 3 THEN 0 END AS is_valid"
_OF_OWNER = """
COALESCE(e.centre, l.centre, h.centre) AS centre, COALESCE(e.pipeline, l.pipeline, h.pipeline) AS pipeline,
COALESCE(e.project, l.project, h.project) AS project, l.colony_id AS line_colony_id, e.experiment_id,
e.sequence_id AS experiment_sequence_id, e.date,
(SELECT CASE WHEN COUNT(*) = 1 THEN MIN(x.specimen_id) END FROM experiment_specimen x WHERE x.experiment_row = e.id)
AS specimen_id, r.procedure_id
"""
# Columns of a run are read from it rather than from each measurement, which repeats them: the run has indexes.
_VIEWS = {
    "current_specimen": f"""
SELECT s.id, s.centre, s.specimen_id, s.kind, s.is_baseline, s.gender, s.zygosity, s.litter_id, s.pipeline, s.project,
s.phenotyping_centre, s.production_centre, s.colony_id, s.strain_id, s.dob, s.stage, s.stage_unit, s.status_code,
s.status_date, CASE s.validity {_IS_VALID}, s.lexical, s.document_id, s.line FROM specimen s WHERE s.is_current = 1
""",  # noqa: S608
    "current_experiment": f"""
SELECT e.id, e.centre, e.pipeline, e.project, e.experiment_id, e.sequence_id, e.date, e.procedure_id,
(SELECT COUNT(*) FROM experiment_specimen x WHERE x.experiment_row = e.id) AS specimens,
(SELECT CASE WHEN COUNT(*) = 1 THEN MIN(x.specimen_id) END FROM experiment_specimen x WHERE x.experiment_row = e.id)
AS specimen_id, CASE e.validity {_IS_VALID}, e.lexical, e.document_id, e.line
FROM experiment e WHERE e.is_current = 1
""",  # noqa: S608
    "current_measurement": f"""
SELECT m.id, m.centre, m.pipeline, m.project, COALESCE(l.colony_id, s.colony_id) AS colony_id, s.strain_id,
s.is_baseline, s.gender, s.zygosity, s.dob, m.specimen_id, m.experiment_id, e.sequence_id AS experiment_sequence_id,
m.date, r.procedure_id, m.parameter_id, m.type, m.sequence_id, m.position, m.item, m.increment, m.increment_status,
m.value, m.number, m.unit, m.status, {_OF_RUN} {_IS_VALID}, m.fingerprint,
r.owner_kind, r.owner_id, m.procedure_run_id, r.document_id, m.line
FROM measurement m JOIN procedure_run r ON r.id = m.procedure_run_id {_OWNERS}
LEFT JOIN specimen s ON s.centre = m.centre AND s.specimen_id = m.specimen_id AND s.is_current = 1 {_IS_CURRENT}
""",  # noqa: S608
    "current_media": f"""
SELECT d.id, {_OF_OWNER}, {_OF_RUN} {_IS_VALID}, d.parameter_id, d.type, d.position, d.item, d.sample_position,
d.sample_id, d.section_position, d.section_id, d.local_id, d.increment, d.uri, d.file_type, d.link, d.status,
r.owner_kind, r.owner_id, d.procedure_run_id, r.document_id, d.line
FROM media d JOIN procedure_run r ON r.id = d.procedure_run_id {_OWNERS} {_IS_CURRENT}
""",  # noqa: S608
    "current_metadata": f"""
SELECT d.id, {_OF_OWNER}, {_OF_RUN} {_IS_VALID}, d.owner_kind AS of_kind, d.owner_id AS of_id, d.position,
d.parameter_id, d.sequence_id, d.value, d.status, r.owner_kind, r.owner_id, d.procedure_run_id, r.document_id, d.line
FROM metadata d JOIN procedure_run r ON r.id = d.procedure_run_id {_OWNERS} {_IS_CURRENT}
""",  # noqa: S608
    "overview_strain": """
SELECT g.strain_id, MAX(k.name) AS name, CAST(SUM(g.specimens) AS SIGNED) AS specimens
FROM overview_genotype g LEFT JOIN build_basis b ON b.build = 'overviews' AND b.name = 'strains'
LEFT JOIN known_strain k ON k.snapshot_id = b.snapshot_id AND k.strain_id = g.strain_id
WHERE g.strain_id <> '' GROUP BY g.strain_id
""",
    "overview_measurement": """
SELECT m.id, a.centre, a.pipeline, a.project, a.genotype, a.strain_id, a.is_baseline, a.specimen_id, a.gender,
a.zygosity, a.date, a.procedure_id, m.parameter_id, m.type, m.sequence_id, m.increment, m.value, m.number, m.unit,
a.metadata_group, a.procedure_run_id, m.document_id
FROM overview_animal_procedure a JOIN measurement m ON m.procedure_run_id = a.procedure_run_id
""",
    "overview_comparison": """
SELECT a.centre, a.pipeline, a.procedure_id, a.strain_id, a.metadata_group, a.genotype, a.specimen_id, a.gender,
a.zygosity, a.date, a.procedure_run_id, b.specimen_id AS baseline_specimen_id, b.gender AS baseline_gender,
b.date AS baseline_date, b.procedure_run_id AS baseline_run_id
FROM overview_animal_procedure a JOIN overview_animal_procedure b ON b.centre = a.centre AND b.pipeline = a.pipeline
AND b.strain_id = a.strain_id AND b.procedure_id = a.procedure_id AND b.metadata_group = a.metadata_group
AND b.is_baseline = 1 WHERE a.is_baseline = 0 AND a.strain_id <> ''
""",
}
_SAME_ANIMAL = "s.specimen_id = m.specimen_id"


def views(dialect: str) -> Mapping[str, str]:
    """The query of each view, by its name."""
    queries = {name: query.strip() for name, query in _VIEWS.items()}
    if dialect != "sqlite":
        # MySQL and MariaDB ignore trailing blanks in comparisons. SQLite would take a tenth longer with this condition.
        exact = f"{_SAME_ANIMAL} AND LENGTH(s.specimen_id) = LENGTH(m.specimen_id)"
        queries["current_measurement"] = queries["current_measurement"].replace(_SAME_ANIMAL, exact)
    return queries
