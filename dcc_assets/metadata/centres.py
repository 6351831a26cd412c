"""What phases built of centres, as Dagster shows it on a centre's partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dcc.data_outcomes import CentresBuilt, ContextCounts, ContextsBuilt, OverviewsBuilt
from dcc.messages import count_of
from dcc.vocabulary import ContextState
from dcc_assets.graph import CONTEXTS, OVERVIEWS
from dcc_assets.metadata.links import (
    board_of_centre,
    expected_of_centre,
    links,
    picture_of_centre,
    pictures,
    report_of_centre,
)
from dcc_dagster.metadata import Metadata, first_rows, utc_timestamp
from dcc_dagster.partition_events import MaterialisedPartition, PartitionReport

_PICTURES: Final = (1, 2)
"""How many plots of a centre are shown with its overviews: of the parameters with most values."""


def centre_reports(built: CentresBuilt) -> Iterator[PartitionReport]:
    """The report of each centre that the build changed."""
    by_centre = _by_contexts(built) if isinstance(built, ContextsBuilt) else _by_overviews(built)
    for centre, materialised in by_centre:
        yield PartitionReport(centre, (materialised,), timestamp=utc_timestamp(built.finished))


def _by_contexts(built: ContextsBuilt) -> Iterator[tuple[str, MaterialisedPartition]]:
    for counts in built.centres:
        yield counts.centre, MaterialisedPartition(CONTEXTS, _contexts(counts), _summary(counts))


def _by_overviews(built: OverviewsBuilt) -> Iterator[tuple[str, MaterialisedPartition]]:
    for centre, counts in sorted(built.centres.items()):
        summary = ", ".join(count_of(number, _words(name).removesuffix("s")) for name, number in counts.items())
        yield centre, MaterialisedPartition(OVERVIEWS, _overviews(centre, counts), summary)


def _summary(counts: ContextCounts) -> str:
    total, done = sum(counts.states.values()), counts.states.get(ContextState.QC_DONE, 0)
    return f"{count_of(total, 'context')}, quality control done for {done:,}"


def _contexts(counts: ContextCounts) -> Metadata:
    metadata: Metadata = {
        "centre": counts.centre,
        "contexts": sum(counts.states.values()),
        "measurements": counts.measurements,
        "added": counts.added,
        "changed": counts.changed,
        "emptied": counts.removed,
    }
    metadata["Links"] = links(
        [("Report on the centre", report_of_centre(counts.centre)), ("Tracking board", board_of_centre(counts.centre))]
    )
    states = [(state.value, counts.states[state]) for state in ContextState if counts.states.get(state)]
    procedures = sorted(counts.procedures.items(), key=lambda pair: (-pair[1], pair[0]))
    metadata |= first_rows("states", ("state", "contexts"), states, len(states))
    return metadata | first_rows("procedures", ("procedure", "measurements"), procedures, len(procedures))


def _overviews(centre: str, counts: Mapping[str, int]) -> Metadata:
    numbers = {_words(name): number for name, number in counts.items()}
    shown = [
        (f"A parameter of this centre, number {number}", picture_of_centre(centre, number)) for number in _PICTURES
    ]
    return {
        "centre": centre,
        **numbers,
        "Links": links(
            [
                ("Report on the centre, with all pictures", report_of_centre(centre)),
                ("Procedures that are due, and missing", expected_of_centre(centre)),
                ("Tracking board", board_of_centre(centre)),
            ]
        ),
        # The web server draws them on request: an event has only their addresses, and no session waits.
        "pictures": pictures(shown),
    }


def _words(name: str) -> str:
    return name.replace("_", " ")
