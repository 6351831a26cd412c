"""The resource for sources on SFTP servers."""

from typing import ClassVar

from dcc.sources.base import SourceProtocol
from dcc_resources.file_source import FileServerResource
from dcc_resources.platform_resource import setting


class SftpResource(FileServerResource):
    """Sources on SFTP servers: time limits, connections and trusted host keys.

    `dcc source add` sets each source's address and access. A server whose host key is neither pinned there nor known is
    refused.
    """

    key: ClassVar[str] = "sftp"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.SFTP,)

    known_hosts: str | None = setting("known_hosts")
    key_passphrase: str | None = setting("key_passphrase", secret=True)
