"""The content of a valid document, as typed objects.

A document is a sequence of `Content`: a Block, which is a `centre` element without its content, followed by the
specimens, or housings, lines and experiments, of that centre. So the many elements of a document of 200 MB are never in
memory together.

`line` is the line of the element's tag, counted from 1. `position` counts from 1: blocks in the document, and in a
block its entities, in document order. Parts of these keep their order as tuples.

Every value is text, so that rows can reproduce the document: a missing value is None, an empty one is "". Texts and
identifiers (xs:string) are kept exactly. Values of other types in the schemas (Typed) are kept as written, without the
white space around them, which these types ignore; dcc.documents.lexical has their typed values.

The fields of a class begin with those of its header: line, position and kind, as far as it has them. The attributes of
its element follow, then its text, and its children in the order of the schema; dcc.documents.forms reads them here.

These are tuples with named fields, because frozen dataclasses take four times as long to make, and a document has tens
of thousands of them. Tuples of two classes are equal if their fields are.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Annotated, Final, NamedTuple

from dcc.vocabulary import EntityKind


class Mark(Enum):
    """What a field stands for, if it is not an attribute of type xs:string, or any number of child elements."""

    TYPED = auto()
    TEXT = auto()
    ELEMENT = auto()
    SOME = auto()


Typed = Annotated[str, Mark.TYPED]
"""A value of another type than xs:string: white space around it is ignored."""
Text = Annotated[str, Mark.TEXT]
"""The element's own text."""
Element = Annotated[str, Mark.ELEMENT]
"""A child element that is only text."""


class SpecimenKind(StrEnum):
    """The kind of a specimen, named as its element."""

    MOUSE = "mouse"
    EMBRYO = "embryo"


class StatusCode(NamedTuple):
    """A status code of a specimen, line or experiment; `date` is an xs:date."""

    line: int
    date: Typed | None
    code: Text


class RelatedSpecimen(NamedTuple):
    """Another specimen and how it is related: mother, father, littermate and so on."""

    line: int
    specimen_id: str
    relationship: str


class Genotype(NamedTuple):
    """An allele of a specimen."""

    line: int
    mgi_gene_id: str
    gene_symbol: str
    mgi_allele_id: str
    father_zygosity: str | None
    mother_zygosity: str | None


class ChromosomeRegion(NamedTuple):
    """A part of a chromosome that was added or removed."""

    line: int
    start: str
    end: str
    species: str | None


class ChromosomalAlteration(NamedTuple):
    """What was added to a specimen's chromosomes and what was removed."""

    line: int
    added: tuple[ChromosomeRegion, ...]
    removed: tuple[ChromosomeRegion, ...]


class ParentalStrain(NamedTuple):
    """A strain among a specimen's forebears; `percentage` is an xs:double, `level` an xs:int."""

    line: int
    percentage: Typed
    mgi_strain_id: str
    gender: str
    level: Typed


class Specimen(NamedTuple):
    """A mouse or an embryo; `is_baseline` is an xs:boolean.

    `dob`, an xs:date, is that of a mouse and is None for an embryo; `stage` and `stage_unit` are those of an embryo.
    """

    line: int
    position: int
    kind: SpecimenKind
    specimen_id: str
    is_baseline: Typed
    gender: str
    zygosity: str
    litter_id: str
    pipeline: str
    phenotyping_centre: str
    project: str
    dob: Typed | None
    stage: str | None
    stage_unit: str | None
    colony_id: str | None
    strain_id: str | None
    production_centre: str | None
    related_specimens: tuple[RelatedSpecimen, ...]
    genotypes: tuple[Genotype, ...]
    chromosomal_alterations: tuple[ChromosomalAlteration, ...]
    parental_strains: tuple[ParentalStrain, ...]
    status_code: StatusCode | None


class SimpleParameter(NamedTuple):
    """A parameter with one value or none; `sequence_id` is an xs:integer, of any size."""

    line: int
    parameter_id: str
    sequence_id: Typed | None
    unit: str | None
    value: Element | None
    status: Element | None


class OntologyParameter(NamedTuple):
    """A parameter with ontology terms, at least one; `sequence_id` is an xs:integer."""

    line: int
    parameter_id: str
    sequence_id: Typed | None
    terms: Annotated[tuple[str, ...], Mark.SOME]
    status: Element | None


class SeriesValue(NamedTuple):
    """One value of a series, with the increment it belongs to."""

    line: int
    increment: str
    increment_status: str | None
    value: Text


class SeriesParameter(NamedTuple):
    """A parameter with a value an increment, or none at all; `sequence_id` is an xs:integer."""

    line: int
    parameter_id: str
    sequence_id: Typed | None
    unit: str | None
    values: tuple[SeriesValue, ...]
    status: Element | None


