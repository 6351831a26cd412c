"""`dcc source`: the servers and folders from which archives are collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from dcc.cli.shell.context import (
    PLAIN_HELP,
    absolute_path,
    confirmed,
    json_option,
    open_tracker,
    options,
    read_accesskey,
    reading_tracker,
    settings_from_environment,
    user_name,
    writing_tracker,
)
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_list, echo_wrapped, warn
from dcc.cli.shell.parameter_types import ID, MOMENT
from dcc.errors import ConfigurationError
from dcc.messages import count_of
from dcc.runtime.json_values import fields_of, json_ready
from dcc.sources.protocols import traits_of
from dcc.vocabulary import DeltaStrategy, SourceState

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from dcc.reports.causes.skipped_archives import SkippedEntry
    from dcc.sources.base import Extent, SourceAddress
    from dcc.sources.crawl_policy import CrawlDue
    from dcc.tracker.register.file_sources import SourceEntry
    from dcc.tracker.register.source_addresses import TlsTrust

_Command = TypeVar("_Command", bound=Callable[..., None])
source_options = options(
    click.option(
        "--depth", type=click.IntRange(0, 16), help="Levels of folders to list below add, edit, delete; else 0."
    ),
    click.option("--include", metavar="PATTERN", multiple=True, help="List only archives like 2024/*; repeatable."),
    click.option("--exclude", metavar="PATTERN", multiple=True, help="Leave out archives and folders; repeatable."),
    click.option("--every", metavar="AGE", help="List it once so often, such as 6h or 7d; else in every session."),
    click.option("--schedule", metavar="TIMES", help="List it at these times, such as 'Mon 06:00 Europe/London'."),
    click.option(
        "--window", "windows", metavar="TIMES", help="When it may be used, such as '20:00-06:00 Europe/London'."
    ),
    click.option("--tls-ca", metavar="FILE", help="Trust the authorities in this PEM file, in place of the system's."),
    click.option(
        "--tls-fingerprint",
        "tls_fingerprints",
        metavar="SHA256:...",
        multiple=True,
        help="Trust this certificate of a TLS server; may be repeated.",
    ),
)
"""What is listed and when, and the certificates that are trusted."""


def checked_address(address: SourceAddress) -> SourceAddress:
    """The address of a new source, a folder's as an absolute path. Raises ConfigurationError for an invalid one."""
    from dcc.sources.access import parse_hostname

    refuse_foreign_options(address.protocol, {"--depth": address.extent.depth})
    if not address.traits.has_server:
        if not address.base_path:
            raise ConfigurationError(
                f"A source of the protocol {address.protocol} needs the folder's path: --base-path."
            )
        base_path = absolute_path(address.base_path) if address.traits.is_local else address.base_path
        return replace(address, hostname=address.hostname or "localhost", base_path=base_path)
    if not address.hostname:
        raise ConfigurationError(
            f"A source of the protocol {address.protocol} needs its server: --hostname HOST or HOST:PORT."
        )
    parse_hostname(address.hostname, 1)
    return address


def refuse_foreign_options(protocol: str, given: Mapping[str, object]) -> None:
    """Raise ConfigurationError for options with a value that sources of a protocol do not have."""
    traits = traits_of(protocol)
    has_login = traits.has_server or not traits.is_local
    has = {
        "--base-path": True,
        "--hostname": traits.has_server,
        "--username": has_login,
        "--accesskey": has_login,
        "--accept-host-key": traits.uses_ssh,
        "--tls-ca": traits.uses_tls,
        "--tls-fingerprint": traits.uses_tls,
        "--depth": traits.lists_folders,
    }
    if foreign := [option for option, value in given.items() if value and not has[option]]:
        own = ", ".join(option for option, is_own in has.items() if is_own)
        raise ConfigurationError(
            f"A source of the protocol {protocol} has no {' and no '.join(foreign)}: leave that out. It has {own}."
        )


