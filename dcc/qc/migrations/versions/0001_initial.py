"""The QC database's tables and the views of what is current.

Each table and index is made only where it is missing, so that an upgrade which broke off on MySQL or MariaDB can be
taken up again.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from dcc.databases.migrations.operations import make_missing

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

FAMILY = ("mysql", "mariadb")
TYPES: dict[str, Any] = {
    "big": sa.BigInteger().with_variant(mysql.BIGINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite"),
    "int": sa.Integer().with_variant(mysql.INTEGER(unsigned=True), *FAMILY),
    "signed": sa.Integer(),
    "small": sa.SmallInteger()
    .with_variant(mysql.SMALLINT(unsigned=True), *FAMILY)
    .with_variant(sa.Integer(), "sqlite"),
    "double": sa.Double().with_variant(mysql.DOUBLE(asdecimal=False), *FAMILY),
    "bool": sa.Boolean(),
    "date": sa.Date(),
    # MySQL's own type, because Dagster, where it is imported, changes what the general one becomes there.
    "time": sa.DateTime().with_variant(mysql.DATETIME(), *FAMILY),
    "text": sa.Text(),
    "longtext": sa.Text().with_variant(mysql.LONGTEXT(), *FAMILY),
}
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

# A table is its name, its columns and its keys. A column is its name and type, of which a number is the characters of
# a text and c32 says 32 of them always; `?` that it may be null; `key` that it is in the primary key; `counted` that
# the database gives it; `>document` that it is the id of a document, `in` that it goes with that row.
# The first table marks a database whose creation broke off as this platform's.
TABLES = """
write_receipt: writer c32 key, token big, written time
data_context: id big counted, centre 32, pipeline 64, genotype 128, strain_id 128, procedure_id 64, parameter_id 64,
  measurements big, checksum c32, state 16, data_state 16, issues big, document_id big? >document, created time,
  changed time;
  unique centre pipeline genotype strain_id procedure_id parameter_id; index parameter_id; index state;
  index document_id
context_history: id big counted, context_id big >data_context, event 16, state 16, measurements big, checksum c32,
  document_id big? >document, author 64?, reason 256?, created time; index context_id; index document_id
document_context: document_id big key >document, context_id big key >data_context, measurements big;
  index context_id
context_member: procedure_run_id big key >procedure_run, genotype 128 key, strain_id 128 key
context_issue: id big counted, context_id big >data_context, reason 256, raised_by 64, created time, resolved time?,
  resolved_by 64?, resolution 256?; index context_id
build_basis: build 16 key, name 32 key, snapshot_id big
metadata_group: checksum c32 key, content longtext
overview_strain: strain_id 128 key, name 255?, specimens big
overview_genotype: centre 32 key, genotype 128 key, strain_id 128 key, gene_id 128?, gene_symbol 128?, allele_id 128?,
  specimens big
overview_animal_procedure: procedure_run_id big key >procedure_run, position big key, centre 32, pipeline 64,
  project 128,
  procedure_id 64, specimen_id 255?, genotype 128, strain_id 128, is_baseline bool?, gender 16?, zygosity 16?,
  date date?, measurements big, metadata_group c32; index centre procedure_id strain_id metadata_group;
  index centre specimen_id;
  index metadata_group
document: id big key, tracker_id big?, zip_action 8, zip_file 128, file_name 128, kind 16, centre 32, created date?,
  inc big?, action 8, md5 c32?, size_bytes big?, state 8, late bool, applied_at time?, judged_at time?,
  judged_by 128?, contexts_built bool, overviews_built bool, undoes big? >document,
  author 64?, reason 256?, specimens int, experiments int, lines int, housings int, measurements int;
  unique tracker_id; index zip_file zip_action; index centre created; index state; index undoes;
  index contexts_built overviews_built
centre_block: id big key, document_id big >document, position int, centre 32, pipeline 64?, project 128?, line int;
  index document_id position
lifetime: id big key, entity_kind 16, entity_id big, opened_by big >document, ended_by big? >document;
  index entity_kind entity_id; index opened_by; index ended_by
status_code: id big key, owner_kind 16, owner_id big, position int, code 2000, date date?, lexical text?, line int;
  index owner_kind owner_id position
