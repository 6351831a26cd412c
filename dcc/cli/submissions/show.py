"""`dcc show`: the complete story of one submission."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, parse_submission_key, reading_tracker, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import COLOURS, echo_json, echo_list, echo_wrapped, printable, wants_json
from dcc.errors import InternalFaultError
from dcc.messages import byte_size, count_of
from dcc.outcomes import HELD
from dcc.phases import Phase, Status
from dcc.runtime.json_values import json_ready

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from dcc.outcomes import Problem
    from dcc.reports.causes.cause import FailedDocument
    from dcc.reports.submissions.waits import Wait
    from dcc.tracker.crawls import CrawlFindingEntry
    from dcc.tracker.decisions import Decision
    from dcc.tracker.queries.submission_stories import (
        DocumentStory,
        DownloadStory,
        Host,
        ReopeningStory,
        SubmissionStory,
    )

_ERRORS_SHOWN = 10
_FURTHER = "      "
"""Before the further lines of a text."""
_FAULTS = {
    "damaged": "it is damaged (MD5 {md5}). Sessions fetch it again when it changes there.",
    "checksum": "its MD5 {md5} is not the one published. Sessions fetch it again when it or the .md5 changes.",
}


@command(examples=["dcc show add/H.2013-10-31.1.impc.zip"])
@click.argument("zip_action", metavar="ACTION/ZIP")
@click.option("--all-errors", is_flag=True, help=f"Print all errors of a document, not only {_ERRORS_SHOWN}.")
@json_option
def show(zip_action: str, all_errors: bool) -> None:
    """Show the whole story of the submission ACTION/ZIP.

    Its sources, every attempt, every document and error. The name of the archive is enough if it has one submission.

    \b
    JSON: an object with what `dcc zips` lists of it ("file_name", "action", "centre", "phase",
    "status", "sources", "size_bytes", "contact") and
      md5, created, inc  of the archive; the latter two as its name tells
      hosts       a list of {"source", "label", "size_bytes", "modified", "has_md5", "retries",
                  "first_listed" (null if by an earlier version), "gone_since", "missed_since" (the
                  next crawl decides whether it is gone), "uploading_since", "bad" (null, or {"md5",
                  "fault", "since"} of a copy that is not fetched again until it changes; "fault":
                  "damaged" or "checksum")}
      downloads   each attempt, oldest first: {"id", "source", "label", "requested", "received",
                  "bytes", "phase", "status", "reasons", "documents", "outcome" ("finished",
                  "not_modified", "aborted", "cancelled", "failed"; null while under way), "md5",
                  "session"}
      latest_id   the download that its state comes from; null without one
      documents   those of the latest download: {"file_name", "phase", "status", "size_bytes", "md5",
                  "errors": [{"kind", "message", "line", "column"}], "reopenings": [{"requested_by",
                  "reason", "from_phase", "from_status", "created", ...}], "place" (where in the
                  archive; null at its top), "archives" ([path, MD5] of each inside it that it was in)}
      reasons     why it is as it is: {"kind", "message", "recorded"}
      reopenings  {"requested_by", "reason", "from_phase", "from_status", "created"}
      findings    what crawls noticed: {"session", "source", "file_name", "kind", "message",
                  "created"}
      decisions   {"kind" (hold, quarantine or acknowledge), "decided_by", "reason", "created",
                  "revoked", "revoked_by"}; the latter two are null while it holds
      failed_documents  documents that failed, with animals that its experiments wait for: {"zip",
                  "document", "phase", "animals" (how many; 0 if it could not be read)}
      waits_for   the older archive of its centre that is processed first, or null
      waits       what else it waits for, and until when if that is known, in words
      removals    when its archive or documents went from staging, as reasons
    """
    from dcc.reports.causes.failed_specimens import RULE, DocumentReader, failed_documents_with
    from dcc.reports.submissions.submission_lines import line_of
    from dcc.reports.submissions.waits import waits_of
    from dcc.tracker.queries.submission_stories import submission_story

    key, settings = parse_submission_key(zip_action), settings_from_environment()
    with reading_tracker(settings) as connection:
        story = submission_story(connection, key)
        line, _ = line_of(connection, key, None)
        waits = waits_of(connection, [line], settings)[line.za_id]
        errors = [error for document in story.documents for error in document.errors]
        awaited = {str(error.fact.all_details.get("value")) for error in errors if error.kind == RULE}
        failed_documents = []
        if awaited and story.centre is not None:
            reader = DocumentReader(settings)
            failed_documents = failed_documents_with(connection, reader, story.centre, awaited, [key])
    failed = story.status is Status.FAILED
    kinds = {error.kind for error in errors}
    kinds |= {reason.kind for download in story.downloads for reason in download.reasons}
    faulty = failed and InternalFaultError.short_name() in kinds
    note_facts(
        in_error=zip_action if failed and story.phase is Phase.DATA else None,
        faulty=zip_action if faulty else None,
        failed=zip_action if failed and not faulty else None,
        held=zip_action if HELD in kinds else None,
        centre=story.centre,
    )
    if wants_json():
        failed_ones = [document.as_json() for document in failed_documents]
        said = [str(wait.for_wranglers) for wait in waits]
        echo_json({**json_ready(story), "failed_documents": failed_ones, "waits": said})
    else:
        _print_story(story, waits, failed_documents, None if all_errors else _ERRORS_SHOWN)


def _print_story(
    story: SubmissionStory, waits: Sequence[Wait], failed_documents: Sequence[FailedDocument], max_errors: int | None
) -> None:
    key = click.style(printable(f"{story.action}/{story.file_name}"), bold=True)
    click.echo(f"{key}  {state_text(story.phase.short_name, story.status.short_name)}")
    number = story.size_bytes
    size = "size not known" if number is None else f"{byte_size(number)} ({number:,} bytes)"
    centre = (story.centre or "not clear from its name") + (f" ({printable(story.contact)})" if story.contact else "")
    echo_wrapped(f"  centre {centre}, {size}{f', MD5 {story.md5}' if story.md5 else ''}")
    for made in story.decisions:
        if made.revoked is None:
            echo_wrapped(f"  {click.style(printable(str(made)), fg='yellow')}", _FURTHER)
    for wait in waits:
        echo_wrapped(f"  {click.style(printable(str(wait.for_wranglers)), fg='yellow')}", _FURTHER)
    _print_reasons(story.reasons, indent="  ")
    _print_hosts(story)
    _print_downloads(story.downloads)
    _print_documents(story.documents, max_errors)
    if failed_documents:
        click.echo("\nExperiments wait for animals in documents that failed; the centre corrects these")
        for failed in failed_documents:
            animals = count_of(len(failed.specimens), "animal") if failed.specimens else "animals not known"
            place = f"{printable(failed.zip)}: {printable(failed.document)}"
            click.echo(f"  {place}, {state_text(failed.phase.short_name, 'failed')}, {animals}")
    _print_moments("Re-opened", [(one.created, f"from {_set_back_text(one)}") for one in story.reopenings])
    _print_moments("Decisions", [(made.created, _decision_text(made)) for made in story.decisions])
    _print_moments("Removed from staging", [(one.recorded, printable(one.message)) for one in story.removals])
    _print_moments("Findings", [(one.created, _finding_text(one)) for one in story.findings])


def _finding_text(finding: CrawlFindingEntry) -> str:
    """What a crawl noticed, and whether a change of the archive holds no longer."""
    return f"{printable(str(finding.said))}{' (no longer holds)' if finding.ended else ''}"


def _print_moments(title: str, moments: Sequence[tuple[datetime | None, str]]) -> None:
    if moments:
        click.echo(f"\n{title}")
    for moment, text in moments:
        echo_wrapped(f"  {printable(moment)}  {text}", _FURTHER)


def _decision_text(made: Decision) -> str:
    ended = "" if made.revoked is None else f" (until {printable(made.revoked)}, {printable(made.revoked_by)})"
    return f"{made.kind}, {printable(made.decided_by)}: {printable(made.reason)}{ended}"


def _set_back_text(entry: ReopeningStory) -> str:
    state = f"{entry.from_phase.short_name} {entry.from_status.short_name}"
    return f"{state}, {printable(entry.requested_by)}: {printable(entry.reason)}"


def state_text(phase: str, status: str) -> str:
    """`xsd failed`, in the status's colour."""
    return click.style(f"{phase} {status}", fg=COLOURS.get(status))


