"""Opening a connection to a file source, whatever its protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dcc_resources.errors import ConfigurationError, SourceMisconfiguredError
from dcc_resources.file_sources.base import Connection, SourceAddress, SourceProtocol
from dcc_resources.file_sources.ftp import open_ftp, open_ftps
from dcc_resources.file_sources.http import open_http
from dcc_resources.file_sources.local import open_local
from dcc_resources.file_sources.sftp import open_sftp
from dcc_resources.settings import Settings

Opener = Callable[[SourceAddress, Settings], Connection]

OPENERS: Mapping[SourceProtocol, Opener] = MappingProxyType(
    {
        SourceProtocol.SFTP: open_sftp,
        SourceProtocol.FTP: open_ftp,
        SourceProtocol.FTPS: open_ftps,
        SourceProtocol.HTTP: open_http,
        SourceProtocol.HTTPS: open_http,
        SourceProtocol.FILE: open_local,
    }
)
"""What opens a connection for each protocol. To add one: an opener here, and its `Connection`."""


def connect(address: SourceAddress, settings: Settings) -> Connection:
    """Connect to a file source and log in, within the time limits of the settings.

    Raises only SourceError: SourceMisconfiguredError where the address, the access key or what it refers to is at
    fault, and what the opener of the protocol raises.
    """
    opener = OPENERS.get(address.protocol)
    if opener is None:
        raise SourceMisconfiguredError(
            f"{address.label}: the protocol {address.protocol} is not supported by this version. "
            f"Use one of {', '.join(OPENERS)}."
        )
    try:
        return opener(address, settings)
    except ConfigurationError as error:
        raise SourceMisconfiguredError(f"{address.label}: {error}") from error
