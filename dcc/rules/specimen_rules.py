"""What a specimen must satisfy, but for its status."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import date
from operator import attrgetter
from typing import Any

from dcc.declarations import Declaration
from dcc.documents.contents import Genotype, Specimen
from dcc.documents.lexical import parse_boolean, parse_integer, parse_number
from dcc.messages import mark
from dcc.reference.impress import Impress
from dcc.reference.snapshots import Colonies, Colony, Projects, Strains
from dcc.rules.context import Context, latest_day
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule
from dcc.rules.values import LONGEST_STAGE, day_of, days_of_stage, is_blank
from dcc.vocabulary import GENDER_OF_PARENT, Actor, Severity

REGISTERED_NAMES = {
    "Bcm": "BCM",
    "Gmc": "HMGU",
    "H": "Harwell",
    "Ics": "ICS",
    "J": "JAX",
    "Tcp": "TCP",
    "Ning": "MARC",
    "Rbrc": "RIKEN BRC",
    "Ucd": "UCD",
    "Wtsi": "WTSI",
    "CDTA": "CDTA",
    "Crl": "CRL",
    "Krb": "KMPC",
    "Kmpc": "KMPC",
}
"""The name of each centre in the register of colonies, by its ILAR code; unknown for Ph, Biat and Ccpcz.

The DCC may give further ones, one for each centre.
"""

_KNOWN_NAMES = frozenset(name.casefold() for name in REGISTERED_NAMES.values())


def may_be_centre(registered: str, centre: str, further: Mapping[str, str]) -> bool | None:
    """Whether a name in the register is that of a centre; None if unknown. `further` are names by their ILAR code.

    The register may also use the ILAR code. Case is ignored, except between ILAR codes.
    """
    if registered == centre:
        return True
    name = registered.casefold()
    names = {given[centre].casefold() for given in (REGISTERED_NAMES, further) if centre in given}
    if names:
        return name in names
    is_another = registered in REGISTERED_NAMES or name in _KNOWN_NAMES or name in map(str.casefold, further.values())
    return False if is_another else None


ELIGIBLE_STATUSES = (
    "Phenotype Attempt Registered",
    "Cre Excision Complete",
    "Phenotyping Started",
    "Phenotyping Complete",
)
"""Statuses of a colony that permit phenotyping."""

_THEILER = re.compile(r"(?:TS)?([0-9]+)[a-d]?", re.IGNORECASE | re.ASCII)
_MGI_ID = re.compile(r"MGI:[0-9]+", re.ASCII)
_IDS_OF_GENOTYPE = (
    ("MGIGeneId", attrgetter("mgi_gene_id"), attrgetter("gene_id")),
    ("MGIAlleleId", attrgetter("mgi_allele_id"), attrgetter("allele_id")),
)
"""The ids in a genotype by their attribute, and what is registered of a colony."""
_EARLIEST_BIRTH = date(1980, 1, 1)
"""No animal born earlier can be phenotyped for these projects; 1900, 1904 and 1970 are the first days of programs."""
_TOLERANCE = 0.01
"""How far the percentages of a level may be from 100, so that thirds of two decimals pass."""
_DECIMALS = 6
"""Decimals by which a sum counts: 3 * 33.33 is 99.99 only up to the errors of binary fractions."""
_UNKNOWN_GENDER = ("no data", "intersex")


@rule(
    "S1",
    Specimen,
    message=mark(
        "The baseline animal '{specimen}' has neither a strainID nor a parental strain. Give its strain's MGI id."
    ),
    cause=mark("Baseline animals have neither a strainID nor a parental strain"),
    remedy=mark("Give the MGI id of their strain, such as MGI:2159965."),
    known_as="testNoStrainSpecified",
)
def baseline_has_a_strain(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal has a strainID, or a parental strain."""
    if parse_boolean(specimen.is_baseline) and is_blank(specimen.strain_id) and not specimen.parental_strains:
        yield _background(specimen, specimen.strain_id)


@rule(
    "S2",
    Specimen,
    message=mark(
        "The strainID '{value}' of the baseline animal '{specimen}' is no known strain. Give its MGI id, such as "
        "MGI:2159965."
    ),
    cause=mark("The strain '{value}' is not known"),
    remedy=mark("Correct the strainID, which is an MGI id such as MGI:2159965; MGI registers new strains."),
    acts=Actor.REGISTRY,
    known_as="testSpecimenBackground",
    needs=Strains,
)
def strain_of_baseline_is_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal's strainID is a known strain."""
    strain = specimen.strain_id
    if parse_boolean(specimen.is_baseline) and strain is not None and not is_blank(strain):
        if strain in at.strains.names:
            return
        yield _background(specimen, strain)