def _print_reasons(reasons: Iterable[Problem], indent: str) -> None:
    for reason in reasons:
        echo_wrapped(f"{indent}{click.style(printable(reason.message), fg='red')}", _FURTHER)


def _print_hosts(story: SubmissionStory) -> None:
    click.echo("\nHosted by" if story.hosts else "\nHosted by no file source.")
    for host in story.hosts:
        gone = _standing(host)
        listed = f", first listed {printable(host.first_listed)}" if host.first_listed else ""
        retries = f", tried again {count_of(host.retries, 'time')}" if host.retries else ""
        echo_wrapped(f"  {printable(str(host.label))}: {byte_size(host.size_bytes)}{listed}{retries}{gone}", _FURTHER)
        if host.bad is not None:
            fault = _FAULTS[host.bad.fault.value].format(md5=host.bad.md5)
            text = f"bad copy, known since {printable(host.bad.since)}: {fault}"
            echo_wrapped(f"    {click.style(text, fg='red')}", _FURTHER)


def _standing(host: Host) -> str:
    """Why a source does not deliver the archive now; empty if it does."""
    if host.gone_since:
        return f", not there any more since {printable(host.gone_since)}"
    if host.missed_since:
        return f", not listed since {printable(host.missed_since)}: the next crawl decides whether it is gone"
    if host.uploading_since:
        return f", being uploaded since {printable(host.uploading_since)}: a later session takes it"
    return ""


