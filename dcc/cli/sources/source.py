"""`dcc source`: the servers and folders from which archives are collected."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dcc.cli.shell.context import (
    PLAIN_HELP,
    absolute_path,
    confirmed,
    json_option,
    open_tracker,
    read_accesskey,
    reading_tracker,
    settings_from_environment,
    user_name,
    writing_tracker,
)
from dcc.cli.shell.group import CommandGroup, command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_rows, json_object
from dcc.cli.shell.parameter_types import ID
from dcc.cli.sources.source_options import delta_option, listing_extent, source_options, tls_trust
from dcc.errors import ConfigurationError
from dcc.messages import count_of

if TYPE_CHECKING:
    from dcc.sources.base import Extent
    from dcc.sources.crawl_policy import CrawlDue

_TRUSTED = "host key or certificate"
_STATES = ("available", "maintenance", "removed")
_COMMANDS = {
    "add": "dcc.cli.sources.connection:add",
    "list": "dcc.cli.sources.source:list_sources",
    "test": "dcc.cli.sources.connection:test",
    "why": "dcc.cli.sources.ignored_archives:why",
    "missing": "dcc.cli.sources.ignored_archives:missing",
    "change": "dcc.cli.sources.source:change",
    "set-state": "dcc.cli.sources.source:set_state",
    "pause": "dcc.cli.sources.source:pause",
    "resume": "dcc.cli.sources.source:resume",
    "remove": "dcc.cli.sources.source:remove",
}


@click.command(cls=CommandGroup, lazy_commands=_COMMANDS)
def source() -> None:
    """Register, list, test, change and remove sources.

    A source is a server, or a folder, with the directories add, edit and delete at its base path; each of them may be
    missing.
    """


@command("list")
@json_option
def list_sources(as_json: bool) -> None:
    """List the registered sources.

    An access key that is a reference (env:NAME, file:PATH, key:PATH) is shown; a password never is.

    \b
    JSON: a list of {"id", "centre", "protocol", "hostname", "username", "accesskey" (a reference,
      "***" for a password, or empty), "base_path", "state", "centre_active", "created",
      "hosted" (submissions at present), "fingerprints" (of accepted host keys),
      "tls_authorities", "tls_fingerprints" (of the certificates trusted for it alone), "delta"
      (disabled, initial, additive, full), "extent": {"depth", "include", "exclude"}, "every",
      "schedule" and "windows" (empty for none), "pause": null or {"reason", "by", "since", "until"},
      "due": null or {"why" (due, recent, closed, failing, paused), "until", "failures"}}
    """
    from dcc.tracker.register import file_sources
    from dcc.tracker.register.source_addresses import load_crawl_dues

    settings = settings_from_environment()
    with reading_tracker(settings) as connection:
        entries = file_sources.list_sources(connection)
        dues = load_crawl_dues(connection, settings.source_failure_limit)
    if as_json:
        echo_json([{**json_object(entry), "due": due_json(dues.get(entry.id))} for entry in entries])
        return
    rows = [
        {
            "id": e.id,
            "centre": e.centre,
            "server": f"{e.protocol}://{e.hostname}",
            "user": e.username,
            "access key": e.accesskey,
            "base path": e.base_path,
            "state": e.state if e.centre_active else f"{e.state}, centre inactive",
            "crawled": "" if e.id not in dues else dues[e.id].description,
            "hosts": e.hosted,
            "delta": e.delta,
            "listed": _listed(e.extent),
            _TRUSTED: " ".join([*e.fingerprints, *e.tls_fingerprints, *(f"CA {each}" for each in e.tls_authorities)]),
        }
        for e in entries
    ]
    echo_rows(rows, [_TRUSTED, "listed", "delta", "access key", "base path", "user", "crawled", "state"])
    if not entries:
        click.echo("No file source is registered. Add one: dcc source add")
    note_facts(first=next((e.id for e in entries if e.state != "removed"), None))


def due_json(due: CrawlDue | None) -> object:
    """Whether a source is due, in JSON."""
    return None if due is None else {"why": due.why, "until": due.until, "failures": due.past.failures}


def _listed(extent: Extent) -> str:
    """A source's extent, if it is more than its directories alone."""
    depth = [f"{count_of(extent.depth, 'level')} below"] if extent.depth else []
    return " ".join([*depth, *extent.include, *(f"not {pattern}" for pattern in extent.exclude)])


