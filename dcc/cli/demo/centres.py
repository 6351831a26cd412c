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
from typing import NamedTuple

from dcc.cli.demo.submissions import PROJECTS, archive, damaged, experiment_document, specimen_document
from dcc.messages import count_of
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.sources.protocols import SourceProtocol

CENTRES = tuple(PROJECTS)
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


class ExpectedState(NamedTuple):
    """The expected outcome of a submission; `sources` are the sources that host it."""

    phase: Phase
    status: Status
    sources: int = 1

    def __str__(self) -> str:
        """`(qc, pending) on 2 file sources`."""
        return f"({self.phase.short_name}, {self.status.short_name}) on {count_of(self.sources, 'file source')}"


_FOR_QC = ExpectedState(Phase.QC, Status.PENDING)

EXPECTED: Mapping[SubmissionKey, ExpectedState] = {
    SubmissionKey(Action.ADD, "H.2013-10-31.1.impc.zip"): _FOR_QC,
    SubmissionKey(Action.ADD, "H.2013-10-31.2.impc.zip"): ExpectedState(Phase.QC, Status.PENDING, sources=2),
    SubmissionKey(Action.ADD, "H.2013-11-04.3.impc.zip"): ExpectedState(Phase.XSD, Status.FAILED),
    SubmissionKey(Action.EDIT, "H.2013-11-05.4.impc.zip"): _FOR_QC,
    SubmissionKey(Action.DELETE, "H.2013-11-06.5.impc.zip"): ExpectedState(Phase.QC, Status.DONE),
    SubmissionKey(Action.ADD, "J.2013-10-31.26.impc.zip"): _FOR_QC,
    SubmissionKey(Action.ADD, "J.2013-11-01.27.impc.zip"): ExpectedState(Phase.UNZIP, Status.FAILED),
    SubmissionKey(Action.ADD, "J.2013-11-04.28.impc.zip"): ExpectedState(Phase.DATA, Status.FAILED),
    SubmissionKey(Action.ADD, "jax_november_final.zip"): ExpectedState(Phase.ZIP_NAME, Status.FAILED),
    SubmissionKey(Action.ADD, "Tcp.2013-11-03.7.impc.zip"): _FOR_QC,
    SubmissionKey(Action.ADD, "Tcp.2013-11-03.8.impc.zip"): ExpectedState(Phase.XSD, Status.FAILED),
    SubmissionKey(Action.ADD, "Wtsi.2013-11-02.2.impc.zip"): ExpectedState(Phase.XML_NAME, Status.FAILED),
    SubmissionKey(Action.ADD, "Wtsi.2013-11-02.3.impc.zip"): ExpectedState(Phase.QC, Status.PENDING, sources=2),
    SubmissionKey(Action.EDIT, "Wtsi.2013-11-03.5.impc.zip"): _FOR_QC,
}


def demo_sources() -> tuple[DemoSource, ...]:
    """All file sources of the demonstration with their files."""
    sftp, ftp = SourceProtocol.SFTP, SourceProtocol.FTP
    of_harwell = [
        experiment_document("H", procedure=one, animals=24) for one in ("IMPC_IPG_001", "IMPC_GRS_001", "IMPC_BWT_001")
    ]
    of_sanger = [
        experiment_document("Wtsi", procedure=one, animals=16, created=_november(2))
        for one in ("IMPC_IPG_001", "IMPC_CBC_001")
    ]
    harwell_and_jackson = {"add/H.2013-10-31.2.impc.zip": _packed("H", _OCTOBER, 3, *of_harwell)}
    sanger_and_toronto = {"add/Wtsi.2013-11-02.3.impc.zip": _packed("Wtsi", _november(2), 2, *of_sanger)}
    return (
        DemoSource("H", sftp, "harwell", _harwell() | harwell_and_jackson),
        DemoSource("J", ftp, "jax", _jackson() | harwell_and_jackson),
        DemoSource("Tcp", ftp, "toronto", _toronto() | sanger_and_toronto),
        DemoSource("Tcp", sftp, "toronto-old", {}),
        DemoSource("Wtsi", sftp, "sanger", _sanger() | sanger_and_toronto),
    )


_OCTOBER = date(2013, 10, 31)


def _november(day: int) -> date:
    return date(2013, 11, day)


