"""The second half of the asset graph by name: what becomes of valid documents, up to quality control.

validated_documents -> uploaded_data -> data_integrity -> contexts -> overviews -> qc -> submission_reports

The partition of a data context or overview is a centre's code, that of everything else a zip action. The checks of
`data_integrity` are the groups of rules of `dcc.rules.groups`.
"""

from __future__ import annotations

import warnings
from typing import Final

from dagster import (
    AllPartitionMapping,
    AssetCheckKey,
    AssetCheckSpec,
    AssetDep,
    AssetKey,
    AssetSpec,
    DynamicPartitionsDefinition,
    PreviewWarning,
)

from dcc.reference.loading import SETS
from dcc.rules.groups import GROUPS
from dcc_assets.keys import OWNERS, VALIDATED_DOCUMENTS, ZIP_ACTIONS

CENTRES: Final = DynamicPartitionsDefinition(name="centres")

UPLOADED_DATA: Final = AssetKey("uploaded_data")
DATA_INTEGRITY: Final = AssetKey("data_integrity")
CONTEXTS: Final = AssetKey("contexts")
OVERVIEWS: Final = AssetKey("overviews")
QC: Final = AssetKey("qc")
SUBMISSION_REPORTS: Final = AssetKey("submission_reports")

REFERENCE_KEYS: Final = {name: AssetKey(f"reference_{name}") for name in SETS}
"""The sets of reference data that data are judged by, by their names."""

UPLOAD_CHECK: Final = AssetCheckKey(UPLOADED_DATA, "upload")
CENTRE_SILENT: Final = AssetCheckKey(CONTEXTS, "centre_silent")
SUBMISSIONS_OVERDUE: Final = AssetCheckKey(CONTEXTS, "submissions_overdue")
CHECK_OF_GROUP: Final = {group.name: AssetCheckKey(DATA_INTEGRITY, group.name) for group in GROUPS}

_DATA, _CONTROL, _REPORTS = "data", "quality_control", "reports"

DATA_SPECS: Final = (
    AssetSpec(
        UPLOADED_DATA,
        deps=[VALIDATED_DOCUMENTS],
        description=(
            "The archives whose documents are all in the QC database: specimens before experiments, then by date, "
            "increment and centre, whatever archives they came in.\n\nA document that could not be uploaded, waits for "
            "`dcc data confirm`, or was withdrawn fails the check *upload*. Materialise a partition to have the "
            "documents of that zip action taken up and judged again, alone."
        ),
        group_name=_DATA,
        kinds={"xml", "table"},
        owners=OWNERS,
        partitions_def=ZIP_ACTIONS,
        skippable=True,
    ),
    AssetSpec(
        DATA_INTEGRITY,
        deps=[UPLOADED_DATA, *REFERENCE_KEYS.values()],
        description=(
            "The archives whose data keep the integrity rules: they make sense by themselves, beside what was "
            "submitted before, and by IMPReSS.\n\nEach check is a group of rules (see `dcc rules list`). Where one "
            "fails it lists the worst findings with document and line; `dcc data findings` has them all. A finding "
            "heals when its cause does: when the missing animal arrives, a rule is waived, or reference data change."
        ),
        group_name=_DATA,
        kinds={"table"},
        owners=OWNERS,
        partitions_def=ZIP_ACTIONS,
        skippable=True,
    ),
)

CONTEXT_SPECS: Final = (
    AssetSpec(
        CONTEXTS,
        deps=[AssetDep(DATA_INTEGRITY, partition_mapping=AllPartitionMapping())],
        description=(
            "The data contexts of each centre: for each pipeline, genotype, strain, procedure and parameter the number "
            "of valid measurements, and whether a wrangler is done with them.\n\nA partition is a centre, by its code. "
            "A context whose data change waits for a wrangler again. Materialise a partition to bring it up to date."
        ),
        group_name=_CONTROL,
        kinds={"table"},
        owners=OWNERS,
        partitions_def=CENTRES,
        skippable=True,
    ),
    AssetSpec(
        OVERVIEWS,
        deps=[CONTEXTS],
        description=(
            "What each centre has, in tables that the web site and analysts read: genotypes, strains, the procedures "
            "done on each animal, the measurements made, and the circumstances under which they were.\n\nA partition "
            "is a centre, by its code. Materialise one to bring it up to date."
        ),
        group_name=_CONTROL,
        kinds={"table"},
        owners=OWNERS,
        partitions_def=CENTRES,
        skippable=True,
    ),
)

QC_SPEC: Final = AssetSpec(
    QC,
    deps=[AssetDep(OVERVIEWS, partition_mapping=AllPartitionMapping())],
    description=(
        "The archives that have come to quality control, all their data in contexts.\n\nThe status in the metadata is "
        "*done* once a wrangler is done with every context that the archive has data in (`dcc qc done`), and *pending* "
        "until then or when data of such a context change."
    ),
    group_name=_CONTROL,
    kinds={"table"},
    owners=OWNERS,
    partitions_def=ZIP_ACTIONS,
    skippable=True,
)

REPORT_SPEC: Final = AssetSpec(
    SUBMISSION_REPORTS,
    deps=[QC],
    description=(
        "What the centre's data manager gets to a submission: what came, what happened to each document, every error "
        "by its cause with what to do, what was accepted, and pictures of the accepted data.\n\nEvery check and every "
        "step of a zip action links its report, which the web server of `dcc ui` makes when it is opened. Materialise "
        "a partition to keep it as a page in `reports` of DCC_HOME, as it is then; `dcc report` writes it anywhere."
    ),
    group_name=_REPORTS,
    kinds={"html"},
    owners=OWNERS,
    partitions_def=ZIP_ACTIONS,
    skippable=True,
)

_RECORDED = "Recorded for the zip actions that failed it, or once did."

# Partitions of checks are a preview in Dagster 1.13; the architecture note has what was tried of them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PreviewWarning)
    DATA_CHECK_SPECS: Final = (
        AssetCheckSpec(
            UPLOAD_CHECK.name,
            asset=UPLOADED_DATA,
            description=f"Every document is in the QC database: none failed, is held or was withdrawn. {_RECORDED}",
            partitions_def=ZIP_ACTIONS,
        ),
        *(
            AssetCheckSpec(
                CHECK_OF_GROUP[group.name].name,
                asset=DATA_INTEGRITY,
                description=f"{group.description} Rules: {', '.join(group.rules)}. {_RECORDED}",
                partitions_def=ZIP_ACTIONS,
            )
            for group in GROUPS
        ),
    )
    CENTRE_CHECK_SPECS: Final = (
        AssetCheckSpec(
            CENTRE_SILENT.name,
            asset=CONTEXTS,
            description=(
                "The centre has submitted an archive by a new name within DCC_CENTRE_SILENT_DAYS, thirty days by "
                "default. It passes again with the next one that a crawl finds. Until this release its name was "
                "heard_from."
            ),
            partitions_def=CENTRES,
        ),
        AssetCheckSpec(
            SUBMISSIONS_OVERDUE.name,
            asset=CONTEXTS,
            description=(
                "All that the centre submitted came through to quality control within DCC_OVERDUE_DAYS, three "
                "days by default. An error says that something waits for us, a warning that what failed waits for the "
                "centre: until it is corrected, or gone from its server because the centre has submitted it anew. "
                "Until this release its name was through_in_time."
            ),
            partitions_def=CENTRES,
        ),
    )
