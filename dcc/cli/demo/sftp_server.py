"""The demonstration's SFTP server: `python -m dcc.cli.demo.sftp_server`, driven by `dcc.cli.demo.servers`."""

from __future__ import annotations

import asyncio
import sys

import asyncssh

from dcc.cli.demo.servers import Account, announce, read_accounts


class _Logins(asyncssh.SSHServer):
    """Accepts the accounts' passwords and nothing else."""

    def __init__(self, accounts: dict[str, Account]) -> None:
        self._accounts = accounts

    def password_auth_supported(self) -> bool:
        """Only passwords are accepted."""
        return True

    def validate_password(self, username: str, password: str) -> bool:
        """Whether the account exists and has this password."""
        account = self._accounts.get(username)
        return account is not None and account.password == password


async def _serve(accounts: dict[str, Account]) -> None:
    def folder(channel: asyncssh.SSHServerChannel[bytes]) -> asyncssh.SFTPServer:
        account = accounts[channel.get_extra_info("username")]
        return asyncssh.SFTPServer(channel, chroot=str(account.folder).encode())

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=lambda: _Logins(accounts),
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        sftp_factory=folder,
    )
    announce(server.get_port())
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(read_accounts()))
