"""The parts of file sources that need no server: addresses, names, listings, checksums, known hosts."""

import base64
import contextlib
import ftplib
import os
import socket
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from dcc.errors import BadChecksumFileError, ConfigurationError
from dcc.naming import Action
from dcc.redaction import redact
from dcc.settings import load_settings
from dcc.sources.access import Endpoint, parse_hostname, resolve_accesskey
from dcc.sources.base import Extent, ListedFile
from dcc.sources.ftp.session import FtpSession, parse_list_line, parse_mlsd_line
from dcc.sources.host_keys import HostKey, known_host_keys
from dcc.sources.listing import Entry, EntryKind, action_listing, folder_listing
from dcc.sources.md5_sidecar import parse_md5
from dcc.sources.remote_names import printable, raw
from tests.support.servers import server_program

MD5 = "d41d8cd98f00b204e9800998ecf8427e"
OTHER_MD5 = "0cc175b9c0f1b6a831c399e269772661"
KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519" + b"\0\0\0\x20" + b"k" * 32).decode()


class TestHostNames:
    def test_every_way_of_writing_them(self) -> None:
        for text, endpoint in (
            ("host", Endpoint("host", 22)),
            (" host.example.org:2222 ", Endpoint("host.example.org", 2222)),
            ("10.0.0.1:21", Endpoint("10.0.0.1", 21)),
            ("[::1]:2222", Endpoint("::1", 2222)),
            ("[fe80::1%eth0]", Endpoint("fe80::1%eth0", 22)),
            ("2001:db8::1", Endpoint("2001:db8::1", 22)),
        ):
            assert parse_hostname(text, 22) == endpoint

    def test_what_is_none_is_refused_and_a_password_in_it_not_repeated(self) -> None:
        wrong = ("", ":22", "host:", "host:0", "host:65536", "host:ssh", "[::1]x", "[::1]:", "a b", "ho/st", "h\nost")
        for text in wrong:
            with pytest.raises(ConfigurationError, match="host"):
                parse_hostname(text, 22)
        with pytest.raises(ConfigurationError) as caught:
            parse_hostname("user:hunter2@host", 22)
        assert "hunter2" not in str(caught.value)


