"""`dcc staging`: lists staging, and removes archives at the end of their retention time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, get_args

import click

from dcc.cli.shell.context import json_option, open_tracker, options, settings_from_environment
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.output import echo_json, echo_list, printable, wants_json, warn
from dcc.messages import byte_size, count_of
from dcc.phases import KeptPhase, Phase, Status
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dcc.operations.staging.cleanup import RetentionDecision

_SHOWN = 20


@click.group(cls=CommandGroup)
def staging() -> None:
    """List staging; remove archives at the end of their time.

    Archives stay there with their contents until they are removed: DCC_STAGING_KEEP_DAYS after they are done,
    DCC_STAGING_KEEP_FAILED_DAYS after they failed, were withdrawn or were set back. Whatever a session may still need
    stays at any age: archives that are not completely validated, documents that wait for their upload or confirmation,
    downloads that can be continued. `dcc retry` downloads an archive again.
    """


_DAYS = click.IntRange(0, 36_500)
_policy_options = options(
    click.option(
        "--keep-days",
        "staging_keep_days",
        type=_DAYS,
        help="Days in staging of what is through. [DCC_STAGING_KEEP_DAYS, else 90]",
    ),
    click.option(
        "--keep-failed-days",
        "staging_keep_failed_days",
        type=_DAYS,
        help="Days in staging of what failed or was withdrawn. [DCC_STAGING_KEEP_FAILED_DAYS, else 365]",
    ),
    click.option(
        "--keep-part-days",
        "staging_keep_part_days",
        type=_DAYS,
        help="Days in staging of parts of what no source hosts. [DCC_STAGING_KEEP_PART_DAYS, else 7]",
    ),
    click.option(
        "--phase",
        "staging_keep_phase",
        type=click.Choice(get_args(KeptPhase)),
        help="What has passed this phase is through. [DCC_STAGING_KEEP_PHASE, else qc]",
    ),
)


@staging.command(
    "list",
    examples=["dcc staging list", "dcc staging list --files --keep-days 30"],
    exits={2: "staging cannot be read"},
)
@click.option("--files", is_flag=True, help="Each archive, part and other entry, with what becomes of it and why.")
@_policy_options
@json_option
def list_staging(files: bool, **policy: object) -> None:
    """Say what staging holds and what can go, by centre and phase.

    \b
    JSON: {"staging", "bytes", "removable_bytes", "groups", "unknown"}; a group is {"centre",
      "phase", "status", "zip_actions", "bytes", "removable_bytes"}; what is unknown, and with
      --files everything ("files"), are lists of {"place", "kinds", "bytes", "age_days",
      "verdict" (keep, remove, unknown), "reason", "centre", "phase", "status"}
    """
    from dcc.operations.staging.cleanup import RetentionVerdict, review_staging

    settings = settings_from_environment(**policy)
    with open_tracker(settings) as tracker:
        decisions = review_staging(tracker, settings)
    unknown = [decision for decision in decisions if decision.verdict is RetentionVerdict.UNKNOWN]
    going = [decision for decision in decisions if decision.verdict is RetentionVerdict.REMOVE]
    if wants_json():
        report = {
            "staging": settings.staging_directory,
            "bytes": _bytes(decisions),
            "removable_bytes": _bytes(going),
            "groups": _groups(decisions),
            "unknown": _entries(unknown),
        }
        echo_json(report | ({"files": _entries(decisions)} if files else {}))
        return
    if files:
        _echo_entries(decisions, ", verdict")
    else:
        echo_list(
            _groups(decisions),
            "centre, phase, status, submissions=zip_actions, size, removable",
            size=lambda group: byte_size(group["bytes"]),
            removable=lambda group: byte_size(group["removable_bytes"]),
        )
    click.echo(
        f"{printable(settings.staging_directory)} holds {byte_size(_bytes(decisions))}; "
        f"{byte_size(_bytes(going))} can be removed: dcc staging clean"
    )
    if not files:
        _warn_of_unknown(unknown)


@staging.command(
    examples=["dcc staging clean", "dcc staging clean --keep-days 30 --yes"],
    exits={1: "something could not be removed", 2: "staging cannot be read", 3: ""},
)
@click.option("--yes", is_flag=True, help="Do remove it; without, only what would be removed is said.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed, as without --yes.")
@click.option("--unknown", is_flag=True, help="What the platform has not put there goes too, whatever its age.")
@_policy_options
@json_option
def clean(yes: bool, dry_run: bool, unknown: bool, **policy: object) -> None:
    """Remove archives from staging at the end of their time.

    Without --yes it only lists them. Nothing is removed while a session is active, nothing outside staging, and no link
    is followed. `dcc show` says when an archive was removed.

    \b
    JSON: {"dry_run", "removed", "bytes", "changed" (places left alone, for they had changed
      meanwhile), "unknown"}; removed and unknown as of `dcc staging list`
    """
    from dcc.operations.staging.cleanup import CleaningResult, RetentionVerdict, review_staging
    from dcc.operations.staging.cleanup import clean as remove

    if yes and dry_run:
        raise click.UsageError("--yes and --dry-run exclude each other.")
    settings = settings_from_environment(**policy)
    with open_tracker(settings) as tracker:
        decisions = review_staging(tracker, settings)
        if yes:
            cleaned = remove(tracker, settings, decisions, unknown=unknown)
        else:
            wanted = (RetentionVerdict.REMOVE, RetentionVerdict.UNKNOWN) if unknown else (RetentionVerdict.REMOVE,)
            cleaned = CleaningResult([decision for decision in decisions if decision.verdict in wanted])
    left = [] if unknown else [decision for decision in decisions if decision.verdict is RetentionVerdict.UNKNOWN]
    if wants_json():
        report = {
            "dry_run": not yes,
            "removed": _entries(cleaned.removed),
            "bytes": cleaned.bytes,
            "changed": cleaned.changed,
            "unknown": _entries(left),
        }
        echo_json(report)
        return
    _echo_entries(cleaned.removed[:_SHOWN])
    if len(cleaned.removed) > _SHOWN:
        click.echo(f"... and {len(cleaned.removed) - _SHOWN:,} more; --json lists them all.")
    what = f"{count_of(len(cleaned.removed), 'entry')} of {byte_size(cleaned.bytes)}"
    if not cleaned.removed and not yes:
        click.echo("Nothing in staging has come to the end of its time.")
    elif yes:
        click.echo(f"Removed {what} from staging.")
    else:
        click.echo(f"Would remove {what} from staging; nothing was removed. Do it: dcc staging clean --yes")
    for place in cleaned.changed:
        warn(f"{place} was left alone: it had changed meanwhile.")
    _warn_of_unknown(left)


def _bytes(decisions: Iterable[RetentionDecision]) -> int:
    return sum(decision.staged.bytes for decision in decisions)


def _groups(decisions: Iterable[RetentionDecision]) -> list[dict[str, Any]]:
    """Bytes by centre and state, in the order of phases, without unknown archives."""
    found: dict[tuple[str, Phase, Status], list[RetentionDecision]] = defaultdict(list)
    for decision in decisions:
        if decision.known is not None:
            state = decision.known.state
            found[decision.known.centre or "", state.phase, state.status].append(decision)
    return [
        {
            "centre": centre or None,
            "phase": phase,
            "status": status,
            "zip_actions": len({decision.staged.key for decision in group}),
            "bytes": _bytes(group),
            "removable_bytes": _bytes(one for one in group if one.verdict == "remove"),
        }
        for (centre, phase, status), group in sorted(found.items())
    ]


def _entries(decisions: Iterable[RetentionDecision]) -> list[dict[str, object]]:
    return [
        {
            "place": decision.staged.place,
            "kinds": sorted({entry.kind for entry in decision.staged.entries}),
            "bytes": decision.staged.bytes,
            **fields_of(decision, "age_days", "verdict", "reason"),
            "centre": decision.known and decision.known.centre,
            "phase": decision.known and decision.known.state.phase,
            "status": decision.known and decision.known.state.status,
        }
        for decision in decisions
    ]


def _echo_entries(decisions: Sequence[RetentionDecision], verdict: str = "") -> None:
    echo_list(
        _entries(decisions),
        f"place, kind, size, days=age_days{verdict}, reason",
        kind=lambda entry: ", ".join(entry["kinds"]),
        size=lambda entry: byte_size(entry["bytes"]),
        flexible=["reason"],
    )


def _warn_of_unknown(unknown: Sequence[RetentionDecision]) -> None:
    if not unknown:
        return
    shown = ", ".join(decision.staged.place for decision in unknown[:3]) + (" ..." if len(unknown) > 3 else "")
    size = byte_size(_bytes(unknown))
    warn(
        f"Not known to the platform: {count_of(len(unknown), 'thing')} in staging ({size}): {shown}. Left there; "
        "`dcc staging list --files` says why, `dcc staging clean --unknown` would remove it."
    )
