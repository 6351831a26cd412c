"""The sources and submissions of partition keys."""

from __future__ import annotations

from collections.abc import Sequence

from dagster import AssetExecutionContext
from sqlalchemy import Connection, Engine, select

from dcc.databases.transactions import run_reading
from dcc.errors import ConfigurationError, NotFoundError
from dcc.naming import Action
from dcc.outcomes import SubmissionKey, source_partition
from dcc.tracker.models import Centre, FileSource
from dcc.tracker.queries.submission_lists import find_submissions


def source_partitions(connection: Connection) -> dict[str, int]:
    """The partition keys of all sources, with their ids."""
    query = select(Centre.short_name, FileSource.id).join(FileSource, FileSource.centre_id == Centre.id)
    return {source_partition(centre, number): number for centre, number in connection.execute(query)}


def chosen_partitions(context: AssetExecutionContext) -> Sequence[str]:
    """The partition keys of a run.

    Raises ConfigurationError without any, as in a run that "Execute all" on the page of checks launches.
    """
    if not context.op_execution_context.has_partitions:
        raise ConfigurationError(
            "This run has no partition, and checks are made of one. Press Materialize on the page of the asset, and "
            "choose partitions: their checks are made with them."
        )
    keys: Sequence[str] = context.partition_keys
    return keys


def known_sources(tracker: Engine, partitions: Sequence[str]) -> list[int]:
    """The ids of sources by their partition keys. Raises NotFoundError for an unknown one."""
    sources = run_reading(tracker, source_partitions)
    unknown = [partition for partition in partitions if partition not in sources]
    if unknown:
        raise NotFoundError(
            f"The tracker knows no file source {unknown[0]}. See all: `dcc source list`; their "
            "partitions are `<centre>-<id>`."
        )
    return [sources[partition] for partition in partitions]


def known_keys(tracker: Engine, partitions: Sequence[str]) -> list[SubmissionKey]:
    """As `known_keys_in`, with a connection of its own."""
    return run_reading(tracker, lambda connection: known_keys_in(connection, partitions))


def known_keys_in(connection: Connection, partitions: Sequence[str]) -> list[SubmissionKey]:
    """The submissions of partition keys. Raises NotFoundError for an unknown one."""
    keys = keys_of_partitions(connection, partitions)
    missing = set(partitions) - {key.partition for key in keys}
    if missing:
        raise NotFoundError(
            f"The tracker knows no submission {min(missing)}. See all: `dcc zips`; they are of the form "
            "<action>/<file name>."
        )
    return keys


def keys_of_partitions(connection: Connection, partitions: Sequence[str]) -> list[SubmissionKey]:
    """The submissions of partition keys, without unknown ones.

    A key is the submission's name itself unless the name is odd or long (SubmissionKey.partition): then the tracker is
    searched.
    """
    keys = [plain_key(partition) for partition in partitions]
    if None not in keys:
        return [key for key in keys if key is not None]
    known = {
        key.partition: key
        for key in (SubmissionKey(zip_.action, zip_.file_name) for zip_ in find_submissions(connection))
    }
    return [known[partition] for partition in partitions if partition in known]


def plain_key(partition: str) -> SubmissionKey | None:
    """The submission whose name is exactly its partition key; None if only the tracker can tell."""
    action, _, file_name = partition.partition("/")
    if action not in set(Action):
        return None
    key = SubmissionKey(Action(action), file_name)
    return key if key.partition == partition and "~" not in partition and "\\" not in partition else None
