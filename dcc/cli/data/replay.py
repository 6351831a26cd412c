"""`dcc replay`: stored archives judged under proposed schemas, reference data or rules."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, open_qc, open_tracker, require_centres, settings_from_environment
from dcc.cli.shell.dagster_side import dagster_side
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, printable, progress_shown, wants_json, warn
from dcc.cli.shell.parameter_types import DAY
from dcc.errors import ConfigurationError
from dcc.messages import count_of
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from dcc.replay.verdicts import Replay


_SHOWN = 20


@command(
    examples=[
        "dcc replay --xsd schemas-2.0",
        "dcc replay --reference impress=https://api.mousephenotype.org/impress --centre H",
        "dcc replay --rules proposed_rules.py --since 2026-01-01 --page replay.html",
    ],
    exits={
        2: "the proposal cannot be used",
        4: "a source of reference data, the archive store or a database cannot be reached",
    },
)
@click.option("--xsd", type=click.Path(path_type=Path), metavar="DIR", help="Folder with the proposed schemas.")
@click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SOURCE",
    help="A proposed set of reference data: its name, and a file, a folder or a URL; may be repeated.",
)
@click.option(
    "--rules",
    metavar="MODULE",
    help="A module with proposed rules: its file or folder, or its name where it is installed, also on workers.",
)
@click.option("--centre", multiple=True, metavar="CODE", help="Only archives of this centre; repeatable.")
@click.option("--since", type=DAY, help="Only archives whose names have this date or later.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    help="Processes of this machine, or jobs of Kubernetes, at once; DCC_WORKERS or DCC_K8S_JOBS by default.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a page to FILE.")
@click.option(
    "--limit", type=click.IntRange(0, 1_000_000), default=_SHOWN, show_default=True, help="Lines of each table; 0: all."
)
@json_option
def replay(
    xsd: Path | None,
    references: tuple[str, ...],
    rules: str | None,
    centre: tuple[str, ...],
    since: date | None,
    workers: int | None,
    page: Path | None,
    limit: int,
) -> None:
    """Show what proposed schemas, reference data or rules would change.

    Judges the archives in the archive store again under the proposal, beside their present verdicts, and changes
    nothing. Without a proposal it shows what would be judged differently today. With DCC_EXECUTOR other than
    in_process, workers prepare the archives, and this machine does what they leave. A module with proposed rules runs
    on all of them, and its file or folder is sent there: use only modules that you trust.

    \b
    JSON: {"proposal", "archives", "documents", "unjudged" (documents without a present verdict),
      "missing" (archives that are not kept),
      "centres": [{"centre", "documents", "gained", "lost", "otherwise"}],
      "causes": [{"code", "severity", "cause", "appears", "goes", "verdicts"}],
      "changes": [{"archive", "document", "centre", "before", "after",
        "appeared": [{"code", "severity", "line", "message"}], "gone": [the same]}]}
    """
    from dcc.replay.replay import ReplayProposal
    from dcc.replay.replay import replay as replay_archives
    from dcc.runtime.interrupts import interrupted_by_sigterm
    from dcc.settings.workers import ExecutorKind

    proposal = ReplayProposal(xsd, dict(map(_reference, references)), rules)
    settings = settings_from_environment(workers=workers, k8s_jobs=workers)
    require_centres(settings, *centre)
    with open_tracker(settings) as tracker, open_qc(settings) as qc, interrupted_by_sigterm(), progress_shown() as show:
        found = replay_archives(
            tracker,
            qc,
            settings,
            proposal,
            centres=centre,
            since=since,
            workers=None if settings.executor is ExecutorKind.IN_PROCESS else dagster_side().workers_of(settings),
            on_progress=lambda done, of: show("Preparing archives", done, of),
        )
    note_facts(unwritten=page is None)
    if page is not None:
        from dcc.reports.languages import load_catalogue
        from dcc.reports.submissions.page import render_replay
        from dcc.reports.submissions.stored_reports import write_page

        write_page(page.absolute(), render_replay(found, load_catalogue(None, settings), settings))
        click.echo(f"Wrote {page}.", err=True)
    if wants_json():
        echo_json(_as_json(found))
    else:
        _print(found, limit or None)


def _reference(text: str) -> tuple[str, str]:
    name, equals, source = text.partition("=")
    if not equals or not source:
        raise ConfigurationError(f"--reference {text} has no source. Write NAME=SOURCE, such as colonies=colonies.csv.")
    return name, source


def _print(found: Replay, most: int | None) -> None:
    verdicts = [change for change in found.changes if change.is_verdict]
    click.echo(
        f"{count_of(found.archives, 'archive')}, {count_of(sum(found.documents.values()), 'document')}: "
        f"{count_of(len(verdicts), 'verdict')} would change, and the findings in "
        f"{count_of(len(found.changes) - len(verdicts), 'other document')}."
    )
    echo_list(
        found.centres, "centre, documents, no longer accepted=lost, newly accepted=gained, other changes=otherwise"
    )
    causes = found.causes
    columns = "rule=code, severity, appears in=appears, goes from=goes, verdicts, cause"
    echo_list(causes[:most], columns, flexible=["cause"])
    echo_list(
        verdicts[:most],
        "archive, document, before, after",
        archive=lambda change: change.document.archive,
        document=lambda change: change.document.file_name,
    )
    if most is not None and max(len(causes), len(verdicts)) > most:
        click.echo(f"Of causes and documents the first {most} are shown; --limit 0 prints all.")
    if found.unjudged:
        warn(f"{count_of(found.unjudged, 'document')} without a verdict yet: they wait, are held or were withdrawn.")
    if found.missing:
        first = printable(found.missing[0])
        warn(f"{count_of(len(found.missing), 'archive')} not kept any more were left out, such as {first}.")


def _as_json(found: Replay) -> dict[str, object]:
    finding = ("code", "severity", "line", "message")
    return {
        **fields_of(found, "proposal", "archives", "unjudged", "centres", "causes"),
        "documents": sum(found.documents.values()),
        "missing": [str(key) for key in found.missing],
        "changes": [
            {
                "archive": str(change.document.archive),
                "document": change.document.file_name,
                **fields_of(change, "centre", "before", "after"),
                "appeared": [fields_of(one, *finding) for one in change.appeared],
                "gone": [fields_of(one, *finding) for one in change.gone],
            }
            for change in found.changes
        ],
    }
