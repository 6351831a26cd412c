"""Each integrity rule: a document that breaks just it, one that does not, and its edge."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from dcc.declarations import all_declared, rule_of
from dcc.documents.contents import (
    Content,
    Experiment,
    Genotype,
    Line,
    MediaSampleParameter,
    SeriesMediaParameter,
    Specimen,
)
from dcc.documents.reading import read_document
from dcc.naming import DocumentKind
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.registry import RULES
from dcc.vocabulary import Severity
from tests.support.canonical_documents import write_document
from tests.support.integrity_cases import (
    REFERENCE,
    association,
    at,
    baseline,
    block,
    check,
    embryo,
    experiment,
    experiments,
    film,
    genotype,
    line,
    metadata,
    mutant,
    ontology,
    picture,
    procedure,
    related,
    series,
    simple,
    specimen_block,
    specimens,
    status,
    strain,
    with_parameters,
)


def unfilmed(**said: Any) -> SeriesMediaParameter:
    """A series of two films, of which the second has no file."""
    whole = film("FILM", "1", "2", **said)
    first, second = whole.values
    return whole._replace(values=(first, second._replace(uri="", file_type="")))


PLAIN = (mutant(), baseline(), experiment(), line(), simple("RANGED"))
"""What no rule objects to."""
BREAKS, HOLDS, EDGE = "breaks it", "does not", "edge"


@dataclass
class Example:
    rule: str
    role: str
    what: str
    document: list[Content]
    found: int
    options: dict[str, Any] = field(default_factory=dict)
    severity: Severity | None = None
    """If not that of the rule."""

    def __str__(self) -> str:
        return f"{self.rule} {self.role}: {self.what}"


EXAMPLES: list[Example] = []
Said = list[Content] | Content | Any
"""A document, or what is the only animal, experiment or line in it, or the only parameter besides required ones."""


def document_of(said: Said) -> list[Content]:
    if isinstance(said, list):
        return said
    if isinstance(said, Specimen):
        return specimens(said)
    return experiments(said) if isinstance(said, Experiment | Line) else with_parameters(said)


def weighing(weight: Any) -> list[Content]:
    """A procedure in which the required weight is given so."""
    return with_parameters(weight, metadata("NEEDED"), required=False)


def breaks(rule: str, what: str, said: Said, found: int = 1, **options: Any) -> None:
    EXAMPLES.append(Example(rule, BREAKS, what, document_of(said), found, options))


def holds(rule: str, what: str, said: Said, **options: Any) -> None:
    EXAMPLES.append(Example(rule, HOLDS, what, document_of(said), 0, options))


def edge(rule: str, what: str, said: Said, found: int = 0, severity: Severity | None = None, **options: Any) -> None:
    EXAMPLES.append(Example(rule, EDGE, what, document_of(said), found, options, severity))


breaks("S1", "no strain", baseline(strain_id=None))
breaks("S1", "blank strain", baseline(strain_id=" "))
holds("S1", "a mutant without one", mutant(strain_id=None))
edge("S1", "a parental strain instead", baseline(strain_id=None, parental_strains=(strain("100"),)))

breaks("S2", "unknown strain", baseline(strain_id="MGI:1"))
edge("S2", "a mutant's strain is not looked at", mutant(strain_id="MGI:1"))
edge("S2", "compared to the letter", baseline(strain_id="mgi:2159965"), 1)

breaks("S3", "no colony", mutant(colony_id=None))
edge("S3", "an empty colony stops the other rules of colonies", mutant(colony_id=""), 1)

breaks("S4", "unknown colony", mutant(colony_id="nobody's"))
edge("S4", "a baseline's colony is not looked at", baseline(colony_id="nobody's"))

breaks("S5", "aborted attempt", mutant(colony_id="aborted"))
holds("S5", "phenotyping started", mutant(colony_id="started"))
edge("S5", "with a status code", mutant(colony_id="aborted", status_code=status("IMPC_SSC_001")), 1, Severity.WARNING)

breaks("S6", "another centre", mutant(colony_id="elsewhere"))
holds("S6", "productionCentre goes before phenotypingCentre", mutant(colony_id="elsewhere", production_centre="J"))
edge("S6", "one of several productions, in other capitals", mutant(colony_id="shared"))
edge("S6", "of a name not known there", mutant(colony_id="unplaced", production_centre="Ph"), 1, Severity.UNCHECKED)
for names, found, severity in (
    ({"Ph": "INSTITUTE of Something"}, 0, None),
    ({"Ph": "Institute of Physics"}, 1, None),
    ({"J": "Institute of Something"}, 1, None),
    ({"J": "Institute of Physics"}, 1, Severity.UNCHECKED),
):
    known, animal = replace(REFERENCE, imits_names=names), mutant(colony_id="unplaced", production_centre="Ph")
    edge("S6", f"with the names {names} registered", animal, found, severity, reference=known)
edge(
    "S6",
    "of a name beside the known one",
    mutant(colony_id="elsewhere"),
    reference=replace(REFERENCE, imits_names={"H": "Jax"}),
)
edge("S6", "of the known name beside another", mutant(), reference=replace(REFERENCE, imits_names={"H": "Jax"}))

breaks("S7", "day after tomorrow", mutant(dob="2026-11-23"))
breaks("S7", "year 12013", mutant(dob="12013-01-01"))
edge("S7", "tomorrow, where it is that day already", mutant(dob="2026-11-22"))

breaks("S8", "before the colony", mutant(dob="2011-12-31"))
holds("S8", "after the colony", mutant(dob="2012-02-01"))
edge("S8", "on the day", mutant(dob="2012-01-01Z"))
edge("S8", "not known when the colony was made", mutant(dob="1999-01-01", colony_id="started"))

breaks("S9", "20 is out of bounds", embryo("20", "DPC"))
breaks("S9", "no number; the existing validator crashes", embryo("9..5", "DPC"))
holds("S9", "E12.5", embryo("E12.5", "DPC"))
edge("S9", "0", embryo("0", "DPC"))
edge("S9", "19.99 and a small e", embryo("e19.99", "DPC"))
edge("S9", "digits of another script", embryo("١٢", "DPC"), 1)

breaks("S10", "27 is out of bounds", embryo("TS27", "Theiler"))
breaks("S10", "0 is out of bounds", embryo("0", "Theiler"))
breaks("S10", "no whole number", embryo("12.5", "Theiler"))
holds("S10", "TS20a", embryo("TS20a", "Theiler"))
edge("S10", "26, which the existing validator refuses", embryo("26", "Theiler"))

breaks("S11", "unknown code", mutant(status_code=status("IMPC_SSC_005")))
breaks("S11", "a code that merely begins like one", mutant(status_code=status("IMPC_SSC_0010")))
breaks("S11", "a code for parameters", mutant(status_code=status("IMPC_PARAMSC_001")))
holds("S11", "registered", mutant(status_code=status("IMPC_SSC_001")))
edge("S11", "with free text and blanks", mutant(status_code=status(" IMPC_SSC_001 : lost")))
edge("S11", "a procedure's code: a warning", mutant(status_code=status("IMPC_PSC_001")), 1, Severity.WARNING)

breaks("S12", "unknown project", mutant(project="Bash"))
edge("S12", "blanks count", mutant(project="BaSH "), 1)

breaks("S14", "unknown relative", mutant(related_specimens=(related("M2"),)))
holds("S14", "uploaded", mutant(related_specimens=(related("M2"),)), uploaded=specimens(mutant(specimen_id="M2")))
edge(
    "S14",
    "further down in the document",
    specimens(mutant(related_specimens=(related("M2"),)), mutant(specimen_id="M2", line=9, position=2)),
)
edge(
    "S14",
    "at another centre",
    mutant(related_specimens=(related("M2"),)),
    1,
    uploaded=[specimen_block(centre="J"), mutant(specimen_id="M2")],
)

breaks("E1", "nothing below is looked at", [block(pipeline="PIPE_002"), experiment(specimen_ids=("?",))])
edge("E1", "capitals count", [block(pipeline="pipe_001"), experiment()], 1)
edge(
    "E1",
    "the next centre is checked",
    [
        block(pipeline="?"),
        experiment(),
        block(position=2, line=20),
        experiment(line=21, experiment_id="E2", date="2013-10-02"),
    ],
    1,
)

breaks("E2", "unknown project", [block(project="?"), experiment()])
edge("E2", "capitals count", [block(project="bash"), experiment()], 1)

breaks("E3", "an empty centre, once", [block()])
edge("E3", "the second of two is empty", [block(), experiment(), block(position=2, line=20)], 1)

breaks("E4", "never submitted", experiment(), uploaded=())
breaks("E4", "each that is missing", experiment(specimen_ids=("M1", "M2", "M3")), 2)
edge("E4", "submitted by another centre", experiment(), 1, uploaded=[specimen_block(centre="J"), mutant()])
edge("E4", "with a status code too", experiment(status_codes=(status("IMPC_PSC_001"),)), 1, uploaded=())

breaks("E5", "neither procedure nor status", experiment()._replace(procedure=None))
edge("E5", "a status instead", experiment(status_codes=(status("IMPC_PSC_001"),))._replace(procedure=None))

breaks("E6", "unknown code of an experiment", experiment(status_codes=(status("IMPC_PSC_099"),)))
breaks("E6", "a parameter's code for a line", line(status_codes=(status("IMPC_PARAMSC_001"),)))
holds("E6", "with free text", experiment(status_codes=(status("IMPC_PSC_015:flood"),)))
edge("E6", "empty", line(status_codes=(status(" "),)), 1)
edge("E6", "no procedure is looked at", experiment(procedure(simple("?")), status_codes=(status("IMPC_PSC_001"),)))

breaks("E7", "unknown colony", line(colony_id="?"))
edge("E7", "in any state", line(colony_id="aborted"))
edge("E7", "empty", line(colony_id=""), 1)
edge("E7", "not looked at with a status code", line(colony_id="?", status_codes=(status("IMPC_PSC_001"),)))

breaks("E8", "in the future", experiment(date="2026-11-23"))
breaks("E8", "before birth", experiment(date="2013-05-31"))
edge("E8", "on the day of birth", experiment(date="2013-06-01"))
edge("E8", "tomorrow", experiment(date="2026-11-22"))

breaks("P1", "nothing in it is looked at", experiment(procedure(simple("?"), procedure_id="PROC")))
edge("P1", "another version", experiment(procedure(procedure_id="PROC_002")), 1)

breaks("P2", "both missing, named once", with_parameters(simple("RANGED"), required=False))
edge("P2", "one with only a status", weighing(simple("WEIGHT", None, status="IMPC_PARAMSC_001")))
edge(
    "P2",
    "metadata in media",
    with_parameters(simple("WEIGHT"), picture(metadata=(metadata("NEEDED"),)), required=False),
)

breaks("P3", "each foreign parameter", with_parameters(simple("?"), simple("??")), 2)
edge("P3", "capitals count", simple("ranged"), 1)

breaks("P4", "blanks, said once", simple(" RANGED "))
breaks("P4", "of a required one", weighing(simple("WEIGHT ")))
edge("P4", "a line break", simple("RANGED\n"), 1)

breaks("P5", "metadata as simple", simple("MACHINE"))
holds("P5", "as it is", metadata("MACHINE"))
edge("P5", "a required one of another type is there", weighing(metadata("WEIGHT")), 1)

breaks("P6", "three times: each is named", with_parameters(simple("RANGED"), simple("RANGED"), simple("RANGED")), 3)
breaks("P6", "01 is 1", with_parameters(simple("RANGED", sequence_id="1"), simple("RANGED", sequence_id="01")), 2)
holds("P6", "numbered", with_parameters(simple("RANGED", sequence_id="1"), simple("RANGED", sequence_id="2")))
edge("P6", "once with and once without a number", with_parameters(simple("RANGED"), simple("RANGED", sequence_id="-1")))
edge("P6", "media of one parameter", with_parameters(picture(), picture()), 2)

breaks("P7", "unknown code", simple("RANGED", None, status="IMPC_PARAMSC_099"))
breaks("P7", "a procedure's code", metadata("MACHINE", None, status="IMPC_PSC_001"))
breaks("P7", "of an increment", series("FREE", at("1"), at("2", "", "gone")))
holds("P7", "known code", simple("RANGED", None, status="IMPC_PARAMSC_001"))
edge("P7", "a known one beside a good value", simple("RANGED", status="IMPC_PARAMSC_008"))

breaks("P8", "no value", simple("RANGED", None))
breaks("P8", "empty metadata", metadata("MACHINE", ""))
edge("P8", "blanks are none", simple("RANGED", " \n"), 1)
edge("P8", "a blank status is none", simple("RANGED", None, status=" "), 1)

breaks("P9", "12abc", simple("RANGED", "12abc"))
breaks("P9", "in a series", series("FREE", at("1", "x"), at("2")))
breaks("P9", "decimal comma", simple("RANGED", "1,2"))
holds("P9", "a number", simple("RANGED", "1.2e0"))
edge("P9", "well-formed thousands, as the samples have", weighing(simple("WEIGHT", "2,643.85")))
edge("P9", "checked beside a status too", simple("RANGED", "12abc", status="IMPC_PARAMSC_008"), 1)
edge(
    "P9",
    "a type that IMPReSS has and we have not: not checkable, said once",
    with_parameters(simple("ODD"), simple("ODD", sequence_id="1")),
    1,
    Severity.UNCHECKED,
)

breaks("P10", "no option", simple("COAT", "Blue"))
holds("P10", "an option", simple("COAT", "Brown"))
edge("P10", "capitals count", simple("COAT", "brown"), 1)
edge("P10", "a retired one: a warning", simple("COAT", "Tan"), 1, Severity.WARNING)

breaks("P11", "another unit", weighing(simple("WEIGHT", unit="kg")))
breaks("P11", "a unit where there is none", simple("RANGED", unit="g"))
holds("P11", "the unit", series("FREE", at("1"), at("2"), unit="g"))
edge("P11", "blanks around it, as the samples have", weighing(simple("WEIGHT", unit="g ")))
edge("P11", "an empty one is none", simple("RANGED", unit=""))

breaks("P12", "not listed", ontology("TERM", "MP:0009999: something"))
breaks("P12", "one that merely begins like a listed one", ontology("TERM", "MP:00012621"))
breaks("P12", "an empty one, said once", ontology("TERM", "", ""))
holds("P12", "listed, with its name", ontology("TERM", "MP:0001262:decreased body weight", "MP:0000001 x"))
edge("P12", "a retired one", ontology("TERM", "MP:0000002: x"), 1, Severity.WARNING)
edge("P12", "nothing is listed: the id must read as one", ontology("ANY_TERM", "MA:0000141"))
edge("P12", "nothing is listed and it is no id", ontology("ANY_TERM", "heart"), 1)
edge("P12", "an empty one with a status", ontology("TERM", "", status="IMPC_PARAMSC_001"))
edge("P12", "one beside that", ontology("TERM", "", "MP:0009999", status="IMPC_PARAMSC_001"), 1)
edge("P12", "one beside an empty one without", ontology("TERM", "", "MP:0009999"), 1)

breaks("P13", "no values", series("FREE"))
breaks("P13", "no samples", MediaSampleParameter(line=15, parameter_id="SAMPLES", samples=(), status=None))
holds("P13", "values", series("FREE", at("1"), at("2")))
edge("P13", "a status instead", film("FILM", status="IMPC_PARAMSC_001"))

breaks("P14", "neither", series("FREE", at("1", ""), at("2")))
breaks("P14", "both", series("FREE", at("1", "1.5", "IMPC_PARAMSC_001"), at("2")))
breaks("P14", "no increment", series("FREE", at(""), at("2")))
holds("P14", "text", series("FREE", at("1"), at("2")))
edge("P14", "no increment of media", film("FILM", "1", "2", " "), 1)
edge("P14", "only a status", series("FREE", at("1", " ", "IMPC_PARAMSC_001"), at("2")))

breaks("P15", "one of two", series("FREE", at("1")))
holds("P15", "three of two", series("FREE", at("1"), at("2"), at("3")))
edge("P15", "values with only a status count", series("FREE", at("1"), at("2", "", "IMPC_PARAMSC_001")))
edge("P15", "no minimum", series("REPEATED", at("1")))
edge("P15", "the minimum of a retired rule", series("ONCE_MANY", at("1")))
edge("P15", "beside a retired rule", series("STILL_MANY", at("1")), 1)

breaks("P16", "not listed", series("LISTED", at("0"), at("15"), at("30"), at("45")))
breaks("P16", "the last is missing, which the existing validator overlooks", series("LISTED", at("0"), at("15")))
holds("P16", "all listed, in any order", series("LISTED", at("30"), at("0"), at("15")))
edge("P16", "15.0 is 15", series("LISTED", at("0"), at("15.0"), at("30")))
edge("P16", "a retired one", series("LISTED", at("0"), at("15"), at("30"), at("60")), 1, Severity.WARNING)

breaks("P17", "no number", series("FREE", at("one"), at("2")))
breaks("P17", "no time", series("TIMED", at("2013-01-01")))
holds("P17", "a time", series("TIMED", at("2013-01-01T09:00:00Z")))
edge("P17", "repeats count from 0", series("REPEATED", at("0"), at("-1")), 1)

breaks("P18", "media: not listed", film("FILM", "1", "2", "3"))
breaks("P18", "media: one is missing", film("FILM", "1"))
breaks("P18", "media: too few", film("LOOSE_FILM", "1"))
breaks("P18", "media: no number", film("LOOSE_FILM", "1", "x"))
holds("P18", "media: all, where the existing validator finds all missing", film("FILM", "1", "2"))
edge("P18", "media: a retired one", film("OLD_FILM", "1", "2"), 1, Severity.WARNING)
edge("P18", "media: 2.0 is 2", film("FILM", "1", "2.0"))

breaks("P19", "of another procedure", picture(associations=(association("COAT"),)))
breaks("P19", "another sequenceID", picture(associations=(association("WEIGHT", "1"),)))
holds("P19", "a simple parameter", picture(associations=(association("WEIGHT"),)))
edge(
    "P19",
    "a series",
    with_parameters(series("FREE", at("1"), at("2")), picture(associations=(association("FREE"),))),
    1,
)
edge(
    "P19",
    "the same number",
    with_parameters(simple("RANGED", sequence_id="01"), picture(associations=(association("RANGED", "1"),))),
)

breaks("P20", "a path", picture(uri="/data/1.jpg"))
breaks("P20", "another scheme", picture(uri="file:///data/1.jpg"))
breaks("P20", "unknown type", picture(file_type="jpg"))
holds("P20", "sftp", picture(uri="sftp://h.example:2222/a/1.jpg"))
breaks("P20", "no picture and no status", picture(uri=""))
edge("P20", "a status in place of a picture", picture(uri="", file_type="", status="IMPC_PARAMSC_001"))
edge("P20", "a status and a path", picture(uri="/data/1.jpg", status="IMPC_PARAMSC_001"), 1)
edge("P20", "a status in place of one film of a series", unfilmed(status="IMPC_PARAMSC_001"))
edge("P20", "one film of a series is missing, and its type", unfilmed(), 2)
edge("P20", "a host and no path", picture(uri="http://h.example"), 1)
edge("P20", "a host and an empty query", picture(uri="http://h.example/?"), 1)
edge("P20", "a query after the root", picture(uri="https://images.example.org/?id=5"))
edge("P20", "a query and no path", picture(uri="http://omero.example.org?image=1"))
edge("P20", "a port that is none", picture(uri="http://h.example:x/1.jpg"), 1)
edge(
    "P20",
    "capitals, and no file type in a series",
    with_parameters(picture(uri="FTP://h.example/1.JPG", file_type="Image/JPEG"), film("FILM", "1", "2")),
)

breaks("X1", "free text is missing", experiment(status_codes=(status("IMPC_PSC_015"),)))
holds("X1", "a code that says enough", experiment(status_codes=(status("IMPC_PSC_001"),)))
edge("X1", "a colon with nothing after it", mutant(status_code=status("IMPC_SSC_003: ")), 1)
breaks("X2", "free text is missing", simple("RANGED", status="IMPC_PARAMSC_005"))
holds("X2", "free text", simple("RANGED", status="IMPC_PARAMSC_005: torn"))
edge("X2", "of an increment", series("FREE", at("1"), at("2", "", "IMPC_PARAMSC_006:")), 1)
breaks("X3", "unknown pipeline", mutant(pipeline="?"))
edge("X3", "capitals count", mutant(pipeline="pipe_001"), 1)
breaks("X4", "another centre", mutant(phenotyping_centre="J", production_centre="H"))
edge("X4", "produced elsewhere", mutant(production_centre="J", colony_id="elsewhere"))
breaks("X5", "another centre", experiment(), centre="J")
edge("X5", "capitals count", experiment(), 1, centre="h")
edge("X5", "the file name tells none", experiment(), centre="")
breaks("X6", "a heterozygous baseline", baseline(zygosity="heterozygous"))
edge("X6", "a wild type that is no baseline", mutant(zygosity="wild type"))
breaks("X7", "of a mutant colony", baseline(colony_id="good"))
edge("X7", "of a colony that is not registered", baseline(colony_id="stock"))


def _parent(relationship: str, gender: str) -> list[Content]:
    parent = mutant(specimen_id="M2", line=9, gender=gender)
    return specimens(mutant(related_specimens=(related("M2", relationship),)), parent)


breaks("X8", "a male mother", _parent("mother", "male"))
holds("X8", "a female mother", _parent("mother", "female"))
edge("X8", "a mother of unknown gender", _parent("mother", "no data"))
breaks("X9", "150 %", mutant(parental_strains=(strain("75"), strain("75"))))
holds("X9", "a whole on each level", mutant(parental_strains=(strain("50"), strain("50"), strain("100", "2"))))
edge("X9", "thirds", mutant(parental_strains=(strain("33.333"), strain("33.333"), strain("33.333"))))
edge("X9", "thirds of two decimals", mutant(parental_strains=(strain("33.33"), strain("33.33"), strain("33.33"))))
edge("X9", "level 01 is 1", mutant(parental_strains=(strain("50", "1"), strain("50", "01"))))
edge("X9", "infinitely much", mutant(parental_strains=(strain("INF"),)), 1)
breaks("X10", "too large", simple("RANGED", "9.01"))
holds("X10", "within", simple("RANGED", "5"))
edge("X10", "on the limit", simple("RANGED", "9.0"))
breaks("X11", "a retired parameter", simple("RETIRED"))
edge("X11", "a retired procedure", experiment(procedure(procedure_id="OLD_001")), 1)
# The schema says that increments should be unique, and an official example has one twice: X12 is a warning.
breaks("X12", "an increment twice", series("REPEATED", at("1"), at("1")))
holds("X12", "each once", series("REPEATED", at("1"), at("2")))
breaks("X13", "an empty one", mutant(specimen_id=""))
breaks("X13", "blanks alone", mutant(specimen_id=" \t\u00a0"))
holds("X13", "one with blanks in it", mutant(specimen_id="M 1"))
edge("X13", "behind a sound animal that is else the same", specimens(mutant(), mutant(specimen_id="", line=9)), 1)
breaks("X14", "the year 1", mutant(dob="0001-01-01", colony_id="started"))
breaks("X14", "a spreadsheet's first day", mutant(dob="1900-01-01", colony_id="started"))
breaks("X14", "the last day before", mutant(dob="1979-12-31", colony_id="started"))
holds("X14", "the first day", mutant(dob="1980-01-01", colony_id="started"))
edge("X14", "before the common era", mutant(dob="-0044-03-15", colony_id="started"), 1)
edge("X14", "an embryo has none", embryo("12.5", "DPC"))


def _of_genotypes(*genotypes: Genotype, colony_id: str = "genotyped") -> Specimen:
    return mutant(colony_id=colony_id, genotypes=genotypes)


breaks("X15", "a gene's symbol, which is of no colony", _of_genotypes(genotype("Fto", "MGI:11"), colony_id="good"))
breaks("X15", "neither has a number", _of_genotypes(genotype("MGI:", " ")), 2)
breaks("X15", "a baseline's", baseline(genotypes=(genotype("MGI:1", "mgi:11"),)))
breaks("X15", "another gene", _of_genotypes(genotype("MGI:2", "MGI:11")))
breaks("X15", "another allele", _of_genotypes(genotype("MGI:1", "MGI:12")))
breaks("X15", "of two other genes the first", _of_genotypes(genotype("MGI:2", "MGI:11"), genotype("MGI:3", "MGI:31")))
holds("X15", "those of the colony", _of_genotypes(genotype("MGI:1", "MGI:11")))
holds("X15", "not known of the colony", _of_genotypes(genotype("MGI:2", "MGI:21"), colony_id="started"))
edge("X15", "a further gene before it", _of_genotypes(genotype("MGI:2", "MGI:21"), genotype("MGI:1", "MGI:11")))
edge(
    "X15",
    "behind an animal that is else the same",
    specimens(
        _of_genotypes(genotype("MGI:1", "MGI:11")),
        _of_genotypes(genotype("MGI:1", "MGI:12"))._replace(specimen_id="M2", line=9, position=2),
    ),
    1,
)
edge("X15", "blanks count", _of_genotypes(genotype("MGI:1", "MGI:11 ")), 1)
_NO_WEIGHT = simple("WEIGHT", None, status="IMPC_PARAMSC_001")
_NO_NEEDED = metadata("NEEDED", " ", status="IMPC_PARAMSC_001")


def _runs(*parameters: Any, first: int = 1) -> list[Content]:
    """Runs of a procedure, each with two required parameters."""
    done = [procedure(*each, required=False) for each in parameters]
    return experiments(
        *(
            experiment(one, line=20 * number, position=number, experiment_id=f"E{number}", date=f"2013-10-0{number}")
            for number, one in enumerate(done, first)
        )
    )


_ALL = (simple("WEIGHT"), metadata("NEEDED"))
breaks("X16", "all of one run", _runs((_NO_WEIGHT, _NO_NEEDED)))
breaks("X16", "three of four, said once", _runs((_NO_WEIGHT, _NO_NEEDED), (simple("WEIGHT"), _NO_NEEDED)))
breaks("X16", "of a line", line(procedure=procedure(_NO_WEIGHT, _NO_NEEDED, required=False)))
holds("X16", "all of one run of two", _runs((_NO_WEIGHT, _NO_NEEDED), _ALL))
edge("X16", "half", _runs((_NO_WEIGHT, metadata("NEEDED"))))
edge("X16", "a status beside a value", _runs((_NO_WEIGHT, metadata("NEEDED", status="IMPC_PARAMSC_008"))))
edge(
    "X16",
    "one of two repeats has a value",
    _runs((_NO_WEIGHT, simple("WEIGHT", sequence_id="1"), _NO_NEEDED)),
)
edge(
    "X16", "not required", _runs((*_ALL, *(simple(key, None, status="IMPC_PARAMSC_001") for key in ("COAT", "RANGED"))))
)
edge(
    "X16",
    "each centre element for itself",
    [*_runs((_NO_WEIGHT, _NO_NEEDED)), block(position=2, line=90), *_runs(_ALL, _ALL, first=2)[1:]],
    1,
)


def _run(number: int = 2, **changes: Any) -> Experiment:
    """An experiment that repeats one on M1, but for `changes`."""
    return experiment(**{"line": 20 * number, "position": number, "experiment_id": f"E{number}"} | changes)


_OF_M2 = {"uploaded": specimens(mutant(), mutant(specimen_id="M2"))}
breaks("X17", "both are named", experiments(experiment(), _run()), 2)
breaks("X17", "three", experiments(experiment(), _run(), _run(3)), 3)
breaks("X17", "a zone does not count", experiments(experiment(), _run(date="2013-10-01Z")), 2)
breaks("X17", "the same sequenceID", experiments(experiment(sequence_id="1"), _run(sequence_id="1")), 2)
breaks("X17", "one of two animals", experiments(experiment(), _run(specimen_ids=("M2", "M1"))), 2, **_OF_M2)
holds("X17", "repeats with sequenceIDs", experiments(experiment(sequence_id="1"), _run(sequence_id="2")))
edge("X17", "one of both has a sequenceID", experiments(experiment(), _run(sequence_id="1")))
edge("X17", "one of both was not done", experiments(experiment(), _run(status_codes=(status("IMPC_PSC_001"),))))
edge("X17", "another day", experiments(experiment(), _run(date="2013-10-02")))
edge("X17", "another animal", experiments(experiment(), _run(specimen_ids=("M2",))), **_OF_M2)
edge("X17", "an animal twice in one", experiment(specimen_ids=("M1", "M1")))
edge("X12", "1.0 is 1 where increments are numbers", series("FREE", at("1"), at("1.0")), 1)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_rule_finds_what_breaks_it_and_nothing_else_does(rule: str) -> None:
    examples = [example for example in EXAMPLES if example.rule == rule]
    assert BREAKS in {example.role for example in examples}, f"Give {rule} an example that `breaks` it."
    for example in examples:
        found = check(example.document, **example.options)
        assert [finding.rule for finding in found] == [rule] * example.found, f"{example}: {found}"
        for finding in found:
            assert finding.severity is (example.severity or RULES[rule].severity), example
            assert finding.message.endswith(".")
            assert finding.line > 0
            assert finding.path.startswith(("/centreSpecimenSet/centre[", "/centreProcedureSet/centre["))


def test_each_finding_is_on_the_line_of_the_element_that_its_path_names(tmp_path: Path) -> None:
    for example in EXAMPLES:
        is_about_animals = any(isinstance(content, Specimen) for content in example.document)
        kind = DocumentKind.SPECIMEN if is_about_animals else DocumentKind.EXPERIMENT
        path = tmp_path / "document.xml"
        path.write_bytes(write_document(kind, example.document))
        root = etree.parse(path).getroot()
        for element in root.iter(etree.Element):
            element.tag = etree.QName(element).localname
        for finding in check(list(read_document(path, kind)), **example.options):
            (named,) = root.xpath(finding.path)
            # Animals of experiments, and terms, are texts: what has them has the line.
            has_line = named.getparent() if named.tag in ("specimenID", "term") else named
            assert finding.line == has_line.sourceline, f"{example}: {finding}"


@pytest.mark.parametrize("said", PLAIN, ids=lambda said: type(said).__name__)
def test_no_rule_objects_to_what_is_plain(said: Said) -> None:
    assert check(document_of(said)) == []


def test_each_declared_case_of_a_rule_has_an_example() -> None:
    found = {finding.code for example in EXAMPLES for finding in check(example.document, **example.options)}
    missing = {code for code in all_declared() if rule_of(code) in RULES} - found
    assert not missing, f"Give each of {sorted(missing)} an example that `breaks` it."


def test_all_the_rules_of_the_reference_are_registered() -> None:
    expected = {f"S{n}" for n in range(1, 15)} | {f"E{n}" for n in range(1, 10)} | {f"P{n}" for n in range(1, 21)}
    assert expected <= set(CATALOGUE)
    others = [rule for rule in sorted(set(RULES) - expected) if not rule.startswith("X")]
    assert not others, f"Name {others} X and the next number: the existing validator does not have them."


def test_each_rule_says_what_it_demands_and_of_what_severity_it_is() -> None:
    warnings = {rule.id for rule in RULES.values() if rule.severity is Severity.WARNING}
    assert {rule for rule in warnings if not rule.startswith("X")} == {"S12", "S14", "E2"}
    assert {rule.id for rule in RULES.values() if rule.severity is Severity.FATAL} == {"E1"}
    assert all(rule.demand.endswith(".") for rule in RULES.values())
    assert len({rule.demand for rule in RULES.values()}) == len(RULES)


def test_options_and_terms_that_are_retired_are_none_to_choose_from() -> None:
    (option,) = check(document_of(simple("COAT", "Blue")))
    assert option.message == "The value 'Blue' of COAT is none of the options that IMPReSS lists (1)."
    (term,) = check(document_of(ontology("TERM", "MP:0009999")))
    assert "is none of those that IMPReSS lists (2)" in term.message


def severities(document: list[Content]) -> list[Severity]:
    return [finding.severity for finding in check(document)]


@pytest.mark.parametrize(
    "animal",
    [
        mutant(colony_id=None),
        mutant(colony_id="?"),
        mutant(colony_id="aborted"),
        mutant(colony_id="elsewhere"),
        baseline(strain_id=None),
        baseline(strain_id="?"),
    ],
)
def test_faults_of_the_background_of_an_animal_with_a_status_code_are_warnings(animal: Specimen) -> None:
    assert severities(specimens(animal)) == [Severity.ERROR]
    assert severities(specimens(animal._replace(status_code=status("IMPC_SSC_001")))) == [Severity.WARNING]
    assert severities(specimens(animal._replace(status_code=status(" ")))) == [Severity.ERROR]