def stored_address(tracker: Engine, source_id: int) -> SourceAddress:
    """The address of a registered source, whatever its state. Raises NotFoundError."""
    from dcc.tracker.register.source_addresses import load_addresses, require_source

    with tracker.connect() as connection:
        require_source(connection, source_id)
        (found,) = load_addresses(connection, ids=[source_id], only_crawlable=False)
    return found


def listing_extent(
    depth: int | None, include: tuple[str, ...], exclude: tuple[str, ...], present: Extent | None = None
) -> Extent:
    """The extent of the options; missing options leave the present value, and empty text removes it."""
    from dcc.sources.base import PLAIN, Extent

    before = PLAIN if present is None else present
    return Extent(
        before.depth if depth is None else depth,
        tuple(filter(None, include)) if include else before.include,
        tuple(filter(None, exclude)) if exclude else before.exclude,
    )


_RECORDED: Final = {
    DeltaStrategy.DISABLED: "nothing",
    DeltaStrategy.INITIAL: "their size and time, without comparing",
    DeltaStrategy.ADDITIVE: "which of them changed or are gone",
    DeltaStrategy.FULL: "which of them changed or are gone, and propose to withdraw the data of those gone",
}
"""What crawls record of archives that were fetched before."""


def delta_option(default: str | None = None) -> Callable[[_Command], _Command]:
    """The option `--delta`."""
    return click.option(
        "--delta",
        type=click.Choice([strategy.value for strategy in DeltaStrategy]),
        default=default,
        show_default=default is not None,
        help="What crawls record of archives that were fetched before. "
        + " ".join(f"With {strategy}: {what}." for strategy, what in _RECORDED.items()),
    )


def tls_trust(protocol: str, authorities: str | None, fingerprints: tuple[str, ...]) -> TlsTrust:
    """The trust of the options; empty text removes earlier trust.

    Raises ConfigurationError for a protocol without TLS, a file without certificates, and an invalid fingerprint.
    """
    from dcc.sources.certificates import parse_fingerprint, read_authorities
    from dcc.tracker.register.source_addresses import TlsTrust

    refuse_foreign_options(protocol, {"--tls-ca": authorities, "--tls-fingerprint": any(fingerprints)})
    return TlsTrust(
        None if authorities is None else read_authorities(Path(authorities).expanduser()) if authorities else [],
        [parse_fingerprint(text) for text in fingerprints if text] if fingerprints else None,
    )


_TRUSTED = "host key or certificate"
_CONNECTING = {"add": "dcc.cli.sources.add_and_test:add", "test": "dcc.cli.sources.add_and_test:test"}


@click.group(cls=CommandGroup, lazy_commands=_CONNECTING)
def source() -> None:
    """Register, list, test, change and remove sources.

    A source is a server, or a folder, with the directories add, edit and delete at its base path; each of them may be
    missing.
    """


@source.command("list")
@json_option
def list_sources() -> None:
    """List the registered sources.

    An access key that is a reference (env:NAME, file:PATH, key:PATH) is shown; a password never is.

    \b
    JSON: a list of {"id", "centre", "protocol", "hostname", "username", "accesskey" (a reference,
      "***" for a password, or empty), "base_path", "state", "centre_active", "created",
      "hosted" (submissions at present), "fingerprints" (of accepted host keys),
      "tls_authorities", "tls_fingerprints" (of the certificates trusted for it alone), "delta"
      (disabled, initial, additive, full), "extent": {"depth", "include", "exclude"}, "every",
      "schedule" and "windows" (empty for none), "pause": null or {"reason", "by", "since", "until"},
      "due": null or {"why" (due, recent, closed, failing, paused, maintenance, inactive), "until",
      "failures"}}
    """
    from dcc.tracker.register import file_sources
    from dcc.tracker.register.source_schedules import load_crawl_dues

    settings = settings_from_environment()
    with reading_tracker(settings) as connection:
        entries = file_sources.list_sources(connection)
        dues = load_crawl_dues(connection, settings.source_failure_limit)
    echo_list(
        entries,
        "id, centre, server, user=username, access key=accesskey, base path, state, crawled, hosts=hosted, delta, "
        f"listed, {_TRUSTED}=trusted",
        as_object=lambda e: {**json_ready(e), "due": due_json(dues.get(e.id))},
        server=lambda e: f"{e.protocol}://{e.hostname}",
        state=state_text,
        crawled=lambda e: dues[e.id].description if e.id in dues else "",
        listed=lambda e: _listed(e.extent),
        trusted=lambda e: " ".join([*e.fingerprints, *e.tls_fingerprints, *(f"CA {one}" for one in e.tls_authorities)]),
        flexible=[_TRUSTED, "listed", "delta", "access key", "base path", "user", "crawled", "state"],
        none="No file source is registered. Add one: dcc source add",
    )
    note_facts(first=next((e.id for e in entries if e.state != "removed"), None))


