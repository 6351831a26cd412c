"""Common parts of all sets of reference data, and the lookup tables.

A snapshot is a set at one time. It never changes: later data are another snapshot, and a finding names the one that
judged it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, ClassVar, Self


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a snapshot comes from: `source` is a path or URL, `checksum` the SHA-256 of its content."""

    source: str
    retrieved: datetime
    checksum: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A set of reference data at the time of its retrieval."""

    NAME: ClassVar[str] = ""

    provenance: Provenance

    @property
    def name(self) -> str:
        """The set's name: in findings, in the table of snapshots and as the name of its file."""
        return self.NAME

    @property
    def source(self) -> str:
        """The path or URL of the snapshot."""
        return self.provenance.source

    @property
    def retrieved(self) -> datetime:
        """The time of retrieval, in UTC and naive."""
        return self.provenance.retrieved

    @property
    def checksum(self) -> str:
        """The SHA-256 of the content, in hexadecimal."""
        return self.provenance.checksum

    def with_source(self, source: str) -> Self:
        """The same snapshot, read from another path or URL."""
        return self if source == self.source else replace(self, provenance=replace(self.provenance, source=source))

    @property
    def rows(self) -> int:
        """The number of its entries; never 0."""
        return len(self.entries)

    @property
    def entries(self) -> Mapping[Any, object]:
        """Its entries by their identifiers, for a comparison with another snapshot."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StatusCodes(Snapshot):
    """The registered status codes, IMPC_PSC_001 and so on, with their meanings."""

    NAME: ClassVar[str] = "status_codes"

    meanings: Mapping[str, str]

    @property
    def entries(self) -> Mapping[Any, object]:
        """The meanings by their code."""
        return self.meanings


@dataclass(frozen=True, slots=True)
class Projects(Snapshot):
    """The projects that data are submitted for. Names are compared exactly."""

    NAME: ClassVar[str] = "projects"

    names: frozenset[str]

    @property
    def entries(self) -> Mapping[Any, object]:
        """The projects, which are only names."""
        return dict.fromkeys(self.names)


@dataclass(frozen=True, slots=True)
class Colony:
    """A production of a colony: `production_centre` as registered, `created` the day the colony was made if known.

    Its background strain, gene and allele may be unknown: None.
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
        """The number of productions."""
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
    def entries(self) -> Mapping[Any, object]:
        """The names by the id of their strain."""
        return self.names
