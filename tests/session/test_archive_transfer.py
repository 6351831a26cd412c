"""Receiving archives: what arrives is whole and checked, or not there at all, and a part is gone on with."""

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dcc.errors import ChecksumMismatchError, DiskFullError, SizeMismatchError, TransferFailedError
from dcc.naming import Action
from dcc.session.fetching.archive_transfer import DownloadSink, Transfer
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.connect import connect
from dcc.store.staging import PartOrigin, Staging
from dcc.tracker.hostings.hosting import CopyFault, Hosting, KnownBadCopy
from tests.hostile.audited_session import peak_megabytes
from tests.support.installations import md5
from tests.support.prepared_processes import FORKED
from tests.support.served_from_memory import CONTENT, KEY, MODIFIED, FakeConnection, receive_from, transfer_of, with_md5
from tests.support.servers import Share
from tests.support.trials import trials


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "staging")


class TestReceiving:
    @pytest.mark.parametrize(("content", "most"), [(CONTENT[: len(CONTENT) // 2], 6), (CONTENT * 1_000, 11)])
    def test_too_few_or_too_many_bytes_are_no_success_and_nothing_stays(
        self, staging: Staging, content: bytes, most: int
    ) -> None:
        """No more than one block beyond what was listed is received."""
        blocks = []
        connection = FakeConnection(content, before_block=lambda: blocks.append(1))
        with pytest.raises(SizeMismatchError, match=r"bytes arrived where 10,240 were listed"):
            receive_from(connection, transfer_of(), staging)
        assert len(blocks) == most
        assert list((staging.root / "add").iterdir()) == []

    def test_the_centre_s_checksum_is_asked_for_where_there_is_one(self, staging: Staging) -> None:
        connection = FakeConnection(md5=md5(CONTENT))
        assert receive_from(connection, transfer_of(), staging).md5 is None
        assert connection.checksums == 0
        assert receive_from(connection, with_md5(transfer_of()), staging).md5 == md5(CONTENT)
        assert connection.checksums == 1

    @pytest.mark.parametrize("most", [len(CONTENT), len(CONTENT) - 1])
    def test_an_archive_of_unknown_size_has_the_bytes_that_it_may_have_and_no_more(
        self, staging: Staging, most: int
    ) -> None:
        is_refused = most < len(CONTENT)
        with pytest.raises(SizeMismatchError) if is_refused else nullcontext():
            receive_from(FakeConnection(), transfer_of(None), staging, max_unsized=most)
        assert staging.archive(KEY).exists() is not is_refused

    @pytest.mark.parametrize(
        ("fault", "known", "said"),
        [
            (CopyFault.DAMAGED, md5(CONTENT), "as it was when it was damaged"),
            (CopyFault.CHECKSUM, "0" * 32, f"when its MD5 was {'0' * 32}, and the centre still publishes"),
            (CopyFault.CHECKSUM, md5(CONTENT), None),
        ],
        ids=["damaged", "not as published", "as published by now"],
    )
    def test_a_copy_that_is_known_to_be_bad_is_not_fetched_again(
        self, staging: Staging, fault: CopyFault, known: str, said: str | None
    ) -> None:
        transfer = with_md5(transfer_of())
        transfer = replace(transfer, hosting=replace(transfer.hosting, bad=KnownBadCopy(known, fault)))
        connection = FakeConnection(md5=md5(CONTENT))
        with nullcontext() if said is None else pytest.raises(ChecksumMismatchError, match=said):
            receive_from(connection, transfer, staging)
        assert connection.fetched == ([0] if said is None else [])

    def test_an_archive_received_before_stands_until_the_new_one_is_whole(self, staging: Staging) -> None:
        receive_from(FakeConnection(b"old"), transfer_of(3), staging)
        broken = FakeConnection(fault_at=2_000, fault=TransferFailedError("broke off"))
        with pytest.raises(TransferFailedError):
            receive_from(broken, transfer_of(), staging)
        assert staging.archive(KEY).read_bytes() == b"old"

    def test_a_checksum_that_cannot_be_read_costs_no_transfer(self, staging: Staging) -> None:
        class Unreadable(FakeConnection):
            def read_md5(self, action: Action, name: str) -> str | None:
                raise TransferFailedError("no checksum")

        first = Unreadable()
        with pytest.raises(TransferFailedError):
            receive_from(first, with_md5(transfer_of()), staging)
        assert first.fetched == []
        assert not staging.archive(KEY).exists()


class TestResuming:
    def _break_off(self, staging: Staging, transfer: Transfer) -> None:
        broken = FakeConnection(fault_at=4_000, fault=TransferFailedError("broke off"))
        with pytest.raises(TransferFailedError):
            receive_from(broken, transfer, staging)
        assert staging.part(KEY).stat().st_size == 4_000
        assert not staging.archive(KEY).exists()

    @pytest.mark.parametrize("lose", [Path.unlink, lambda part: part.write_bytes(b"x" * 3_000)])
    def test_a_part_of_which_something_goes_meanwhile_is_no_success(
        self, staging: Staging, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], object]
    ) -> None:
        self._break_off(staging, transfer_of())
        take_in = DownloadSink.take_in

        def losing(sink: DownloadSink, length: int) -> None:
            lose(staging.part(KEY))
            take_in(sink, length)

        monkeypatch.setattr(DownloadSink, "take_in", losing)
        with pytest.raises((SizeMismatchError, FileNotFoundError)):
            receive_from(FakeConnection(), transfer_of(), staging)
        assert not staging.archive(KEY).exists()

    @pytest.mark.parametrize(
        ("second", "content"),
        [
            (transfer_of(len(CONTENT), modified=MODIFIED + 1), CONTENT),
            (transfer_of(len(CONTENT), source_id=2), CONTENT),
            (transfer_of(len(CONTENT), modified=None), CONTENT),
            (transfer_of(None), CONTENT),
            (transfer_of(len(CONTENT) + 4), CONTENT + b"more"),
        ],
        ids=["time", "source", "unknown time", "unknown size", "size"],
    )
    def test_what_may_be_another_archive_is_fetched_from_its_beginning(
        self, second: Transfer, content: bytes, staging: Staging
    ) -> None:
        self._break_off(staging, transfer_of())
        connection = FakeConnection(content)
        received = receive_from(connection, second, staging)
        assert connection.fetched == [0]
        assert not received.resumed
        assert staging.archive(KEY).read_bytes() == content

    def test_a_resumed_archive_with_the_wrong_checksum_is_fetched_whole_the_next_time(self, staging: Staging) -> None:
        self._break_off(staging, transfer_of())
        staging.part(KEY).write_bytes(b"x" * 4_000)
        with pytest.raises(ChecksumMismatchError):
            receive_from(FakeConnection(md5=md5(CONTENT)), with_md5(transfer_of()), staging)
        third = FakeConnection(md5=md5(CONTENT))
        receive_from(third, with_md5(transfer_of()), staging)
        assert staging.archive(KEY).read_bytes() == CONTENT
        assert third.fetched == [0]

    @hypothesis_settings(max_examples=trials(60))
    @given(breaks=st.lists(st.integers(0, len(CONTENT) - 1), max_size=6), block=st.integers(1, 3_000))
    def test_however_often_it_breaks_off_the_bytes_are_those_of_the_source(
        self, staging: Staging, breaks: list[int], block: int
    ) -> None:
        for place in breaks:
            broken = FakeConnection(block=block, fault_at=place, fault=TransferFailedError("broke off"))
            try:
                receive_from(broken, transfer_of(), staging)
            except TransferFailedError:
                assert staging.resumable(KEY, PartOrigin(1, len(CONTENT), MODIFIED)) <= len(CONTENT)
        receive_from(FakeConnection(block=block), transfer_of(), staging)
        archive = staging.archive(KEY)
        assert archive.read_bytes() == CONTENT
        assert list(archive.parent.iterdir()) == [archive]


class TestFullDisk:
    def test_a_disk_that_fills_up_on_the_way_is_told_and_nothing_is_left_held(
        self, staging: Staging, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(staging, "begin_part", lambda _key: os.open("/dev/full", os.O_WRONLY))
            with pytest.raises(
                DiskFullError, match=r"filled up while add/H\.2013-10-31\.1\.impc\.zip was being written"
            ):
                receive_from(FakeConnection(b"x" * 100_000, block=50_000), transfer_of(100_000), staging)
        assert not staging.archive(KEY).exists()
        receive_from(FakeConnection(), transfer_of(), staging)
        assert staging.archive(KEY).read_bytes() == CONTENT

    def test_what_was_received_of_an_archive_stays_for_when_there_is_room(self, staging: Staging) -> None:
        full = FakeConnection(fault_at=4_000, fault=OSError(28, "No space left on device"))
        with pytest.raises(DiskFullError):
            receive_from(full, transfer_of(), staging)
        again = FakeConnection()
        receive_from(again, transfer_of(), staging)
        assert again.fetched == [4_000]


SIZE = 128_000_000
MOST_MEGABYTES = 64
"""More than an SFTP connection may have on the way, and half of the archive."""


def receive_measured(address: SourceAddress, folder: Path, changes: Mapping[str, object]) -> None:
    """Receive the archive; write how many MB the peak of this process's memory rose."""
    settings = Settings(home=folder, min_free_bytes=0).model_copy(update=dict(changes))
    staging = Staging(folder / "staging")
    staging.make()
    before = peak_megabytes()
    with connect(address, settings) as connection:
        received = receive_from(connection, Transfer(1, KEY, Hosting(1, 1, SIZE, None, False)), staging)
    assert received.size_bytes == SIZE
    (folder / "risen").write_text(f"{peak_megabytes() - before}")


@pytest.mark.servers
@pytest.mark.parametrize("share", ["sftp_server", "ftp_server", "ftps_server", "web_folder"], indirect=True)
def test_a_large_archive_is_never_held_in_memory(share: Share, tmp_path: Path) -> None:
    os.truncate(share.put(str(KEY)), SIZE)
    given = share.address(), tmp_path, {"tls_ca_file": share.ca_file}
    process = FORKED.Process(target=receive_measured, args=given)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert int((tmp_path / "risen").read_text()) < MOST_MEGABYTES
