"""The QC database's tables (`phenodcc_raw`): the content of valid documents, findings, and results.

A row of `document` is one applied XML document. Below it, every row is a part of that document's content, and never
changes, except for `is_current`, which marks the present version of an entity (see `documents.Lifetime`). Nothing is
deleted.

As in the tracker, times are naive and in UTC, and tables are InnoDB in `utf8mb4_bin`. MySQL and MariaDB ignore trailing
blanks when they compare texts, and SQLite does not.

The modules beside this one declare them.
"""

from __future__ import annotations

from typing import Final

from dcc.qc.models import content, contexts, documents, judgements
from dcc.qc.models.base import QcBase as QcBase
from dcc.vocabulary import EntityKind

DOCUMENT: Final = documents.Document.__table__
BLOCK: Final = documents.CentreBlock.__table__
LIFETIME: Final = documents.Lifetime.__table__
STATUS_CODE: Final = documents.StatusCodeRow.__table__
UPLOAD_LOCK: Final = documents.UploadLock.__table__
CENTRE_LOCK: Final = documents.CentreLock.__table__
RESERVED_IDS: Final = documents.ReservedIds.__table__
SPECIMEN: Final = content.Specimen.__table__
RELATED: Final = content.RelatedSpecimen.__table__
GENOTYPE: Final = content.Genotype.__table__
PARENTAL_STRAIN: Final = content.ParentalStrain.__table__
ALTERATION: Final = content.ChromosomalAlteration.__table__
CHROMOSOME: Final = content.Chromosome.__table__
EXPERIMENT: Final = content.Experiment.__table__
NAMED: Final = content.ExperimentSpecimen.__table__
LINE: Final = content.Line.__table__
HOUSING: Final = content.Housing.__table__
RUN: Final = content.ProcedureRun.__table__
MEASUREMENT: Final = content.Measurement.__table__
MEDIA: Final = content.Media.__table__
ASSOCIATION: Final = content.MediaAssociation.__table__
DIMENSION: Final = content.Dimension.__table__
METADATA: Final = content.Metadata.__table__
SNAPSHOT: Final = judgements.ReferenceSnapshot.__table__
REFUSAL: Final = judgements.ReferenceRefusal.__table__
PIPELINE: Final = judgements.ImpressPipeline.__table__
PROCEDURE: Final = judgements.ImpressProcedure.__table__
PARAMETER: Final = judgements.ImpressParameter.__table__
OPTION: Final = judgements.ImpressOption.__table__
INCREMENT: Final = judgements.ImpressIncrement.__table__
ONTOLOGY_OPTION: Final = judgements.ImpressOntologyOption.__table__
KNOWN_STATUS_CODE: Final = judgements.KnownStatusCode.__table__
PROJECT: Final = judgements.KnownProject.__table__
COLONY: Final = judgements.KnownColony.__table__
STRAIN: Final = judgements.KnownStrain.__table__
WAIVER: Final = judgements.Waiver.__table__
FINDING: Final = judgements.Finding.__table__
FETCHED_PAGE: Final = judgements.FetchedPage.__table__
CONTEXT: Final = contexts.DataContext.__table__
HISTORY: Final = contexts.ContextHistory.__table__
SHARE: Final = contexts.DocumentContext.__table__
MEMBER: Final = contexts.ContextMember.__table__
ISSUE: Final = contexts.ContextIssue.__table__
BUILD_BASIS: Final = contexts.BuildBasis.__table__
GROUP: Final = contexts.MetadataGroup.__table__
OVERVIEW_GENOTYPE: Final = contexts.OverviewGenotype.__table__
OVERVIEW_ANIMAL: Final = contexts.OverviewAnimalProcedure.__table__

ENTITY_TABLES: Final = {kind: QcBase.metadata.tables[kind.value] for kind in EntityKind}
COUNTED: Final = {f"{table.name}s": table for table in (*ENTITY_TABLES.values(), MEASUREMENT)}
"""The tables whose rows a document counts, by its columns with their numbers."""
DOCUMENT_TABLES: Final = (
    BLOCK,
    SPECIMEN,
    RELATED,
    GENOTYPE,
    PARENTAL_STRAIN,
    ALTERATION,
    CHROMOSOME,
    EXPERIMENT,
    NAMED,
    LINE,
    HOUSING,
    STATUS_CODE,
    RUN,
    MEASUREMENT,
    MEDIA,
    ASSOCIATION,
    DIMENSION,
    METADATA,
    LIFETIME,
)
"""The tables of a document's rows, parents before their children."""
