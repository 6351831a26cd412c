"""The first half of the asset graph by name: partitions, assets and checks, with what a wrangler reads about each.

file_source_listings -> zip_actions -> zip_downloads -> xml_documents -> validated_documents

What follows on these is in `dcc_assets.data_keys`.

Partition keys are those of `dcc.outcomes`: `<centre>-<id>` for a file source, `<action>/<file name>` for a
zip action. Each check is named after the tracker's phase that it shows.
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

from dcc.phases import Phase

SESSION_TAG: Final = "dcc/session"
"""Tag on every run of a crawling session: the session's id in the tracker."""
STARTED_BY_TAG: Final = "dcc/started_by"
"""Tag on every run that no sensor, schedule or person on Dagster's pages started: the command, or what else did."""

FILE_SOURCES: Final = DynamicPartitionsDefinition(name="file_sources")
ZIP_ACTIONS: Final = DynamicPartitionsDefinition(name="zip_actions")

FILE_SOURCE_LISTINGS: Final = AssetKey("file_source_listings")
ZIP_ACTIONS_ASSET: Final = AssetKey("zip_actions")
ZIP_DOWNLOADS: Final = AssetKey("zip_downloads")
XML_DOCUMENTS: Final = AssetKey("xml_documents")
VALIDATED_DOCUMENTS: Final = AssetKey("validated_documents")

REACHABLE: Final = AssetCheckKey(FILE_SOURCE_LISTINGS, "reachable")
CRAWL_OVERDUE: Final = AssetCheckKey(FILE_SOURCE_LISTINGS, "crawl_overdue")
CHECK_OF_PHASE: Final = {
    Phase.ZIP_NAME: AssetCheckKey(ZIP_ACTIONS_ASSET, "zip_name"),
    Phase.DOWNLOAD: AssetCheckKey(ZIP_DOWNLOADS, "download"),
    Phase.ZIP_MD5: AssetCheckKey(ZIP_DOWNLOADS, "zip_md5"),
    Phase.UNZIP: AssetCheckKey(XML_DOCUMENTS, "unzip"),
    Phase.XML_NAME: AssetCheckKey(XML_DOCUMENTS, "xml_name"),
    Phase.XSD: AssetCheckKey(VALIDATED_DOCUMENTS, "xsd"),
}
"""The checks of a zip action in the order in which they are made: a name is looked at before any download."""

OWNERS: Final = ["team:data-wranglers"]
_COLLECTION, _VALIDATION = "collection", "validation"

FILE_SOURCE_SPEC: Final = AssetSpec(
    FILE_SOURCE_LISTINGS,
    description=(
        "What each file source of a centre holds: the archives in its `add`, `edit` and `delete` directories, as of "
        "the last crawl.\n\nA partition is a file source, `<centre>-<id>` (see `dcc source list`). Materialise one to "
        "crawl it now: new archives turn up as zip actions. A source that could not be listed fails its check "
        "*reachable*, with the reason; the others are crawled all the same."
    ),
    group_name=_COLLECTION,
    kinds={"sftp", "ftp"},
    owners=OWNERS,
    partitions_def=FILE_SOURCES,
    skippable=True,
)

ZIP_SPECS: Final = (
    AssetSpec(
        ZIP_ACTIONS_ASSET,
        deps=[AssetDep(FILE_SOURCE_LISTINGS, partition_mapping=AllPartitionMapping())],
        description=(
            "Every archive that a centre has put up, with what is to be done with it.\n\nA partition is a zip action, "
            "`<action>/<file name>`. It is there from the first crawl that saw the archive. A name that does not "
            "follow `<centre>.<yyyy-mm-dd>.<increment>.impc.zip` fails the check *zip_name* and goes no further."
        ),
        group_name=_COLLECTION,
        kinds={"zip"},
        owners=OWNERS,
        partitions_def=ZIP_ACTIONS,
        skippable=True,
    ),
    AssetSpec(
        ZIP_DOWNLOADS,
        deps=[ZIP_ACTIONS_ASSET],
        description=(
            "The archive of a zip action, received whole and laid down in staging with its size and MD5 checked.\n\n"
            "If one file source fails, the next that hosts the archive is tried. Materialise a partition to process "
            "that zip action again, alone, from the download to the last validation."
        ),
        group_name=_COLLECTION,
        kinds={"zip", "file"},
        owners=OWNERS,
        partitions_def=ZIP_ACTIONS,
        skippable=True,
    ),
    AssetSpec(
        XML_DOCUMENTS,
        deps=[ZIP_DOWNLOADS],
        description=(
            "The XML documents of an archive, extracted to a folder of its own.\n\nOnly documents at the top of the "
            "archive whose names conform are taken; every other entry is accounted for. A damaged, encrypted or "
            "unsafe archive fails the check *unzip*: the centre must upload it again."
        ),
        group_name=_VALIDATION,
        kinds={"xml"},
        owners=OWNERS,
        partitions_def=ZIP_ACTIONS,
        skippable=True,
    ),
    AssetSpec(
        VALIDATED_DOCUMENTS,
        deps=[XML_DOCUMENTS],
        description=(
            "The archives whose documents are all valid against the XML schemas, so that their data can be taken "
            "over.\n\nIf a document is not valid, the check *xsd* fails and lists the documents with the line, the "
            "column and the reason of each error. `dcc validate` tells a centre the same before it uploads."
        ),
        group_name=_VALIDATION,
        kinds={"xml", "xsd"},
        owners=OWNERS,
        partitions_def=ZIP_ACTIONS,
        skippable=True,
    ),
)

_CHECK_DESCRIPTIONS = {
    Phase.ZIP_NAME: "The archive's name follows the naming convention and names a registered centre.",
    Phase.DOWNLOAD: "Some file source delivered the archive whole, with the size that it had listed.",
    Phase.ZIP_MD5: "The archive has the checksum that the centre published beside it.",
    Phase.UNZIP: "The archive is whole and safe to unpack, and holds XML documents.",
    Phase.XML_NAME: "Every document's name follows the naming convention and names a registered centre.",
    Phase.XSD: "Every document is valid against the XML schema of its kind.",
}

# Partitions of checks are a preview in Dagster 1.13; the architecture note has what was tried of them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PreviewWarning)
    FILE_SOURCE_CHECK_SPECS: Final = (
        AssetCheckSpec(
            REACHABLE.name,
            asset=FILE_SOURCE_LISTINGS,
            description=(
                "The server let us in and all three directories could be listed. Where it fails: the reason, who acts, "
                "and what to do; it passes again with the first crawl that can list them all."
            ),
            partitions_def=FILE_SOURCES,
        ),
        AssetCheckSpec(
            CRAWL_OVERDUE.name,
            asset=FILE_SOURCE_LISTINGS,
            description=(
                "The source was wholly listed within DCC_CRAWL_OVERDUE_HOURS, a day by default. An error says that no "
                "session has tried, a warning that its server did not let itself be listed. It passes again with the "
                "next crawl that lists it. Until this release its name was crawled_lately."
            ),
            partitions_def=FILE_SOURCES,
        ),
    )
    ZIP_CHECK_SPECS: Final = tuple(
        AssetCheckSpec(
            check.name,
            asset=check.asset_key,
            description=f"{_CHECK_DESCRIPTIONS[phase]} Recorded for the zip actions that failed it, or once did.",
            partitions_def=ZIP_ACTIONS,
        )
        for phase, check in CHECK_OF_PHASE.items()
    )
