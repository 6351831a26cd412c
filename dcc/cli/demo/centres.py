"""The archives on the servers of the demonstration's four centres, and the expected outcome of each.

Every kind of fault that a wrangler meets is there once. Files: a name outside the convention, a damaged archive, a file
that is no archive. Documents: some break the schema, the name or content of one is not what it says, data break the
integrity rules. And a server refuses connections.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from dcc.cli.demo.submissions import archive, damaged, experiment_document, specimen_document
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.phases import Phase, Status
from dcc.sources.base import SourceProtocol

CENTRES = ("H", "J", "Tcp", "Wtsi")
BASE_PATH = "/impc"
_UPLOADED = 1_400_000_000


@dataclass(frozen=True, slots=True)
class DemoSource:
    """A file source of the demonstration: `files` by their path under the base path.

    A source without files (`refusing`) has no server behind its port.
    """

    centre: str
    protocol: SourceProtocol
    username: str
    files: Mapping[str, bytes]

    @property
    def refusing(self) -> bool:
        """Whether the source refuses connections."""
        return not self.files

    def write(self, folder: Path) -> None:
        """Write the files to `folder`, the root of the server."""
        for path, content in self.files.items():
            target = folder / BASE_PATH.strip("/") / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            # Older files need no second look.
            os.utime(target, (_UPLOADED, _UPLOADED))


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected outcome of a submission; `sources` are the sources that host it."""

    phase: Phase
    status: Status
    sources: int = 1


_FOR_QC = Expected(Phase.QC, Status.PENDING)

EXPECTED: Mapping[ZipKey, Expected] = {
    ZipKey(Action.ADD, "H.2013-10-31.1.impc.zip"): _FOR_QC,
    ZipKey(Action.ADD, "H.2013-10-31.2.impc.zip"): Expected(Phase.QC, Status.PENDING, sources=2),
    ZipKey(Action.ADD, "H.2013-11-04.3.impc.zip"): Expected(Phase.XSD, Status.FAILED),
    ZipKey(Action.EDIT, "H.2013-11-05.4.impc.zip"): _FOR_QC,
    ZipKey(Action.DELETE, "H.2013-11-06.5.impc.zip"): Expected(Phase.QC, Status.DONE),
    ZipKey(Action.ADD, "J.2013-10-31.26.impc.zip"): _FOR_QC,
    ZipKey(Action.ADD, "J.2013-11-01.27.impc.zip"): Expected(Phase.UNZIP, Status.FAILED),
    ZipKey(Action.ADD, "J.2013-11-04.28.impc.zip"): Expected(Phase.DATA, Status.FAILED),
    ZipKey(Action.ADD, "jax_november_final.zip"): Expected(Phase.ZIP_NAME, Status.FAILED),
    ZipKey(Action.ADD, "Tcp.2013-11-03.7.impc.zip"): _FOR_QC,
    ZipKey(Action.ADD, "Tcp.2013-11-03.8.impc.zip"): Expected(Phase.XSD, Status.FAILED),
    ZipKey(Action.ADD, "Wtsi.2013-11-02.2.impc.zip"): Expected(Phase.XML_NAME, Status.FAILED),
    ZipKey(Action.ADD, "Wtsi.2013-11-02.3.impc.zip"): Expected(Phase.QC, Status.PENDING, sources=2),
    ZipKey(Action.EDIT, "Wtsi.2013-11-03.5.impc.zip"): _FOR_QC,
}


def demo_sources() -> tuple[DemoSource, ...]:
    """All file sources of the demonstration with their files."""
    sftp, ftp = SourceProtocol.SFTP, SourceProtocol.FTP
    harwell_and_jackson = {"add/H.2013-10-31.2.impc.zip": _harwell_procedures()}
    sanger_and_toronto = {"add/Wtsi.2013-11-02.3.impc.zip": _sanger_procedures()}
    return (
        DemoSource("H", sftp, "harwell", _harwell() | harwell_and_jackson),
        DemoSource("J", ftp, "jax", _jackson() | harwell_and_jackson),
        DemoSource("Tcp", ftp, "toronto", _toronto() | sanger_and_toronto),
        DemoSource("Tcp", sftp, "toronto-old", {}),
        DemoSource("Wtsi", sftp, "sanger", _sanger() | sanger_and_toronto),
    )


def _with_md5(path: str, content: bytes) -> dict[str, bytes]:
    """The archive with a checksum file as `md5sum` writes it."""
    checksum = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return {path: content, f"{path}.md5": f"{checksum}  {Path(path).name}\n".encode()}