class TestAccessKeys:
    """Secrets by reference, so that none need be in the database."""

    @pytest.fixture(autouse=True)
    def files_are_private(self) -> Iterator[None]:
        before = os.umask(0o077)
        yield
        os.umask(before)

    def test_a_password_stands_there_or_in_a_variable_or_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        credential = resolve_accesskey(SecretStr(" pass word "))
        assert credential.password is not None
        assert credential.password.get_secret_value() == " pass word "
        assert "pass word" not in repr(credential)
        monkeypatch.setenv("TEST_ACCESS", "hunter2")
        (tmp_path / "secret").write_text("  hunter2\n")
        for reference in ("env:TEST_ACCESS", f"file:{tmp_path}/secret"):
            assert resolve_accesskey(SecretStr(reference)).secrets == ("hunter2",)
        assert resolve_accesskey(SecretStr("")).secrets == ()

    def test_a_file_that_others_may_read_or_change_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "the key"
        path.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")
        for prefix, mode in product(("", "key:", "file:"), (0o604, 0o602, 0o601, 0o620, 0o644, 0o666)):
            path.chmod(mode)
            said = rf"mode is {mode:04o}\).*chmod g-w,o= '.*/the key'"
            with pytest.raises(ConfigurationError, match=said) as caught:
                resolve_accesskey(SecretStr(f"{prefix}{path}"))
            assert "AAAA" not in str(caught.value)
        path.chmod(0o600)
        (tmp_path / "secret").write_text("hunter2")
        (tmp_path / "secret").chmod(0o644)
        with pytest.raises(ConfigurationError, match="/secret, to which an access key refers, may be read"):
            resolve_accesskey(SecretStr(f"key:{path}?passphrase=file:{tmp_path}/secret"))
        # The group may read it.
        for mode in (0o600, 0o400, 0o640, 0o440, 0o700):
            (tmp_path / "secret").chmod(mode)
            assert resolve_accesskey(SecretStr(f"file:{tmp_path}/secret")).secrets == ("hunter2",)

    @pytest.mark.parametrize("prefix", ["", "key:", "file:"])
    def test_a_private_key(self, prefix: str, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")
        credential = resolve_accesskey(SecretStr(f"{prefix}{path}"), SecretStr("open sesame"))
        assert credential.password is None
        assert credential.private_key is not None
        assert credential.private_key.get_secret_value() == path.read_text()
        assert credential.passphrase == SecretStr("open sesame")

    @pytest.mark.parametrize("prefix", ["", "key:", "file:"])
    @pytest.mark.parametrize("text", ["ssh-ed25519 AAAAC3Nza me@here\n", "---- BEGIN SSH2 PUBLIC KEY ----\nAAAA"])
    def test_the_public_half_of_a_key_is_told_as_such(self, prefix: str, text: str, tmp_path: Path) -> None:
        path = tmp_path / "id_ed25519.pub"
        path.write_text(text)
        path.chmod(0o644)
        with pytest.raises(ConfigurationError, match=r"public half of a key.*private half, probably .*/id_ed25519\."):
            resolve_accesskey(SecretStr(f"{prefix}{path}"))

    def test_a_reference_to_nothing_of_use(self, tmp_path: Path) -> None:
        (tmp_path / "binary").write_bytes(b"hunter2\xff")
        (tmp_path / "password").write_text("hunter2")
        for text, reason in (
            ("env:TEST_NOT_SET", "TEST_NOT_SET"),
            ("env:", "refers to nothing"),
            (f"file:{tmp_path}/none", "No such file"),
            (f"file:{tmp_path}/binary", "not text"),
            (f"key:{tmp_path}/none", "No such file"),
            (f"key:{tmp_path}/password", "no private key"),
        ):
            with pytest.raises(ConfigurationError, match=reason) as caught:
                resolve_accesskey(SecretStr(text))
            assert "hunter2" not in str(caught.value)

    @given(st.text("abcXYZ", min_size=1), st.text("019 "), st.booleans())
    def test_no_secret_survives_redaction(self, secret: str, around: str, in_capitals: bool) -> None:
        repeated = secret.upper() if in_capitals else secret
        assert redact(f"{around}{repeated}{around}", (secret,)) == f"{around}***{around}"


class TestNames:
    @given(st.binary())
    def test_any_name_becomes_text_that_can_be_shown_and_back(self, name: bytes) -> None:
        text = printable(name)
        assert text.isprintable()
        assert raw(text) == name


class TestGathering:
    def gathered(self, *entries: Entry) -> tuple[list[ListedFile], int]:
        found = action_listing("a source", Action.ADD, entries, lambda _: None)
        return list(found.zips), found.ignored

    def test_archives_come_by_name_with_their_checksums(self) -> None:
        zips, ignored = self.gathered(
            Entry(b".", EntryKind.DIRECTORY),
            Entry(b"b.zip", EntryKind.FILE, 2, 20),
            Entry(b"a.zip.md5", EntryKind.FILE, 3, 30),
            Entry(b"a.zip", EntryKind.FILE, 1, 10),
            Entry(b"..", EntryKind.DIRECTORY),
        )
        assert zips == [ListedFile("a.zip", 1, 10, has_md5=True), ListedFile("b.zip", 2, 20)]
        assert ignored == 0

    def test_a_folder_that_vanishes_meanwhile_counts_as_one_that_never_existed(self) -> None:
        folders = {
            b"": [Entry(b"gone", EntryKind.DIRECTORY), Entry(b"there", EntryKind.DIRECTORY)],
            b"there": [Entry(b"a.zip", EntryKind.FILE)],
        }

        def entries(folder: bytes) -> list[Entry]:
            if folder not in folders:
                raise FileNotFoundError
            return folders[folder]

        found = folder_listing("a source", Action.ADD, Extent(depth=1), entries, lambda *_: None, lambda _: None)
        assert found.zips == (ListedFile("a.zip", None, None, folder="there"),)

    def test_manifests_beside_archives_are_no_archives(self) -> None:
        names = ("a.zip", "a.zip.manifest.csv", "a.zip.manifest.json", "b.tgz", "b.tgz.manifest.csv", "manifest.json")
        zips, ignored = self.gathered(
            *(Entry(name.encode(), EntryKind.FILE, 1, 10) for name in (*names, "gone.zip.manifest.json"))
        )
        assert zips == [
            ListedFile("a.zip", 1, 10, manifest="json", manifest_version="1 10"),
            ListedFile("b.tgz", 1, 10, manifest="csv", manifest_version="1 10"),
        ]
        assert ignored == 2

    def test_what_no_file_can_be_called_is_ignored(self) -> None:
        for name in (b"", b"../x.zip", b"a/b.zip", b"a\0.zip"):
            assert self.gathered(Entry(name, EntryKind.FILE, 1)) == ([], 1)


class TestChecksumFiles:
    def test_every_way_of_writing_them(self) -> None:
        for content in (
            MD5.encode(),
            f"{MD5.upper()}\r\n".encode(),
            f"{MD5}  a.zip\n".encode(),
            f"{MD5} *a.zip\n".encode(),
            f"MD5 (a.zip) = {MD5}\n".encode(),
            f"# made with md5sum\n{MD5}  ./a.zip\n".encode(),
            f"\ufeff{MD5}  a.zip".encode(),
            f"{MD5}  a.zip".encode("utf-16"),
            f"{OTHER_MD5}  b.zip\n{MD5}  a.zip\n".encode(),
            f"{MD5}  caf\xe9/a.zip\n".encode("latin-1"),
            f"# before: {OTHER_MD5}\n{MD5}\n{MD5}\n".encode(),
        ):
            for name in ("a.zip", "folder/a.zip"):
                assert parse_md5(content, name, "a source") == MD5, content

    def test_what_is_none(self) -> None:
        for content in (
            b"",
            b"not a checksum",
            MD5[:-1].encode(),
            f"{MD5}0".encode(),
            f"{MD5}  b.zip\n{OTHER_MD5}  c.zip\n".encode(),
            f"{MD5}  a.zip\n{OTHER_MD5}  a.zip\n".encode(),
        ):
            with pytest.raises(BadChecksumFileError, match=r"a source: a\.zip\.md5 holds"):
                parse_md5(content, "a.zip", "a source")

    @given(st.binary(max_size=5000))
    def test_nothing_else_happens_whatever_the_file_holds(self, content: bytes) -> None:
        with contextlib.suppress(BadChecksumFileError):
            assert len(parse_md5(content, "a.zip", "a source")) == 32


class TestFtpReplies:
    """Replies on the control connection, however they are cut into packets."""

    @pytest.fixture
    def talking(self, tmp_path: Path) -> Iterator[tuple[FtpSession, socket.socket]]:
        ours, theirs = socket.socketpair()
        session = FtpSession(Endpoint("host", 21), ours, load_settings(home=tmp_path, idle_timeout=20), None)
        with theirs:
            yield session, theirs
            session.abandon()

    def test_a_line_without_end_is_refused(self, talking: tuple[FtpSession, socket.socket]) -> None:
        session, server = talking
        server.sendall(b"2" * 20_000)
        with pytest.raises(ftplib.error_proto, match="longer than 8,192"):
            session.getresp()

    def test_what_was_said_before_encryption_is_not_believed_after_it(
        self, talking: tuple[FtpSession, socket.socket], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session, server = talking

        class Encrypted(socket.socket):
            def do_handshake(self) -> None:
                """Nothing is encrypted."""

        monkeypatch.setattr(session.context, "wrap_socket", lambda plain, **_: Encrypted(fileno=plain.detach()))
        server.sendall(b"234 begin\r\n230 you are in\r\n")
        session.begin_tls()
        server.sendall(b"331 who are you\r\n")
        assert session.getresp() == "331 who are you"


class TestFtpListings:
    def test_lines_of_list(self) -> None:
        for line, entry in (
            (
                b"-rw-r--r--    1 0        0             123 May 13  2014 H.2013-10-31.1.impc.zip",
                Entry(b"H.2013-10-31.1.impc.zip", EntryKind.FILE, 123),
            ),
            (b"-rw-r--r--   1 ftp  ftp   5 Nov 21 08:00  two  spaces", Entry(b" two  spaces", EntryKind.FILE, 5)),
            (b"-rw-rw-r--+ 1 jo Domain Users 77 Jan  1 00:00 a.zip", Entry(b"a.zip", EntryKind.FILE, 77)),
            (b"-rwxrwxrwx 1 owner 99 Jan 01 2020 a.zip", Entry(b"a.zip", EntryKind.FILE, 99)),
            (b"-rw-r--r-- 1 u g 4294967296 2020-01-01 10:00 a.zip", Entry(b"a.zip", EntryKind.FILE, 2**32)),
            (b"-rw-r--r-- 1 u g 12 1 Okt 10:00 a.zip", Entry(b"a.zip", EntryKind.FILE, 12)),
            (b"drwxr-xr-x    2 0  0  4096 Nov 21 08:00 sub", Entry(b"sub", EntryKind.DIRECTORY, 4096)),
            (b"lrwxrwxrwx 1 0 0 11 Nov 21 08:00 l.zip -> ../a.zip", Entry(b"l.zip", EntryKind.LINK)),
            (b"brw-rw---- 1 root disk 8, 1 Nov 21 08:00 sda", Entry(b"sda", EntryKind.OTHER)),
            (b"-rw-r--r-- 1 0 0 3 Nov 21 08:00 caf\xe9.zip", Entry(b"caf\xe9.zip", EntryKind.FILE, 3)),
            (b"01-31-20  03:45PM       <DIR>          sub dir", Entry(b"sub dir", EntryKind.DIRECTORY)),
            (b"01-31-2020  15:45            1,234 a b.zip", Entry(b"a b.zip", EntryKind.FILE, 1234)),
            (b"total 12", None),
            (b"", None),
        ):
            assert parse_list_line(line) == entry, line

    def test_lines_of_mlsd(self) -> None:
        for line, entry in (
            (
                b"type=file;size=9;modify=20140513165320;perm=r; a b.zip",
                Entry(b"a b.zip", EntryKind.FILE, 9, 1_400_000_000),
            ),
            (b"Type=FILE;Modify=20140513165320.123; a.zip", Entry(b"a.zip", EntryKind.FILE, None, 1_400_000_000)),
            (b"type=dir;modify=x; sub", Entry(b"sub", EntryKind.DIRECTORY)),
            (b"type=OS.unix=slink:../a.zip;size=3; l.zip", Entry(b"l.zip", EntryKind.LINK)),
            (b"type=OS.unix=fifo; pipe", Entry(b"pipe", EntryKind.OTHER)),
            (b"type=cdir; .", None),
            (b"type=pdir; ..", None),
        ):
            assert parse_mlsd_line(line) == entry, line


class TestKnownHosts:
    """Which keys a known_hosts file trusts."""

    def test_a_file_as_openssh_writes_and_hashes_it(self, tmp_path: Path) -> None:
        path = tmp_path / "known_hosts"
        path.write_text(f"host {KEY}\n[host]:2222 {KEY}\n")
        subprocess.run([server_program("ssh-keygen"), "-q", "-H", "-f", str(path)], check=True, capture_output=True)
        lines = path.read_text().splitlines()
        assert all(line.startswith("|1|") for line in lines)
        assert known_host_keys(lines, Endpoint("host", 2222)).accepted == (HostKey.parse(KEY),)
