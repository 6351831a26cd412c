"""The options of `dcc source add` and `change`: the address, what is listed and when, and trusted certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dcc.cli.shell.context import absolute_path, options
from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from dcc.sources.base import Extent, SourceAddress
    from dcc.tracker.register.source_addresses import TlsTrust

_Command = TypeVar("_Command", bound=Callable[..., None])
_STRATEGIES = ("disabled", "initial", "additive", "full")
source_options = options(
    click.option("--depth", type=click.IntRange(0, 16), help="Levels of folders to list below add, edit, delete."),
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
        help="Trust this certificate of an ftps or https server; may be repeated.",
    ),
)
"""What is listed and when, and the certificates that are trusted."""


def checked_address(address: SourceAddress) -> SourceAddress:
    """The address of a new source, a folder's as an absolute path. Raises ConfigurationError for an invalid one."""
    from dcc.sources.access import parse_hostname

    if address.protocol == "file":
        if not address.base_path:
            raise ConfigurationError("A source of the protocol file needs the folder's path: --base-path.")
        base_path = absolute_path(address.base_path)
        return replace(address, hostname=address.hostname or "localhost", base_path=base_path)
    if not address.hostname:
        raise ConfigurationError(
            f"A source of the protocol {address.protocol} needs its server: --hostname HOST or HOST:PORT."
        )
    parse_hostname(address.hostname, 1)
    return address


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


def delta_option(default: str | None = None) -> Callable[[_Command], _Command]:
    """The option `--delta`."""
    return click.option(
        "--delta",
        type=click.Choice(_STRATEGIES),
        default=default,
        show_default=default is not None,
        help="What is recorded of archives fetched before: disabled, nothing; initial, how they are listed; additive, "
        "what changed or went too; full: and the withdrawal of what went is proposed.",
    )


def tls_trust(protocol: str, authorities: str | None, fingerprints: tuple[str, ...]) -> TlsTrust:
    """The trust of the options; empty text removes earlier trust.

    Raises ConfigurationError for a protocol without TLS, a file without certificates, and an invalid fingerprint.
    """
    from dcc.sources.certificates import parse_fingerprint, read_authorities
    from dcc.tracker.register.source_addresses import TlsTrust

    if (authorities or any(fingerprints)) and protocol not in ("ftps", "https"):
        raise ConfigurationError(
            f"A source of the protocol {protocol} shows no TLS certificate. Leave --tls-ca and --tls-fingerprint out."
        )
    return TlsTrust(
        None if authorities is None else read_authorities(Path(authorities).expanduser()) if authorities else [],
        [parse_fingerprint(text) for text in fingerprints if text] if fingerprints else None,
    )