def _harwell() -> dict[str, bytes]:
    october, fourth, fifth, sixth = date(2013, 10, 31), date(2013, 11, 4), date(2013, 11, 5), date(2013, 11, 6)
    first = archive(
        {
            "H.2013-10-31.1.specimen.impc.xml": specimen_document("H", mice=24),
            "H.2013-10-31.2.experiment.impc.xml": experiment_document("H", animals=24),
        },
        october,
    )
    chemistry = experiment_document("H", animals=6, first=25, created=fourth)
    chemistry = damaged(chemistry, "<simpleParameter ", "<simpleParamter ")
    chemistry = damaged(chemistry, "</simpleParameter>", "</simpleParamter>")
    animals = damaged(specimen_document("H", mice=6, first=25, created=fourth), ' zygosity="', ' zigosity="')
    faulty = archive(
        {
            "H.2013-11-04.1.specimen.impc.xml": damaged(animals, 'isBaseline="false"', 'isBaseline="no"'),
            "H.2013-11-04.2.experiment.impc.xml": chemistry,
            "H.2013-11-04.3.experiment.impc.xml": experiment_document(
                "H", procedure="IMPC_HEM_001", first=25, created=fourth
            ),
        },
        fourth,
    )
    correction = {"H.2013-11-05.1.experiment.impc.xml": _measured_again("H", animals=2, first=3, created=fifth)}
    withdrawal = {"H.2013-11-06.1.experiment.impc.xml": experiment_document("H", animals=1, first=7, created=sixth)}
    return {
        **_with_md5("add/H.2013-10-31.1.impc.zip", first),
        "add/H.2013-11-04.3.impc.zip": faulty,
        "add/README.txt": b"Exported by the LIMS every night at two.\n",
        "add/archived/H.2013-09-30.1.impc.zip": first,
        "edit/H.2013-11-05.4.impc.zip": archive(correction, fifth),
        "delete/H.2013-11-06.5.impc.zip": archive(withdrawal, sixth),
    }


def _harwell_procedures() -> bytes:
    return archive(
        {
            f"H.2013-10-31.{number}.experiment.impc.xml": experiment_document("H", procedure=procedure, animals=24)
            for number, procedure in ((3, "IMPC_IPG_001"), (4, "IMPC_GRS_001"), (5, "IMPC_BWT_001"))
        }
    )


def _jackson() -> dict[str, bytes]:
    good = archive(
        {
            "J.2013-10-31.26.specimen.impc.xml": specimen_document("J", mice=40),
            "J.2013-10-31.27.experiment.impc.xml": experiment_document("J", animals=40),
        }
    )
    november = date(2013, 11, 1)
    document = experiment_document("J", procedure="IMPC_HEM_001", animals=30, created=november)
    late = archive({"J.2013-11-01.28.experiment.impc.xml": document}, november)
    return {
        **_with_md5("add/J.2013-10-31.26.impc.zip", good),
        "add/J.2013-11-04.28.impc.zip": _jackson_in_error(),
        "add/J.2013-11-01.27.impc.zip": late[: len(late) * 2 // 3],
        "add/jax_november_final.zip": late,
    }


def _jackson_in_error() -> bytes:
    """Valid documents whose data break the rules: an unknown colony and animal, a weight that is no number."""
    fourth = date(2013, 11, 4)
    animals = specimen_document("J", mice=6, first=41, created=fourth)
    weights = experiment_document("J", procedure="IMPC_BWT_001", animals=8, first=41, created=fourth)
    return archive(
        {
            "J.2013-11-04.29.specimen.impc.xml": damaged(animals, 'colonyID="J-', 'colonyID="JAX-'),
            "J.2013-11-04.30.experiment.impc.xml": damaged(weights, "<value>2", "<value>approx. 2"),
        },
        fourth,
    )


def _measured_again(centre: str, *, animals: int, first: int, created: date) -> bytes:
    """The blood chemistry of submitted animals, with another value for each of the first parameters."""
    document = experiment_document(centre, animals=animals, first=first, created=created)
    return document.replace(b"<value>1", b"<value>2", animals)


def _sanger() -> dict[str, bytes]:
    second, third = date(2013, 11, 2), date(2013, 11, 3)
    misnamed = archive(
        {
            "Wtsi.2013-11-02.1.specimen.impc.xml": specimen_document("Wtsi", mice=16, created=second),
            "weights final version.xml": experiment_document("Wtsi", procedure="IMPC_BWT_001", created=second),
        },
        second,
    )
    correction = {"Wtsi.2013-11-03.1.experiment.impc.xml": _measured_again("Wtsi", animals=4, first=5, created=third)}
    return {"add/Wtsi.2013-11-02.2.impc.zip": misnamed, "edit/Wtsi.2013-11-03.5.impc.zip": archive(correction, third)}


def _sanger_procedures() -> bytes:
    second = date(2013, 11, 2)
    return archive(
        {
            f"Wtsi.2013-11-02.{number}.experiment.impc.xml": experiment_document(
                "Wtsi", procedure=procedure, animals=16, created=second
            )
            for number, procedure in ((2, "IMPC_IPG_001"), (3, "IMPC_CBC_001"))
        },
        second,
    )


def _toronto() -> dict[str, bytes]:
    third = date(2013, 11, 3)
    good = archive(
        {
            "Tcp.2013-11-03.1.specimen.impc.xml": specimen_document("Tcp", mice=12, created=third),
            "Tcp.2013-11-03.2.experiment.impc.xml": experiment_document(
                "Tcp", procedure="IMPC_GRS_001", animals=12, created=third
            ),
        },
        third,
    )
    swapped = archive(
        {"Tcp.2013-11-03.3.experiment.impc.xml": specimen_document("Tcp", first=13, created=third)}, third
    )
    return {"add/Tcp.2013-11-03.7.impc.zip": good, "add/Tcp.2013-11-03.8.impc.zip": swapped}
