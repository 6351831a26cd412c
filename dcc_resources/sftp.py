"""The resource for file sources on SFTP servers."""

from typing import ClassVar

from dcc.sources.base import SourceProtocol
from dcc_resources.file_source import FileServerResource
from dcc_resources.platform_resource import setting


class SftpResource(FileServerResource):
    """File sources on SFTP servers: time limits, connections and which host keys are trusted.

    Where each source is and what it is logged into with, `dcc source add` says. A server whose host key is neither
    pinned there nor known is not spoken to.
    """

    key: ClassVar[str] = "sftp"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.SFTP,)

    known_hosts: str | None = setting("known_hosts")
    key_passphrase: str | None = setting("key_passphrase", secret=True)
