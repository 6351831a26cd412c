"""Small documents for the tests of the integrity rules: one without a flaw, to be changed in one place."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeVar

from dcc.documents.contents import (
    Block,
    Content,
    Experiment,
    Genotype,
    Line,
    MediaParameter,
    Metadata,
    OntologyParameter,
    ParameterAssociation,
    ParentalStrain,
    Procedure,
    RelatedSpecimen,
    SeriesMediaParameter,
    SeriesMediaValue,
    SeriesParameter,
    SeriesValue,
    SimpleParameter,
    Specimen,
    SpecimenKind,
    StatusCode,
)
from dcc.naming import Action
from dcc.reference import impress
from dcc.reference.impress import Impress, Increment, Option, ParameterType, Pipeline
from dcc.reference.loading import ReferenceData
from dcc.reference.snapshots import Colonies, Colony, Projects, Provenance, StatusCodes, Strains
from dcc.rules.accepted_elements import AcceptedElements
from dcc.rules.checking import check_contents
from dcc.rules.context import DocumentContext, KnownSpecimen, RunKey
from dcc.rules.elements import runs_of
from dcc.rules.findings import Finding

T = TypeVar("T")
TODAY = date(2026, 11, 21)
_FROM = Provenance("a test", datetime(2026, 11, 1), "0" * 64)


def definition(key: str, kind: ParameterType, value_type: str = "FLOAT", **others: Any) -> impress.Parameter:
    values: dict[str, Any] = {
        "unit": "",
        "is_required": False,
        "is_active": True,
        "options": (),
        "increments": (),
        "ontology_terms": (),
        "qc_minimum": None,
        "qc_maximum": None,
    }
    return impress.Parameter(key=key, type=kind, value_type=value_type, **values | others)


def increment(text: str = "", kind: str = "float", minimum: int = 0, *, is_active: bool = True) -> Increment:
    return Increment(text, kind, "", minimum, is_active)


_PARAMETERS = (
    definition("WEIGHT", ParameterType.SIMPLE, unit="g", is_required=True),
    definition("RANGED", ParameterType.SIMPLE, qc_minimum=1.0, qc_maximum=9.0),
    definition("RETIRED", ParameterType.SIMPLE, is_active=False),
    definition("ODD", ParameterType.SIMPLE, "COLOUR"),
    definition("COAT", ParameterType.SIMPLE, "TEXT", options=(Option("Brown", True), Option("Tan", False))),
    definition(
        "TERM",
        ParameterType.ONTOLOGY,
        "TEXT",
        ontology_terms=("MP:0001262", "MP:0000001", "MP:0000002"),
        retired_terms=frozenset({"MP:0000002"}),
    ),
    definition("ANY_TERM", ParameterType.ONTOLOGY, "TEXT"),
    definition("FREE", ParameterType.SERIES, unit="g", increments=(increment(minimum=2),)),
    definition("ONCE_MANY", ParameterType.SERIES, increments=(increment(minimum=2, is_active=False),)),
    definition("STILL_MANY", ParameterType.SERIES, increments=(increment(minimum=2), increment(is_active=False))),
    definition("REPEATED", ParameterType.SERIES, increments=(increment(kind="repeat"),)),
    definition("TIMED", ParameterType.SERIES, increments=(increment(kind="datetime"),)),
    definition(
        "LISTED",
        ParameterType.SERIES,
        increments=(increment("0"), increment("15"), increment("30"), increment("60", is_active=False)),
    ),
    definition("PICTURE", ParameterType.MEDIA, "IMAGE"),
    definition("SAMPLES", ParameterType.MEDIA_SAMPLE, "IMAGE"),
    definition("FILM", ParameterType.SERIES_MEDIA, "IMAGE", increments=(increment("1"), increment("2"))),
    definition(
        "OLD_FILM", ParameterType.SERIES_MEDIA, "IMAGE", increments=(increment("1"), increment("2", is_active=False))
    ),
    definition("LOOSE_FILM", ParameterType.SERIES_MEDIA, "IMAGE", increments=(increment(minimum=2),)),
    definition("MACHINE", ParameterType.METADATA, "TEXT"),
    definition("NEEDED", ParameterType.METADATA, "TEXT", is_required=True),
)


def procedure_definition(key: str, *, is_active: bool = True) -> impress.Procedure:
    parameters = {parameter.key: parameter for parameter in _PARAMETERS}
    required = frozenset(key for key, parameter in parameters.items() if parameter.is_required)
    return impress.Procedure(key, is_active, parameters, required)


REFERENCE = ReferenceData(
    Impress(
        _FROM,
        {
            "PIPE_001": Pipeline(
                "PIPE_001",
                {
                    "PROC_001": procedure_definition("PROC_001"),
                    "OLD_001": procedure_definition("OLD_001", is_active=False),
                },
            )
        },
    ),
    StatusCodes(
        _FROM,
        dict.fromkeys(
            [
                *(f"IMPC_PSC_{number:03d}" for number in range(1, 18)),
                *(f"IMPC_PARAMSC_{number:03d}" for number in range(1, 17)),
                *(f"IMPC_SSC_{number:03d}" for number in range(1, 5)),
            ],
            "",
        ),
    ),
    Projects(_FROM, frozenset({"BaSH"})),
    Colonies(
        _FROM,
        {
            "good": (Colony("good", "Harwell", "Phenotyping Complete", date(2012, 1, 1)),),
            "aborted": (Colony("aborted", "Harwell", "Phenotype Attempt Aborted", None),),
            "started": (Colony("started", "H", "Phenotyping Started", None),),
            "elsewhere": (Colony("elsewhere", "JAX", "Phenotyping Complete", None),),
            "shared": (
                Colony("shared", "JAX", "Phenotyping Complete", None),
                Colony("shared", "HARWELL", "Cre Excision Complete", None),
            ),
            "genotyped": (
                Colony("genotyped", "Harwell", "Phenotyping Started", None, gene_id="MGI:1", allele_id="MGI:11"),
                Colony("genotyped", "JAX", "Phenotyping Started", None),
            ),
            "unplaced": (Colony("unplaced", "Institute of Something", "Phenotyping Complete", None),),
        },
    ),
    Strains(_FROM, {"MGI:2159965": "C57BL/6N"}),
)


@dataclass
class Uploaded:
    """What is in the QC database: kept in dictionaries, and every question counted."""

    specimens: dict[tuple[str, str], list[KnownSpecimen]] = field(default_factory=lambda: defaultdict(list))
    runs: dict[tuple[str, RunKey], dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    questions: int = 0

    def add(self, contents: Iterable[Content]) -> None:
        centre = ""
        for content in contents:
            if isinstance(content, Block):
                centre = content.centre
            elif isinstance(content, Specimen):
                self.specimens[centre, content.specimen_id].append(KnownSpecimen(content.gender, content.dob))
            elif isinstance(content, Experiment):
                for run in runs_of(content):
                    self.runs[centre, run][content.experiment_id] = "H.xml"

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:
        self.questions += 1
        return {each: tuple(self.specimens[centre, each]) for each in ids if (centre, each) in self.specimens}

    def known_runs(self, centre: str, keys: Collection[RunKey]) -> Mapping[RunKey, Mapping[str, str]]:
        self.questions += 1
        return {key: self.runs[centre, key] for key in keys if (centre, key) in self.runs}


def block(**changes: Any) -> Block:
    return Block(line=2, position=1, centre="H", pipeline="PIPE_001", project="BaSH")._replace(**changes)


def specimen_block(**changes: Any) -> Block:
    return Block(line=2, position=1, centre="H", pipeline=None, project=None)._replace(**changes)


def element(kind: type[T], /, **said: Any) -> T:
    """An element that says this, and nothing of what may be left out."""
    absent = {name: () if "tuple" in str(what) else None for name, what in kind.__annotations__.items()}
    return kind(**absent | said)


_MOUSE: dict[str, Any] = {"line": 3, "position": 1, "kind": SpecimenKind.MOUSE, "specimen_id": "M1", "litter_id": "L1"}
_MOUSE |= {"is_baseline": "false", "gender": "male", "zygosity": "homozygous", "dob": "2013-06-01"}
_MOUSE |= {"pipeline": "PIPE_001", "phenotyping_centre": "H", "project": "BaSH", "colony_id": "good"}


def mutant(**changes: Any) -> Specimen:
    return element(Specimen, **_MOUSE | changes)


def baseline(**changes: Any) -> Specimen:
    wild = {"is_baseline": "true", "zygosity": "wild type", "colony_id": None, "strain_id": "MGI:2159965"}
    return mutant(**wild | changes)


def embryo(stage: str, stage_unit: str) -> Specimen:
    return mutant(kind=SpecimenKind.EMBRYO, dob=None, stage=stage, stage_unit=stage_unit)


def related(specimen_id: str, relationship: str = "littermate") -> RelatedSpecimen:
    return RelatedSpecimen(line=4, specimen_id=specimen_id, relationship=relationship)


def strain(percentage: str, level: str = "1") -> ParentalStrain:
    return ParentalStrain(line=4, percentage=percentage, mgi_strain_id="MGI:2159965", gender="male", level=level)


def genotype(gene: str, allele: str) -> Genotype:
    return element(Genotype, line=4, mgi_gene_id=gene, gene_symbol="Fto", mgi_allele_id=allele)


def status(code: str) -> StatusCode:
    return StatusCode(line=5, code=code, date=None)


def simple(key: str, value: str | None = "5.5", **said: Any) -> SimpleParameter:
    return element(SimpleParameter, **{"line": 10, "parameter_id": key, "value": value} | said)


def metadata(key: str, value: str | None = "text", **said: Any) -> Metadata:
    return element(Metadata, **{"line": 11, "parameter_id": key, "value": value} | said)


def ontology(key: str, *terms: str, **said: Any) -> OntologyParameter:
    return element(OntologyParameter, **{"line": 12, "parameter_id": key, "terms": terms} | said)


def series(key: str, *values: SeriesValue, **said: Any) -> SeriesParameter:
    return element(SeriesParameter, **{"line": 13, "parameter_id": key, "values": values} | said)


def at(increment_value: str, value: str = "1.5", status: str | None = None) -> SeriesValue:
    return SeriesValue(line=14, increment=increment_value, increment_status=status, value=value)


def picture(key: str = "PICTURE", uri: str = "ftp://h.example/1.jpg", **said: Any) -> MediaParameter:
    place = {"line": 15, "parameter_id": key, "uri": uri, "file_type": "image/jpeg"}
    return element(MediaParameter, **place | said)


def association(key: str, sequence_id: str | None = None) -> ParameterAssociation:
    return element(ParameterAssociation, line=16, parameter_id=key, sequence_id=sequence_id)


def film(key: str, *increments: str, **said: Any) -> SeriesMediaParameter:
    values = tuple(
        element(SeriesMediaValue, line=18, increment=each, uri="ftp://h.example/1.avi") for each in increments
    )
    return element(SeriesMediaParameter, **{"line": 17, "parameter_id": key, "values": values} | said)


SORTS: dict[type, str] = {
    SimpleParameter: "simple",
    OntologyParameter: "ontology",
    SeriesParameter: "series",
    MediaParameter: "media",
    SeriesMediaParameter: "series_media",
    Metadata: "metadata",
}


def procedure(*parameters: Any, required: bool = True, **changes: Any) -> Procedure:
    """A procedure with these parameters, and those that IMPReSS requires before them."""
    always = (simple("WEIGHT"), metadata("NEEDED")) if required else ()
    sorts: dict[str, Any] = defaultdict(tuple)
    for parameter in (*always, *parameters):
        sorts[SORTS.get(type(parameter), "media_samples")] += (parameter,)
    return element(Procedure, **{"line": 9, "procedure_id": "PROC_001"} | sorts | changes)


def experiment(done: Procedure | None = None, **said: Any) -> Experiment:
    place = {"line": 8, "position": 1, "experiment_id": "E1", "date": "2013-10-01", "specimen_ids": ("M1",)}
    return element(Experiment, **place | {"procedure": done or procedure()} | said)


def line(**said: Any) -> Line:
    return element(Line, **{"line": 8, "position": 1, "colony_id": "good", "procedure": procedure()} | said)


def specimens(*animals: Specimen) -> list[Content]:
    return [specimen_block(), *animals]


def experiments(*done: Experiment | Line) -> list[Content]:
    return [block(), *done]


def with_parameters(*parameters: Any, **changes: Any) -> list[Content]:
    """An experiment document with a procedure of the required parameters and these."""
    return experiments(experiment(procedure(*parameters, **changes)))


def check(
    contents: list[Content],
    *,
    uploaded: Iterable[Content] | None = None,
    action: Action = Action.ADD,
    centre: str = "H",
    reference: ReferenceData = REFERENCE,
    lookups: Uploaded | None = None,
) -> list[Finding]:
    """What the rules find in a document, with it and `uploaded` (by default the mouse M1) in the QC database."""
    known = lookups or Uploaded()
    if uploaded is None and any(isinstance(content, Experiment) for content in contents):
        uploaded = specimens(mutant())
    known.add(uploaded or ())
    known.add(contents)
    document = DocumentContext(action, centre, TODAY, reference, known)
    found = list(check_contents(contents, document))
    # What was found sound says nothing else of the same.
    accepted, asked = AcceptedElements(), known.questions
    assert list(check_contents(contents, document, accepted=accepted)) == found
    assert list(check_contents(contents, document, accepted=accepted)) == found
    known.questions = asked
    return found
