"""Opens a connection to a source, of any protocol."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from dcc.errors import ConfigurationError, SourceMisconfiguredError
from dcc.messages import mark
from dcc.runtime.installed_packages import SOURCES, load_added, package_of
from dcc.settings import Settings
from dcc.sources.added_connection import Opener, open_added
from dcc.sources.base import Connection, SourceAddress
from dcc.sources.protocols import PROTOCOLS, available_protocols


def connection_class(protocol: str) -> type[Connection] | None:
    """The class of connections by one of the platform's protocols; None for another protocol."""
    if protocol not in PROTOCOLS:
        return None
    # On first use: loading a protocol's library takes a tenth of a second.
    module, _, name = PROTOCOLS[protocol].connection.rpartition(".")
    return cast("type[Connection]", getattr(import_module(f"dcc.sources.{module}"), name))


def connect(address: SourceAddress, settings: Settings) -> Connection:
    """Connect to a source and log in, within the time limits of the settings.

    Raises only SourceError: SourceMisconfiguredError for a wrong address, access key or reference, and errors of the
    protocol's opener.
    """
    try:
        opener: Opener | None = connection_class(address.protocol)
        if opener is not None:
            return opener(address, settings)
        for added in load_added(SOURCES, address.protocol):
            return open_added(package_of(added) or added.__module__, added, address, settings)
    except ConfigurationError as error:
        raise SourceMisconfiguredError(str(error), source=address.label) from error
    text = mark(
        "nothing that is installed speaks the protocol {protocol}. Use one of {protocols}, or install the package that "
        "adds it."
    )
    known = {"protocol": address.protocol, "protocols": ", ".join(available_protocols())}
    raise SourceMisconfiguredError(text, source=address.label, **known)
