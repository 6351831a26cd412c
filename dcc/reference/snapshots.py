"""What every set of reference data has in common, and the lookup tables.

A snapshot is a set as it was at one time. It is never changed: what arrives later is another snapshot, and a finding
names the one that judged it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, ClassVar, Self


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a snapshot comes from: `source` is a path or URL, `checksum` the SHA-256 of what was read there."""

    source: str
    retrieved: datetime
    checksum: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A set of reference data as it was when it was retrieved."""

    NAME: ClassVar[str] = ""

    provenance: Provenance

    @property
    def name(self) -> str:
        """What the set is called: in findings, in the table of snapshots and as the name of its file."""
        return self.NAME

    @property
    def source(self) -> str:
        """The path or URL that it was read from."""
        return self.provenance.source

    @property
    def retrieved(self) -> datetime:
        """When it was retrieved, in UTC without a zone."""
        return self.provenance.retrieved

    @property
    def checksum(self) -> str:
        """The SHA-256, in hexadecimal, of what was read."""
        return self.provenance.checksum

    def found_at(self, source: str) -> Self:
        """The same, read from another path or URL."""
        return replace(self, provenance=replace(self.provenance, source=source))

    def read_as(self, checksum: str) -> Self:
        """The same, with the checksum of what was read in the end."""
        return replace(self, provenance=replace(self.provenance, checksum=checksum))

    @property
    def rows(self) -> int:
        """How many entries it has; never 0."""
        raise NotImplementedError

    @property
    def entries(self) -> Mapping[Any, object]:
        """What it says, by what each entry is known by: for telling what another snapshot of it adds and lacks."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StatusCodes(Snapshot):
    """The registered status codes, IMPC_PSC_001 and so on, with what they mean."""

    NAME: ClassVar[str] = "status_codes"

    meanings: Mapping[str, str]

    @property
    def rows(self) -> int:
        """How many codes there are."""
        return len(self.meanings)

    @property
    def entries(self) -> Mapping[Any, object]:
        """The meanings by their code."""
        return self.meanings


@dataclass(frozen=True, slots=True)
class Projects(Snapshot):
    """The projects that data are submitted for. Names are compared to the letter."""

    NAME: ClassVar[str] = "projects"

    names: frozenset[str]

    @property
    def rows(self) -> int:
        """How many projects there are."""
        return len(self.names)

    @property
    def entries(self) -> Mapping[Any, object]:
        """The projects; they say nothing but their names."""
        return dict.fromkeys(self.names)


@dataclass(frozen=True, slots=True)
class Colony:
    """A production of a colony: `production_centre` as registered, `created` the day the colony was made if known.

    What it carries, its background strain, gene and allele, may be unknown: None.
    """

    colony_id: str
    production_centre: str
    status: str
    created: date | None
    strain_id: str | None = None
    gene_id: str | None = None
    gene_symbol: str | None = None
    allele_id: str | None = None
    allele_symbol: str | None = None


@dataclass(frozen=True, slots=True)
class Colonies(Snapshot):
    """The registered colonies by their id; one that several centres produced has several productions."""

    NAME: ClassVar[str] = "colonies"

    productions: Mapping[str, tuple[Colony, ...]]

    def find(self, colony_id: str) -> tuple[Colony, ...]:
        """The productions of a colony; none if it is not registered."""
        return self.productions.get(colony_id, ())

    @property
    def rows(self) -> int:
        """How many productions there are."""
        return sum(map(len, self.productions.values()))

    @property
    def entries(self) -> Mapping[Any, object]:
        """The productions by the id of their colony."""
        return self.productions


@dataclass(frozen=True, slots=True)
class Strains(Snapshot):
    """The names of the strains by their MGI id."""

    NAME: ClassVar[str] = "strains"

    names: Mapping[str, str]

    @property
    def rows(self) -> int:
        """How many strains there are."""
        return len(self.names)

    @property
    def entries(self) -> Mapping[Any, object]:
        """The names by the id of their strain."""
        return self.names
