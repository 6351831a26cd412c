"""Archives of every hostile kind, made byte by byte: what no zip program would write."""

import base64
import bz2
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dcc.archives.zip_archives import LARGEST_DICTIONARY
from tests.hostile.compounds import IN_ITSELF, refused_compounds

ZIP64 = 0xFFFFFFFF
CENTRE = "H"
UTF_8 = 0x800


@dataclass(frozen=True)
class Member:
    """An entry as its headers tell it; what is None is told truly."""

    name: bytes
    content: bytes = b"<a/>"
    method: int = zipfile.ZIP_DEFLATED
    flags: int = 0
    attributes: int = 0
    stored: bytes | None = None
    crc: int | None = None
    size: int | None = None
    compressed: int | None = None
    extra: bytes = b""
    local_name: bytes | None = None
    local_size: int | None = None
    system: int = 3
    version: int = 20
    disk: int = 0
    offset: int | None = None

    def data(self) -> bytes:
        if self.stored is not None:
            return self.stored
        return _compressed(self.content, self.method)


def _compressed(content: bytes, method: int) -> bytes:
    if method == zipfile.ZIP_DEFLATED:
        deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
        return deflater.compress(content) + deflater.flush()
    if method == zipfile.ZIP_BZIP2:
        return bz2.compress(content)
    if method == zipfile.ZIP_LZMA:
        return lzma_data(content, 1 << 20)
    return content


def lzma_data(content: bytes, dictionary: int) -> bytes:
    """LZMA as in a zip, which says it needs a dictionary of that many bytes."""
    chain = [{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 20}]
    return struct.pack("<BBHBL", 9, 4, 5, 93, dictionary) + lzma.compress(content, lzma.FORMAT_RAW, filters=chain)


def archive(
    members: Iterable[Member],
    *,
    before: bytes = b"",
    after: bytes = b"",
    comment: bytes = b"",
    count: int | None = None,
    disk: int = 0,
) -> bytes:
    """A zip of these entries, with something before and after it, and what its end record says of their number."""
    body, directory = io.BytesIO(), io.BytesIO()
    body.write(before)
    number = 0
    for member in members:
        number += 1
        data, size = member.data(), len(member.content) if member.size is None else member.size
        crc = zlib.crc32(member.content) if member.crc is None else member.crc
        compressed = len(data) if member.compressed is None else member.compressed
        offset = body.tell() if member.offset is None else member.offset
        local = member.name if member.local_name is None else member.local_name
        told = size if member.local_size is None else member.local_size
        common = (member.version, member.flags, member.method, 0, 0x21, crc)
        body.write(struct.pack("<4s5H3L2H", b"PK\3\4", *common, compressed & ZIP64, told & ZIP64, len(local), 0))
        body.write(local + data)
        made = member.system << 8 | 20
        fields = (compressed & ZIP64, size & ZIP64, len(member.name), len(member.extra), 0, member.disk, 0)
        head = struct.pack("<4s6HL2L5H", b"PK\1\2", made, *common[:5], crc, *fields)
        directory.write(head + struct.pack("<LL", member.attributes, offset & ZIP64) + member.name + member.extra)
    start, length = body.tell(), directory.tell()
    told_count = number if count is None else count
    if told_count > 0xFFFF and count is None:
        end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, number, number, length, start)
        end += struct.pack("<4sLQL", b"PK\6\7", 0, start + length, 1)
        told_count = 0xFFFF
    else:
        end = b""
    end += struct.pack("<4s4H2LH", b"PK\5\6", disk, disk, told_count, told_count, length, start & ZIP64, len(comment))
    return body.getvalue() + directory.getvalue() + end + comment + after


def zip64_extra(*values: int) -> bytes:
    """The extra field that holds sizes and offsets of more than 32 bits."""
    return struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values)


def document(inc: int) -> bytes:
    return f"{CENTRE}.2013-10-31.{inc}.specimen.impc.xml".encode()


LEADING_OUT = (
    b"../x.xml",
    b"..",
    b"a/../../x.xml",
    b"..\\x.xml",
    b"a\\..\\..\\x.xml",
    b"/etc/passwd",
    b"//server/share/x.xml",
    b"\\\\server\\share\\x.xml",
    b"\\\\?\\C:\\x.xml",
    b"C:x.xml",
    b"C:\\x.xml",
    b"c:/x.xml",
    b"a/b/../../../x.xml",
    b"a\0/../x.xml",
    b"x.xml\0.exe",
    b"a/..",
    b"a\\b.xml",
)
"""Names that lead out of a folder on some system."""

