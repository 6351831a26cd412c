"""S1 to S14: what a specimen must satisfy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dcc.documents.contents import Specimen
from dcc.documents.lexical import parse_boolean
from dcc.naming import Action
from dcc.reference.snapshots import Colonies, Colony, Projects, StatusCodes, Strains
from dcc.rules.centres import may_be_centre
from dcc.rules.codes import SPECIMEN_FAMILY, fault_of_status
from dcc.rules.context import Context
from dcc.rules.findings import Fault, Severity
from dcc.rules.registry import rule
from dcc.rules.values import day_of, is_blank

ELIGIBLE_STATUSES = (
    "Phenotype Attempt Registered",
    "Cre Excision Complete",
    "Phenotyping Started",
    "Phenotyping Complete",
)
"""Statuses of a colony that permit phenotyping."""

_DPC = re.compile(r"E?([0-9]+(?:\.[0-9]+)?)", re.IGNORECASE | re.ASCII)
_THEILER = re.compile(r"(?:TS)?([0-9]+)[a-d]?", re.IGNORECASE | re.ASCII)
_LONGEST_STAGE = 20


@rule("S1", Specimen, severity=Severity.ERROR, known_as="testNoStrainSpecified", local=True)
def baseline_has_a_strain(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal has a strainID, or a parental strain."""
    if parse_boolean(specimen.is_baseline) and is_blank(specimen.strain_id) and not specimen.parental_strains:
        yield _background(
            specimen,
            f"The baseline animal {specimen.specimen_id!r} has neither a strainID nor a parental strain. Give its "
            "strain's MGI id.",
            specimen.strain_id,
        )


@rule(
    "S2",
    Specimen,
    severity=Severity.ERROR,
    known_as="testSpecimenBackground",
    needs=Strains,
    given="strain_id",
    local=True,
)
def strain_of_baseline_is_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal's strainID is a known strain."""
    strain = specimen.strain_id
    if parse_boolean(specimen.is_baseline) and strain is not None and not is_blank(strain):
        if strain in at.strains.names:
            return
        yield _background(
            specimen,
            f"The strainID {strain!r} of the baseline animal {specimen.specimen_id!r} is no known strain. Give its MGI "
            "id, such as MGI:2159965.",
            strain,
        )


@rule("S3", Specimen, severity=Severity.ERROR, known_as="testNoColonyIDSpecified", local=True)
def mutant_has_a_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """An animal that is no baseline has a colonyID."""
    if not parse_boolean(specimen.is_baseline) and is_blank(specimen.colony_id):
        yield _background(
            specimen,
            f"The animal {specimen.specimen_id!r} is no baseline and has no colonyID. Give the id of its colony.",
            specimen.colony_id,
        )


