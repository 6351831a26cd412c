"""The options of `dcc source` commands for trusted TLS certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from dcc.tracker.register.source_addresses import TlsTrust

_Command = TypeVar("_Command", bound=Callable[..., None])


def tls_options(command: _Command) -> _Command:
    """The options `--tls-ca` and `--tls-fingerprint`, the second one repeatable."""
    pinning = click.option(
        "--tls-fingerprint",
        "tls_fingerprints",
        metavar="SHA256:...",
        multiple=True,
        help="Trust this certificate of an ftps or https server; may be repeated.",
    )
    naming = click.option(
        "--tls-ca", metavar="FILE", help="Trust the authorities in this PEM file, in place of the system's."
    )
    return naming(pinning(command))


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
