"""What rules may use besides the element: its place, the reference data, the content of the QC database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple, NoReturn, Protocol, TypeVar

from dcc.documents.contents import Block, Entity, Procedure, kind_of
from dcc.documents.origins import Origin
from dcc.errors import InternalFaultError
from dcc.naming import Action
from dcc.reference.impress import Impress, Parameter, Pipeline
from dcc.reference.impress import Procedure as ProcedureDefinition
from dcc.reference.loading import ReferenceData
from dcc.reference.snapshots import Colonies, Projects, StatusCodes, Strains
from dcc.vocabulary import EntityKind


class KnownSpecimen(NamedTuple):
    """A current specimen in the QC database; `dob` is the xs:date of a mouse, None for an embryo."""

    gender: str
    dob: str | None


class RunKey(NamedTuple):
    """A procedure on a specimen on a day, without a sequenceID or with this one."""

    specimen_id: str
    procedure_id: str
    day: date
    sequence_id: str | None


class ResultKey(NamedTuple):
    """A parameter in a procedure, without a sequenceID or with this one; its text if it is too long for a number."""

    parameter_id: str
    sequence: int | str | None


class Lookups(Protocol):
    """Queries to the QC database, each for a complete batch.

    The answers are about the current rows of all documents, including the one that is checked.
    """

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:
        """The specimens of a centre with these ids, by their id; unknown ids are left out."""
        ...

    def known_runs(self, centre: str, keys: Collection[RunKey]) -> Mapping[RunKey, Mapping[str, str]]:
        """The experiments of a centre without status codes with these keys: their documents by their experimentIDs."""
        ...


@dataclass(frozen=True, slots=True)
class DocumentContext:
    """The document that is checked and what it is checked against.

    `centre` is that of its file name, empty if it tells none, `today` the day of the check in UTC. `lookups` is None
    where no other document is known. `origin` is what it was converted from, None where it was submitted as it is.
    """

    action: Action
    centre: str
    today: date
    reference: ReferenceData
    lookups: Lookups | None = None
    origin: Origin | None = None


def latest_day(today: date) -> date:
    """The last day that is not in the future anywhere on Earth, given the day in UTC."""
    return today + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers about a batch of entities."""

    specimens: Mapping[str, tuple[KnownSpecimen, ...]] = field(default_factory=dict)
    runs: Mapping[RunKey, Mapping[str, str]] = field(default_factory=dict)


NOTHING_ASKED = Answers()
"""The answers outside of a batch, where nothing was asked."""


class NoAnswers(Answers):
    """The answers for a rule that does not say that it needs any: each raises InternalFaultError."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise InternalFaultError(
            "A rule asked for other documents and does not say that it needs them. Declare needs_other_documents=True."
        )


class Context(NamedTuple):
    """The context of the element that a rule checks.

    `path` is the element's, as an XPath without namespaces. `entity`, `procedure` and the definitions of IMPReSS are
    None for elements above them; the definitions also if IMPReSS is missing. `results` are those of the procedure that
    its media may belong to. `parameter_status` is that of the parameter which has the element among its media.
    """

    document: DocumentContext
    path: str
    block: Block
    answers: Answers = NOTHING_ASKED
    entity: Entity | None = None
    pipeline: Pipeline | None = None
    procedure: Procedure | None = None
    procedure_definition: ProcedureDefinition | None = None
    parameter_definition: Parameter | None = None
    parameter_status: str | None = None
    results: frozenset[ResultKey] = frozenset()

    @property
    def entity_kind(self) -> EntityKind | None:
        """The kind of the entity that contains the element."""
        return None if self.entity is None else kind_of(self.entity)

    @property
    def colonies(self) -> Colonies:
        """The registered colonies; only for rules that need them."""
        return _there(self.document.reference.colonies)

    @property
    def strains(self) -> Strains:
        """The known strains; only for rules that need them."""
        return _there(self.document.reference.strains)

    @property
    def projects(self) -> Projects:
        """The known projects; only for rules that need them."""
        return _there(self.document.reference.projects)

    @property
    def status_codes(self) -> StatusCodes:
        """The registered status codes; only for rules that need them."""
        return _there(self.document.reference.status_codes)

    @property
    def impress(self) -> Impress:
        """IMPReSS; only for rules that need it."""
        return _there(self.document.reference.impress)

    @property
    def parameter(self) -> Parameter:
        """IMPReSS's definition of the element's parameter; only for rules that need IMPReSS."""
        return _there(self.parameter_definition)

    @property
    def definition(self) -> ProcedureDefinition:
        """IMPReSS's definition of the element's procedure; only for rules that need IMPReSS."""
        return _there(self.procedure_definition)


Thing = TypeVar("Thing")


def _there(thing: Thing | None) -> Thing:
    if thing is None:
        raise InternalFaultError("A rule asked for reference data that it does not say it needs. Correct its `needs`.")
    return thing
