"""The outcome of the demonstration's session: printed for a wrangler, and compared with the expected one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import click
from sqlalchemy import Connection

from dcc.cli.demo.centres import EXPECTED, Expected, demo_sources
from dcc.cli.shell.output import count_of, echo_table, printable
from dcc.data_outcomes import ContextsBuilt, DataOutcome, ZipData
from dcc.outcomes import DocumentOutcome, SourceCrawl, ZipKey, ZipOutcome
from dcc.phases import Phase, Status
from dcc.tracker.queries import zip_action_lists
from dcc.tracker.register import centres

_ERRORS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """The session's outcomes, and the tracker's content after it."""

    crawls: Sequence[SourceCrawl]
    zips: Sequence[ZipOutcome]
    data: Sequence[DataOutcome]
    zip_actions: Sequence[zip_action_lists.StateCount]
    documents: Sequence[zip_action_lists.StateCount]
    entries: Sequence[zip_action_lists.ZipEntry]
    centres: dict[str, str]

    @classmethod
    def load(
        cls,
        connection: Connection,
        crawls: Sequence[SourceCrawl],
        zips: Sequence[ZipOutcome],
        data: Sequence[DataOutcome],
    ) -> Self:
        """Read the tracker; `crawls`, `zips` and `data` are the session's outcomes."""
        return cls(
            crawls,
            zips,
            data,
            zip_action_lists.count_zip_actions(connection),
            zip_action_lists.count_documents(connection),
            zip_action_lists.find_zips(connection, zip_action_lists.ZipFilter()),
            {entry.short_name: entry.full_name for entry in centres.list_centres(connection)},
        )


def differences(outcome: Outcome) -> list[str]:
    """Differences between the tracker and `EXPECTED`; none if all is well."""
    found = {
        ZipKey(entry.action, entry.file_name): Expected(entry.phase, entry.status, len(entry.sources))
        for entry in outcome.entries
    }
    wrong = [
        f"{key} is {_state(found.get(key))} and should be {_state(EXPECTED.get(key))}."
        for key in sorted(EXPECTED.keys() | found.keys())
        if found.get(key) != EXPECTED.get(key)
    ]
    refusing = sum(source.refusing for source in demo_sources())
    failed = sum(crawl.outcome == "failed" for crawl in outcome.crawls)
    if failed != refusing or len(outcome.crawls) != len(demo_sources()):
        wrong.append(
            f"{failed} of {len(outcome.crawls)} file sources failed, {refusing} of {len(demo_sources())} should."
        )
    return wrong


def _state(expected: Expected | None) -> str:
    if expected is None:
        return "not there"
    hosts = count_of(expected.sources, "file source")
    return f"({expected.phase.short_name}, {expected.status.short_name}) on {hosts}"


def print_crawl(crawl: SourceCrawl) -> None:
    """One line for a crawled source."""
    if crawl.error is not None:
        text = f"{crawl.outcome}: {printable(crawl.error.message)}"
    else:
        text = f"{count_of(crawl.listed, 'archive')}, {crawl.new} new"
        text += f", {crawl.refused} refused by name" if crawl.refused else ""
        text += f", {crawl.ignored} other entries ignored" if crawl.ignored else ""
    colour = "red" if crawl.outcome == "failed" else None
    click.echo(f"  {crawl.centre:<5} {click.style(text, fg=colour)}")


def print_outcome(outcome: Outcome) -> None:
    """Totals by phase and status, then every problem under its centre."""
    for title, counts in (("Submissions", outcome.zip_actions), ("Documents", outcome.documents)):
        click.echo(f"\n{click.style(title, bold=True)}: {sum(state.count for state in counts)}")
        rows = [(state.phase, state.status, state.count) for state in counts]
        echo_table(("phase", "status", "count"), rows, indent="  ")
    _print_data(outcome.data)
    click.secho("\nWhat to tell the centres", bold=True)
    messages: dict[str, list[str]] = defaultdict(list)
    for centre, line in _messages(outcome):
        messages[centre].append(line)
    for centre in sorted(messages):
        click.echo(f"  {centre}, {outcome.centres.get(centre, 'not registered')}")
        for line in messages[centre]:
            click.echo(f"    {printable(line)}")
    quiet = sorted(set(outcome.centres) - set(messages))
    if quiet:
        click.echo(f"  Nothing: {', '.join(quiet)}.")


def _print_data(data: Sequence[DataOutcome]) -> None:
    """A line on the data of the valid documents."""
    said: Counter[str] = Counter()
    contexts = 0
    for outcome in data:
        if isinstance(outcome, ContextsBuilt):
            contexts += sum(centre.added for centre in outcome.centres)
        elif isinstance(outcome, ZipData) and outcome.reached is Phase.UPLOAD:
            for document in outcome.documents:
                said.update(document.said)
    counts = ", ".join(count_of(count, name.removesuffix("s")) for name, count in said.items() if count)
    click.echo(
        f"\n{click.style('Data', bold=True)}: {counts}; {count_of(contexts, 'data context')} for quality control"
    )


def _messages(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Every problem as (centre's code, line for that centre)."""
    for crawl in outcome.crawls:
        if crawl.error is not None:
            yield crawl.centre, crawl.error.message
        for key, reason in crawl.refused_zips:
            yield crawl.centre, f"{key}: {reason}"
        for finding in (*crawl.findings, *crawl.notes):
            yield crawl.centre, finding
    for outcome_of_zip in sorted(outcome.zips, key=lambda zipped: zipped.key):
        if outcome_of_zip.failed:
            for line in _zip_lines(outcome_of_zip):
                yield outcome_of_zip.centre or "", line
    for zip_data in outcome.data:
        if isinstance(zip_data, ZipData):
            for line in _data_lines(zip_data):
                yield zip_data.centre or "", line


def _zip_lines(zipped: ZipOutcome) -> Iterator[str]:
    yield f"{zipped.key}: failed in phase {zipped.phase.short_name}"
    # A second download of the same damaged archive gives the same reason.
    for message in dict.fromkeys(reason.message for reason in zipped.reasons):
        yield f"- {message}"
    for document in zipped.documents:
        if document.status is Status.FAILED:
            yield from _document_lines(document)


def _data_lines(zip_data: ZipData) -> Iterator[str]:
    failed = [
        document
        for document in zip_data.documents
        if document.status is Status.FAILED and document.phase is zip_data.reached
    ]
    if failed:
        yield f"{zip_data.key}: failed in phase {zip_data.reached.short_name}"
    for document in failed:
        yield f"- {document.file_name}: {count_of(sum(document.finding_counts.values()), 'finding')}"
        for finding in document.findings[:_ERRORS_SHOWN]:
            yield f"  line {finding.line}: {finding.rule}: {finding.message}"
        if len(document.findings) > _ERRORS_SHOWN:
            yield f"  ... and {len(document.findings) - _ERRORS_SHOWN} more"


def _document_lines(document: DocumentOutcome) -> Iterator[str]:
    yield f"- {document.file_name}: {count_of(len(document.errors), 'error')}"
    for problem in document.errors[:_ERRORS_SHOWN]:
        place = f"{problem.place}: " if problem.place else ""
        yield f"  {place}{problem.message}"
    if len(document.errors) > _ERRORS_SHOWN:
        yield f"  ... and {len(document.errors) - _ERRORS_SHOWN} more"