@command("set-state", examples=["dcc source set-state 3 maintenance"])
@click.argument("source_id", metavar="ID", type=ID)
@click.argument("state", type=click.Choice(_STATES))
def set_state(source_id: int, state: str) -> None:
    """Set the state of source ID.

    Only available sources are crawled and downloaded from.
    """
    from dcc.tracker.register import file_sources
    from dcc.tracker.register.source_addresses import SourceState

    with writing_tracker() as connection:
        file_sources.set_source_state(connection, source_id, SourceState(state))
    click.echo(f"File source {source_id} is in the state {state}.")


@command(
    examples=[
        "dcc source change 3 --accesskey env:HARWELL_PASSWORD",
        "dcc source change 3 --tls-ca harwell-ca.pem",
        "dcc source change 3 --delta full",
        'dcc source change 3 --depth 2 --include "2026/*" --exclude "*/old/*"',
        'dcc source change 3 --schedule "Mon-Fri 06:00, Sun 18:30 Europe/London"',
        'dcc source change 3 --every 6h --window "Mon-Fri 20:00-06:00, Sat-Sun 00:00-24:00 Asia/Tokyo"',
    ]
)
@click.argument("source_id", metavar="ID", type=ID)
@click.option("--hostname", help="HOST, HOST:PORT or [IPV6]:PORT.")
@click.option("--username", help="Whom to log in as.")
@click.option("--accesskey", help="As with `dcc source add`; - reads it from standard input.")
@click.option("--plain", is_flag=True, help=PLAIN_HELP)
@click.option("--base-path", help="The directory that holds add, edit and delete.")
@delta_option()
@source_options
def change(
    source_id: int,
    hostname: str | None,
    username: str | None,
    accesskey: str | None,
    plain: bool,
    base_path: str | None,
    delta: str | None,
    depth: int | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    tls_ca: str | None,
    tls_fingerprints: tuple[str, ...],
    **policy: Any,
) -> None:
    """Change how source ID is reached and listed.

    For a server that moved, a new password or certificate. Its history and its archives stay known. An accepted host
    key stays pinned; see `dcc source test`. An empty --tls-ca or --tls-fingerprint removes earlier trust, an empty
    --include or --exclude its patterns, an empty --every, --schedule or --window its pace. A pattern is matched with
    the path below add, edit or delete, and its * matches slashes too.

    With --every, a session lists it before its listing is so old; with --schedule, at these times; with both, at what
    comes first. Outside the times of --window no session lists it or begins a download from it. Times are in UTC unless
    a time zone follows; you can give several, each with days or without.
    """
    from pydantic import SecretStr

    from dcc.sources.access import parse_hostname
    from dcc.sources.base import DeltaStrategy
    from dcc.tracker.register import file_sources

    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    if given <= {"source_id", "plain"}:
        raise click.UsageError("Nothing would change: give at least one option.")
    if hostname is not None:
        parse_hostname(hostname, 1)
    secret = None if accesskey is None else SecretStr(read_accesskey(accesskey, plain=plain))
    with writing_tracker() as connection:
        (entry,) = file_sources.list_sources(connection, [source_id])
        if base_path and entry.protocol == "file":
            base_path = absolute_path(base_path)
        file_sources.change_source(
            connection,
            source_id,
            hostname=hostname,
            username=username,
            accesskey=secret,
            base_path=base_path,
            delta=None if delta is None else DeltaStrategy(delta),
            extent=listing_extent(depth, include, exclude, entry.extent),
            tls=tls_trust(entry.protocol, tls_ca, tls_fingerprints),
            **policy,
        )
    click.echo(f"Changed file source {source_id}.")


