"""The protocols that file sources speak: the platform's, in one table, and those of installed packages.

Commands read it for their help: it loads no library of a protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from dcc.errors import ConfigurationError
from dcc.runtime.installed_packages import SOURCES, added_names, load_added


class SourceProtocol(StrEnum):
    """The platform's protocols; installed packages may add others.

    Their order is that of their ids in the tracker's `source_protocol`: new ones are appended.
    """

    FTP = "ftp"
    SFTP = "sftp"
    HTTP = "http"
    FTPS = "ftps"
    HTTPS = "https"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class ProtocolTraits:
    """What a protocol is besides the way to speak it; unless said otherwise, nothing is relied on.

    `detects_changed_bytes`: what arrives is what the server has, so that a bad archive is a bad copy. `lists_folders`:
    it lists folders as deep as the extent says. `has_server`: sources have a host name, not only a base path.
    `is_local`: they are folders of this machine. `uses_ssh`: servers are known by a host key, and may take a private
    key. `uses_tls`: they are known by a certificate. `usual_port`: the port where a host name gives none; 0 for none.
    """

    detects_changed_bytes: bool = False
    lists_folders: bool = False
    has_server: bool = True
    is_local: bool = False
    uses_ssh: bool = False
    uses_tls: bool = False
    usual_port: int = 0


class PlatformProtocol(NamedTuple):
    """A protocol of the platform: what speaks it, for people; the class of its connections, below `dcc.sources`."""

    meaning: str
    connection: str
    traits: ProtocolTraits


_PLAIN_TEXT: Final = ProtocolTraits(lists_folders=True)
_SECURE: Final = replace(_PLAIN_TEXT, detects_changed_bytes=True)
_SFTP, _FTP, _HTTP = "sftp.source.SftpConnection", "ftp.source.FtpConnection", "http.source.HttpConnection"
PROTOCOLS: Final[Mapping[str, PlatformProtocol]] = {
    SourceProtocol.SFTP: PlatformProtocol(
        "an SSH server: encrypted, and known by its host key", _SFTP, replace(_SECURE, uses_ssh=True, usual_port=22)
    ),
    SourceProtocol.FTPS: PlatformProtocol(
        "an FTP server with TLS", _FTP, replace(_SECURE, uses_tls=True, usual_port=21)
    ),
    SourceProtocol.HTTPS: PlatformProtocol(
        "a web server that lists its directories, with TLS", _HTTP, replace(_SECURE, uses_tls=True, usual_port=443)
    ),
    SourceProtocol.FTP: PlatformProtocol(
        "an FTP server; whoever listens reads passwords and data", _FTP, replace(_PLAIN_TEXT, usual_port=21)
    ),
    SourceProtocol.HTTP: PlatformProtocol(
        "a web server; whoever listens reads passwords and data", _HTTP, replace(_PLAIN_TEXT, usual_port=80)
    ),
    SourceProtocol.FILE: PlatformProtocol(
        "a folder of this machine", "folder.LocalConnection", replace(_SECURE, has_server=False, is_local=True)
    ),
}
"""The platform's protocols, the best first."""

LONGEST_PROTOCOL: Final = 8
"""The most characters of a protocol's name."""


def available_protocols() -> dict[str, str]:
    """What speaks each available protocol: the platform's, the best first, then those of installed packages."""
    platform = {str(name): protocol.meaning for name, protocol in PROTOCOLS.items()}
    added = (name for name in added_names(SOURCES) if len(name) <= LONGEST_PROTOCOL and name not in platform)
    return platform | dict.fromkeys(added, "what an installed package adds")


def traits_of(protocol: str) -> ProtocolTraits:
    """The traits of a protocol; of a package's those that its opener has as `traits`."""
    if protocol in PROTOCOLS:
        return PROTOCOLS[protocol].traits
    with suppress(ConfigurationError):
        for opener in load_added(SOURCES, protocol):
            traits = getattr(opener, "traits", None)
            if isinstance(traits, ProtocolTraits):
                return traits
    return ProtocolTraits()