def state_text(entry: SourceEntry) -> str:
    """The state of a source, and whether its centre is inactive."""
    return entry.state if entry.centre_active else f"{entry.state}, centre inactive"


def due_json(due: CrawlDue | None) -> object:
    """Whether a source is due, in JSON."""
    return None if due is None else {"why": due.why, "until": due.until, "failures": due.past.failures}


def _listed(extent: Extent) -> str:
    """A source's extent, if it is more than its directories alone."""
    depth = [f"{count_of(extent.depth, 'level')} below"] if extent.depth else []
    return " ".join([*depth, *extent.include, *(f"not {pattern}" for pattern in extent.exclude)])


@source.command("set-state", examples=["dcc source set-state 3 maintenance"])
@click.argument("source_id", metavar="ID", type=ID)
@click.argument("state", type=click.Choice([state.value for state in SourceState]))
def set_state(source_id: int, state: str) -> None:
    """Set the state of source ID.

    Only available sources are crawled and downloaded from. A source in maintenance waits until you set it back, and one
    that is removed is as after `dcc source remove`.
    """
    from dcc.runtime.clock import utc_now
    from dcc.tracker.hostings.missing_archives import close_returned
    from dcc.tracker.register import file_sources

    with writing_tracker() as connection:
        file_sources.set_source_state(connection, source_id, SourceState(state))
        # A removed source that is used again may list what others do not.
        close_returned(connection, utc_now())
    click.echo(f"File source {source_id} is in the state {state}.")


