"""Opens a connection to a source, of any protocol."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from dcc.errors import ConfigurationError, SourceMisconfiguredError
from dcc.messages import mark
from dcc.runtime.installed_packages import SOURCES, added_protocols, load_added, package_of
from dcc.settings import Settings
from dcc.sources.added_connection import Opener, open_added
from dcc.sources.base import Connection, SourceAddress, SourceProtocol

OPENERS: Final[Mapping[str, tuple[str, str]]] = {
    SourceProtocol.SFTP: ("sftp.source", "SftpConnection"),
    SourceProtocol.FTP: ("ftp.source", "FtpConnection"),
    SourceProtocol.FTPS: ("ftp.source", "FtpConnection"),
    SourceProtocol.HTTP: ("http.source", "HttpConnection"),
    SourceProtocol.HTTPS: ("http.source", "HttpConnection"),
    SourceProtocol.FILE: ("folder", "LocalConnection"),
}
"""The module and class of each of the platform's protocols."""


def protocols() -> tuple[str, ...]:
    """The available protocols: the platform's, then those of installed packages."""
    return (*OPENERS, *(name for name in added_protocols() if name not in OPENERS))


def connect(address: SourceAddress, settings: Settings) -> Connection:
    """Connect to a source and log in, within the time limits of the settings.

    Raises only SourceError: SourceMisconfiguredError for a wrong address, access key or reference, and errors of the
    protocol's opener.
    """
    try:
        if address.protocol in OPENERS:
            module, name = OPENERS[address.protocol]
            # On first use: loading a protocol's library takes a tenth of a second.
            opener: Opener = getattr(import_module(f"dcc.sources.{module}"), name)
            return opener(address, settings)
        for added in load_added(SOURCES, address.protocol):
            return open_added(package_of(added) or added.__module__, added, address, settings)
    except ConfigurationError as error:
        raise SourceMisconfiguredError(str(error), source=address.label) from error
    text = mark(
        "nothing that is installed speaks the protocol {protocol}. Use one of {protocols}, or install the package that "
        "adds it."
    )
    known = {"protocol": address.protocol, "protocols": ", ".join(protocols())}
    raise SourceMisconfiguredError(text, source=address.label, **known)
