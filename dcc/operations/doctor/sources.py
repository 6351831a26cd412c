"""The file sources: their credentials, what is known of them, and whether they answer now."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Final

from dcc.errors import ConfigurationError, SourceError
from dcc.messages import count_of
from dcc.operations.doctor.checks import (
    CheckFinding,
    DoctorCheck,
    Environment,
    explained,
    failed,
    not_checked,
    ok,
    run_all,
    warning,
)
from dcc.operations.doctor.machine import clock_finding
from dcc.reports.overdue import crawled_sources
from dcc.runtime.clock import utc_now
from dcc.session.source_listings import list_source
from dcc.sources.access import parse_hostname, resolve_accesskey
from dcc.sources.base import SourceAddress
from dcc.sources.connect import connection_class
from dcc.sources.host_keys import SSH_PORT, trusted_keys
from dcc.sources.protocols import PROTOCOLS
from dcc.tracker.crawls import latest_crawls
from dcc.tracker.database import TRACKER
from dcc.tracker.register.column_texts import MASK
from dcc.tracker.register.file_sources import list_sources
from dcc.tracker.register.source_addresses import load_addresses

_SECONDS_TO_TELL: Final = 1.0
_FILE_REFERENCE: Final = re.compile(r"\A(?:file|key):(?P<path>[^?]+)")
_PASSPHRASE_FILE: Final = re.compile(r"\?passphrase=file:(?P<path>.+)\Z", re.DOTALL)


def check_registered(environment: Environment) -> Iterator[CheckFinding]:
    """Registered sources, those that are crawled, and the results of their latest crawls."""
    with environment.reading(TRACKER) as connection:
        entries = list_sources(connection)
        crawls = latest_crawls(connection)
        overdue = {one.source_id for one in crawled_sources(connection, environment.settings, utc_now()) if one.overdue}
    crawlable = [entry for entry in entries if entry.state == "available" and entry.centre_active]
    crawled = [entry for entry in crawlable if entry.pause is None]
    if not entries:
        yield warning("file sources", "None is registered.", "dcc source add")
        return
    if not crawled:
        advice = "dcc source list; dcc source resume ID; dcc source set-state ID available; dcc centre activate CODE"
        yield warning("file sources", f"None of {len(entries)} is crawled.", advice)
        return
    others, paused = len(entries) - len(crawled), len(crawlable) - len(crawled)
    named = f", {paused} of them paused" if paused else ""
    yield ok("file sources", f"Crawled: {len(crawled)}; not crawled: {others}{named}.")
    for entry in crawled:
        subject = f"file source {entry.id} ({entry.centre})"
        crawl = crawls.get(entry.id)
        if crawl is None:
            verdict = warning if entry.id in overdue else not_checked
            yield verdict(subject, "It was never crawled.", "dcc crawl")
            continue
        when = f"{crawl.finished or crawl.started:%Y-%m-%d %H:%M} UTC"
        if crawl.outcome != "ok":
            error = "It was not listed whole." if crawl.error is None else crawl.error.message
            yield warning(
                subject, f"Its last crawl, at {when}, {crawl.outcome}: {error}", f"dcc source test {entry.id}"
            )
        elif entry.id in overdue:
            yield warning(
                subject,
                f"It was last crawled at {when}, and another crawl is overdue.",
                "See that dcc daemon runs, or the timer of dcc crawl; dcc crawl",
            )
        else:
            yield ok(subject, f"It was last crawled at {when}.")


def check_access(environment: Environment) -> Iterator[CheckFinding]:
    """Access keys are readable, by this user alone; private keys can be opened; host keys are pinned."""
    with environment.reading(TRACKER) as connection:
        addresses = load_addresses(connection)
    for address in addresses:
        subject = f"access to file source {address.id} ({address.centre})"
        problems = list(_access_problems(environment, subject, address))
        yield from problems or [ok(subject, _access_description(address))]


def check_passwords(environment: Environment) -> Iterator[CheckFinding]:
    """The tracker contains no password of a source as plain text."""
    with environment.reading(TRACKER) as connection:
        entries = list_sources(connection)
    plain = [f"{each.id} ({each.centre})" for each in entries if each.accesskey == MASK and each.state != "removed"]
    if not plain:
        yield ok("passwords in the tracker", "The tracker holds none.")
        return
    yield warning(
        "passwords in the tracker",
        f"File sources whose password the tracker keeps as it is: {', '.join(plain)}.",
        "Put each into a file that this user alone can read, then: dcc source change ID --accesskey file:PATH",
    )


def _access_problems(environment: Environment, subject: str, address: SourceAddress) -> Iterator[CheckFinding]:
    change = f"dcc source change {address.id} --accesskey ..."
    try:
        credential = resolve_accesskey(address.accesskey, environment.settings.key_passphrase)
        if credential.private_key is not None and address.traits.uses_ssh:
            from dcc.sources.sftp.ssh import load_private_key

            load_private_key(credential, credential.private_key)
    except ConfigurationError as error:
        yield failed(subject, str(error), change)
        return
    for path in _secret_files(address.accesskey.get_secret_value()):
        yield from _check_secret_file(subject, path)
    if address.traits.uses_ssh:
        yield from _check_host_key(environment, subject, address)


def _secret_files(accesskey: str) -> list[Path]:
    found = [match for pattern in (_FILE_REFERENCE, _PASSPHRASE_FILE) if (match := pattern.search(accesskey))]
    if not found and accesskey.startswith("/"):
        # A password may begin with a slash, too; then there is no such file.
        return [Path(accesskey)]
    return [Path(match["path"]).expanduser() for match in found]


def _check_secret_file(subject: str, path: Path) -> Iterator[CheckFinding]:
    try:
        status = path.stat()
    except (OSError, ValueError):
        # Another finding says that it cannot be read.
        return
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        yield warning(subject, f"Others may read the secret in {path} (mode {mode:o}).", f"chmod 600 {path}")
    elif status.st_uid not in (os.geteuid(), 0):
        yield warning(subject, f"{path} belongs to another user.", f"chown {os.geteuid()} {path}")


def _check_host_key(environment: Environment, subject: str, address: SourceAddress) -> Iterator[CheckFinding]:
    accept = f"dcc source test {address.id} --accept-host-key"
    try:
        endpoint = parse_hostname(address.hostname, SSH_PORT)
        trusted = trusted_keys(address, endpoint, environment.settings.known_hosts)
    except ConfigurationError as error:
        yield failed(subject, *explained(error))
        return
    if not trusted.accepted:
        yield failed(subject, "No host key of it was ever accepted, so that nothing is sent to it.", accept)


def _access_description(address: SourceAddress) -> str:
    if address.traits.uses_ssh:
        return "Its access key can be used, its host key is pinned."
    if address.traits.uses_tls:
        by = "by its fingerprint" if address.tls_fingerprints else "by an authority of its own"
        known = by if address.tls_fingerprints or address.tls_authorities else "by the authorities of this installation"
        return f"Its access key can be used, its certificate is known {known}."
    if address.traits.is_local:
        return "It is a folder, which needs no access key."
    if address.protocol in PROTOCOLS:
        return f"Its access key can be used; {address.protocol} sends it unencrypted."
    return f"Its access key can be used; an installed package speaks {address.protocol}."


def check_answers(environment: Environment) -> Iterator[CheckFinding]:
    """Each active source accepts a login and lists its directories; all are asked at once."""
    with environment.reading(TRACKER) as connection:
        addresses = load_addresses(connection)
    checks = [
        DoctorCheck(
            f"{address.label} at present",
            partial(_check_answer, address),
            f"Ask whoever runs the server; try it alone: dcc source test {address.id}",
        )
        for address in addresses
    ]
    reserved = min(_SECONDS_TO_TELL, environment.seconds_left / 2)
    hurried = replace(environment, deadline=environment.deadline - reserved)
    for _, finding in run_all(checks, hurried):
        yield finding


def _check_answer(address: SourceAddress, environment: Environment) -> Iterator[CheckFinding]:
    subject = f"{address.label} at present"
    listing = list_source(address, environment.short_timeout_settings)
    if listing.error is not None:
        yield failed(subject, str(listing.error.translatable.problem), f"dcc source test {address.id}")
        return
    zips = sum(len(part.zips) for part in listing.listings)
    yield ok(subject, f"It lists {count_of(zips, 'archive')}, in {listing.seconds:.1f} s.")
    yield from _check_its_clock(environment, address)


def _check_its_clock(environment: Environment, address: SourceAddress) -> Iterator[CheckFinding]:
    """The clock of a web server, from the date in its answers."""
    from dcc.sources.http.source import HttpConnection

    opener = connection_class(address.protocol)
    if opener is None or not issubclass(opener, HttpConnection):
        return
    try:
        with opener(address, environment.short_timeout_settings) as connection:
            date = connection.server_date()
    except (SourceError, ConfigurationError) as error:
        yield not_checked(f"clock of {address.label}", f"It did not say: {error}")
        return
    try:
        server_time = None if date is None else parsedate_to_datetime(date)
    except ValueError:
        server_time = None
    if server_time is not None and server_time.tzinfo is not None:
        yield clock_finding(f"clock of {address.label}", (datetime.now(UTC) - server_time).total_seconds())