@source.command(
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
        if base_path and traits_of(entry.protocol).is_local:
            base_path = absolute_path(base_path)
        extent = listing_extent(depth, include, exclude, entry.extent)
        given_place = {"--hostname": hostname, "--username": username, "--accesskey": accesskey}
        refuse_foreign_options(entry.protocol, given_place | {"--depth": extent.depth})
        file_sources.change_source(
            connection,
            source_id,
            hostname=hostname,
            username=username,
            accesskey=secret,
            base_path=base_path,
            delta=None if delta is None else DeltaStrategy(delta),
            extent=extent,
            tls=tls_trust(entry.protocol, tls_ca, tls_fingerprints),
            **policy,
        )
    recorded = f" Of archives fetched before, crawls record {_RECORDED[DeltaStrategy(delta)]}." if delta else ""
    echo_wrapped(f"Changed file source {source_id}.{recorded}")


@source.command(examples=["dcc source remove 3"])
@click.argument("source_id", metavar="ID", type=ID)
@click.option("--purge", is_flag=True, help="Delete it, with the download attempts and documents that came from it.")
@click.option("--yes", is_flag=True, help="Answer the question that --purge asks.")
def remove(source_id: int, purge: bool, yes: bool) -> None:
    """Remove source ID; its history stays.

    Nothing uses it any more, until `dcc source set-state ID available`. Its archives stay in the tracker.
    """
    from dcc.databases.transactions import writing
    from dcc.session.leases import refuse_during_session
    from dcc.tracker.hostings.retries import reopen_lost_with_source
    from dcc.tracker.register import file_sources

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
            # A session could not record what it fetches from there.
            refuse_during_session(connection, settings)
            reopen_lost_with_source(connection, source_id, user_name())
            deleted = file_sources.purge_source(connection, source_id)
        text = f"Deleted file source {source_id} and {count_of(deleted, 'download attempt')}."
        click.echo(settings.labelled(text))


@source.command(examples=['dcc source pause 3 --reason "Harwell moves its server" --until 2027-03-31'])
@click.argument("source_id", metavar="ID", type=ID)
@click.option("--reason", required=True, help="Why, for whoever wonders.")
@click.option(
    "--until",
    type=MOMENT,
    help="When it ends by itself, such as 2026-12-01 or 2026-12-01T06:00, in UTC; else with `dcc source resume`.",
)
def pause(source_id: int, reason: str, until: datetime | None) -> None:
    """Leave source ID alone for a time.

    No session lists it or downloads from it, not even one that names it. Your user name and the reason are recorded.
    """
    from dcc.runtime.clock import utc_now
    from dcc.sources.crawl_policy import Pause
    from dcc.tracker.register.source_schedules import set_pause

    now = utc_now()
    if until is not None and until <= now:
        raise ConfigurationError(f"{until:%Y-%m-%d %H:%M} UTC is over. Give a later time with --until, or none.")
    made = Pause(reason, user_name(), now, until)
    with writing_tracker() as connection:
        set_pause(connection, source_id, made)
    ends = f"until {until:%Y-%m-%d %H:%M} UTC" if until else f"until `dcc source resume {source_id}`"
    click.echo(f"File source {source_id} is paused {ends}.")


@source.command(examples=["dcc source resume 3"])
@click.argument("source_id", metavar="ID", type=ID)
def resume(source_id: int) -> None:
    """Have source ID crawled again: end its pause, and forget its failures.

    After it, a source that is left alone because it kept failing is due again. The next session crawls it, if its
    schedule allows that.
    """
    from dcc.sources.crawl_policy import DueReason
    from dcc.tracker.register.source_schedules import load_crawl_dues, set_pause

    settings = settings_from_environment()
    with writing_tracker(settings) as connection:
        before = load_crawl_dues(connection, settings.source_failure_limit).get(source_id)
        set_pause(connection, source_id, None)
        after = load_crawl_dues(connection, settings.source_failure_limit).get(source_id)
    was = "was not paused" if before is None or before.policy.pause is None else "is not paused any more"
    forgotten = "; its failures are forgotten" if before is not None and before.why is DueReason.FAILING else ""
    following = "The next session crawls it" if after is None or after.is_due else f"It is {after}"
    click.echo(f"File source {source_id} {was}{forgotten}. {following}.")
    left_alone = after is not None and after.why in (DueReason.MAINTENANCE, DueReason.INACTIVE)
    note_facts(crawlable=None if left_alone else source_id)


@source.command(
    examples=["dcc source why", "dcc source why 3", "dcc source why 3 --look", "dcc source why --centre H"],
    exits={4: "--look could not reach one of them, all others are shown"},
)
@click.argument("source_id", metavar="[ID]", type=ID, required=False)
@click.option("--centre", metavar="CODE", help="Of all sources of this centre.")
@click.option("--look", is_flag=True, help="List the source now, to name entries that are ignored.")
@click.option("--language", metavar="CODE", help="Such as de; DCC_LANGUAGE unless given.")
@json_option
@click.pass_context
def why(ctx: click.Context, source_id: int | None, centre: str | None, look: bool, language: str | None) -> None:
    """Show which archives of source ID were not fetched, and why.

    Without ID, of all sources. A crawl fetches archives that are new and whose names conform. This shows the reason for
    all others, and who must act. The source is not crawled or could not be listed. A name was refused, or an entry
    is no archive. An archive failed, changed after it was fetched, or was fetched before.

    \b
    JSON: a list of {"source", "entry" (null: the source as a whole), "why", "reason", "acts", "number"}
    """

    from dcc.declarations import ACTOR_NAMES
    from dcc.reports.causes.skipped_archives import ignored_entries, skipped_entries
    from dcc.reports.languages import load_catalogue
    from dcc.session.source_listings import list_source
    from dcc.sources.crawl_policy import DueReason
    from dcc.tracker.register import file_sources
    from dcc.tracker.register.centres import require_centre
    from dcc.tracker.register.source_schedules import load_crawl_dues

    if source_id is not None and centre is not None:
        raise ConfigurationError("Give the ID of a file source, or --centre, not both.")
    settings = settings_from_environment()
    catalogue = load_catalogue(language, settings)
    skipped: list[tuple[int, str, SkippedEntry]] = []
    exit_code = 0
    with open_tracker(settings) as tracker:
        with tracker.connect() as connection:
            if centre is not None:
                require_centre(connection, centre)
            entries = file_sources.list_sources(connection)
            dues = load_crawl_dues(connection, settings.source_failure_limit)
        chosen = [one.id for one in entries if centre in (None, one.centre) and one.state != "removed"]
        for each in chosen if source_id is None else [source_id]:
            due = dues.get(each)
            with tracker.connect() as connection:
                rows = skipped_entries(connection, each, due=due)
            if look:
                listing = list_source(stored_address(tracker, each), settings)
                rows += ignored_entries(listing.listings)
                if listing.error is not None:
                    warn(str(listing.error))
                    exit_code = exit_code if listing.listings else max(exit_code, listing.error.exit_code)
            if due is not None and due.why is DueReason.PAUSED:
                note_facts(paused=each)
            skipped += [(each, row.reason(catalogue, for_wranglers=True), row) for row in rows]
    of_source, entry = catalogue.say("source"), catalogue.say("entry")
    why_not, who_acts = catalogue.say("why it was not taken"), catalogue.say("who acts")
    actors = {actor: catalogue.say(name) for actor, name in ACTOR_NAMES.items()}
    echo_list(
        [
            {"source": source, "reason": reason, **fields_of(row, "entry", "why", "acts", "number")}
            for source, reason, row in skipped
        ],
        [(of_source, "source"), (entry, "entry"), (why_not, "reason"), (who_acts, "acts")],
        acts=lambda one: actors[one["acts"]],
        flexible=[why_not, who_acts],
        none=catalogue.say("Nothing was kept from being taken: every entry is new."),
    )
    ctx.exit(exit_code)


@source.command(examples=["dcc source missing", "dcc source missing 3"])
@click.argument("source_id", metavar="[ID]", type=ID, required=False)
@json_option
def missing(source_id: int | None) -> None:
    """List archives that source ID no longer lists.

    Without ID, of all sources. A listing that lost many archives at once counts only after the next one confirms it.

    \b
    JSON: a list of {"source", "zip", "since", "believed" (false: the next listing decides), "loaded"
      (documents of it stand), "elsewhere" (another source hosts it), "proposal" (state of the
      proposal to withdraw it, or null)}
    """
    from dcc.tracker.hostings.missing_archives import missing_archives
    from dcc.tracker.register import file_sources

    with reading_tracker() as connection:
        sources = file_sources.list_sources(connection, None if source_id is None else [source_id])
        found = missing_archives(connection, source_id)
    names = ("source", "since", "believed", "loaded", "elsewhere", "proposal")
    echo_list(
        [{"zip": str(archive.key), **fields_of(archive, *names)} for archive in found],
        "source, submission=zip, missing since=since, loaded, elsewhere, withdrawal=proposal",
        since=lambda one: one["since"] if one["believed"] else f"{one['since']}, not believed yet",
        none="No archive is known to be missing.",
    )
    for entry in sources:
        if not entry.delta.compares:
            warn(f"What file source {entry.id} lists no more is not known: no crawl looks, by --delta {entry.delta}.")