@rule(
    "S4",
    Specimen,
    severity=Severity.ERROR,
    known_as="testSpecimenBackgroundNotInImits",
    needs=Colonies,
    given="colony_id",
    local=True,
)
def colony_is_registered(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mutant's colonyID is a registered colony."""
    colony = _colony_of_mutant(specimen)
    if colony is not None and not at.colonies.find(colony):
        yield _background(
            specimen,
            f"The colony {colony!r} of {specimen.specimen_id!r} is not registered. Correct its id or have the colony "
            "registered.",
            colony,
        )


@rule(
    "S5",
    Specimen,
    severity=Severity.ERROR,
    known_as=("testColonyIncorrectState", "testiMitsButWrongState"),
    needs=Colonies,
    given="colony_id",
    local=True,
)
def colony_may_be_phenotyped(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """The status of a mutant's colony permits phenotyping."""
    colony = _colony_of_mutant(specimen)
    productions = at.colonies.find(colony) if colony is not None else ()
    if productions and not _eligible(productions):
        statuses = ", ".join(sorted({production.status for production in productions}))
        yield _background(
            specimen,
            f"The colony {colony!r} of {specimen.specimen_id!r} has the status {statuses}, which does not permit "
            f"phenotyping. It must be one of: {', '.join(ELIGIBLE_STATUSES)}.",
            colony,
        )


@rule(
    "S6",
    Specimen,
    severity=Severity.ERROR,
    known_as="testIncorrectProduictionCentre",
    needs=Colonies,
    given="colony_id",
    local=True,
)
def production_centre_is_that_of_the_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """The production centre of a mutant's colony is its productionCentre, or its phenotypingCentre without one."""
    colony = _colony_of_mutant(specimen)
    productions = _eligible(at.colonies.find(colony)) if colony is not None else ()
    if not productions:
        return
    centre = specimen.production_centre or specimen.phenotyping_centre
    verdicts = {may_be_centre(production.production_centre, centre) for production in productions}
    if True in verdicts:
        return
    registered = ", ".join(sorted({production.production_centre for production in productions}))
    if None in verdicts:
        yield Fault(
            f"Whether {centre} produced the colony {colony!r} could not be checked: it is registered for "
            f"{registered}, and it is not known what {centre} is called there.",
            specimen.line,
            centre,
            Severity.UNCHECKED,
        )
        return
    yield _background(
        specimen,
        f"The colony {colony!r} of {specimen.specimen_id!r} was produced by {registered}, not by {centre}. Correct "
        "productionCentre.",
        centre,
    )


@rule("S7", Specimen, severity=Severity.ERROR, known_as="testSpecimenDatesWithinLimits", local=True)
def birth_is_not_in_the_future(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mouse's date of birth is not in the future; a day is allowed for the centre's time zone."""
    if specimen.dob is not None and day_of(specimen.dob) > at.document.latest_day:
        yield Fault(
            f"The date of birth of {specimen.specimen_id!r} is {specimen.dob}, in the future. Correct it.",
            specimen.line,
            specimen.dob,
        )


@rule(
    "S8",
    Specimen,
    severity=Severity.ERROR,
    known_as="testSpecimenDatesWithinLimits",
    needs=Colonies,
    given="colony_id",
    local=True,
)
def birth_is_not_before_the_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mouse's date of birth is not before the day its colony was made, where that is known."""
    colony = _colony_of_mutant(specimen)
    if specimen.dob is None or colony is None:
        return
    made = [production.created for production in at.colonies.find(colony)]
    known = [day for day in made if day is not None]
    if known and len(known) == len(made) and day_of(specimen.dob) < min(known):
        yield Fault(
            f"The date of birth of {specimen.specimen_id!r} is {specimen.dob}, before its colony {colony!r} was made "
            f"on {min(known)}. Correct the date or the colony.",
            specimen.line,
            specimen.dob,
        )


@rule(
    "S9",
    Specimen,
    severity=Severity.ERROR,
    known_as=("Embryo_DPCStageNotParsed", "Embryo_DPCStageOutOfBounds"),
    given="stage_unit",
    local=True,
)
def dpc_stage_is_one(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A DPC stage is an optional E and a number from 0 to less than 20."""
    if specimen.stage_unit != "DPC":
        return
    match = _DPC.fullmatch(specimen.stage or "")
    if match is None or len(match[0]) > _LONGEST_STAGE or not 0 <= float(match[1]) < 20:
        yield Fault(
            f"The stage {specimen.stage!r} of {specimen.specimen_id!r} is no DPC stage. Write a number from 0 to less "
            "than 20, such as 12.5 or E12.5.",
            specimen.line,
            specimen.stage,
        )


@rule(
    "S10",
    Specimen,
    severity=Severity.ERROR,
    known_as=(
        "Embryo_DPCStageNotParsed",
        "Embryo_DPCStageOutOfBounds",
        "Embryo_TheilerStageNotParsed",
        "Embryo_TheilerStageOutOfBounds",
    ),
    given="stage_unit",
    local=True,
)
def theiler_stage_is_one(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A Theiler stage is an optional TS, a whole number from 1 to 26 and an optional letter from a to d."""
    if specimen.stage_unit != "Theiler":
        return
    match = _THEILER.fullmatch(specimen.stage or "")
    if match is None or len(match[0]) > _LONGEST_STAGE or not 1 <= int(match[1]) <= 26:
        yield Fault(
            f"The stage {specimen.stage!r} of {specimen.specimen_id!r} is no Theiler stage. Write a whole number from "
            "1 to 26, such as 20 or TS20a.",
            specimen.line,
            specimen.stage,
        )


@rule(
    "S11",
    Specimen,
    severity=Severity.ERROR,
    known_as="testSpecimenStatusCode",
    needs=StatusCodes,
    given="status_code",
    local=True,
)
def status_is_registered(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's status code is registered."""
    status = specimen.status_code
    if status is None or is_blank(status.code):
        return
    fault = fault_of_status(status.code, SPECIMEN_FAMILY, at.status_codes, status.line)
    if fault is not None:
        yield fault._replace(below="/statusCode")


@rule(
    "S12",
    Specimen,
    severity=Severity.WARNING,
    known_as="SpecimenAttributes_ProjectNotFound",
    needs=Projects,
    local=True,
)
def project_of_specimen_is_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's project is known."""
    if specimen.project not in at.projects.names:
        yield Fault(
            f"The project {specimen.project!r} of {specimen.specimen_id!r} is not known. Names are compared to the "
            "letter; correct it or have the project registered.",
            specimen.line,
            specimen.project,
        )


@rule("S13", Specimen, severity=Severity.ERROR)
def specimen_id_is_unique(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimenID is unique within its centre, in the document and in what is uploaded, unless edited or deleted."""
    if at.document.action is not Action.ADD:
        return
    here = (at.document.document_id, specimen.line)
    others = [known.where for known in at.answers.specimens.get(specimen.specimen_id, ()) if known.where != here]
    if others:
        first = others[0]
        same = first.document_id == at.document.document_id
        place = f"on line {first.line} too" if same else f"in document {first.document_id} already"
        yield Fault(
            f"The centre {at.block.centre} has an animal {specimen.specimen_id!r} {place}. Give each animal an id of "
            "its own, or submit changes in an archive of the edit folder.",
            specimen.line,
            specimen.specimen_id,
        )


@rule("S14", Specimen, severity=Severity.WARNING, given="related_specimens")
def relatives_are_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A relatedSpecimen is a specimen of the same centre that is in the document or uploaded."""
    for number, related in enumerate(specimen.related_specimens, 1):
        if related.specimen_id not in at.answers.specimens:
            yield Fault(
                f"The {related.relationship} {related.specimen_id!r} of {specimen.specimen_id!r} is not known at the "
                f"centre {at.block.centre}. Submit it too.",
                related.line,
                related.specimen_id,
                below=f"/relatedSpecimen[{number}]",
            )


def _background(specimen: Specimen, message: str, value: str | None) -> Fault:
    """A fault of strain or colony: a warning for an animal with a status code, which was perhaps withdrawn for it."""
    return Fault(message, specimen.line, value, Severity.WARNING if specimen.status_code is not None else None)


def _colony_of_mutant(specimen: Specimen) -> str | None:
    colony = specimen.colony_id
    return None if colony is None or is_blank(colony) or parse_boolean(specimen.is_baseline) else colony


def _eligible(productions: tuple[Colony, ...]) -> tuple[Colony, ...]:
    return tuple(production for production in productions if production.status in ELIGIBLE_STATUSES)
