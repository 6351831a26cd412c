"""Reference data from a folder of files, and the small set that comes with the platform.

A folder holds any of:

- IMPReSS: `impress.json`, one object of the API's answers by their address, or a folder `impress` with a file for each
  answer: `impress/pipeline/list.json`, `impress/parameter/7.json` and so on (see impress_answers)
- `status_codes`, `projects`, `colonies`, `strains`, as .csv or .tsv; strains also as MGI_Strain.rpt (see tables)
- `retrieved.txt`: when all of it was retrieved, a day or a day and time in UTC; without it a file's last change counts
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from dcc_resources.errors import ReferenceDataError
from dcc_resources.reference_data.impress import Impress
from dcc_resources.reference_data.impress_answers import impress_from_answers
from dcc_resources.reference_data.snapshots import Colonies, Projects, Provenance, Snapshot, StatusCodes, Strains
from dcc_resources.reference_data.tables import (
    colonies_from_table,
    projects_from_table,
    status_codes_from_table,
    strains_from_table,
)

SHIPPED = Path(__file__).parent / "shipped"
"""The set that comes with the platform: what the demo and the samples of the exchange format need, no more."""

MGI_REPORT = "MGI_Strain.rpt"
_SUFFIXES = (".csv", ".tsv")
_RETRIEVED = "retrieved.txt"

AnySnapshot = TypeVar("AnySnapshot", bound=Snapshot)


@dataclass(frozen=True, slots=True)
class ReferenceData:
    """The snapshots at hand; None for a set that is not."""

    impress: Impress | None = None
    status_codes: StatusCodes | None = None
    projects: Projects | None = None
    colonies: Colonies | None = None
    strains: Strains | None = None

    def __iter__(self) -> Iterator[Snapshot]:
        """The snapshots that there are."""
        found = (self.impress, self.status_codes, self.projects, self.colonies, self.strains)
        return (snapshot for snapshot in found if snapshot is not None)

    def find(self, kind: type[Snapshot]) -> Snapshot | None:
        """The snapshot of a kind, if there is one."""
        return next((snapshot for snapshot in self if type(snapshot) is kind), None)


def load_shipped() -> ReferenceData:
    """The reference data that come with the platform."""
    return load_reference_data(SHIPPED)


def load_reference_data(folder: Path) -> ReferenceData:
    """The reference data of a folder.

    A set without a file is not there. Raises ReferenceDataError, which names the file and what is wrong, when one is
    empty or malformed, and when the folder has none at all.
    """
    data = ReferenceData(
        _load_impress(folder),
        _load_table(folder, StatusCodes, status_codes_from_table),
        _load_table(folder, Projects, projects_from_table),
        _load_table(folder, Colonies, colonies_from_table),
        _load_table(folder, Strains, strains_from_table, MGI_REPORT),
    )
    if not list(data):
        raise ReferenceDataError(
            f"{folder} holds no reference data. Put impress.json, status_codes.csv, projects.csv, colonies.csv and "
            "strains.csv there."
        )
    return data


def _load_table(
    folder: Path, kind: type[AnySnapshot], build: Callable[[bytes, Provenance], AnySnapshot], *others: str
) -> AnySnapshot | None:
    names = [*(kind.NAME + suffix for suffix in _SUFFIXES), *others]
    found = [folder / name for name in names if (folder / name).is_file()]
    if not found:
        return None
    if len(found) > 1:
        raise ReferenceDataError(
            f"{folder} has the {kind.NAME} twice: {', '.join(path.name for path in found)}. Remove one."
        )
    content = _content(found[0])
    return build(content, Provenance(str(found[0]), _retrieved(folder, found), hashlib.sha256(content).hexdigest()))


def _load_impress(folder: Path) -> Impress | None:
    bundle, tree = folder / "impress.json", folder / "impress"
    if bundle.is_file():
        content = _content(bundle)
        parsed = _parsed(bundle, content)
        if not isinstance(parsed, dict) or not parsed:
            raise ReferenceDataError(f"{bundle} is no object of answers by their address. Retrieve it again.")
        provenance = Provenance(str(bundle), _retrieved(folder, [bundle]), hashlib.sha256(content).hexdigest())
        return impress_from_answers(lambda address: _answer(parsed, address, bundle), provenance)
    if not tree.is_dir():
        return None
    paths = sorted(tree.rglob("*.json"))
    if not paths:
        raise ReferenceDataError(f"{tree} holds no answers of IMPReSS. Retrieve them again.")
    contents = {path.relative_to(tree).with_suffix("").as_posix(): _content(path) for path in paths}
    digest = hashlib.sha256()
    for address, content in contents.items():
        digest.update(f"{address}\n{len(content)}\n".encode() + content)
    answers = {address: _parsed(tree / f"{address}.json", content) for address, content in contents.items()}
    provenance = Provenance(str(tree), _retrieved(folder, paths), digest.hexdigest())
    return impress_from_answers(lambda address: _answer(answers, address, tree), provenance)


def _answer(answers: dict[str, object], address: str, source: Path) -> object:
    if address not in answers:
        raise ReferenceDataError(f"{source} has no answer for {address}. Retrieve IMPReSS again.")
    return answers[address]


def _parsed(path: Path, content: bytes) -> object:
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ReferenceDataError(f"{path} is no JSON ({error}). Retrieve it again.") from error
    return parsed


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ReferenceDataError(f"{path} cannot be read ({error.strerror}). Make it readable.") from error


def _retrieved(folder: Path, paths: list[Path]) -> datetime:
    note = folder / _RETRIEVED
    if not note.is_file():
        newest = max(path.stat().st_mtime for path in paths)
        return datetime.fromtimestamp(newest, UTC).replace(tzinfo=None, microsecond=0)
    text = _content(note).decode("utf-8", "replace").strip()
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise ReferenceDataError(f"{note} says {text!r}, which is no day or time. Write 2026-11-21.") from error
    return when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when
