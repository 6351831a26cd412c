"""How each element of the exchange format corresponds to an object.

One description for reading and for writing. The fields of a class are those of its header (line, position and kind, as
far as it has them). Then come the element's attributes, its text, and its children in the order of the schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from dcc.documents import contents
from dcc.naming import DocumentKind

_BASE = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute; `typed`: white space around its value is ignored."""

    name: str
    field: str
    required: bool
    typed: bool


class Child(NamedTuple):
    """A child element: its name, form and field, whether it is required and whether it may be repeated."""

    name: str
    form: Form
    field: str
    required: bool
    many: bool


@dataclass(frozen=True, eq=False)
class Form:
    """An element: the class of its objects (str if it is only text), its attributes, text and children.

    An attribute without a name is a field that is None for this element. `text` is the text's field if there is one;
    `typed_text`: white space around it is ignored. `specimen` is the kind in the header.
    """

    made: type[Any]
    attributes: tuple[Attribute, ...] = ()
    text: str | None = None
    typed_text: bool = False
    children: tuple[Child, ...] = ()
    header: tuple[str, ...] = ("line",)
    specimen: contents.SpecimenKind | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its attributes, empty for a field that is None."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def forms(self) -> dict[str, Form]:
        """The forms of the children by their names."""
        return {child.name: child.form for child in self.children}

    @cached_property
    def parts(self) -> tuple[Child, ...]:
        """The children that are in fields."""
        return tuple(child for child in self.children if child.field)


_TYPES = {"boolean", "date", "double", "int", "integer"}


def _attributes(words: str) -> tuple[Attribute, ...]:
    """From words `name/field`, with `?` after optional ones and `:type` after those that are not text."""
    found = []
    for word in words.split():
        named, _, type_name = word.partition(":")
        name, _, field_name = named.rstrip("?").partition("/")
        if type_name not in {"", *_TYPES}:
            raise AssertionError(f"{word}: no such type")
        found.append(Attribute(name, field_name, bool(name) and not named.endswith("?"), bool(type_name)))
    return tuple(found)


def _child(name: str, form: Form, field_name: str, count: str = "*") -> Child:
    """`count`: 1, ? for 0 or 1, + for 1 or more, * for any number."""
    return Child(name, form, field_name, count in "1+", count in "+*")


_TOP = ("line", "position")
_TEXT = Form(str, text="")
_STATUS = _child("parameterStatus", _TEXT, "status", "?")
_STATUS_CODE = Form(contents.StatusCode, _attributes("date/date?:date"), text="code")

_REGION = Form(contents.ChromosomeRegion, _attributes("start/start end/end species/species?"))
_SPECIMEN_CHILDREN = (
    _child(
        "relatedSpecimen",
        Form(contents.RelatedSpecimen, _attributes("specimenID/specimen_id relationship/relationship")),
        "related_specimens",
    ),
    _child(
        "genotype",
        Form(
            contents.Genotype,
            _attributes(
                "MGIGeneId/mgi_gene_id geneSymbol/gene_symbol MGIAlleleId/mgi_allele_id "
                "fatherZygosity/father_zygosity? motherZygosity/mother_zygosity?"
            ),
        ),
        "genotypes",
    ),
    _child(
        "chromosomalAlteration",
        Form(
            contents.ChromosomalAlteration,
            children=(_child("chromosomeAdded", _REGION, "added"), _child("chromosomeRemoved", _REGION, "removed")),
        ),
        "chromosomal_alterations",
    ),
    _child(
        "parentalStrain",
        Form(
            contents.ParentalStrain,
            _attributes(
                "percentage/percentage:double MGIStrainID/mgi_strain_id gender/gender level/level:int",
            ),
        ),
        "parental_strains",
    ),
    _child("statusCode", _STATUS_CODE, "status_code", "?"),
)


def _specimen(kind: contents.SpecimenKind, own: str) -> Form:
    words = (
        "specimenID/specimen_id isBaseline/is_baseline:boolean gender/gender zygosity/zygosity litterId/litter_id "
        "pipeline/pipeline phenotypingCentre/phenotyping_centre project/project "
        f"{own} colonyID/colony_id? strainID/strain_id? productionCentre/production_centre?"
    )
    header = (*_TOP, "kind")
    return Form(contents.Specimen, _attributes(words), children=_SPECIMEN_CHILDREN, header=header, specimen=kind)