upload_lock: id small key, holder 128?, host 128?, pid signed?, acquired time?
experiment: id big key, block_id big >centre_block, document_id big >document, position int, line int, centre 32,
  pipeline 64, project 128, procedure_id 64?, experiment_id 255, sequence_id 255?, date date?, lexical text?,
  is_current bool, is_valid bool?; index block_id position; index document_id;
  index centre experiment_id sequence_id is_current
experiment_specimen: experiment_row big key >experiment, position big key, specimen_id 255, line int;
  index specimen_id
line: id big key, block_id big >centre_block, document_id big >document, position int, line int, centre 32,
  pipeline 64, project 128, procedure_id 64?, colony_id 128, sequence_id 255?, lexical text?, is_current bool,
  is_valid bool?;
  index block_id position; index document_id; index centre colony_id sequence_id is_current
housing: id big key, block_id big >centre_block, document_id big >document, position int, line int, centre 32,
  pipeline 64, project 128, procedure_id 64?, from_lims bool, last_updated date?, lexical text?, is_current bool,
  is_valid bool?;
  index block_id position; index document_id; index centre procedure_id is_current
procedure_run: id big key, document_id big >document, owner_kind 16, owner_id big, procedure_id 64, line int;
  index document_id; index owner_kind owner_id; index procedure_id
reference_snapshot: id big counted, name 32, retrieved time, checked time, source 1024, checksum 64,
  row_count int, is_active bool; index name is_active
impress_pipeline: snapshot_id big key in >reference_snapshot, pipeline 64 key, name 255?
impress_procedure: snapshot_id big key in >reference_snapshot, pipeline 64 key, procedure_id 64 key, variant int,
  name 255?, is_active bool
impress_parameter: snapshot_id big key in >reference_snapshot, procedure_id 64 key, procedure_variant int key,
  parameter_id 64 key, variant int, name 255?, type 24, value_type 16?, unit 255?, is_required bool,
  is_important bool, is_active bool, qc_minimum double?, qc_maximum double?
impress_option: snapshot_id big key in >reference_snapshot, parameter_id 64 key, variant int key, position big key,
  name 1024, is_active bool
impress_increment: snapshot_id big key in >reference_snapshot, parameter_id 64 key, variant int key,
  position big key, value 255, kind 16?, unit 255?, minimum signed, is_active bool
impress_ontology_option: snapshot_id big key in >reference_snapshot, parameter_id 64 key, variant int key,
  position big key, ontology_id 64
known_status_code: snapshot_id big key in >reference_snapshot, code 64 key, description text
known_project: snapshot_id big key in >reference_snapshot, name 128 key
known_colony: snapshot_id big key in >reference_snapshot, colony_id 128 key, position big key,
  production_centre 32, status 128, created date?, strain_id 128?, gene_id 128?, gene_symbol 128?, allele_id 128?,
  allele_symbol 255?
known_strain: snapshot_id big key in >reference_snapshot, strain_id 128 key, name 1024
waiver: id big counted, rule 16, centre 32?, procedure_id 64?, valid_from date, valid_until date?, effect 8,
  reason 256, author 64, created time, revoked time?, revoked_by 64?,
  revoked_reason 256?; index rule
finding: id big counted, document_id big? >document, tracker_id big?, rule 16, severity 16, message text, line int?,
  path text?, value text?, entity_kind 16?, entity_id big?, snapshot_id big? >reference_snapshot,
  waiver_id big? >waiver, is_active bool, created time, closed time?, closed_by big? >document;
  index document_id is_active; index tracker_id; index rule is_active;
  index severity is_active; index entity_kind entity_id; index snapshot_id;
  index waiver_id; index closed_by
fetched_page: id big counted, address_md5 32, address 2000, entity_tag 255?, last_modified 64?, retrieved time,
  content longtext; unique address_md5
measurement: id big key, procedure_run_id big >procedure_run, document_id big, position int, item int?, type 24,
  parameter_id 64, sequence_id 255?, increment 255?, increment_status 2000?, value longtext?, number double?,
  unit 255?, status 2000?, line int, centre 32, pipeline 64, project 128, procedure_id 64, experiment_id 255?,
  date date?, specimen_id 255?, fingerprint int; index procedure_run_id; index parameter_id centre;
  index specimen_id centre
