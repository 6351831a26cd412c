"""An SFTP server as fsspec's file system, on a connection with the host keys and time limits of file sources."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

import paramiko
from fsspec.implementations.sftp import SFTPFileSystem
from pydantic import SecretStr

from dcc.errors import HostKeyChangedError, HostKeyUnknownError, SourceUnreachableError, StoreRefusedError
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.sftp.ssh import describe, open_ssh_connection


class SftpFiles(SFTPFileSystem):  # type: ignore[misc]
    """A server's files, for one thread: each gets its name once it is complete.

    `login` is `user@host` or `user@host:port`. Connects at once: raises SourceError, StoreRefusedError for a host key
    that DCC_KNOWN_HOSTS lacks, ConfigurationError for an unusable key.
    """

    cachable = False

    def __init__(self, settings: Settings, login: str) -> None:
        self._settings = settings
        self._directories: set[str] = set()
        self.user, _, host = login.rpartition("@")
        super().__init__(host)

    def _connect(self) -> None:
        settings = self._settings
        address = SourceAddress(0, "", "sftp", self.host, self.user, settings.archive_access_key or SecretStr(""), "")
        try:
            self.connection = open_ssh_connection(address, settings, f"sftp://{self.host}")
        except (HostKeyUnknownError, HostKeyChangedError) as error:
            raise StoreRefusedError(
                f"sftp://{self.host} shows the host key {error.translatable.all_details['shown']}, which "
                "DCC_KNOWN_HOSTS does not have. Compare it with its administrator's, and add it there."
            ) from error
        try:
            # The limit of unread bytes is for strangers, and paramiko's client does not count those that it reads.
            self.connection.transport.packetizer.read = 1 << 62
            channel = self.connection.transport.open_session(timeout=self.connection.login_seconds)
            channel.settimeout(settings.idle_timeout)
            channel.invoke_subsystem("sftp")
            self.ftp = paramiko.SFTPClient(channel)
        except BaseException as error:
            self.connection.close()
            if isinstance(error, paramiko.SSHException | EOFError):
                raise SourceUnreachableError(f"sftp://{self.host}: {describe(error)}.") from error
            raise

    @property
    def is_open(self) -> bool:
        """Whether the connection still exists."""
        return bool(self.connection.transport.is_active())

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def makedirs(self, path: str, exist_ok: bool = True, mode: int = 0o700) -> None:  # noqa: ARG002
        """Make a directory, for this user alone, and those above it; others may make them at the same time."""
        if path in self._directories or self.isdir(path):
            return
        self.makedirs(str(PurePosixPath(path).parent))
        try:
            self.ftp.mkdir(path, mode)
        except OSError:
            if not self.isdir(path):
                raise
        self._directories.add(path)

    def put_file(self, source: str, target: str, **_: Any) -> None:
        """Copy a file there, from a part beside its directory, which is made. Raises errors of paramiko."""
        folder = PurePosixPath(target).parent
        part = str(folder.parent / f".{uuid4().hex}.part")
        self.makedirs(str(folder))
        self.ftp.put(source, part)
        self.mv(part, target)
