"""What the tracker and the QC database should hold after a history: a model that knows no database and no file.

It is written from what docs/centres.md and docs/wranglers.md promise, not from the code:

- An archive speaks for its centre. A copy at another centre's place counts only while its own place lists the archive
  too, or its centre has delegated.
- The copy of its own place comes first; a copy of another size elsewhere is another file, until the first is bad.
- A copy is bad if it is damaged, or is not what was published beside the centre's own. It is not fetched again while it
  is listed as it was, and every other copy is tried before the centre is blamed, unless two are the same.
- What failed and then changed is taken anew; what was loaded is not.
- What grows is being uploaded: it waits, also when an earlier copy had failed.
- A directory that lost all or many of its archives is believed when the next listing says the same.
- What a step is left out of goes on without it, except that nothing follows a left-out upload or context. When the step
  is left out no more, the next session for all goes on from there.
- A retry takes the bytes that are kept, where their place listed them last as it did then.
- A retry that cannot have the bytes changes nothing, but that what waited did not arrive. It fetches copies known to be
  bad, too.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from tests.histories.happenings import ARCHIVES, STEPS, Copy, Form, Place, Version
from tests.histories.life import Holdings, content_of

WAITING: Final = "zip_name done"
DAMAGED: Final = "unzip failed"
NOT_ARRIVED: Final = "download failed"
WRONG: Final = "zip_md5 failed"
INVALID: Final = "xsd failed"
NOT_UPLOADED: Final = "upload cancelled"
NO_CONTEXT: Final = "context cancelled"
LOADED: Final = "qc done"
DUE: Final = frozenset({WAITING, NOT_ARRIVED, WRONG, DAMAGED})
_FEWEST_LOST, _LIMIT = 3, 0.2


def md5_of(copy: Copy) -> str:
    return hashlib.md5(content_of(copy), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Listed:
    """How a place lists an archive."""

    size: int
    time: int
    has_checksum: bool


@dataclass(frozen=True, slots=True)
class Bad:
    """A copy that was bad, how it was listed, and whether only its checksum was wrong."""

    listed: tuple[int, int]
    md5: str
    only_checksum: bool


@dataclass
class Record:
    """What is known of an archive; `read`: how its own copy was listed when the checksum beside that, `published`, was
    read.

    `last` is where it was fetched from last, `kept` where what could be opened came from, and how it was listed there.
    """

    state: str = WAITING
    listed: dict[Place, Listed] = field(default_factory=dict)
    gone: set[Place] = field(default_factory=set)
    missed: set[Place] = field(default_factory=set)
    uploading: set[Place] = field(default_factory=set)
    bad: dict[Place, Bad] = field(default_factory=dict)
    read: tuple[int, int] | None = None
    published: str | None = None
    last: Place | None = None
    document: str = ""
    kept: tuple[Place, Listed] | None = None
    brought: int = 0
    left_out: str = ""

    @property
    def animals(self) -> int:
        return 0 if self.left_out == STEPS[0] else self.brought

    def is_there(self, place: Place) -> bool:
        """Whether a place has the archive, complete, as far as is known."""
        return place in self.listed and place not in self.gone | self.missed | self.uploading


@dataclass
class Expected:
    """The model: its methods are named as those of `Life`, and return False where they cannot be told yet."""

    lying: dict[tuple[Place, int], tuple[Copy, int]] = field(default_factory=dict)
    checksums: dict[tuple[Place, int], Copy] = field(default_factory=dict)
    growing: dict[tuple[Place, int], tuple[Copy, int]] = field(default_factory=dict)
    away: set[Place] = field(default_factory=set)
    delegated: bool = False
    left_out: str = ""
    records: dict[int, Record] = field(default_factory=dict)
    clock: Iterator[int] = field(default_factory=count)

    def upload(self, place: Place, copy: Copy) -> bool:
        """A copy lies at a place, whatever was there before."""
        return self._put(self.lying, place, copy)

    def begin_upload(self, place: Place, copy: Copy) -> bool:
        """A copy begins to arrive, grows during the next session and is whole after it."""
        return self._put(self.growing, place, copy)

    def _put(self, to: dict[tuple[Place, int], tuple[Copy, int]], place: Place, copy: Copy) -> bool:
        is_possible = (place, copy.archive) not in self.growing
        if is_possible:
            to[place, copy.archive] = copy, next(self.clock)
        return is_possible

    def remove(self, place: Place, archive: int) -> bool:
        """An archive disappears from a place, with its checksum."""
        if (place, archive) in self.growing:
            return False
        self.lying.pop((place, archive), None)
        self.checksums.pop((place, archive), None)
        return True

    def publish(self, place: Place, archive: int, copy: Copy | None) -> bool:
        """The checksum of a copy lies beside an archive; None takes it away."""
        self.checksums.pop((place, archive), None)
        if copy is not None and (place, archive) in self.lying:
            self.checksums[place, archive] = copy
        return (place, archive) in self.lying

    def go_away(self, place: Place) -> None:
        """A place cannot be listed during the next session."""
        self.away.add(place)

    def delegate(self, in_force: bool) -> None:
        """The centre lets the other one speak for it, or no longer."""
        self.delegated = in_force

    def leave_out(self, step: str) -> None:
        """From now on the installation leaves out a step after validation; an empty one: no step."""
        self.left_out = step

    def crawl(self) -> None:
        """A session for all: `dcc crawl`."""
        for place in Place:
            if place not in self.away:
                self._list(place)
        for archive, record in self.records.items():
            if record.state in DUE:
                self._attempt(archive, record, set(Place) - self.away)
            stands = record.state in {NOT_UPLOADED, NO_CONTEXT, LOADED}
            if stands and record.left_out not in {"", self.left_out}:
                self._load(record, record.left_out)
        self._end_session()

    def retry(self, archive: int) -> bool:
        """A session for one archive: `dcc retry`.

        What would be loaded on top of what was loaded is another story, and so is half of what grows.
        """
        record = self.records.get(archive)
        growing = any((place, archive) in self.growing for place in Place)
        if record is None or record.state == LOADED or record.left_out or growing:
            return False
        if any(self._candidates(record, set(Place))):
            reachable = set(Place) - self.away
            self._list_anew(archive, record, reachable)
            if record.kept is None or record.kept != (record.last, record.listed.get(record.last)):
                record.bad.clear()
                self._attempt(archive, record, reachable)
                if record.state == WAITING:
                    # A place that is away was tried too.
                    record.state = NOT_ARRIVED
        self._end_session()
        return True

    def holdings(self) -> Holdings:
        return Holdings(
            {archive: record.state for archive, record in self.records.items()},
            {archive: record.document for archive, record in self.records.items() if record.document},
            {archive: record.animals for archive, record in self.records.items() if record.animals},
            frozenset(archive for archive, record in self.records.items() if record.document == INVALID),
            {archive: record.left_out for archive, record in self.records.items() if record.left_out},
        )

    def _end_session(self) -> None:
        self.away.clear()
        self.lying |= self.growing
        self.growing.clear()

    def _list(self, place: Place) -> None:
        """Take in what a place lists."""
        present = {archive for archive in range(ARCHIVES) if (place, archive) in self.lying | self.growing}
        known = {
            archive for archive, record in self.records.items() if place in record.listed and place not in record.gone
        }
        self._miss(place, known, present)
        for archive in present:
            record = self.records.setdefault(archive, Record())
            record.gone.discard(place)
            record.missed.discard(place)
            if (place, archive) in self.growing:
                is_known = place in record.listed or place in record.uploading
                record.uploading.add(place)
                if is_known or place is Place.OWN:
                    self._wait_anew(record, place)
                continue
            now = self._as_listed(place, archive)
            before = record.listed.get(place)
            changed = before is not None and (before.size, before.time) != (now.size, now.time)
            if changed or place in record.uploading or (before is None and place is Place.OWN):
                self._wait_anew(record, place)
            record.uploading.discard(place)
            record.listed[place] = now

    def _wait_anew(self, record: Record, place: Place) -> None:
        """What failed waits again once it changes at a place whose centre speaks for it.

        So does what a left-out upload kept from being loaded, where it came from.
        """
        speaks = place is Place.OWN or self.delegated or (record.last is place and record.state != WRONG)
        is_not_loaded = record.state == NOT_UPLOADED and record.last is place
        if (record.state in {DAMAGED, INVALID, WRONG} and speaks) or is_not_loaded:
            record.state = WAITING

    def _list_anew(self, archive: int, record: Record, reachable: set[Place]) -> None:
        """Take in how the places that have an archive list it by now."""
        for place in reachable & {*record.listed, *record.uploading}:
            if (place, archive) in self.lying:
                record.listed[place] = self._as_listed(place, archive)
                for former in (record.gone, record.missed, record.uploading):
                    former.discard(place)

    def _as_listed(self, place: Place, archive: int) -> Listed:
        copy, time = self.lying[place, archive]
        return Listed(len(content_of(copy)), time, (place, archive) in self.checksums)

    def _miss(self, place: Place, known: set[int], present: set[int]) -> None:
        absent = known - present
        again = {archive for archive in absent if place in self.records[archive].missed}
        is_doubtful = not present or (len(absent) >= _FEWEST_LOST and len(absent) > _LIMIT * len(known))
        for archive in absent:
            record = self.records[archive]
            if is_doubtful and not again:
                record.missed.add(place)
            else:
                record.missed.discard(place)
                record.gone.add(place)

    def _candidates(self, record: Record, reachable: set[Place]) -> Iterator[Place]:
        for place in Place:
            allowed = place is Place.OWN or self.delegated or self._is_named_by_owner(record, reachable)
            if record.is_there(place) and place in reachable and allowed:
                yield place

    def _is_named_by_owner(self, record: Record, reachable: set[Place]) -> bool:
        """Whether the own place lists the archive too, and a mirror may stand in for it."""
        if Place.OWN not in record.listed or Place.OWN in record.gone:
            return False
        if record.is_there(Place.OWN) and Place.OWN in reachable:
            return True
        mirror = record.listed.get(Place.MIRROR)
        same_size = mirror is not None and record.listed[Place.OWN].size == mirror.size
        return Place.OWN not in record.uploading and (same_size or self._known_bad(record, Place.OWN) is not None)

    def _attempt(self, archive: int, record: Record, reachable: set[Place]) -> None:
        """Fetch from one place after the other, until a copy can be opened or the centre is to blame."""
        listed = list(self._candidates(record, reachable))
        places = [place for place in listed if (place, archive) in self.lying]
        if listed and not places and record.state == WAITING:
            record.state = NOT_ARRIVED
        known = {place: bad for place in places if (bad := self._known_bad(record, place)) is not None}
        bad = {place: one.md5 for place, one in known.items()}
        first_size = record.listed[places[0]].size if places else 0
        bound = self._bound(archive, record, Place.OWN)
        if record.uploading - record.gone and any(
            self._is_worth_a_look(record, place, one, bound) for place, one in known.items()
        ):
            # It is looked at again, and waits if that is in vain.
            record.state = WAITING
        if Place.OWN in places and (Place.OWN, archive) in self.checksums:
            record.read = self._listed(record, Place.OWN)
            record.published = md5_of(self.checksums[Place.OWN, archive])
        for place in places:
            copy, _ = self.lying[place, archive]
            bound = self._bound(archive, record, place)
            if place in known and not (known[place].only_checksum and bound in {None, known[place].md5}):
                continue
            if place not in known and self._is_settled(bad, bound):
                continue
            if not bad and record.listed[place].size != first_size:
                continue
            record.last = place
            if bound is not None and md5_of(copy) != bound:
                record.state = WRONG
            elif copy.form is not Form.WHOLE:
                record.state = DAMAGED
            else:
                record.bad.pop(place, None)
                record.kept = place, record.listed[place]
                self._open(record, copy)
                return
            bad[place] = md5_of(copy)
            record.bad[place] = Bad(self._listed(record, place), bad[place], record.state == WRONG)

    def _is_worth_a_look(self, record: Record, place: Place, bad: Bad, bound: str | None) -> bool:
        """Whether a copy known to be bad may come right by the checksum beside it, or that counts for others."""
        has_own = place is Place.OWN and record.listed[place].has_checksum
        if bad.only_checksum:
            return has_own or bound in {None, bad.md5}
        return has_own and record.read != self._listed(record, place)

    def _listed(self, record: Record, place: Place) -> tuple[int, int]:
        return record.listed[place].size, record.listed[place].time

    def _known_bad(self, record: Record, place: Place) -> Bad | None:
        bad = record.bad.get(place)
        return bad if bad is not None and bad.listed == self._listed(record, place) else None

    @staticmethod
    def _is_settled(bad: dict[Place, str], bound: str | None) -> bool:
        """Whether the centre is to blame: two places have the same bad copy, or it is what was published."""
        return len(set(bad.values())) < len(bad) or bound in bad.values()

    def _bound(self, archive: int, record: Record, place: Place) -> str | None:
        """The checksum that a copy must have: that of its own centre, else that beside it."""
        own = self.checksums.get((Place.OWN, archive))
        if own is not None and record.is_there(Place.OWN):
            return md5_of(own)
        is_in_doubt = Place.OWN in record.missed - record.uploading and record.listed[Place.OWN].has_checksum
        if is_in_doubt and record.read == self._listed(record, Place.OWN):
            return record.published
        beside = self.checksums.get((place, archive))
        return None if beside is None else md5_of(beside)

    def _open(self, record: Record, copy: Copy) -> None:
        if copy.version is Version.INVALID:
            record.state, record.document, record.left_out, record.brought = INVALID, INVALID, "", 0
        else:
            record.brought = 3 if copy.version is Version.SECOND else 2
            self._load(record, STEPS[0])

    def _load(self, record: Record, first: str) -> None:
        """Have a document go on from a step, as far as nothing that is left out keeps it."""
        is_met = self.left_out in STEPS[STEPS.index(first) :]
        record.left_out = self.left_out if is_met else ""
        record.state = f"{record.left_out} cancelled" if record.left_out in {"upload", "context"} else LOADED
        record.document = record.state
