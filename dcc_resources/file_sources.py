"""The resources for sources: on servers that speak SFTP, FTP or HTTP, and in folders of this machine."""

from typing import ClassVar

from dcc.settings import Settings
from dcc.sources.protocols import SourceProtocol
from dcc_resources.platform_resource import PlatformResource, setting


class FileSourceResource(PlatformResource):
    """How sources of one kind are listed and downloaded from."""

    protocols: ClassVar[tuple[SourceProtocol, ...]]

    connections: int | None = setting("downloads_per_source")
    failure_limit: int | None = setting("source_failure_limit")
    list_timeout: float | None = setting("list_timeout")
    download_timeout: float | None = setting("download_timeout")
    min_download_speed: int | None = setting("min_download_speed")

    def applied_to(self, settings: Settings) -> Settings:
        """These settings with the given fields, for sources of this kind alone."""
        return settings.changed_for(self.protocols, self._given_fields(), self._field_of)


class FileServerResource(FileSourceResource):
    """How to connect to sources on servers."""

    connect_timeout: float | None = setting("connect_timeout")
    login_timeout: float | None = setting("login_timeout")
    idle_timeout: float | None = setting("idle_timeout")


class SftpResource(FileServerResource):
    """Sources on SFTP servers: time limits, connections and trusted host keys.

    `dcc source add` sets each source's address and access. A server whose host key is neither pinned there nor known is
    refused.
    """

    key: ClassVar[str] = "sftp"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.SFTP,)

    known_hosts: str | None = setting("known_hosts")
    key_passphrase: str | None = setting("key_passphrase", secret=True)


class FtpResource(FileServerResource):
    """Sources on FTP servers, with TLS (ftps) or without: time limits, connections and trusted authorities.

    `dcc source add` sets each source's address and access; certificates that are pinned there replace the authorities.
    """

    key: ClassVar[str] = "ftp"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.FTP, SourceProtocol.FTPS)

    tls_ca_file: str | None = setting("tls_ca_file")


class HttpResource(FileServerResource):
    """Sources on web servers, http or https: time limits, connections and trusted authorities.

    `dcc source add` sets each source's address and access; certificates that are pinned there replace the authorities.
    """

    key: ClassVar[str] = "http"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.HTTP, SourceProtocol.HTTPS)

    tls_ca_file: str | None = setting("tls_ca_file")
    largest_unsized: int | None = setting("max_unsized_bytes")


class FolderResource(FileSourceResource):
    """Sources that are folders of this machine, including mounted ones: time limits, and the number of archives at
    once.

    `dcc source add` sets each folder's path.
    """

    key: ClassVar[str] = "folder"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.FILE,)