_METADATA = _child(
    "procedureMetadata",
    Form(
        contents.Metadata,
        _attributes("parameterID/parameter_id sequenceID/sequence_id?:integer"),
        children=(_STATUS, _child("value", _TEXT, "value", "?")),
    ),
    "metadata",
)
_ASSOCIATION = _child(
    "parameterAssociation",
    Form(
        contents.ParameterAssociation,
        _attributes("parameterID/parameter_id sequenceID/sequence_id?:integer link/link?"),
        children=(
            _child(
                "dim",
                Form(contents.Dimension, _attributes("id/id origin/origin unit/unit?"), text="value", typed_text=True),
                "dimensions",
            ),
        ),
    ),
    "associations",
)
_SIMPLE = Form(
    contents.SimpleParameter,
    _attributes("parameterID/parameter_id sequenceID/sequence_id?:integer unit/unit?"),
    children=(_child("value", _TEXT, "value", "?"), _STATUS),
)
_ONTOLOGY = Form(
    contents.OntologyParameter,
    _attributes("parameterID/parameter_id sequenceID/sequence_id?:integer"),
    children=(_child("term", _TEXT, "terms", "+"), _STATUS),
)
_SERIES_VALUE = Form(
    contents.SeriesValue,
    _attributes("incrementValue/increment incrementStatus/increment_status?"),
    text="value",
)
_SERIES = Form(
    contents.SeriesParameter,
    _attributes("parameterID/parameter_id sequenceID/sequence_id?:integer unit/unit?"),
    children=(_child("value", _SERIES_VALUE, "values"), _STATUS),
)
_MEDIA = Form(
    contents.MediaParameter,
    _attributes("parameterID/parameter_id URI/uri fileType/file_type link/link?"),
    children=(_STATUS, _ASSOCIATION, _METADATA),
)
_MEDIA_FILE = Form(
    contents.MediaFile,
    _attributes("localId/local_id URI/uri fileType/file_type link/link?"),
    children=(_METADATA, _ASSOCIATION),
)
_MEDIA_SECTION = Form(
    contents.MediaSection,
    _attributes("localId/local_id"),
    children=(_child("mediaFile", _MEDIA_FILE, "files", "+"),),
)
_MEDIA_SAMPLE = Form(
    contents.MediaSample,
    _attributes("localId/local_id"),
    children=(_child("mediaSection", _MEDIA_SECTION, "sections", "+"),),
)
_MEDIA_SAMPLES = Form(
    contents.MediaSampleParameter,
    _attributes("parameterID/parameter_id"),
    children=(_child("mediaSample", _MEDIA_SAMPLE, "samples"), _STATUS),
)
_SERIES_MEDIA_VALUE = Form(
    contents.SeriesMediaValue,
    _attributes("incrementValue/increment URI/uri fileType/file_type? link/link?"),
    children=(_ASSOCIATION, _METADATA),
)
_SERIES_MEDIA = Form(
    contents.SeriesMediaParameter,
    _attributes("parameterID/parameter_id"),
    children=(_child("value", _SERIES_MEDIA_VALUE, "values"), _STATUS, _METADATA),
)
_PROCEDURE = Form(
    contents.Procedure,
    _attributes("procedureID/procedure_id"),
    children=(
        _child("simpleParameter", _SIMPLE, "simple"),
        _child("ontologyParameter", _ONTOLOGY, "ontology"),
        _child("seriesParameter", _SERIES, "series"),
        _child("mediaParameter", _MEDIA, "media"),
        _child("mediaSampleParameter", _MEDIA_SAMPLES, "media_samples"),
        _child("seriesMediaParameter", _SERIES_MEDIA, "series_media"),
        _METADATA,
    ),
)
_STATUS_CODES = _child("statusCode", _STATUS_CODE, "status_codes")
_HOUSING = Form(
    contents.Housing,
    _attributes("fromLIMS/from_lims:boolean lastUpdated/last_updated?:date"),
    children=(_child("procedure", _PROCEDURE, "procedure", "1"),),
    header=_TOP,
)
_LINE = Form(
    contents.Line,
    _attributes("colonyID/colony_id sequenceID/sequence_id?"),
    children=(_child("procedure", _PROCEDURE, "procedure", "1"), _STATUS_CODES),
    header=_TOP,
)
_EXPERIMENT = Form(
    contents.Experiment,
    _attributes("experimentID/experiment_id dateOfExperiment/date:date sequenceID/sequence_id?"),
    children=(
        _child("specimenID", _TEXT, "specimen_ids", "+"),
        _child("procedure", _PROCEDURE, "procedure", "?"),
        _STATUS_CODES,
    ),
    header=_TOP,
)


NAMESPACES = {DocumentKind.SPECIMEN: _BASE + "specimen", DocumentKind.EXPERIMENT: _BASE + "procedure"}


def _root(centre_attributes: str, entities: dict[str, Form]) -> Form:
    children = tuple(_child(name, form, "") for name, form in entities.items())
    centre = Form(contents.Block, _attributes(centre_attributes), children=children, header=_TOP)
    return Form(tuple, children=(_child("centre", centre, "", "+"),), header=())


ROOTS: dict[DocumentKind, tuple[str, Form]] = {
    DocumentKind.SPECIMEN: (
        "centreSpecimenSet",
        _root(
            "centreID/centre /pipeline /project",
            {
                "mouse": _specimen(contents.SpecimenKind.MOUSE, "DOB/dob:date /stage /stage_unit"),
                "embryo": _specimen(contents.SpecimenKind.EMBRYO, "/dob stage/stage stageUnit/stage_unit"),
            },
        ),
    ),
    DocumentKind.EXPERIMENT: (
        "centreProcedureSet",
        _root(
            "centreID/centre pipeline/pipeline project/project",
            {"housing": _HOUSING, "line": _LINE, "experiment": _EXPERIMENT},
        ),
    ),
}
"""The name and form of each kind's outermost element.

The content of its `centre` elements is not in their fields: it follows the block as separate objects.
"""


def path_of_centre(kind: DocumentKind, position: int) -> str:
    """The path of the centre element at a position in a document of a kind, as an XPath without namespaces."""
    return f"/{ROOTS[kind][0]}/centre[{position}]"
