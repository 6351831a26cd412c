"""Archives in archives: ordinary ones, and such as are refused whole for what lies inside them."""

import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping

from dcc.errors import ArchiveError, CorruptArchiveError, DuplicateMemberError, UnsafeArchiveError

SPECIMEN = "J.2013-10-31.1.specimen.impc.xml"
EXPERIMENT = "J.2013-10-31.2.experiment.impc.xml"
Members = Mapping[str, bytes]


def zipped(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def tarred(members: Members) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def packed(members: Members) -> bytes:
    return gzip.compress(tarred(members), mtime=0)


def entry_of(kind: bytes, **fields: object) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo(SPECIMEN)
        entry.type = kind
        for name, value in fields.items():
            setattr(entry, name, value)
        archive.addfile(entry)
    return made.getvalue()


def sparse() -> bytes:
    """A sparse file in the form of pax, which claims to be of a terabyte."""
    told = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,0", "GNU.sparse.size": str(10**12)}
    return entry_of(tarfile.REGTYPE, pax_headers=told)


LONG = random.Random(1).randbytes(600_000).hex()
HOSTILE_TARS: dict[str, tuple[bytes, type[ArchiveError], str]] = {
    "link": (entry_of(tarfile.SYMTYPE, linkname="/etc/passwd"), UnsafeArchiveError, "is a link or a device"),
    "hard link": (entry_of(tarfile.LNKTYPE, linkname="x"), UnsafeArchiveError, "is a link or a device"),
    "device": (entry_of(tarfile.CHRTYPE, devmajor=1), UnsafeArchiveError, "is a link or a device"),
    "pipe": (entry_of(tarfile.FIFOTYPE), UnsafeArchiveError, "is a link or a device"),
    "sparse": (sparse(), UnsafeArchiveError, "is a sparse file"),
    "long header": (entry_of(tarfile.REGTYPE, pax_headers={"comment": LONG}), CorruptArchiveError, "a header of"),
    "absolute": (tarred({"/etc/x.xml": b""}), UnsafeArchiveError, "has an absolute path"),
    "outside": (tarred({"a/../../x.xml": b""}), UnsafeArchiveError, "leads out of the archive's folder"),
    "twice": (tarred({SPECIMEN: b""})[:512] * 2 + bytes(1024), DuplicateMemberError, "holds 2 entries named"),
    "cut in an entry": (tarred({SPECIMEN: b"x" * 2000})[:1500], CorruptArchiveError, "is damaged"),
    "cut between entries": (tarred({SPECIMEN: b"", EXPERIMENT: b""})[:512], CorruptArchiveError, "it has no end"),
    "broken header": (
        tarred({SPECIMEN: b""})[:512] + b"x" * 512 + tarred({EXPERIMENT: b""}),
        CorruptArchiveError,
        "it has no end",
    ),
    "packed and cut": (packed({SPECIMEN: b"x"})[:-9], CorruptArchiveError, "end too early"),
    "packed and followed": (packed({SPECIMEN: b"x"}) + b"more", CorruptArchiveError, "is damaged"),
}


def nested(levels: int, content: bytes) -> bytes:
    made = content
    for level in range(levels):
        made = zipped({f"{level}.zip": made})
    return made


MEGABYTES = {f"{number}.txt": bytes(3_000_000) for number in range(9)}
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "over levels": (lambda: nested(2, zipped(MEGABYTES)), "zip bombs"),
    "side by side": (
        lambda: zipped({f"{number}.zip": zipped({"a": bytes(2_000_000)}) for number in range(12)}),
        "zip bombs",
    ),
    "packed by gzip": (lambda: zipped({"in.tgz": gzip.compress(bytes(25_000_000))}), "zip bombs"),
    "many entries": (
        lambda: zipped({f"{n}.zip": zipped({f"{m}": b"" for m in range(30)}) for n in range(5)}),
        "100 are allowed",
    ),
    "many entries of a tar": (lambda: tarred({f"{number}": b"" for number in range(101)}), "100 are allowed"),
}


IN_ITSELF = zipped({"r.zip": zipped({"r.zip": zipped({"r.zip": b"and so on"})})})
"""As a quine is: each level is like the one without."""


def refused_compounds() -> Iterator[tuple[str, bytes, str]]:
    """Archives with hostile ones inside: what they are, their bytes, and a piece of the reason."""
    for case, (content, _, said) in HOSTILE_TARS.items():
        suffix = "tgz" if case.startswith("packed") else "tar"
        yield f"tar inside: {case}", zipped({f"f/in.{suffix}": content, EXPERIMENT: b"<b/>"}), said
    name = SPECIMEN.replace("J", "H")
    names = {f"a/{name}": b"<a/>", "in.zip": zipped({name: b"<a/>"})}
    yield "one name at two levels", zipped(names), "holds two documents named"
