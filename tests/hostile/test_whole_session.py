"""A whole session on all that is hostile, audited: what it reads, writes, asks for and takes, and what it says."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from sqlalchemy import select

from dcc.sources.protocols import SourceProtocol
from dcc.tracker.models import XmlLog, ZipActionLog, ZipLog
from tests.hostile.archives import Member, accepted_archives, archive, refused_archives
from tests.hostile.documents import hostile, pointing_at
from tests.support.databases import only_sqlite
from tests.support.environments import clean, of_installation
from tests.support.faulty_servers import FaultyFtpServer, PasswordSftpServer
from tests.support.installations import Installation, folder_address, specimens
from tests.support.served_sources import register
from tests.support.servers import Share
from tests.support.talking_servers import serving

MOST_MEGABYTES = 400
"""What the whole session may take; the program alone takes about 100."""

ROOT = Path(__file__).parents[2]
SECRET = "the launch code is 0000"


def name_of(number: int) -> str:
    return f"H.2013-10-31.{number}.impc.zip"


def of_document(number: int, content: bytes) -> bytes:
    name = f"H.2013-10-31.{number}.specimen.impc.xml".encode()
    return archive([Member(name, content, zipfile.ZIP_STORED)])


def tree(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


@only_sqlite
def test_a_session_on_all_that_is_hostile(installation: Installation, tmp_path: Path) -> None:
    """Nothing outside DCC_HOME is written or read, no host but the sources' is asked, and each archive has a reason."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    secret = elsewhere / "secret.dtd"
    secret.write_text(SECRET)
    os.utime(secret, (1, 2))
    shares = {protocol: tmp_path / protocol for protocol in ("file", "ftp", "sftp")}
    for folder in shares.values():
        (folder / "add").mkdir(parents=True)
    with (
        serving(lambda _: None, "127.0.0.2") as (canary, reached),
        FaultyFtpServer(shares["ftp"]) as ftp,
        PasswordSftpServer(shares["sftp"]) as sftp,
    ):
        archives = {kind: content for kind, content, _ in refused_archives()}
        odd = {kind: content for kind, content, _ in accepted_archives()}
        documents = dict(hostile())
        for address in (secret.as_uri(), f"http://{canary}/x.dtd", f"ftp://{canary}/x"):
            documents |= {f"{kind} {address}": content for kind, content in pointing_at(address)}
        put: dict[str, str] = {}
        folders = list(shares.values())
        wrapped = {kind: of_document(number, content) for number, (kind, content) in enumerate(documents.items(), 500)}
        for number, (kind, content) in enumerate([*archives.items(), *odd.items(), *wrapped.items()], 1):
            put[f"add/{name_of(number)}"] = kind
            (folders[number % 3] / "add" / name_of(number)).write_bytes(content)
        good = of_document(1, specimens()["H.2013-10-31.1.specimen.impc.xml"])
        put[f"add/{name_of(9_999)}"] = "good"
        (shares["file"] / "add" / name_of(9_999)).write_bytes(good)
        (shares["file"] / "add" / "H.2013-10-31.9998.impc.zip").symlink_to(secret)
        installation.add_source(folder_address(shares["file"]))
        for protocol, server in ((SourceProtocol.FTP, ftp), (SourceProtocol.SFTP, sftp)):
            keys = (server.host_key,) if isinstance(server, PasswordSftpServer) else ()
            share = Share(shares[protocol], protocol, server.hostname, server.username, server.password, "", keys)
            register(installation, share)
        told, before = run_audited(installation, tmp_path, shares["file"])
        assert reached == []
    assert told["hosts"]
    assert [address for address in told["hosts"] if "'127.0.0.1'" not in address] == []
    assert told["writes"] == []
    assert told["reads"] == []
    # The platform's own processes, which open archives and validate, and do nothing else either.
    assert told["programs"] == [sys.executable]
    notes = [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
    assert notes
    assert [note for note in notes if note[0] != "begun"] == []
    assert told["megabytes"] < MOST_MEGABYTES
    home = installation.settings.home
    assert {path for path in tree(tmp_path) - before if not path.is_relative_to(home)} == {tmp_path / "told.json"}
    assert secret.stat().st_atime == 1
    states = installation.states()
    assert set(states) == set(put)
    wrong = {kind: states[key] for key, kind in put.items() if states[key].endswith("failed") == (kind == "good")}
    assert wrong == {}
    said = reasons(installation)
    assert len(said) >= len(archives) + len(documents)
    assert [message for message in said if not message.isprintable() or len(message) > 2_000] == []
    assert [message for message in said if SECRET in message] == []


def reasons(installation: Installation) -> list[str]:
    with installation.tracker.connect() as connection:
        return [
            message or ""
            for table in (ZipLog, XmlLog, ZipActionLog)
            for message in connection.scalars(select(table.message))
        ]


def run_audited(installation: Installation, tmp_path: Path, folder: Path) -> tuple[dict[str, list[str]], set[Path]]:
    """Run the session in a process of its own; what it tells, and what there was before it."""
    home = installation.settings.home
    output, notes = tmp_path / "told.json", tmp_path / "notes"
    notes.touch()
    environment = clean(**of_installation(installation.settings)) | {
        "DCC_MAX_RETRIES": "0",
        "TMPDIR": str(home),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "hostile" / "startup"), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    before = tree(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.audited_session", str(home), str(output), str(notes), str(folder)],
        env=environment,
        # Removing a tree names what is in it relative to folders that are open.
        cwd=home,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return json.loads(output.read_text()), before


def test_the_auditor_notices_what_is_not_allowed(tmp_path: Path) -> None:
    """Each kind of thing that the session above may not do is seen when it is done."""
    program = (
        "import os, socket, subprocess, sys; from pathlib import Path\n"
        "from tests.hostile.audited_session import Auditor\n"
        f"auditor = Auditor(Path({str(tmp_path / 'home')!r}), [])\n"
        "sys.addaudithook(auditor); auditor.watching = True\n"
        f"Path({str(tmp_path / 'x')!r}).write_text('x'); Path({str(tmp_path / 'x')!r}).read_text()\n"
        f"os.rename({str(tmp_path / 'x')!r}, {str(tmp_path / 'y')!r})\n"
        "subprocess.run(['true'])\n"
        "try: socket.create_connection(('127.0.0.1', 1), 1)\n"
        "except OSError: pass\n"
        "auditor.watching = False\n"
        "print(sorted(name for name, found in auditor.seen.items() if found))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "['hosts', 'programs', 'reads', 'writes']"