class Metadata(NamedTuple):
    """A `procedureMetadata`, of a procedure or of media; `sequence_id` is an xs:integer."""

    line: int
    parameter_id: str
    sequence_id: Typed | None
    status: Element | None
    value: Element | None


class Dimension(NamedTuple):
    """A position along an axis of the media that a parameter was measured on; `value` is an xs:decimal."""

    line: int
    id: str
    origin: str
    unit: str | None
    value: Annotated[Text, Mark.TYPED]


class ParameterAssociation(NamedTuple):
    """A parameter that media belong to; `sequence_id` is an xs:integer."""

    line: int
    parameter_id: str
    sequence_id: Typed | None
    link: str | None
    dimensions: tuple[Dimension, ...]


class MediaParameter(NamedTuple):
    """A parameter that is one media file."""

    line: int
    parameter_id: str
    uri: str
    file_type: str
    link: str | None
    status: Element | None
    associations: tuple[ParameterAssociation, ...]
    metadata: tuple[Metadata, ...]


class MediaFile(NamedTuple):
    """A media file of a section of a sample."""

    line: int
    local_id: str
    uri: str
    file_type: str
    link: str | None
    metadata: tuple[Metadata, ...]
    associations: tuple[ParameterAssociation, ...]


class MediaSection(NamedTuple):
    """A section of a sample; at least one file."""

    line: int
    local_id: str
    files: Annotated[tuple[MediaFile, ...], Mark.SOME]


class MediaSample(NamedTuple):
    """A sample of which there are media; at least one section."""

    line: int
    local_id: str
    sections: Annotated[tuple[MediaSection, ...], Mark.SOME]


class MediaSampleParameter(NamedTuple):
    """A parameter that is the media of samples."""

    line: int
    parameter_id: str
    samples: tuple[MediaSample, ...]
    status: Element | None


class SeriesMediaValue(NamedTuple):
    """One media file of a series, with the increment it belongs to."""

    line: int
    increment: str
    uri: str
    file_type: str | None
    link: str | None
    associations: tuple[ParameterAssociation, ...]
    metadata: tuple[Metadata, ...]


class SeriesMediaParameter(NamedTuple):
    """A parameter with a media file an increment, or none at all."""

    line: int
    parameter_id: str
    values: tuple[SeriesMediaValue, ...]
    status: Element | None
    metadata: tuple[Metadata, ...]


class Procedure(NamedTuple):
    """The results of a procedure; in a document the seven sorts follow each other in this order."""

    line: int
    procedure_id: str
    simple: tuple[SimpleParameter, ...]
    ontology: tuple[OntologyParameter, ...]
    series: tuple[SeriesParameter, ...]
    media: tuple[MediaParameter, ...]
    media_samples: tuple[MediaSampleParameter, ...]
    series_media: tuple[SeriesMediaParameter, ...]
    metadata: tuple[Metadata, ...]


class Housing(NamedTuple):
    """How a centre houses its animals; `from_lims` is an xs:boolean, `last_updated` an xs:date."""

    line: int
    position: int
    from_lims: Typed
    last_updated: Typed | None
    procedure: Procedure


class Line(NamedTuple):
    """A procedure done on a colony as a whole; `sequence_id` is text."""

    line: int
    position: int
    colony_id: str
    sequence_id: str | None
    procedure: Procedure
    status_codes: tuple[StatusCode, ...]


class Experiment(NamedTuple):
    """A procedure done on specimens, at least one; `date` is an xs:date, `sequence_id` text."""

    line: int
    position: int
    experiment_id: str
    date: Typed
    sequence_id: str | None
    specimen_ids: Annotated[tuple[str, ...], Mark.SOME]
    procedure: Procedure | None
    status_codes: tuple[StatusCode, ...]


class Block(NamedTuple):
    """A `centre` element; `pipeline` and `project` are those of an experiment document, None in specimen documents."""

    line: int
    position: int
    centre: str
    pipeline: str | None
    project: str | None


Entity = Specimen | Housing | Line | Experiment
"""The content of a block."""

Content = Block | Entity
"""An element of a document's sequence."""

_KINDS: Final[dict[type[Entity], EntityKind]] = {
    Specimen: EntityKind.SPECIMEN,
    Experiment: EntityKind.EXPERIMENT,
    Line: EntityKind.LINE,
    Housing: EntityKind.HOUSING,
}


def kind_of(entity: Entity) -> EntityKind:
    """The kind of an entity."""
    return _KINDS[type(entity)]


def element_name(entity: Entity) -> str:
    """The name of an entity's element; entities are counted by it."""
    return entity.kind if isinstance(entity, Specimen) else kind_of(entity)
