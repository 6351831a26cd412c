"""Assets and checks as the groups of the graph declare them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Set
from typing import Final

from dagster import (
    AssetCheckKey,
    AssetCheckSpec,
    AssetDep,
    AssetKey,
    AssetSpec,
    PartitionsDefinition,
    PreviewWarning,
)

OWNERS: Final = ["team:data-wranglers"]


def asset(
    key: AssetKey,
    group: str,
    description: str,
    kinds: Set[str],
    partitions: PartitionsDefinition[str] | None = None,
    deps: Iterable[AssetKey | AssetDep] = (),
) -> AssetSpec:
    """An asset of a group. A run may leave partitions out: those that failed are not materialised."""
    return AssetSpec(
        key,
        deps=list(deps),
        description=description,
        group_name=group,
        kinds=set(kinds),
        owners=OWNERS,
        partitions_def=partitions,
        skippable=True,
    )


def check(key: AssetCheckKey, description: str, partitions: PartitionsDefinition[str]) -> AssetCheckSpec:
    """A check with a result for each partition."""
    # Partitions of checks are a preview in Dagster 1.13.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PreviewWarning)
        return AssetCheckSpec(key.name, asset=key.asset_key, description=description, partitions_def=partitions)
