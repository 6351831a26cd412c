"""What centres do between sessions: they put up archives, good and bad ones, correct, delete and withdraw them.

What one round puts up may come in any order: what it edits and deletes was put up in rounds before. So that, whatever
goes wrong with a file source, the same must come of it.
"""

import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from dcc.cli.demo.submissions import archive, experiment_document, specimen_document
from tests.chaos.servers import Served

_FIRST_DAY: Final = date(2014, 1, 1)
_MODIFIED: Final = 1_400_000_000
_LARGE: Final = 2_100_000
_PROCEDURES: Final = ("IMPC_CBC_001", "IMPC_BWT_001")


@dataclass
class _Litter:
    """Animals that a centre has submitted with one experiment each."""

    centre: str
    first: int
    animals: int
    procedure: str
    there: bool = True


@dataclass
class Submissions:
    """The centres' behaviour, by the numbers of `rng`, on folders that are served."""

    rng: random.Random
    served: Sequence[Served]
    _round: int = 0
    _increment: int = 0
    _animals: int = 0
    _litters: list[_Litter] = field(default_factory=list)
    _put_up: list[Path] = field(default_factory=list)
    _before: list[Path] = field(default_factory=list)

    def happen(self, *, large: bool = False) -> list[str]:
        """One round of it; what was done, in words. `large`: with a document that other processes read."""
        self._round += 1
        self._before = list(self._put_up)
        mine = [litter for litter in self._litters if litter.there]
        done = [self._add(served) for served in self.served]
        if large:
            done.append(self._add(self.rng.choice(self.served), at_least=_LARGE))
        for what in self.rng.sample(_HAPPENINGS, 4):
            served = self.rng.choice(self.served)
            own = [litter for litter in mine if litter.centre == served.centre and litter.there]
            done.append(what(self, served, own))
        return [one for one in done if one]

    def _add(self, served: Served, *, at_least: int = 0) -> str:
        litter = self._litter(served, self.rng.randint(2, 6))
        return self._put(served, "add", self._documents(litter, at_least=at_least))

    def _litter(self, served: Served, animals: int) -> _Litter:
        litter = _Litter(served.centre, self._animals + 1, animals, self.rng.choice(_PROCEDURES))
        self._animals += animals
        self._litters.append(litter)
        return litter

    def _documents(self, litter: _Litter, *, at_least: int = 0) -> dict[str, bytes]:
        centre, animals, first = litter.centre, litter.animals, litter.first
        measured = experiment_document(
            centre, procedure=litter.procedure, animals=animals, first=first, at_least=at_least
        )
        return {
            "specimen": specimen_document(centre, mice=animals, first=first),
            "experiment": measured,
            "noise.bin": self.rng.randbytes(int(10 ** self.rng.uniform(2, 5.5))),
        }

    def _edit(self, served: Served, litters: list[_Litter]) -> str:
        if not litters:
            return ""
        litter = self.rng.choice(litters)
        measured = experiment_document(
            litter.centre, procedure=litter.procedure, animals=litter.animals, first=litter.first
        )
        return self._put(served, "edit", {"experiment": measured + b"\n<!-- corrected -->"})

    def _delete(self, served: Served, litters: list[_Litter]) -> str:
        if not litters:
            return ""
        litter = self.rng.choice(litters)
        litter.there = False
        documents = self._documents(litter)
        if self.rng.random() < 0.5:
            del documents["specimen"]
        return self._put(served, "delete", documents)

    def _late(self, served: Served, _: list[_Litter]) -> str:
        litter = self._litter(served, 2)
        return self._put(served, "add", self._documents(litter), day=_FIRST_DAY - timedelta(days=100))

    def _unknown_animals(self, served: Served, _: list[_Litter]) -> str:
        measured = experiment_document(served.centre, animals=2, first=500_000 + 10 * self._increment)
        return self._put(served, "add", {"experiment": measured})

    def _animals_first(self, served: Served, _: list[_Litter]) -> str:
        """Animals in one archive, what was measured on them in another."""
        litter = self._litter(served, 2)
        documents = self._documents(litter)
        specimens = {"specimen": documents.pop("specimen")}
        return f"{self._put(served, 'add', documents)}, {self._put(served, 'add', specimens)}"

    def _invalid(self, served: Served, _: list[_Litter]) -> str:
        return self._put(served, "add", {"specimen": b"<centreSpecimenSet/>", "unasked.txt": b"for you"})

    def _damaged(self, served: Served, _: list[_Litter]) -> str:
        return self._write(served, "add", self._name(served), self.rng.randbytes(3_000))

    def _misnamed(self, served: Served, _: list[_Litter]) -> str:
        return self._write(served, "add", f"{served.centre}-of-round-{self._round}-{self._increment}.zip", b"no")

    def _withdrawn(self, served: Served, _: list[_Litter]) -> str:
        """Not the last one of a directory: an empty listing is believed at the second time only."""
        there = [path for path in self._hosted(served) if len(list(path.parent.glob("*.zip"))) > 1]
        if not there:
            return ""
        path = self.rng.choice(there)
        path.unlink()
        path.with_name(f"{path.name}.md5").unlink(missing_ok=True)
        return f"withdrawn {path.relative_to(served.root)}"

    def _changed(self, served: Served, _: list[_Litter]) -> str:
        there = self._hosted(served)
        if not there:
            return ""
        path = self.rng.choice(there)
        self._write(served, path.parent.name, path.name, archive({"other.txt": self.rng.randbytes(200)}))
        return f"changed {path.relative_to(served.root)}"

    def _hosted(self, served: Served) -> list[Path]:
        """The archives of rounds before that a server still has."""
        return [path for path in self._before if path.exists() and path.is_relative_to(served.root)]

    def _hosted_twice(self, served: Served, _: list[_Litter]) -> str:
        litter = self._litter(served, 2)
        name, members = self._name(served), self._documents(litter)
        content = archive(self._named(name, members))
        others = [other for other in self.served if other is not served]
        done = [self._write(one, "add", name, content) for one in (served, self.rng.choice(others))]
        return " and ".join(done)

    def _put(self, served: Served, action: str, documents: dict[str, bytes], *, day: date | None = None) -> str:
        name = self._name(served, day)
        return self._write(served, action, name, archive(self._named(name, documents)))

    @staticmethod
    def _named(name: str, documents: dict[str, bytes]) -> dict[str, bytes]:
        stem = name.removesuffix(".impc.zip")
        return {f"{stem}.{kind}.impc.xml" if "." not in kind else kind: content for kind, content in documents.items()}

    def _name(self, served: Served, day: date | None = None) -> str:
        self._increment += 1
        day = day or _FIRST_DAY + timedelta(days=self._round)
        return f"{served.centre}.{day.isoformat()}.{self._increment}.impc.zip"

    def _write(self, served: Served, action: str, name: str, content: bytes) -> str:
        path = served.root / action / name
        path.parent.mkdir(exist_ok=True)
        path.parent.chmod(0o755)
        if not path.exists():
            self._put_up.append(path)
        path.write_bytes(content)
        # Plain FTP can be trusted with nothing else.
        if not served.host_keys:
            path.with_name(f"{name}.md5").write_text(hashlib.md5(content, usedforsecurity=False).hexdigest())
        os.utime(path, (_MODIFIED + self._round, _MODIFIED + self._round))
        return f"{served.name}: {action}/{name} ({len(content):,} bytes)"


_HAPPENINGS: Final = (
    Submissions._edit,
    Submissions._edit,
    Submissions._delete,
    Submissions._delete,
    Submissions._late,
    Submissions._unknown_animals,
    Submissions._animals_first,
    Submissions._invalid,
    Submissions._damaged,
    Submissions._misnamed,
    Submissions._withdrawn,
    Submissions._changed,
    Submissions._hosted_twice,
)
