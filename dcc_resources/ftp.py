"""The resource for sources on FTP servers, with TLS or without."""

from typing import ClassVar

from dcc.sources.base import SourceProtocol
from dcc_resources.file_source import FileServerResource
from dcc_resources.platform_resource import setting


class FtpResource(FileServerResource):
    """Sources on FTP servers, with TLS (ftps) or without: time limits, connections and trusted authorities.

    `dcc source add` sets each source's address and access; certificates that are pinned there replace the authorities.
    """

    key: ClassVar[str] = "ftp"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.FTP, SourceProtocol.FTPS)

    tls_ca_file: str | None = setting(
        "tls_ca_file", "Certificate authorities for ftps, a file in PEM; by default the system's."
    )
