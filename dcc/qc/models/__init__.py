"""The QC database's tables (`phenodcc_raw`): the content of valid documents, findings, and results.

A row of `document` is one applied XML document. Below it, every row is a part of that document's content, and never
changes, except for `is_current`, which marks the present version of an entity (see `documents.Lifetime`). Nothing is
deleted.

As in the tracker, times are naive and in UTC, and tables are InnoDB in `utf8mb4_bin`. Note that MySQL and MariaDB
ignore trailing blanks when they compare texts, and SQLite does not.
"""

from __future__ import annotations

from dcc.qc.models.base import QcBase
from dcc.qc.models.contexts import (
    BuildBasis,
    ContextHistory,
    ContextIssue,
    ContextMember,
    DataContext,
    DocumentContext,
    MetadataGroup,
    OverviewAnimalProcedure,
    OverviewGenotype,
)
from dcc.qc.models.documents import (
    CentreBlock,
    CentreLock,
    Document,
    Lifetime,
    ReservedIds,
    StatusCodeRow,
    UploadLock,
    WriteReceipt,
)
from dcc.qc.models.experiments import Experiment, ExperimentSpecimen, Housing, Line, ProcedureRun
from dcc.qc.models.judgements import (
    FetchedPage,
    Finding,
    ImpressIncrement,
    ImpressOntologyOption,
    ImpressOption,
    ImpressParameter,
    ImpressPipeline,
    ImpressProcedure,
    KnownColony,
    KnownProject,
    KnownStatusCode,
    KnownStrain,
    ReferenceRefusal,
    ReferenceSnapshot,
    Waiver,
)
from dcc.qc.models.measurements import Dimension, Measurement, Media, MediaAssociation, Metadata
from dcc.qc.models.specimens import (
    ChromosomalAlteration,
    Chromosome,
    Genotype,
    ParentalStrain,
    RelatedSpecimen,
    Specimen,
)

__all__ = [
    "BuildBasis",
    "CentreBlock",
    "CentreLock",
    "ChromosomalAlteration",
    "Chromosome",
    "ContextHistory",
    "ContextIssue",
    "ContextMember",
    "DataContext",
    "Dimension",
    "Document",
    "DocumentContext",
    "Experiment",
    "ExperimentSpecimen",
    "FetchedPage",
    "Finding",
    "Genotype",
    "Housing",
    "ImpressIncrement",
    "ImpressOntologyOption",
    "ImpressOption",
    "ImpressParameter",
    "ImpressPipeline",
    "ImpressProcedure",
    "KnownColony",
    "KnownProject",
    "KnownStatusCode",
    "KnownStrain",
    "Lifetime",
    "Line",
    "Measurement",
    "Media",
    "MediaAssociation",
    "Metadata",
    "MetadataGroup",
    "OverviewAnimalProcedure",
    "OverviewGenotype",
    "ParentalStrain",
    "ProcedureRun",
    "QcBase",
    "ReferenceRefusal",
    "ReferenceSnapshot",
    "RelatedSpecimen",
    "ReservedIds",
    "Specimen",
    "StatusCodeRow",
    "UploadLock",
    "Waiver",
    "WriteReceipt",
]
