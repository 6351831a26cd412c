"""The centres and their servers: what they publish, mend, withdraw and break, day after day, from a seed."""

import hashlib
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from dcc.cli.demo import submissions
from dcc.sources.base import SourceAddress

FIRST_DAY = date(2014, 1, 1)
QUIET_EVERY = 10
_ANIMALS = 2
_PROCEDURE = "IMPC_BWT_001"
_NEWCOMER_EVERY = 12
_NEWCOMER_STAYS = 30


@dataclass
class Site:
    """A folder that a centre's server serves; `address` as a file source. `hidden` is where it is while it is down."""

    folder: Path
    address: SourceAddress
    source_id: int = 0
    since: int = 0
    hosted: set[str] = field(default_factory=set)

    @property
    def hidden(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.down")

    @property
    def is_up(self) -> bool:
        return self.folder.exists()

    def put(self, key: str, content: bytes) -> None:
        """Publish an archive, or another content under its name."""
        path = self.folder / key
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
        self.hosted.add(key)

    def fall(self) -> None:
        self.folder.rename(self.hidden)

    def rise(self) -> None:
        self.hidden.rename(self.folder)


@dataclass(frozen=True, slots=True)
class Submission:
    """Animals of a centre that were submitted: the first one's number, and the day."""

    first: int
    created: date


class World:
    """All sites. `new_site` makes a site that the platform knows, `remove_site` has the platform forget it.

    `told` counts what the centres have done so far, all sites together.
    """

    def __init__(
        self, seed: int, sites: list[Site], new_site: Callable[[int], Site], remove_site: Callable[[Site], None]
    ) -> None:
        self.told = Counter[str]()
        self.sites = sites
        self._chance = random.Random(seed)
        self._new_site, self._remove_site = new_site, remove_site
        self._animals: dict[str, int] = {}
        self._submitted: dict[str, list[Submission]] = {}
        self._to_mend: list[tuple[Site, str, int]] = []
        self._down_until: dict[int, int] = {}

    def day(self, number: int, archives: int) -> bool:
        """Let a day pass on which about so many archives are published; whether nothing at all happened on it."""
        if number % QUIET_EVERY == QUIET_EVERY - 1 and not self._down_until:
            self._mend(number, everything=True)
            return False
        if number % QUIET_EVERY == 0 and number and not self._down_until and not self._to_mend:
            return True
        self._mend(number)
        self._come_and_go(number)
        self._raise_and_fell(number)
        for inc in range(1, archives + 1):
            site = self._chance.choice([site for site in self.sites if site.is_up])
            self._publish(site, number, inc)
        self.told["checksum_days"] += len(self._to_mend)
        return False

    def _publish(self, site: Site, number: int, inc: int) -> None:
        centre, created = site.address.centre, FIRST_DAY + timedelta(days=number)
        stem = f"{centre}.{created.isoformat()}.{inc}"
        kind = self._chance.random()
        before = self._submitted.setdefault(centre, [])
        if kind < 0.08:
            self._publish_bad(site, stem, number)
        elif kind < 0.14 and before:
            self.told["edits"] += 1
            document = self._experiments(centre, self._chance.choice(before))
            self._put(site, f"edit/{stem}.impc.zip", {f"{stem}.experiment.impc.xml": document})
        elif kind < 0.17 and before:
            self.told["deletes"] += 1
            given = before.pop(self._chance.randrange(len(before)))
            document = self._experiments(centre, given)
            self._put(site, f"delete/{stem}.impc.zip", {f"{stem}.experiment.impc.xml": document})
        elif kind < 0.21 and site.hosted:
            self._withdraw(site)
        elif kind < 0.23 and site.hosted:
            self._change(site)
        else:
            self.told["good"] += 1
            first = self._animals.get(centre, 1)
            self._animals[centre] = first + _ANIMALS
            given = Submission(first, created)
            specimens = submissions.specimen_document(centre, mice=_ANIMALS, first=first, created=created)
            documents = {
                f"{stem}.specimen.impc.xml": specimens,
                f"{stem}.experiment.impc.xml": self._experiments(centre, given),
            }
            self._put(site, f"add/{stem}.impc.zip", documents)
            before.append(given)

    def _experiments(self, centre: str, given: Submission) -> bytes:
        return submissions.experiment_document(
            centre, procedure=_PROCEDURE, animals=_ANIMALS, first=given.first, created=given.created
        )

    def _put(self, site: Site, key: str, documents: dict[str, bytes]) -> None:
        content = submissions.archive(documents)
        site.put(key, content)
        self.told["archives"] += 1
        self.told["published_bytes"] += len(content)
        self.told["unpacked_bytes"] += sum(map(len, documents.values()))

    def _publish_bad(self, site: Site, stem: str, number: int) -> None:
        centre = site.address.centre
        self.told["bad"] += 1
        kind = self._chance.randrange(5)
        document = submissions.specimen_document(centre, mice=1, first=900_000 + number)
        key, name = f"add/{stem}.impc.zip", f"{stem}.specimen.impc.xml"
        if kind == 0:
            site.put(key, b"PK\x03\x04 and then nothing")
            self.told["archives"] += 1
        elif kind == 1:
            self._put(site, key, {name: document[:-40]})
        elif kind == 2:
            self._put(site, key, {name: document.replace(b"gender=", b"sex=")})
        elif kind == 3:
            self._put(site, f"add/{stem}.impc.oops.zip", {name: document})
        else:
            first = self._animals.get(centre, 1)
            self._animals[centre] = first + 1
            self._put(site, key, {name: submissions.specimen_document(centre, mice=1, first=first)})
            (site.folder / f"{key}.md5").write_text("0" * 32)
            self._to_mend.append((site, key, number + 2))

    def _mend(self, number: int, *, everything: bool = False) -> None:
        """Correct checksums that were wrong for two days."""
        for entry in list(self._to_mend):
            site, key, due = entry
            if (due <= number or everything) and site.is_up:
                self._to_mend.remove(entry)
                path = site.folder / key
                if path.exists():
                    (site.folder / f"{key}.md5").write_text(hashlib.md5(path.read_bytes()).hexdigest())
                    self.told["mended"] += 1

    def _withdraw(self, site: Site) -> None:
        key = self._chance.choice(sorted(site.hosted))
        site.hosted.discard(key)
        (site.folder / key).unlink()
        (site.folder / f"{key}.md5").unlink(missing_ok=True)
        self._to_mend = [entry for entry in self._to_mend if entry[:2] != (site, key)]
        self.told["withdrawn"] += 1

    def _change(self, site: Site) -> None:
        """Another content under a known name: noticed, and not taken by itself."""
        key = self._chance.choice(sorted(site.hosted))
        site.put(key, submissions.archive({"note.xml": bytes(str(self._chance.random()), "ascii")}))
        self.told["changed"] += 1

    def _raise_and_fell(self, number: int) -> None:
        for site in self.sites:
            until = self._down_until.get(site.source_id)
            if until is not None and until <= number:
                del self._down_until[site.source_id]
                site.rise()
            elif until is None and len(self._down_until) < 2 and self._chance.random() < 0.03:
                site.fall()
                self._down_until[site.source_id] = number + self._chance.randint(1, 3)
                self.told["outages"] += 1

    def _come_and_go(self, number: int) -> None:
        if number and number % _NEWCOMER_EVERY == 0:
            site = self._new_site(number)
            site.since = number
            self.sites.append(site)
            self.told["newcomers"] += 1
        leaving = [site for site in self.sites if site.since and number - site.since >= _NEWCOMER_STAYS and site.is_up]
        for site in leaving:
            self.sites.remove(site)
            self._remove_site(site)
            self._to_mend = [entry for entry in self._to_mend if entry[0] is not site]
            shutil.rmtree(site.folder)
            self.told["leavers"] += 1
