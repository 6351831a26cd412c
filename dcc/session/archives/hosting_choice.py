"""The choice of the source that a submission's archive is fetched from next."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dcc.tracker.hostings.copies import NewBadCopy, is_fault_of_centre
from dcc.tracker.hostings.download_plan import PlannedSubmission
from dcc.tracker.hostings.hosting import CopyFault, Hosting, KnownBadCopy


class HostingTurn(NamedTuple):
    """A hosting to try; `turn` is the number of earlier tries there."""

    turn: int
    hosting: Hosting


@dataclass
class HostingChoice:
    """The hostings of a submission, to be tried in turn, `max_retries` times over again; and what is known of them.

    `others` are tried only if a copy is bad. `published` is the MD5 that the archive's own centre published, and `own`
    are the ids of hostings on its sources. By hosting, `bad_md5s` are the checksums of bad copies, and `new_bad_copies`
    those found in this session. Nothing can be fetched from the `lost` ones; at the `failed` ones an attempt failed.
    """

    hostings: tuple[Hosting, ...] = ()
    others: tuple[Hosting, ...] = ()
    published: str | None = None
    bad_md5s: dict[int, str] = field(default_factory=dict)
    own: frozenset[int] = frozenset()
    max_retries: int = 0
    new_bad_copies: dict[int, NewBadCopy] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    has_published_md5: bool = False

    def __post_init__(self) -> None:
        self._untried = self._rounds(self.hostings)

    @classmethod
    def planned(cls, plan: PlannedSubmission, max_retries: int) -> HostingChoice:
        """The choice among the hostings of a plan, in their order."""
        bad_md5s = {hosting.id: hosting.bad.md5 for hosting in plan.bad if hosting.bad is not None}
        known = (*plan.hostings, *plan.others, *plan.bad)
        own = frozenset(hosting.id for hosting in known if hosting.own)
        return cls(plan.hostings, plan.others, plan.published, bad_md5s, own, max_retries)

    def _rounds(self, hostings: tuple[Hosting, ...]) -> Iterator[HostingTurn]:
        return (HostingTurn(turn, hosting) for turn in range(self.max_retries + 1) for hosting in hostings)

    def next_hosting(self) -> HostingTurn | None:
        """The hosting to try next; None if there is none left."""
        return next((one for one in self._untried if self._is_of_use(one.hosting)), None)

    def _is_of_use(self, hosting: Hosting) -> bool:
        is_bad = hosting.bad is not None and not hosting.deserves_recheck(self.published)
        return hosting.id not in self.lost and not is_bad

    def try_again_first(self, hosting: Hosting) -> None:
        """Try a hosting again next."""
        self._untried = itertools.chain([HostingTurn(0, hosting)], self._untried)

    def note_published(self, hosting: Hosting, md5: str) -> None:
        """Record the MD5 published beside a copy; the first from the archive's own centre counts for other copies."""
        if hosting.own and not self.has_published_md5:
            self.published, self.has_published_md5 = md5, True
            for other in self.hostings:
                # Only the checksum beside it was wrong.
                if other.bad == KnownBadCopy(md5, CopyFault.CHECKSUM):
                    del self.bad_md5s[other.id]
            if is_fault_of_centre(self.bad_md5s, md5, self.own):
                self._untried = iter(())

    def note_bad(self, hosting: Hosting, md5: str, fault: CopyFault, *, certain: bool) -> list[NewBadCopy]:
        """Record that a hosting's copy is bad; others may be tried. Returns the copies that are certainly bad.

        These are not fetched again. Unless `certain`, the transfer may have changed the bytes: then a second transfer
        with the same checksum is needed. No copy is tried any more if the centre is to blame: see
        `is_fault_of_centre`.
        """
        certain = certain or self.bad_md5s.get(hosting.id) == md5
        self.new_bad_copies[hosting.id] = NewBadCopy(hosting, md5, fault)
        self.bad_md5s[hosting.id] = md5
        if is_fault_of_centre(self.bad_md5s, self.published, self.own):
            self._untried = iter(())
            return list(self.new_bad_copies.values())
        further = [*self._untried, *self._rounds(self.others)]
        self.hostings, self.others = (*self.hostings, *self.others), ()
        self._untried = iter(sorted(further, key=lambda one: one.turn))
        if not certain:
            return []
        self.lost.add(hosting.id)
        return [self.new_bad_copies[hosting.id]]
