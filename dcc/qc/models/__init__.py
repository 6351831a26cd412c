"""The QC database's tables (`phenodcc_raw`): what valid documents say, what was found in them, and what follows.

A row of `document` is one XML document as it was applied. Below it, every row is a part of what that document said,
and is never changed: but for `is_current`, which tells whether a version of an entity is the present one (see
`document_models.Lifetime`). Nothing is deleted.

As for the tracker: times are naive and in UTC, tables are InnoDB in `utf8mb4_bin`. Mind that MySQL and MariaDB ignore
trailing blanks when they compare texts, and SQLite does not.
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
