"""Listings of SFTP servers taken apart: as paramiko does it, and never beyond the end."""

from __future__ import annotations

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcc.sources.sftp.names import ListedName, listed_names

NUMBERS = st.integers(0, 2**32 - 1)


@st.composite
def attributes(draw: st.DrawFn) -> paramiko.SFTPAttributes:
    """Any of the attributes that a server may tell."""
    made = paramiko.SFTPAttributes()
    if draw(st.booleans()):
        made.st_size = draw(st.integers(0, 2**64 - 1))
    if draw(st.booleans()):
        made.st_uid, made.st_gid = draw(NUMBERS), draw(NUMBERS)
    if draw(st.booleans()):
        made.st_mode = draw(NUMBERS)
    if draw(st.booleans()):
        made.st_atime, made.st_mtime = draw(NUMBERS), draw(NUMBERS)
    made.attr = draw(st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2))
    return made


ENTRIES = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20), attributes()), max_size=5)


def message_of(entries: list[tuple[bytes, bytes, paramiko.SFTPAttributes]]) -> bytes:
    message = paramiko.Message()
    message.add_int(len(entries))
    for name, shown, told in entries:
        message.add_string(name)
        message.add_string(shown)
        told._pack(message)  # type: ignore[attr-defined]
    return message.asbytes()


@given(ENTRIES)
def test_names_and_attributes_are_taken_apart(entries: list[tuple[bytes, bytes, paramiko.SFTPAttributes]]) -> None:
    expected = [ListedName(name, told.st_mode, told.st_size, told.st_mtime) for name, _, told in entries]
    assert list(listed_names(message_of(entries))) == expected


@given(ENTRIES.filter(bool), st.data())
def test_a_message_that_ends_early_is_refused(
    entries: list[tuple[bytes, bytes, paramiko.SFTPAttributes]], data: st.DataObject
) -> None:
    content = message_of(entries)
    with pytest.raises(paramiko.SSHException, match="ends before"):
        list(listed_names(content[: data.draw(st.integers(0, len(content) - 1))]))


def test_millions_of_entries_and_attributes_that_are_only_announced_are_refused_at_once() -> None:
    most = b"\xff\xff\xff\xff"
    for content in (most, b"\0\0\0\1\0\0\0\1x\0\0\0\0\x80\0\0\0" + most, b"\0\0\0\1" + most):
        with pytest.raises(paramiko.SSHException, match="ends before"):
            list(listed_names(content))
