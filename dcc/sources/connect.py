"""Opens a connection to a source, of any protocol."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from dcc.errors import ConfigurationError, SourceMisconfiguredError
from dcc.messages import mark
from dcc.runtime.installed_packages import SOURCES, added_names, load_added, package_of
from dcc.settings import Settings
from dcc.sources.added import Opener, open_added
from dcc.sources.base import Connection, SourceAddress, SourceProtocol


def _on_first_use(module: str, name: str) -> Opener:
    """An opener whose module is imported on first use: loading a protocol's library takes a tenth of a second."""

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
"""The opener of each of the platform's protocols."""


def protocols() -> tuple[str, ...]:
    """The available protocols: the platform's, then those of installed packages."""
    return (*OPENERS, *(name for name in added_names(SOURCES) if name not in OPENERS))


def _opener(protocol: str) -> Opener | None:
    """The opener of a protocol. Raises ConfigurationError if an installed package is broken."""
    known = {str(name): opener for name, opener in OPENERS.items()}
    return known.get(protocol) or next(iter(load_added(SOURCES, protocol)), None)


def connect(address: SourceAddress, settings: Settings) -> Connection:
    """Connect to a source and log in, within the time limits of the settings.

    Raises only SourceError: SourceMisconfiguredError for a wrong address, access key or reference, and errors of the
    protocol's opener.
    """
    try:
        opener = _opener(address.protocol)
        if opener is not None:
            package = package_of(opener)
            return opener(address, settings) if package is None else open_added(package, opener, address, settings)
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