media: id big key, procedure_run_id big >procedure_run, position int, item int?, type 24, parameter_id 64,
  sample_position int?, sample_id 255?, section_position int?, section_id 255?, local_id 255?, increment 255?,
  uri 2000?, file_type 255?, link 2000?, status 2000?, line int; index procedure_run_id; index parameter_id
media_association: media_id big key >media, position big key, parameter_id 64, sequence_id 255?, link 2000?, line int
dimension: media_id big key >media, association big key, position big key, dimension_id 255, origin 255, unit 255?,
  value 255, number double?, line int
metadata: id big key, procedure_run_id big >procedure_run, owner_kind 16, owner_id big, position int, parameter_id 64,
  sequence_id 255?, value longtext?, status 2000?, line int; index procedure_run_id owner_kind owner_id;
  index parameter_id
specimen: id big key, block_id big >centre_block, document_id big >document, position int, line int, centre 32,
  specimen_id 255, kind 8, is_baseline bool, gender 16, zygosity 16, litter_id 255, pipeline 64,
  phenotyping_centre 32, production_centre 32?, project 128, colony_id 128?, strain_id 128?, dob date?, stage 255?,
  stage_unit 16?, status_code 2000?, status_date date?, lexical text?, is_current bool,
  is_valid bool?; index block_id position;
  index document_id; index centre specimen_id is_current; index colony_id
related_specimen: specimen_row big key >specimen, position big key, specimen_id 255, relationship 32, line int;
  index specimen_id
genotype: specimen_row big key >specimen, position big key, mgi_gene_id 128, gene_symbol 128, mgi_allele_id 128,
  father_zygosity 16?, mother_zygosity 16?, line int
parental_strain: specimen_row big key >specimen, position big key, percentage double?, mgi_strain_id 128, gender 16,
  level signed, lexical text?, line int
chromosomal_alteration: specimen_row big key >specimen, position big key, line int
chromosome: specimen_row big key >specimen, alteration big key, position big key, kind 8, region_start 255,
  region_end 255, species 255?, line int
"""

# Of which experiment, line or housing a procedure run is, and whether that is current.
OWNERS = """
LEFT JOIN experiment e ON r.owner_kind = 'experiment' AND e.id = r.owner_id
LEFT JOIN line l ON r.owner_kind = 'line' AND l.id = r.owner_id
LEFT JOIN housing h ON r.owner_kind = 'housing' AND h.id = r.owner_id
"""
IS_CURRENT = "WHERE COALESCE(e.is_current, l.is_current, h.is_current) = 1"
IS_VALID = "COALESCE(e.is_valid, l.is_valid, h.is_valid) AS is_valid"
OF_OWNER = """
COALESCE(e.centre, l.centre, h.centre) AS centre, COALESCE(e.pipeline, l.pipeline, h.pipeline) AS pipeline,
COALESCE(e.project, l.project, h.project) AS project, l.colony_id AS line_colony_id, e.experiment_id,
e.sequence_id AS experiment_sequence_id, e.date,
(SELECT CASE WHEN COUNT(*) = 1 THEN MIN(x.specimen_id) END FROM experiment_specimen x WHERE x.experiment_row = e.id)
AS specimen_id, r.procedure_id
"""
# What a run says is taken from it rather than from each measurement, which says the same: the run has indexes of it.
VIEWS = {
    "current_specimen": """
SELECT s.id, s.centre, s.specimen_id, s.kind, s.is_baseline, s.gender, s.zygosity, s.litter_id, s.pipeline, s.project,
s.phenotyping_centre, s.production_centre, s.colony_id, s.strain_id, s.dob, s.stage, s.stage_unit, s.status_code,
s.status_date, s.is_valid, s.lexical, s.document_id, s.line FROM specimen s WHERE s.is_current = 1
""",
    "current_experiment": """
SELECT e.id, e.centre, e.pipeline, e.project, e.experiment_id, e.sequence_id, e.date, e.procedure_id,
(SELECT COUNT(*) FROM experiment_specimen x WHERE x.experiment_row = e.id) AS specimens,
(SELECT CASE WHEN COUNT(*) = 1 THEN MIN(x.specimen_id) END FROM experiment_specimen x WHERE x.experiment_row = e.id)
AS specimen_id, e.is_valid, e.lexical, e.document_id, e.line FROM experiment e WHERE e.is_current = 1
""",
    "current_measurement": f"""
