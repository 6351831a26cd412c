"""Things that rules check and that are no objects of a document: beginnings, ends, and uses of identifiers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from dcc.documents.contents import (
    Block,
    Entity,
    Experiment,
    Housing,
    Line,
    MediaFile,
    MediaParameter,
    MediaSampleParameter,
    Metadata,
    OntologyParameter,
    ParameterAssociation,
    Procedure,
    SeriesMediaParameter,
    SeriesMediaValue,
    SeriesParameter,
    SeriesValue,
    SimpleParameter,
    Specimen,
)
from dcc.documents.lexical import parse_date, parse_integer
from dcc.reference.impress import ParameterType
from dcc.rules.context import ResultKey, RunKey
from dcc.rules.values import is_blank

ParameterElement = (
    SimpleParameter
    | OntologyParameter
    | SeriesParameter
    | MediaParameter
    | MediaSampleParameter
    | SeriesMediaParameter
    | Metadata
)

TYPE_OF: dict[type, ParameterType] = {
    SimpleParameter: ParameterType.SIMPLE,
    OntologyParameter: ParameterType.ONTOLOGY,
    SeriesParameter: ParameterType.SERIES,
    MediaParameter: ParameterType.MEDIA,
    MediaSampleParameter: ParameterType.MEDIA_SAMPLE,
    SeriesMediaParameter: ParameterType.SERIES_MEDIA,
    Metadata: ParameterType.METADATA,
}
"""The name of the element of each kind of parameter."""
_status_of = attrgetter("status")


class RequiredResults(NamedTuple):
    """How many results IMPReSS requires of the runs of a procedure, and how many of these a status stands for."""

    required: int
    excused: int


class BlockEnd(NamedTuple):
    """The end of a `centre` element with `entities` specimens, housings, lines and experiments.

    `results` are those that its procedures require, by the id of the procedure.
    """

    block: Block
    entities: int
    results: Mapping[str, RequiredResults]


class ProcedureUse(NamedTuple):
    """A procedure, before it is known whether IMPReSS has it."""

    procedure: Procedure


class ParameterUse(NamedTuple):
    """A parameter, before it is known whether the procedure has it."""

    parameter: ParameterElement
    type: ParameterType


JUDGED = (
    Block,
    BlockEnd,
    Specimen,
    Line,
    Experiment,
    Housing,
    ProcedureUse,
    Procedure,
    ParameterUse,
    *TYPE_OF,
    SeriesValue,
    MediaFile,
    SeriesMediaValue,
    ParameterAssociation,
)
"""The kinds of element that rules are asked about, each by itself."""


class ElementStep(NamedTuple):
    """A parameter of a procedure and its path below the procedure's."""

    parameter: ParameterElement
    path: str


def top_level_parameters(procedure: Procedure) -> Iterator[ElementStep]:
    """The parameters that are directly in a procedure, in document order."""
    for group in groups_of(procedure):
        if group:
            name = TYPE_OF[type(group[0])].value
            for number, parameter in enumerate(group, 1):
                yield ElementStep(parameter, f"/{name}[{number}]")


def parameters_of(procedure: Procedure) -> Iterator[ParameterElement]:
    """The parameters that are directly in a procedure, in document order, without their paths."""
    return chain.from_iterable(groups_of(procedure))


def groups_of(procedure: Procedure) -> tuple[Sequence[ParameterElement], ...]:
    """The parameters that are directly in a procedure, grouped by kind in document order."""
    return (
        procedure.simple,
        procedure.ontology,
        procedure.series,
        procedure.media,
        procedure.media_samples,
        procedure.series_media,
        procedure.metadata,
    )


def has_media(procedure: Procedure) -> bool:
    """Whether a procedure has media."""
    return bool(procedure.media or procedure.media_samples or procedure.series_media)