@command(examples=["dcc source remove 3"])
@click.argument("source_id", metavar="ID", type=ID)
@click.option("--purge", is_flag=True, help="Delete it, with the download attempts and documents that came from it.")
@click.option("--yes", is_flag=True, help="Answer the question that --purge asks.")
def remove(source_id: int, purge: bool, yes: bool) -> None:
    """Remove source ID; its history stays.

    It is never used again, and its archives stay in the tracker.
    """
    from dcc.databases.transactions import writing
    from dcc.tracker.register import file_sources
    from dcc.tracker.register.source_addresses import SourceState

    settings = settings_from_environment()
    with open_tracker(settings) as tracker:
        if not purge:
            with writing(tracker) as connection:
                file_sources.set_source_state(connection, source_id, SourceState.REMOVED)
            click.echo(settings.labelled(f"File source {source_id} is removed; its history stays."))
            return
        with tracker.connect() as connection:
            file_sources.list_sources(connection, [source_id])
        question = f"Delete file source {source_id} with every download attempt and document that came from it?"
        if not yes and not confirmed(question, option="--yes"):
            raise ConfigurationError("Nothing was deleted.")
        with writing(tracker) as connection:
            deleted = file_sources.purge_source(connection, source_id)
        text = f"Deleted file source {source_id} and {count_of(deleted, 'download attempt')}."
        click.echo(settings.labelled(text))


@command(examples=['dcc source pause 3 --reason "Harwell moves its server" --until 2026-12-01'])
@click.argument("source_id", metavar="ID", type=ID)
@click.option("--reason", required=True, help="Why, for whoever wonders.")
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"]),
    help="When it ends by itself, in UTC; else with `dcc source resume`.",
)
def pause(source_id: int, reason: str, until: datetime | None) -> None:
    """Leave source ID alone for a time.

    No session lists it or downloads from it, not even one that names it. Your user name and the reason are recorded.
    """
    from dcc.sources.crawl_policy import Pause
    from dcc.tracker.models import utc_now
    from dcc.tracker.register.source_addresses import set_pause

    now = utc_now()
    if until is not None and until <= now:
        raise ConfigurationError(f"{until:%Y-%m-%d %H:%M} UTC is over. Give a later time with --until, or none.")
    made = Pause(reason, user_name(), now, until)
    with writing_tracker() as connection:
        set_pause(connection, source_id, made)
    ends = f"until {until:%Y-%m-%d %H:%M} UTC" if until else f"until `dcc source resume {source_id}`"
    click.echo(f"File source {source_id} is paused {ends}.")


@command(examples=["dcc source resume 3"])
@click.argument("source_id", metavar="ID", type=ID)
def resume(source_id: int) -> None:
    """Have source ID crawled again: end its pause, and forget its failures.

    After it, a source that is left alone because it kept failing is due again. The next session crawls it, if its
    schedule allows that.
    """
    from dcc.sources.crawl_policy import DueReason
    from dcc.tracker.register.source_addresses import load_crawl_dues, set_pause

    settings = settings_from_environment()
    with writing_tracker(settings) as connection:
        before = load_crawl_dues(connection, settings.source_failure_limit).get(source_id)
        set_pause(connection, source_id, None)
        after = load_crawl_dues(connection, settings.source_failure_limit).get(source_id)
    was = "was not paused" if before is None or before.policy.pause is None else "is not paused any more"
    forgotten = "; its failures are forgotten" if before is not None and before.why is DueReason.FAILING else ""
    following = "The next session crawls it" if after is None or after.is_due else f"It is {after}"
    click.echo(f"File source {source_id} {was}{forgotten}. {following}.")
