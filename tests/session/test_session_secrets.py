"""Whatever happens in a session, no secret is seen outside the column that is made for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.sources.access import resolve_accesskey
from dcc.tracker.models import Base
from dcc.tracker.register.source_addresses import load_addresses
from tests.support.databases import PASSWORD
from tests.support.installations import Installation, specimens
from tests.support.served_sources import Relay, large_archive, register
from tests.support.servers import SftpServer, Share

pytestmark = pytest.mark.servers

KEY = "add/H.2013-10-31.1.impc.zip"
WRONG = "wrong horse battery staple"
PASSPHRASE = "open the sesame"
FALLBACK = "another sesame"


def everything_in(installation: Installation) -> str:
    """All that the tracker holds, but access keys."""
    texts = []
    with installation.tracker.connect() as connection:
        for table in Base.metadata.sorted_tables:
            columns = [column for column in table.columns if column.name != "accesskey"]
            texts.extend(f"{table.name}: {tuple(row)}" for row in connection.execute(select(*columns)))
    assert any("Check the user name and password" in text for text in texts)
    return "\n".join(texts)


def test_no_secret_is_in_logs_tracker_or_reprs(
    quick: Installation,
    openssh: SftpServer,
    sftp_server: Share,
    password_sftp_server: Callable[..., Share],
    faulty_ftp_server: Callable[..., Share],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Logins that work, are refused, are repeated by the server, and break off."""
    for name in ["", "paramiko", "paramiko.transport", "dcc", "sqlalchemy.pool"]:
        caplog.set_level(logging.DEBUG, name)
    # Statements and not, as at DEBUG, every row that is read.
    caplog.set_level(logging.INFO, "sqlalchemy.engine")
    monkeypatch.setenv("CENTRE_PASSPHRASE", PASSPHRASE)
    (tmp_path / "password").write_text(WRONG)
    (tmp_path / "password").chmod(0o600)
    key = openssh.new_key(passphrase=PASSPHRASE)
    private_key = key.read_text()
    by_password, by_ftp = password_sftp_server(), faulty_ftp_server(refuse_login=True, repeat_password=True)
    sftp_server.put(KEY, large_archive())
    sftp_server.put("add/H.2013-10-31.2.impc.zip", submissions.archive(specimens(stem="2013-10-31.2")))
    installation = quick.with_settings(key_passphrase=SecretStr(FALLBACK))
    with Relay(by_password, cut_after=300_000, cuts=1) as cutting:
        register(installation, cutting.share)
        register(installation, by_password, accesskey=SecretStr(WRONG))
        register(installation, by_password, "J", accesskey=SecretStr(f"file:{tmp_path / 'password'}"))
        register(installation, by_ftp)
        register(installation, sftp_server, accesskey=SecretStr(f"key:{key}?passphrase=env:CENTRE_PASSPHRASE"))
        register(installation, sftp_server, "J", accesskey=SecretStr(f"key:{key}"))
        result = installation.run_session()
    assert [crawled.outcome for _, crawled in sorted(result.crawls.items())] == [
        *("ok", "failed", "failed", "failed", "ok", "failed")
    ]
    assert all(outcome.succeeded for outcome in result.zips.values())
    with installation.tracker.connect() as connection:
        addresses = load_addresses(connection)
    shown = [installation.settings, installation.tracker, addresses, result, *addresses]
    shown += [resolve_accesskey(address.accesskey) for address in addresses]
    seen = {
        "the logs": caplog.text,
        "the tracker": everything_in(installation),
        "reprs": "\n".join(f"{one!r} {one!s}" for one in shown),
    }
    assert {"paramiko.transport", "dcc.session.crawling", "sqlalchemy.engine.Engine"} <= {
        r.name for r in caplog.records
    }
    secrets = [by_password.accesskey, WRONG, PASSPHRASE, FALLBACK, PASSWORD, private_key.splitlines()[1]]
    for where, text in seen.items():
        assert [secret for secret in secrets if secret in text] == [], where