HARMLESS_BUT_ODD = (
    b"%2e%2e%2fx.xml",
    b"%2e%2e/x.xml",
    b"..%c0%af..%c0%afx.xml",
    b"\xc0\xae\xc0\xae/x.xml",
    "․․／x.xml".encode(),
    "‥/x.xml".encode(),
    b"...",
    b". .",
    b".. /x.xml",
    b"~/x.xml",
    b"~root",
    b"-rf",
    b"--help.xml",
    b"$(touch owned).xml",
    b"`touch owned`.xml",
    b"; rm -rf ~.xml",
    b"|id.xml",
    b"x.xml\n.txt",
    b"\x1b[2J\x1b]0;owned\x07.xml",
    b"\x7f\x08\x08.xml",
    "‮lmx.exe.xml".encode(),
    b"\xff\xfe\xfd.xml",
    b"caf\x82.xml",
    b"CON.xml",
    b"nul",
    b"COM1.xml",
    b"x.xml.",
    b"x.xml ",
    b" x.xml",
    b"X.XML",
    "é.xml".encode(),
    "e\u0301.xml".encode(),
    b"<script>alert(1)</script>.xml",
    b"=cmd('calc').xml",
    b"n" * 60_000 + b".xml",
    b"d/" * 5_000 + b"x.xml",
    b"",
    b".xml",
    b"x" * 300,
)
"""Names that are nobody's harm where nothing but the name convention is let through."""

LINKS_AND_DEVICES = (0o120777, 0o020666, 0o060660, 0o010644, 0o140755)
"""Modes of entries that are links, devices, pipes and sockets."""


def refused_archives() -> Iterator[tuple[str, bytes, str]]:
    """Archives that are refused whole: what they are, their bytes, and a piece of the reason."""
    good = Member(document(1))
    for number, name in enumerate(LEADING_OUT):
        reason = "absolute|backslash|leads out|NUL"
        yield f"leading out {number}", archive([good, Member(name)]), reason
    for mode in LINKS_AND_DEVICES:
        entry = Member(document(2), b"/etc/passwd", attributes=mode << 16)
        yield f"mode {mode:o}", archive([good, entry]), "is a link or a device"
    bomb = Member(document(2), bytes(3_000_000))
    yield "flat bomb", archive([bomb]), "more than 200 times"
    yield "flat bomb beside", archive([good, Member(b"x.bin", bytes(3_000_000))]), "more than 200 times"
    kernel = _compressed(bytes(1_000_000), zipfile.ZIP_DEFLATED)
    shared = Member(document(2), bytes(1_000_000), stored=kernel)
    yield "overlapping", archive([shared, *_pointing_at_the_first(200)]), "overlaps|more than 200 times"
    yield "the same bytes again", archive([good, Member(document(2), stored=b"", compressed=6, offset=0)]), "overlaps"
    for size in (1 << 40, (1 << 63) - 1, (1 << 64) - 1):
        lying = Member(document(2), size=ZIP64, extra=zip64_extra(size))
        yield f"64-bit size {size}", archive([lying]), "would unpack to"
    far = Member(document(2), extra=zip64_extra(1 << 62), offset=ZIP64)
    yield "64-bit offset", archive([far]), "is damaged"
    yield "broken 64-bit field", archive([Member(document(2), size=ZIP64, extra=b"\1\0\x08\0\1")]), "is damaged"
    yield "directory says more", archive([Member(document(2), size=5_000)]), "is damaged"
    yield "directory says less data", archive([Member(document(2), b"x" * 999, compressed=3)]), "is damaged"
    yield "wrong checksum", archive([good, Member(document(2), crc=7)]), f"CRC-32 for file '{document(2).decode()}'"
    yield "two names", archive([Member(document(2), local_name=document(3))]), r" differ\. Replace it with a good"
    yield "a long second name", archive([Member(document(2), local_name=b"\x1b[31m" * 12_000)]), "is damaged"
    yield "ZipCrypto", archive([Member(document(2), flags=1)]), "is encrypted.*without a password"
    yield "strong encryption", archive([Member(document(2), flags=0x41)]), "is encrypted"
    yield "AES", archive([Member(document(2), method=99, flags=1)]), "is encrypted"
    for method in (1, 6, 9, 10, 19, 93, 95, 97, 98, 12345):
        yield (
            f"method {method}",
            archive([Member(document(2), method=method, stored=b"\0" * 9)]),
            "usual deflate method",
        )
    for size in (LARGEST_DICTIONARY + 1, 0xFFFFFFFF):
        greedy = Member(document(2), b"<a/>", zipfile.ZIP_LZMA, stored=lzma_data(b"<a/>", size))
        yield f"LZMA that needs {size}", archive([greedy]), f"{size:,} bytes of memory"
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield f"wrong checksum, method {method}", archive([Member(document(2), method=method, crc=1)]), "is damaged"
        cut = _compressed(b"<a/>" * 99, method)[:14]
        yield f"cut, method {method}", archive([Member(document(2), b"<a/>" * 99, method, stored=cut)]), "is damaged"
        yield f"wrong size, method {method}", archive([Member(document(2), method=method, size=5)]), "is damaged"
    yield "broken LZMA", archive([Member(document(2), method=14, stored=b"\t\4\0\0")]), "is damaged"
    yield "LZMA without header", archive([Member(document(2), method=14, stored=b"\t")]), "is damaged"
    yield "broken bzip2", archive([Member(document(2), method=12, stored=b"BZh9" + b"x" * 99)]), "is damaged"
    yield "a future version", archive([Member(document(2), version=99)]), "cannot be read"
    yield "patched data", archive([Member(document(2), flags=0x20)]), "cannot be read"
    yield "UTF-8 that is none", archive([good, Member(b"\xff.xml", flags=UTF_8)]), "claims to be UTF-8"
    yield "same name", archive([good, Member(document(1), b"<b/>")]), "2 entries named"
    twice = [Member("é.xml".encode()), Member("é.xml".encode(), flags=UTF_8)]
    yield "same name in two encodings", archive([good, *twice]), "2 entries named"
    yield "cut off", archive([Member(document(2), bytes(range(256)) * 99)])[:-60], "cut off|is damaged"
    yield "only an end", archive([]), "holds no .xml document"
    yield "count says more", archive([good], count=9), "lists 1 entries where 9"
    yield "count says less", archive([good, Member(b"x")], count=1), "lists 2 entries where 1"
    yield "an end within the comment", archive([good], comment=b"PK\5\6" + b"\0" * 18), "damaged|no .xml"
    yield "too much after it", archive([good], after=b"x" * 70_000), "cut off"
    yield "no zip", b"no archive" * 99, "neither a zip nor a tar archive"
    yield "nothing", b"", "is empty"
    for size in (1, 10, 21):
        yield f"{size} bytes", b"P" * size, "neither a zip nor a tar archive"
    nested = archive([Member(b"x.zip", archive([bomb]), zipfile.ZIP_STORED)])
    yield "no gzip", b"\x1f\x8b" + b"gzip" * 99, "is damaged"
    yield "nested bomb", nested, "zip bombs"
    yield from refused_compounds()
    yield "100,001 entries", archive(Member(b"%d" % n, b"", 0) for n in range(100_001)), "100,000 are allowed"