def metadata_of_media(procedure: Procedure) -> Iterator[ElementStep]:
    """The metadata within a procedure's media."""
    for number, media in enumerate(procedure.media, 1):
        yield from _metadata(media.metadata, f"/{ParameterType.MEDIA}[{number}]")
    for number, parameter in enumerate(procedure.media_samples, 1):
        for path, file in files_of(parameter):
            yield from _metadata(file.metadata, f"/{ParameterType.MEDIA_SAMPLE}[{number}]{path}")
    for number, series in enumerate(procedure.series_media, 1):
        path = f"/{ParameterType.SERIES_MEDIA}[{number}]"
        for place, value in enumerate(series.values, 1):
            yield from _metadata(value.metadata, f"{path}/value[{place}]")
        yield from _metadata(series.metadata, path)


def files_of(parameter: MediaSampleParameter) -> Iterator[tuple[str, MediaFile]]:
    """The files of a parameter's samples, each with its path below the parameter's."""
    for sample_number, sample in enumerate(parameter.samples, 1):
        for section_number, section in enumerate(sample.sections, 1):
            for file_number, file in enumerate(section.files, 1):
                yield f"/mediaSample[{sample_number}]/mediaSection[{section_number}]/mediaFile[{file_number}]", file


def _metadata(metadata: tuple[Metadata, ...], path: str) -> Iterator[ElementStep]:
    for number, each in enumerate(metadata, 1):
        yield ElementStep(each, f"{path}/{ParameterType.METADATA}[{number}]")


def results_of(procedure: Procedure) -> frozenset[ResultKey]:
    """The simple and ontology parameters of a procedure, which media may belong to.

    Empty for a procedure without media, because no rule needs it there.
    """
    if not has_media(procedure):
        return frozenset()
    return frozenset(
        result_key(result.parameter_id, result.sequence_id)
        for results in (procedure.simple, procedure.ontology)
        for result in results
    )


def specimens_asked_for(entity: Entity) -> Collection[str]:
    """The ids of the other specimens that rules need to check an entity."""
    if isinstance(entity, Specimen):
        return [specimen.specimen_id for specimen in entity.related_specimens]
    return entity.specimen_ids if isinstance(entity, Experiment) else ()


def runs_of(entity: Entity) -> list[RunKey]:
    """What an experiment with results is, on each of its specimens; nothing for other entities."""
    if not isinstance(entity, Experiment) or entity.procedure is None or entity.status_codes:
        return []
    procedure_id, day = entity.procedure.procedure_id, parse_date(entity.date)
    return [] if day is None else [RunKey(one, procedure_id, day, entity.sequence_id) for one in entity.specimen_ids]


def excused_in(procedure: Procedure, required: Collection[str]) -> int:
    """How many of the required parameters, which are directly in a procedure, have a status and no result."""
    if not any(map(_status_of, parameters_of(procedure))):
        return 0
    excused: set[str] = set()
    given: set[str] = set()
    for parameter in parameters_of(procedure):
        has_only_status = not is_blank(parameter.status) and not _has_result(parameter)
        (excused if has_only_status else given).add(key_of(parameter.parameter_id))
    return len((excused - given).intersection(required))


def _has_result(parameter: ParameterElement) -> bool:
    if isinstance(parameter, SimpleParameter | Metadata):
        return not is_blank(parameter.value)
    if isinstance(parameter, OntologyParameter):
        return not all(map(is_blank, parameter.terms))
    if isinstance(parameter, MediaParameter):
        return not is_blank(parameter.uri)
    return bool(parameter.samples if isinstance(parameter, MediaSampleParameter) else parameter.values)


def values_of(series: SeriesParameter | SeriesMediaParameter) -> Sequence[SeriesValue | SeriesMediaValue]:
    """The values of either kind of series."""
    return series.values


def result_key(parameter_id: str, sequence_id: str | None) -> ResultKey:
    """The key of a parameter with these identifiers: they count without blanks and leading zeros."""
    number = None if sequence_id is None else parse_integer(sequence_id)
    return ResultKey(key_of(parameter_id), sequence_id if number is None else number)


def key_of(identifier: str) -> str:
    """The identifier for comparisons: without surrounding blanks."""
    return identifier.strip()