def _print_downloads(downloads: Sequence[DownloadStory]) -> None:
    click.echo("\nDownloads" if downloads else "\nNever downloaded.")
    for _, same in groupby(downloads, _line_facts):
        download, *further = same
        state = state_text(download.phase.short_name, download.status.short_name)
        label = printable(str(download.label))
        tries = f", {count_of(1 + len(further), 'attempt')} until {printable(further[-1].requested)}" if further else ""
        ended = f"{download.outcome.replace('_', ' ')}, " if download.outcome else ""
        echo_wrapped(
            f"  {printable(download.requested)}  {ended}{byte_size(download.bytes)} from {label}: {state}{tries}"
        )
        _print_reasons(download.reasons, indent="    ")


def _line_facts(download: DownloadStory) -> tuple[object, ...]:
    """The common facts of consecutive attempts without a transfer, which share one line; all others differ."""
    if (download.phase, download.status) != (Phase.DOWNLOAD, Status.FAILED):
        return (download.id,)
    reasons = [(reason.kind, reason.message) for reason in download.reasons]
    return download.source, download.bytes, download.outcome, reasons


def _print_documents(documents: Sequence[DocumentStory], max_errors: int | None) -> None:
    if not documents:
        return
    click.echo("\nDocuments")
    echo_list(
        documents,
        "document=file_name, phase, status, size, errors",
        size=lambda document: byte_size(document.size_bytes),
        errors=lambda document: sum(error.is_error for error in document.errors),
        indent="  ",
    )
    for document in documents:
        if document.errors or document.reopenings or document.place:
            click.echo(f"\n{printable(document.file_name)}")
            if document.place:
                echo_wrapped(f"  in the archive at {printable(document.place)}")
            for path, md5 in document.archives:
                echo_wrapped(f"  inside {printable(path)}, MD5 {md5}")
            print_errors(document.errors, max_errors, hint="`dcc show --all-errors` prints them all.")
        for entry in document.reopenings:
            echo_wrapped(f"  {printable(entry.created)}  set back from {_set_back_text(entry)}", _FURTHER)


def print_errors(errors: Sequence[Problem], limit: int | None, *, hint: str) -> None:
    """Print errors of a document with their lines and columns, at most `limit` (None: all) of them."""
    for error in errors[:limit]:
        place = f"{error.place}: " if error.place else ""
        echo_wrapped(f"  {place}{printable(error.text)}", _FURTHER)
    if limit is not None and len(errors) > limit:
        echo_wrapped(f"  ... and {count_of(len(errors) - limit, 'more error')}. {hint}")
