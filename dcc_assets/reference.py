"""Reference data as assets, one for each set: materialise one to refresh it from its source."""

from collections.abc import Iterator
from typing import Final

import dagster as dg

from dcc.databases.transactions import run_reading
from dcc.qc.reference.refresh import Freshness, RefreshOutcome, RefreshResult, freshness, refresh, setting_of
from dcc.runtime.clock import utc_now
from dcc_assets.graph import REFERENCE, REFERENCE_FRESH, asset, check
from dcc_dagster.metadata import Metadata, table, utc_timestamp
from dcc_resources.databases import QcDatabaseResource
from dcc_resources.services import ReferenceDataResource

REFERENCE_JOB: Final = "refresh_reference_data"

_GROUP: Final = "reference"
_KINDS: Final = {"impress": {"json"}}
_DESCRIPTIONS: Final = {
    "impress": (
        "IMPReSS: the pipelines, their procedures, the parameters of each procedure, and the values that a parameter "
        "allows. The rules about procedures and parameters (P1 and on) need it."
    ),
    "status_codes": "The registered status codes of specimens, procedures and parameters.",
    "projects": "The registered research projects.",
    "colonies": (
        "The registered colonies, each with its production centre, status, date, gene and allele. Every animal "
        "except baseline animals must belong to one of them."
    ),
    "strains": "The strains of MGI by their ids. Every baseline animal must be of one of them.",
}

REFERENCE_SPECS: Final = tuple(
    asset(
        key,
        _GROUP,
        f"{_DESCRIPTIONS[name]}\n\nMaterialise it to read it again from its source, named by {setting_of(name)}. "
        "Without that setting, the platform uses the small set that it ships, which is enough for the demo. If the "
        "source cannot be read, or has less than half of the rows, the last snapshot stays in use and the check "
        "*fresh* fails.",
        _KINDS.get(name, {"csv"}),
    )
    for name, key in REFERENCE.items()
)


@dg.multi_asset(
    name="refresh_reference",
    specs=REFERENCE_SPECS,
    check_specs=[check(key) for key in REFERENCE_FRESH.values()],
    can_subset=True,
    description="Reads the chosen sets of reference data from their sources.",
)
def reference_sets(
    context: dg.AssetExecutionContext, qc_database: QcDatabaseResource, reference_data: ReferenceDataResource
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    """Refresh the sets of the run; a set that fails has no materialisation and fails its check.

    Raises QcDatabaseOutdatedError and QcDatabaseUnreachableError.
    """
    settings, qc = qc_database.settings_with(reference_data), qc_database.ready()
    names = [name for name, key in REFERENCE.items() if key in context.selected_asset_keys]
    checked = [name for name, key in REFERENCE_FRESH.items() if key in context.selected_asset_check_keys]
    refreshed = {each.name: each for each in refresh(qc, settings, names)} if names else {}
    found = run_reading(qc, lambda connection: freshness(connection, settings, utc_now()))
    ages = {each.name: each for each in found}
    for each in refreshed.values():
        context.log.log("ERROR" if each.outcome is RefreshOutcome.FAILED else "INFO", each.message)
        if each.outcome is not RefreshOutcome.FAILED:
            yield _materialisation(each, ages[each.name])
    for name in checked:
        yield _check(ages[name], refreshed.get(name))


def _materialisation(refreshed: RefreshResult, age: Freshness) -> dg.MaterializeResult[None]:
    metadata: Metadata = {
        "dagster/row_count": refreshed.rows,
        "outcome": refreshed.outcome.value,
        "source": refreshed.source or "",
        "changes": table(
            ("rows", "added", "removed", "changed"),
            [(refreshed.rows, refreshed.added, refreshed.removed, refreshed.changed)],
        ),
    }
    if age.retrieved is not None:
        metadata["retrieved"] = dg.MetadataValue.timestamp(utc_timestamp(age.retrieved))
    if age.checked is not None:
        metadata["checked"] = dg.MetadataValue.timestamp(utc_timestamp(age.checked))
    return dg.MaterializeResult(
        asset_key=REFERENCE[refreshed.name],
        metadata=metadata,
        data_version=dg.DataVersion(str(refreshed.snapshot_id)),
    )


def _check(age: Freshness, refreshed: RefreshResult | None) -> dg.AssetCheckResult:
    """The set's own severity; a failed refresh is a warning as long as the last one is recent."""
    failed = refreshed is not None and refreshed.outcome is RefreshOutcome.FAILED
    messages = [age.message, refreshed.message if refreshed is not None and failed and not age.refusal else None]
    metadata: Metadata = {"rows": age.rows or 0}
    if any(messages):
        metadata["message"] = " ".join(message for message in messages if message is not None)
    if age.age is not None:
        metadata["age in days"] = age.age.days
    return dg.AssetCheckResult(
        asset_key=REFERENCE[age.name],
        check_name=REFERENCE_FRESH[age.name].name,
        passed=age.message is None and not failed,
        severity=dg.AssetCheckSeverity.WARN if age.message in (None, age.refusal) else dg.AssetCheckSeverity.ERROR,
        metadata=metadata,
    )


refresh_reference_data: Final = dg.define_asset_job(
    REFERENCE_JOB,
    dg.AssetSelection.assets(*REFERENCE.values()),
    executor_def=dg.in_process_executor,
    description="Reads all sets of reference data from their sources.",
)