@rule(
    "S3",
    Specimen,
    message=mark("The animal '{specimen}' is no baseline and has no colonyID. Give the id of its colony."),
    cause=mark("Animals that are no baseline have no colonyID"),
    remedy=mark("Give the id of their colony."),
    known_as="testNoColonyIDSpecified",
)
def mutant_has_a_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """An animal that is no baseline has a colonyID."""
    if not parse_boolean(specimen.is_baseline) and is_blank(specimen.colony_id):
        yield _background(specimen, specimen.colony_id)


@rule(
    "S4",
    Specimen,
    message=mark(
        "The colony '{value}' of '{specimen}' is not registered. Correct its id or have the colony registered."
    ),
    cause=mark("The colony '{value}' is not registered"),
    remedy=mark(
        "Correct its id, which is compared exactly, or have the colony registered. When it is, the next "
        "session clears this: you need not submit anything again."
    ),
    acts=Actor.REGISTRY,
    known_as="testSpecimenBackgroundNotInImits",
    needs=Colonies,
)
def colony_is_registered(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mutant's colonyID is a registered colony."""
    colony = _colony_of_mutant(specimen)
    if colony is not None and not at.colonies.find(colony):
        yield _background(specimen, colony)


@rule(
    "S5",
    Specimen,
    message=mark(
        "The colony '{value}' of '{specimen}' has the status {status}, which does not permit phenotyping. It must be "
        "one of: {permitted}."
    ),
    cause=mark("The status of the colony '{value}' does not permit phenotyping: {status}"),
    remedy=mark("Have the colony's status brought up to date where it is registered, or correct the colonyID."),
    acts=Actor.REGISTRY,
    known_as=("testColonyIncorrectState", "testiMitsButWrongState"),
    needs=Colonies,
)
def colony_may_be_phenotyped(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """The status of a mutant's colony permits phenotyping."""
    colony = _colony_of_mutant(specimen)
    productions = at.colonies.find(colony) if colony is not None else ()
    if productions and not _eligible(productions):
        statuses = sorted({production.status for production in productions})
        yield _background(specimen, colony, status=statuses, permitted=list(ELIGIBLE_STATUSES))


@rule(
    "S6",
    Specimen,
    message=mark(
        "The colony '{colony}' of '{specimen}' was produced by {registered}, not by {value}. Correct productionCentre."
    ),
    cause=mark("The colony '{colony}' was produced by {registered}, not by {value}"),
    remedy=mark("Correct productionCentre, or the colonyID."),
    cause_by=("value", "colony", "registered"),
    cases={
        "unknown_name": Declaration(
            message=mark(
                "Whether {value} produced the colony '{colony}' could not be checked: it is registered for "
                "{registered}, and it is not known what {value} is called there."
            ),
            cause=mark(
                "It is not known what the centre {value} is called where colonies are registered ({registered})"
            ),
            remedy=mark(
                "Register its name there: `dcc centre change {value} --imits NAME`. The next session checks again."
            ),
            for_centre=mark("The Data Coordination Centre registers the centre's name there."),
            acts=Actor.DCC,
        ),
    },
    known_as="testIncorrectProduictionCentre",
    needs=Colonies,
)
def production_centre_is_that_of_the_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """The production centre of a mutant's colony is its productionCentre, or its phenotypingCentre without one."""
    colony = _colony_of_mutant(specimen)
    productions = _eligible(at.colonies.find(colony)) if colony is not None else ()
    if not productions:
        return
    centre = specimen.production_centre or specimen.phenotyping_centre
    names = at.document.reference.imits_names
    verdicts = {may_be_centre(production.production_centre, centre, names) for production in productions}
    if True in verdicts:
        return
    registered = sorted({production.production_centre for production in productions})
    if None in verdicts:
        severity = Severity.UNCHECKED
        yield fault(specimen.line, centre, "unknown_name", severity=severity, colony=colony, registered=registered)
    else:
        yield _background(specimen, centre, colony=colony, registered=registered)


@rule(
    "S7",
    Specimen,
    message=mark("The date of birth of '{specimen}' is {value}, in the future. Correct it."),
    cause=mark("Dates of birth are in the future"),
    remedy=mark("Correct the dates in the source system and export the data again."),
    known_as="testSpecimenDatesWithinLimits",
)
def birth_is_not_in_the_future(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mouse's date of birth is not in the future; a day is allowed for the centre's time zone."""
    if specimen.dob is not None and day_of(specimen.dob) > latest_day(at.document.today):
        yield fault(specimen.line, specimen.dob, specimen=specimen.specimen_id)


@rule(
    "S8",
    Specimen,
    message=mark(
        "The date of birth of '{specimen}' is {value}, before its colony '{colony}' was made on {made}. Correct the "
        "date or the colony."
    ),
    cause=mark("Animals of the colony '{colony}' were born before it was made on {made}"),
    remedy=mark("Correct the dates of birth or the colonyID, or the day on which the colony is registered as made."),
    known_as="testSpecimenDatesWithinLimits",
    needs=Colonies,
)
def birth_is_not_before_the_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mouse's date of birth is not before the day its colony was made, where that is known."""
    colony = _colony_of_mutant(specimen)
    if specimen.dob is None or colony is None:
        return
    days = [production.created for production in at.colonies.find(colony)]
    known = [day for day in days if day is not None]
    if known and len(known) == len(days) and day_of(specimen.dob) < min(known):
        first = str(min(known))
        yield fault(specimen.line, specimen.dob, specimen=specimen.specimen_id, colony=colony, made=first)


@rule(
    "S9",
    Specimen,
    message=mark(
        "The stage '{value}' of '{specimen}' is no DPC stage. Write a number from 0 to less than 20, such as 12.5 or "
        "E12.5."
    ),
    cause=mark("'{value}' is no DPC stage"),
    remedy=mark("Write a number from 0 to less than 20, such as 12.5 or E12.5."),
    known_as=("Embryo_DPCStageNotParsed", "Embryo_DPCStageOutOfBounds", "Embryo_stageNotRecognised"),
)
def dpc_stage_is_one(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A DPC stage is an optional E and a number from 0 to less than 20."""
    if specimen.stage_unit == "DPC" and days_of_stage(specimen.stage) is None:
        yield fault(specimen.line, specimen.stage, specimen=specimen.specimen_id)


@rule(
    "S10",
    Specimen,
    message=mark(
        "The stage '{value}' of '{specimen}' is no Theiler stage. Write a whole number from 1 to 26, such as 20 or "
        "TS20a."
    ),
    cause=mark("'{value}' is no Theiler stage"),
    remedy=mark("Write a whole number from 1 to 26, such as 20 or TS20a."),
    known_as=(
        "Embryo_DPCStageNotParsed",
        "Embryo_DPCStageOutOfBounds",
        "Embryo_TheilerStageNotParsed",
        "Embryo_TheilerStageOutOfBounds",
        "Embryo_stageNotRecognised",
    ),
)
def theiler_stage_is_one(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A Theiler stage is an optional TS, a whole number from 1 to 26 and an optional letter from a to d."""
    if specimen.stage_unit != "Theiler":
        return
    match = _THEILER.fullmatch(specimen.stage or "")
    if match is None or len(match[0]) > LONGEST_STAGE or not 1 <= int(match[1]) <= 26:
        yield fault(specimen.line, specimen.stage, specimen=specimen.specimen_id)


@rule(
    "S12",
    Specimen,
    severity=Severity.WARNING,
    message=mark(
        "The project '{value}' of '{specimen}' is not known. Names are compared exactly; correct it or "
        "have the project registered."
    ),
    cause=mark("The project '{value}' is not known"),
    remedy=mark(
        "Correct the project's name, which is compared exactly; a new project the Data Coordination Centre registers."
    ),
    known_as="SpecimenAttributes_ProjectNotFound",
    needs=Projects,
)
def project_of_specimen_is_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's project is known."""
    if specimen.project not in at.projects.names:
        yield fault(specimen.line, specimen.project, specimen=specimen.specimen_id)


@rule(
    "S14",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The {relationship} '{value}' of '{specimen}' is not known at the centre {centre}. Submit it too."),
    cause=mark("Related animals have not been submitted"),
    remedy=mark("This clears when they are submitted. You need not submit anything again."),
    acts=Actor.NOBODY,
    needs_other_documents=True,
    awaits_animals=True,
)
def relatives_are_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A relatedSpecimen is a specimen of the same centre that is in the document or uploaded."""
    for number, related in enumerate(specimen.related_specimens, 1):
        if related.specimen_id not in at.answers.specimens:
            yield fault(
                related.line,
                related.specimen_id,
                below=f"/relatedSpecimen[{number}]",
                relationship=related.relationship,
                specimen=specimen.specimen_id,
                centre=at.block.centre,
            )


@rule(
    "X3",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The pipeline '{value}' of '{specimen}' does not exist in IMPReSS. Correct it."),
    cause=mark("The pipeline '{value}' does not exist in IMPReSS"),
    remedy=mark("Correct the pipeline: IMPReSS lists those that exist. Identifiers are compared exactly."),
    needs=Impress,
)
def pipeline_of_specimen_is_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's pipeline exists in IMPReSS."""
    if specimen.pipeline not in at.impress.pipelines:
        yield fault(specimen.line, specimen.pipeline, specimen=specimen.specimen_id)


@rule(
    "X4",
    Specimen,
    severity=Severity.WARNING,
    message=mark(
        "The phenotypingCentre of '{specimen}' is {value}, and it stands under the centre {centre}. Correct one of "
        "them."
    ),
    cause=mark("Animals with the phenotypingCentre '{value}' stand under another centre"),
    remedy=mark("Correct phenotypingCentre, or have them stand under the centre that phenotyped them."),
)
def specimen_is_phenotyped_by_its_centre(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimen's phenotypingCentre is the centre that it stands under."""
    if specimen.phenotyping_centre != at.block.centre:
        yield fault(specimen.line, specimen.phenotyping_centre, specimen=specimen.specimen_id, centre=at.block.centre)


@rule(
    "X6",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The baseline animal '{specimen}' is {value}. Correct its zygosity or isBaseline."),
    cause=mark("Baseline animals have the zygosity '{value}'"),
    remedy=mark("Baseline animals are wild type: correct zygosity or isBaseline."),
)
def baseline_is_wild_type(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal is wild type."""
    if parse_boolean(specimen.is_baseline) and specimen.zygosity != "wild type":
        yield fault(specimen.line, specimen.zygosity, specimen=specimen.specimen_id)


@rule(
    "X7",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The baseline animal '{specimen}' is of the mutant colony '{value}'. Correct one of them."),
    cause=mark("Baseline animals are of the mutant colony '{value}'"),
    remedy=mark("Correct isBaseline or the colonyID."),
    needs=Colonies,
)
def baseline_is_of_no_mutant_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A baseline animal has no colonyID of a registered, mutant colony."""
    colony = specimen.colony_id
    if parse_boolean(specimen.is_baseline) and colony is not None and at.colonies.find(colony):
        yield fault(specimen.line, colony, specimen=specimen.specimen_id)


@rule(
    "X8",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The {relationship} '{value}' of '{specimen}' is {genders}. Correct the relationship or the gender."),
    cause=mark("Mothers are not female, or fathers not male"),
    remedy=mark("Correct the relationship or the gender."),
    needs_other_documents=True,
)
def parents_have_the_gender(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mother is female and a father male."""
    for number, related in enumerate(specimen.related_specimens, 1):
        gender = GENDER_OF_PARENT.get(related.relationship)
        if gender is None:
            continue
        genders = {known.gender for known in at.answers.specimens.get(related.specimen_id, ())}
        if genders and gender not in genders and not genders & set(_UNKNOWN_GENDER):
            yield fault(
                related.line,
                related.specimen_id,
                below=f"/relatedSpecimen[{number}]",
                relationship=related.relationship,
                specimen=specimen.specimen_id,
                genders=sorted(genders),
            )


@rule(
    "X9",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The parental strains of '{specimen}' on level {level} sum to {value} %, not to 100 %."),
    cause=mark("The parental strains of a level do not sum to 100 %"),
    remedy=mark("Correct the percentages, or give the strains that are missing."),
)
def parental_strains_sum_to_a_whole(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """The percentages of the parental strains of a level sum to 100."""
    sums: dict[str, float] = defaultdict(float)
    for strain in specimen.parental_strains:
        number, level = parse_number(strain.percentage), parse_integer(strain.level)
        sums[strain.level if level is None else str(level)] += float("inf") if number is None else number
    for named, total in sums.items():
        if round(abs(total - 100), _DECIMALS) > _TOLERANCE:
            yield fault(specimen.line, f"{total:g}", specimen=specimen.specimen_id, level=named)


@rule(
    "X13",
    Specimen,
    message=mark("The specimenID is blank. Give the animal an id of its own, and name it by that in its experiments."),
    cause=mark("Animals have a blank specimenID"),
    remedy=mark(
        "Give each animal an id of its own, and name it by that in its experiments. An edit finds only animals with "
        "the same id: delete those without one, and add them again."
    ),
)
def specimen_has_an_id(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A specimenID is not blank."""
    if is_blank(specimen.specimen_id):
        yield fault(specimen.line, specimen.specimen_id)


@rule(
    "X14",
    Specimen,
    message=mark("The date of birth of '{specimen}' is {value}, before 1980. Correct it."),
    cause=mark("Dates of birth are before 1980"),
    remedy=mark("Correct the dates in the source system and export the data again."),
)
def birth_is_not_long_ago(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """A mouse's date of birth is in 1980 or later."""
    if specimen.dob is not None and day_of(specimen.dob) < _EARLIEST_BIRTH:
        yield fault(specimen.line, specimen.dob, specimen=specimen.specimen_id)


@rule(
    "X15",
    Specimen,
    severity=Severity.WARNING,
    message=mark("The {attribute} '{value}' of '{specimen}' is no MGI id. Give MGI: and a number, as in MGI:104874."),
    cause=mark("{attribute} is no MGI id"),
    remedy=mark("Give MGI: and the number of the gene or allele, as in MGI:104874."),
    cases={
        "of_colony": Declaration(
            message=mark(
                "The {attribute} of '{specimen}' is {value}; its colony '{colony}' is registered with {registered}. "
                "Correct the genotype or the colonyID, or have the colony's registration corrected."
            ),
            cause=mark("{attribute} in the colony '{colony}' is {value}, and is registered as {registered}"),
            remedy=mark("Correct the genotypes or the colonyID, or have the colony's registration corrected."),
            acts=Actor.REGISTRY,
        ),
    },
    needs=Colonies,
)
def genotype_is_that_of_the_colony(specimen: Specimen, at: Context) -> Iterator[Fault]:
    """Genes and alleles of genotypes are MGI ids, among them those of the animal's colony."""
    if not specimen.genotypes:
        return
    colony = _colony_of_mutant(specimen)
    productions = at.colonies.find(colony) if colony is not None else ()
    for attribute, given_in, registered_in in _IDS_OF_GENOTYPE:
        registered = {found for found in map(registered_in, productions) if found is not None}
        of_mgi: list[tuple[int, Genotype]] = []
        for number, genotype in enumerate(specimen.genotypes, 1):
            given = given_in(genotype)
            if _MGI_ID.fullmatch(given) is not None:
                of_mgi.append((number, genotype))
                continue
            place = f"/genotype[{number}]"
            yield fault(genotype.line, given, below=place, attribute=attribute, specimen=specimen.specimen_id)
        # An animal may have alleles of further genes.
        if of_mgi and registered and registered.isdisjoint(given_in(genotype) for _, genotype in of_mgi):
            number, genotype = of_mgi[0]
            yield fault(
                genotype.line,
                given_in(genotype),
                "of_colony",
                below=f"/genotype[{number}]",
                attribute=attribute,
                specimen=specimen.specimen_id,
                colony=colony,
                registered=sorted(registered),
            )


def _background(specimen: Specimen, value: str | None, **details: Any) -> Fault:
    """A fault of strain or colony: a warning for an animal with a status code, which was perhaps withdrawn because of
    it.
    """
    status = specimen.status_code
    severity = None if status is None or is_blank(status.code) else Severity.WARNING
    return fault(specimen.line, value, severity=severity, specimen=specimen.specimen_id, **details)


def _colony_of_mutant(specimen: Specimen) -> str | None:
    colony = specimen.colony_id
    return None if colony is None or is_blank(colony) or parse_boolean(specimen.is_baseline) else colony


def _eligible(productions: tuple[Colony, ...]) -> tuple[Colony, ...]:
    return tuple(production for production in productions if production.status in ELIGIBLE_STATUSES)