SELECT m.id, m.centre, m.pipeline, m.project, COALESCE(l.colony_id, s.colony_id) AS colony_id, s.strain_id,
s.is_baseline, s.gender, s.zygosity, s.dob, m.specimen_id, m.experiment_id, e.sequence_id AS experiment_sequence_id,
m.date, r.procedure_id, m.parameter_id, m.type, m.sequence_id, m.position, m.item, m.increment, m.increment_status,
m.value, m.number, m.unit, m.status, {IS_VALID}, m.fingerprint,
r.owner_kind, r.owner_id, m.procedure_run_id, r.document_id, m.line
FROM measurement m JOIN procedure_run r ON r.id = m.procedure_run_id {OWNERS}
LEFT JOIN specimen s ON s.centre = m.centre AND s.specimen_id = m.specimen_id AND s.is_current = 1 {IS_CURRENT}
""",  # noqa: S608
    "current_media": f"""
SELECT d.id, {OF_OWNER}, {IS_VALID}, d.parameter_id, d.type, d.position, d.item, d.sample_position, d.sample_id,
d.section_position, d.section_id, d.local_id, d.increment, d.uri, d.file_type, d.link, d.status,
r.owner_kind, r.owner_id, d.procedure_run_id, r.document_id, d.line
FROM media d JOIN procedure_run r ON r.id = d.procedure_run_id {OWNERS} {IS_CURRENT}
""",  # noqa: S608
    "current_metadata": f"""
SELECT d.id, {OF_OWNER}, {IS_VALID}, d.owner_kind AS of_kind, d.owner_id AS of_id, d.position, d.parameter_id,
d.sequence_id, d.value, d.status, r.owner_kind, r.owner_id, d.procedure_run_id, r.document_id, d.line
FROM metadata d JOIN procedure_run r ON r.id = d.procedure_run_id {OWNERS} {IS_CURRENT}
""",  # noqa: S608
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


def tables(text: str) -> list[sa.Table]:
    """The tables that `text` describes, in its order but parents first."""
    metadata = sa.MetaData(naming_convention=NAMING)
    for entry in text.replace("\n  ", " ").strip().splitlines():
        name, _, described = entry.partition(": ")
        columns, *keys = described.split("; ")
        parts = [column(words) for words in columns.split(", ")]
        options: dict[str, Any] = {"sqlite_autoincrement": " counted" in columns}
        for family in FAMILY:
            options |= {f"{family}_engine": "InnoDB", f"{family}_default_charset": "utf8mb4"}
            options[f"{family}_collate"] = "utf8mb4_bin"
        sa.Table(name, metadata, *parts, *(key(name, words) for words in keys), **options)
    first, *rest = metadata.tables
    return [metadata.tables[first], *(table for table in metadata.sorted_tables if table.name in rest)]


def column(words: str) -> sa.Column[Any]:
    name, kind, *more = words.split()
    null, kind = kind.endswith("?"), kind.removesuffix("?")
    if kind.isdecimal():
        type_ = sa.String(int(kind))
    elif kind[0] == "c":
        type_ = sa.CHAR(int(kind[1:]))
    else:
        type_ = TYPES[kind]
    links = []
    if more and more[-1].startswith(">"):
        ondelete = "CASCADE" if "in" in more else "RESTRICT"
        links.append(sa.ForeignKey(f"{more[-1][1:]}.id", ondelete=ondelete, onupdate="CASCADE"))
    counted = "counted" in more
    is_key = counted or "key" in more
    return sa.Column(name, type_, *links, nullable=null, primary_key=is_key, autoincrement=counted)


def key(table: str, words: str) -> sa.Index | sa.UniqueConstraint:
    kind, *columns = words.split()
    if kind == "index":
        return sa.Index(None, *columns)
    return sa.UniqueConstraint(*columns, name="uq_data_context_key" if table == "data_context" else None)


def upgrade() -> None:
    connection = op.get_bind()
    make_missing(connection, tables(TABLES))
    lock = sa.table("upload_lock", sa.column("id"))
    if connection.scalar(sa.select(lock.c.id)) is None:
        connection.execute(sa.insert(lock).values(id=1))
    for name, query in VIEWS.items():
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query.strip()}")


def downgrade() -> None:
    raise NotImplementedError("The first revision has nothing to go back to.")
