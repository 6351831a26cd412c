"""The asset graph by name: partitions, assets and checks, and how the module of each group declares them.

`docs/design.md` shows the flow. A partition key is `<centre>-<id>` for a source, `<action>/<file name>` for a
submission (`dcc.outcomes`), and a centre's code. A check is named after its phase in the tracker, or its group of rules
(`dcc.rules.catalogue`). Its texts are in `dcc.reports.checks`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Set
from functools import partial
from typing import Final

import dagster as dg

from dcc.phases import Phase
from dcc.reference.loading import SETS
from dcc.reports.checks import check_named
from dcc.rules.catalogue import GROUPS

FILE_SOURCE_PARTITIONS: Final = dg.DynamicPartitionsDefinition(name="file_sources")
ZIP_ACTION_PARTITIONS: Final = dg.DynamicPartitionsDefinition(name="zip_actions")
CENTRE_PARTITIONS: Final = dg.DynamicPartitionsDefinition(name="centres")

FILE_SOURCE_LISTINGS: Final = dg.AssetKey("file_source_listings")
ZIP_ACTIONS: Final = dg.AssetKey("zip_actions")
ZIP_DOWNLOADS: Final = dg.AssetKey("zip_downloads")
XML_DOCUMENTS: Final = dg.AssetKey("xml_documents")
VALIDATED_DOCUMENTS: Final = dg.AssetKey("validated_documents")
UPLOADED_DATA: Final = dg.AssetKey("uploaded_data")
DATA_INTEGRITY: Final = dg.AssetKey("data_integrity")
CONTEXTS: Final = dg.AssetKey("contexts")
OVERVIEWS: Final = dg.AssetKey("overviews")
QC: Final = dg.AssetKey("qc")
SUBMISSION_REPORTS: Final = dg.AssetKey("submission_reports")
MEASUREMENTS: Final = dg.AssetKey("measurements")
ARCHIVE_STORE: Final = dg.AssetKey("archive_store")
REFERENCE: Final = {name: dg.AssetKey(f"reference_{name}") for name in SETS}
"""The names of the sets of reference data that data are judged by."""

REACHABLE: Final = dg.AssetCheckKey(FILE_SOURCE_LISTINGS, "reachable")
CRAWL_OVERDUE: Final = dg.AssetCheckKey(FILE_SOURCE_LISTINGS, "crawl_overdue")
CHECK_OF_PHASE: Final = {
    Phase.ZIP_NAME: dg.AssetCheckKey(ZIP_ACTIONS, "zip_name"),
    Phase.DOWNLOAD: dg.AssetCheckKey(ZIP_DOWNLOADS, "download"),
    Phase.ZIP_MD5: dg.AssetCheckKey(ZIP_DOWNLOADS, "zip_md5"),
    Phase.UNZIP: dg.AssetCheckKey(XML_DOCUMENTS, "unzip"),
    Phase.XML_NAME: dg.AssetCheckKey(XML_DOCUMENTS, "xml_name"),
    Phase.XSD: dg.AssetCheckKey(VALIDATED_DOCUMENTS, "xsd"),
}
"""A submission's checks in the order in which they are made: the name comes before any download."""
UPLOAD_CHECK: Final = dg.AssetCheckKey(UPLOADED_DATA, "upload")
CHECK_OF_GROUP: Final = {group.name: dg.AssetCheckKey(DATA_INTEGRITY, group.name) for group in GROUPS}
CENTRE_SILENT: Final = dg.AssetCheckKey(CONTEXTS, "centre_silent")
SUBMISSIONS_OVERDUE: Final = dg.AssetCheckKey(CONTEXTS, "submissions_overdue")
ARCHIVE_COPIES: Final = dg.AssetCheckKey(ARCHIVE_STORE, "archive_copies")
ARCHIVE_REPLICAS: Final = dg.AssetCheckKey(ARCHIVE_STORE, "archive_replicas")
REFERENCE_FRESH: Final = {name: dg.AssetCheckKey(key, "fresh") for name, key in REFERENCE.items()}

chosen_assets: Final = partial(dg.multi_asset, can_subset=True, backfill_policy=dg.BackfillPolicy.single_run())
"""Decorates what materialises the assets and partitions that are chosen, in one run."""

_OWNERS: Final = ["team:data-wranglers"]


def asset(
    key: dg.AssetKey,
    group: str,
    description: str,
    kinds: Set[str],
    partitions: dg.PartitionsDefinition[str] | None = None,
    deps: Iterable[dg.AssetKey | dg.AssetDep] = (),
) -> dg.AssetSpec:
    """An asset of a group. A run may leave partitions out: those that failed are not materialised."""
    return dg.AssetSpec(
        key,
        deps=list(deps),
        description=description,
        group_name=group,
        kinds=set(kinds),
        owners=_OWNERS,
        partitions_def=partitions,
        skippable=True,
    )


def check(key: dg.AssetCheckKey, partitions: dg.PartitionsDefinition[str] | None = None) -> dg.AssetCheckSpec:
    """A check, described as `dcc.reports.checks` says, with a result for each partition if there are any."""
    # Partitions of checks are a preview in Dagster 1.13.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        demand = check_named(key.name).demand
        return dg.AssetCheckSpec(key.name, asset=key.asset_key, description=demand, partitions_def=partitions)
