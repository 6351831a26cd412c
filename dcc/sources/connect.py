"""Opens a connection to a file source, whatever its protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from dcc.errors import ConfigurationError, SourceMisconfiguredError
from dcc.messages import mark
from dcc.runtime.installed_packages import SOURCES, added_names, load_added
from dcc.settings import Settings
from dcc.sources.base import Connection, SourceAddress, SourceProtocol

Opener = Callable[[SourceAddress, Settings], Connection]


def _on_first_use(module: str, name: str) -> Opener:
    """An opener whose module is imported when it is needed: loading a protocol's library takes a tenth of a second."""

    def opener(address: SourceAddress, settings: Settings) -> Connection:
        found: Opener = getattr(import_module(module), name)
        return found(address, settings)

    return opener


_HERE = "dcc.sources"

OPENERS: Mapping[SourceProtocol, Opener] = MappingProxyType(
    {
        SourceProtocol.SFTP: _on_first_use(f"{_HERE}.sftp.source", "open_sftp"),
        SourceProtocol.FTP: _on_first_use(f"{_HERE}.ftp.source", "open_ftp"),
        SourceProtocol.FTPS: _on_first_use(f"{_HERE}.ftp.source", "open_ftps"),
        SourceProtocol.HTTP: _on_first_use(f"{_HERE}.http.source", "open_http"),
        SourceProtocol.HTTPS: _on_first_use(f"{_HERE}.http.source", "open_http"),
        SourceProtocol.FILE: _on_first_use(f"{_HERE}.folder", "open_local"),
    }
)
"""What opens a connection for each protocol of the platform."""


def protocols() -> tuple[str, ...]:
    """The protocols that can be spoken: the platform's, then those that installed packages add."""
    return (*OPENERS, *(name for name in added_names(SOURCES) if name not in OPENERS))


def _opener(protocol: str) -> Opener | None:
    """What opens a connection for a protocol. Raises ConfigurationError where an installed package is broken."""
    known = {str(name): opener for name, opener in OPENERS.items()}
    return known.get(protocol) or next(iter(load_added(SOURCES, protocol)), None)


def connect(address: SourceAddress, settings: Settings) -> Connection:
    """Connect to a file source and log in, within the time limits of the settings.

    Raises only SourceError: SourceMisconfiguredError where the address, the access key or what it refers to is at
    fault, and what the opener of the protocol raises.
    """
    try:
        opener = _opener(address.protocol)
        if opener is not None:
            return opener(address, settings)
    except ConfigurationError as error:
        raise SourceMisconfiguredError(str(error), source=address.label) from error
    raise SourceMisconfiguredError(
        mark(
            "nothing that is installed speaks the protocol {protocol}. Use one of {protocols}, or install "
            "the package that adds it."
        ),
        source=address.label,
        protocol=address.protocol,
        protocols=", ".join(protocols()),
    )
