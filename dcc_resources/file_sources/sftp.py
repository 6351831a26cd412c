"""File sources that speak SFTP."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from dcc_resources.errors import (
    FileMissingError,
    ListingFailedError,
    SizeMismatchError,
    SourceError,
    SourceTimeoutError,
    SourceUnreachableError,
    TransferFailedError,
)
from dcc_resources.file_sources.access import parse_hostname, resolve_accesskey
from dcc_resources.file_sources.base import ActionListing, SourceAddress
from dcc_resources.file_sources.host_keys import check_host_key, trusted_keys
from dcc_resources.file_sources.listing import Entry, EntryKind, gather
from dcc_resources.file_sources.md5_sidecar import MAX_SIDECAR_BYTES, parse_md5
from dcc_resources.file_sources.remote_names import join_base, raw
from dcc_resources.file_sources.sftp_messages import SftpStatusError
from dcc_resources.file_sources.sftp_session import FAILURES, SftpSession
from dcc_resources.file_sources.ssh_login import log_in
from dcc_resources.file_sources.ssh_transport import SSH_PORT, SshTransport, describe
from dcc_resources.naming import Action
from dcc_resources.settings import Settings


def open_sftp(address: SourceAddress, settings: Settings) -> SftpConnection:
    """Connect and log in.

    Raises HostKeyUnknownError or HostKeyChangedError before anything secret is sent; LoginRefusedError,
    SourceTimeoutError, SourceUnreachableError; ConfigurationError if the address or access key makes no sense.
    """
    endpoint = parse_hostname(address.hostname, SSH_PORT)
    trusted = trusted_keys(address, endpoint, settings.known_hosts)
    credential = resolve_accesskey(address.accesskey, settings.key_passphrase)
    base = join_base(address.base_path)
    connection = SshTransport(address.label, endpoint, settings, trusted.algorithms)
    try:
        check_host_key(address, connection.host_key, trusted)
        log_in(connection, address, credential, settings.login_timeout)
        return SftpConnection(address, settings, base, connection)
    except BaseException:
        connection.close()
        raise


class SftpConnection:
    """A logged-in SFTP connection; see `Connection`."""

    def __init__(self, address: SourceAddress, settings: Settings, base: str, connection: SshTransport) -> None:
        self._label = address.label
        self._base = base
        self._list_timeout = settings.list_timeout
        self._connection = connection
        with self._translated("open an SFTP session", SourceUnreachableError):
            channel = connection.open_sftp_channel(settings.login_timeout)
            self._session = SftpSession(channel, settings.idle_timeout, settings.min_transfer_rate)

    def list_action(self, action: Action) -> ActionListing:
        """List one action directory; see `Connection.list_action`."""
        path = self._path(action)
        self._session.deadline = time.monotonic() + self._list_timeout
        try:
            with self._translated(f"list {path.decode('utf-8', 'replace')}", SourceUnreachableError, ListingFailedError):
                try:
                    return gather(self._label, action, self._session.list(path), lambda link: self._follow(path, link))
                except SftpStatusError as error:
                    if not error.missing:
                        raise
                self._session.stat(self._path() or b".")
            return ActionListing(action, missing=True)
        finally:
            self._session.deadline = None