def _packed(centre: str, day: date, first: int, *documents: bytes) -> bytes:
    """An archive of documents, which are numbered from `first` and named after their kinds."""
    kinds = ["specimen" if b"<centreSpecimenSet " in document else "experiment" for document in documents]
    numbered = enumerate(zip(kinds, documents, strict=True), first)
    return archive({f"{centre}.{day}.{inc}.{kind}.impc.xml": document for inc, (kind, document) in numbered}, day)


def _with_md5(path: str, content: bytes) -> dict[str, bytes]:
    """The archive with a checksum file as `md5sum` writes it."""
    checksum = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return {path: content, f"{path}.md5": f"{checksum}  {Path(path).name}\n".encode()}


def _measured_again(centre: str, day: date, animals: int, first: int) -> bytes:
    """A correction of submitted blood chemistry, with another value for each of the first parameters."""
    document = experiment_document(centre, animals=animals, first=first, created=day)
    return _packed(centre, day, 1, document.replace(b"<value>1", b"<value>2", animals))


def _harwell() -> dict[str, bytes]:
    day = _november(4)
    good = _packed("H", _OCTOBER, 1, specimen_document("H", mice=24), experiment_document("H", animals=24))
    animals = damaged(specimen_document("H", mice=6, first=25, created=day), ' zygosity="', ' zigosity="')
    chemistry = experiment_document("H", animals=6, first=25, created=day)
    chemistry = damaged(chemistry, "<simpleParameter ", "<simpleParamter ")
    faulty = _packed(
        "H",
        day,
        1,
        damaged(animals, 'isBaseline="false"', 'isBaseline="no"'),
        damaged(chemistry, "</simpleParameter>", "</simpleParamter>"),
        experiment_document("H", procedure="IMPC_HEM_001", first=25, created=day),
    )
    withdrawal = experiment_document("H", animals=1, first=7, created=_november(6))
    return {
        **_with_md5("add/H.2013-10-31.1.impc.zip", good),
        "add/H.2013-11-04.3.impc.zip": faulty,
        "add/README.txt": b"Exported by the LIMS every night at two.\n",
        "add/archived/H.2013-09-30.1.impc.zip": good,
        "edit/H.2013-11-05.4.impc.zip": _measured_again("H", _november(5), animals=2, first=3),
        "delete/H.2013-11-06.5.impc.zip": _packed("H", _november(6), 1, withdrawal),
    }


def _jackson() -> dict[str, bytes]:
    good = _packed("J", _OCTOBER, 26, specimen_document("J", mice=40), experiment_document("J", animals=40))
    first, fourth = _november(1), _november(4)
    late = _packed("J", first, 28, experiment_document("J", procedure="IMPC_HEM_001", animals=30, created=first))
    # Valid documents whose data break the rules: an unknown colony and animal, a weight that is no number.
    animals = specimen_document("J", mice=6, first=41, created=fourth)
    weights = experiment_document("J", procedure="IMPC_BWT_001", animals=8, first=41, created=fourth)
    animals, weights = (
        damaged(animals, 'colonyID="J-', 'colonyID="JAX-'),
        damaged(weights, "<value>2", "<value>approx. 2"),
    )
    return {
        **_with_md5("add/J.2013-10-31.26.impc.zip", good),
        "add/J.2013-11-04.28.impc.zip": _packed("J", fourth, 29, animals, weights),
        "add/J.2013-11-01.27.impc.zip": late[: len(late) * 2 // 3],
        "add/jax_november_final.zip": late,
    }


def _sanger() -> dict[str, bytes]:
    day = _november(2)
    misnamed = {
        "Wtsi.2013-11-02.1.specimen.impc.xml": specimen_document("Wtsi", mice=16, created=day),
        "weights final version.xml": experiment_document("Wtsi", procedure="IMPC_BWT_001", created=day),
    }
    return {
        "add/Wtsi.2013-11-02.2.impc.zip": archive(misnamed, day),
        "edit/Wtsi.2013-11-03.5.impc.zip": _measured_again("Wtsi", _november(3), animals=4, first=5),
    }


def _toronto() -> dict[str, bytes]:
    day = _november(3)
    strength = experiment_document("Tcp", procedure="IMPC_GRS_001", animals=12, created=day)
    swapped = {"Tcp.2013-11-03.3.experiment.impc.xml": specimen_document("Tcp", first=13, created=day)}
    return {
        "add/Tcp.2013-11-03.7.impc.zip": _packed(
            "Tcp", day, 1, specimen_document("Tcp", mice=12, created=day), strength
        ),
        "add/Tcp.2013-11-03.8.impc.zip": archive(swapped, day),
    }