def _pointing_at_the_first(number: int) -> Iterator[Member]:
    zeros = bytes(1_000_000)
    compressed, crc = len(_compressed(zeros, zipfile.ZIP_DEFLATED)), zlib.crc32(zeros)
    for inc in range(3, 3 + number):
        yield Member(document(inc), zeros, stored=b"", compressed=compressed, crc=crc, offset=0)


def accepted_archives() -> Iterator[tuple[str, bytes, int]]:
    """Archives that are odd and do no harm: what they are, their bytes, and how many documents they have."""
    good = Member(document(1))
    for number, name in enumerate(HARMLESS_BUT_ODD):
        yield f"odd name {number}", archive([good, Member(name)]), 1
    yield "before it", archive([good], before=b"#!/bin/sh\nrm -rf ~\n" * 9), 1
    yield "a comment", archive([good], comment=b"\x1b[2J" * 900), 1
    short = Member(document(2), b"abc", stored=_compressed(bytes(99_999), 8), crc=zlib.crc32(bytes(3)))
    yield "more than it declares", archive([short]), 1
    yield "local header says more", archive([Member(document(2), local_size=ZIP64 - 1)]), 1
    large = bytes(1_000_000)
    yield "bzip2 bomb", archive([Member(document(2), large, 12, stored=bz2_bomb(), crc=zlib.crc32(large))]), 1
    most = lzma_data(b"<a/>", LARGEST_DICTIONARY)
    yield "LZMA that needs the most", archive([Member(document(2), method=zipfile.ZIP_LZMA, stored=most)]), 1
    yield "in itself", IN_ITSELF, 0
    yield "many folders", archive([good, *(Member(b"%d/" % n, b"", 0) for n in range(2_000))]), 1


_PACKED_BOMB = (
    "c-nJ{%CIzaj8qGb<l}sFpE17Af#CoH1BU{GL4&WG(*o6%Tn*Dl<wxZQUf!8S^(&*u`~wO=c^0sWGpw4+RxMI7W0<J;=$*%ME+Lj}&0-G#7bDsI"
)


def bz2_bomb() -> bytes:
    """bzip2 data of 722 bytes that come to a thousand million zeros (packing them here would take seconds)."""
    return zlib.decompress(base64.b85decode(_PACKED_BOMB))
