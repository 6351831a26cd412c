"""How each element of the exchange format corresponds to an object: one description for reading and for writing.

It is derived from the classes of `dcc.documents.contents`: their fields say what is an attribute, text or child, what
is required, and what may be repeated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from dcc.documents.contents import Block, Experiment, Housing, Line, Mark, Specimen, SpecimenKind
from dcc.naming import DocumentKind

_BASE: Final = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/"
NAMESPACES: Final = {DocumentKind.SPECIMEN: _BASE + "specimen", DocumentKind.EXPERIMENT: _BASE + "procedure"}

_HEADER: Final = ("line", "position", "kind")
_NAMES: Final = {
    "added": "chromosomeAdded",
    "associations": "parameterAssociation",
    "centre": "centreID",
    "colony_id": "colonyID",
    "dimensions": "dim",
    "dob": "DOB",
    "experiment_id": "experimentID",
    "files": "mediaFile",
    "from_lims": "fromLIMS",
    "increment": "incrementValue",
    "media": "mediaParameter",
    "media_samples": "mediaSampleParameter",
    "metadata": "procedureMetadata",
    "mgi_allele_id": "MGIAlleleId",
    "mgi_gene_id": "MGIGeneId",
    "mgi_strain_id": "MGIStrainID",
    "ontology": "ontologyParameter",
    "parameter_id": "parameterID",
    "procedure_id": "procedureID",
    "removed": "chromosomeRemoved",
    "samples": "mediaSample",
    "sections": "mediaSection",
    "sequence_id": "sequenceID",
    "series": "seriesParameter",
    "series_media": "seriesMediaParameter",
    "simple": "simpleParameter",
    "specimen_id": "specimenID",
    "specimen_ids": "specimenID",
    "status": "parameterStatus",
    "strain_id": "strainID",
    "uri": "URI",
    "Experiment.date": "dateOfExperiment",
}
"""The names of attributes and elements by their fields, where they are not the field's words written together."""


class Attribute(NamedTuple):
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
    specimen: SpecimenKind | None = None

    @cached_property
    def forms(self) -> dict[str, Form]:
        """The forms of the children by their names."""
        return {child.name: child.form for child in self.children}

    @cached_property
    def parts(self) -> tuple[Child, ...]:
        """The children that are in fields."""
        return tuple(child for child in self.children if child.field)


@cache
def _form_of(
    made: type[Any],
    entities: tuple[Child, ...] = (),
    specimen: SpecimenKind | None = None,
    required: tuple[str, ...] = (),
    absent: tuple[str, ...] = (),
) -> Form:
    """The form of a class's elements, which have these `entities` below them that are in no field.

    Of the optional attributes, these elements must have the `required` ones, and have none of the `absent` ones.
    """
    if made is str:
        return Form(str, text="")
    attributes: list[Attribute] = []
    children = list(entities)
    text, typed_text = None, False
    for field, hint in get_type_hints(made, include_extras=True).items():
        if field in _HEADER:
            continue
        kind, marks, optional = _taken_apart(hint)
        many = get_origin(kind) is tuple
        if Mark.TEXT in marks:
            text, typed_text = field, Mark.TYPED in marks
        elif many or kind is not str or Mark.ELEMENT in marks:
            form = _form_of(get_args(kind)[0] if many else kind)
            needed = Mark.SOME in marks if many else not optional
            children.append(Child(_name(made, field, many=many), form, field, needed, many))
        else:
            name = "" if field in absent else _name(made, field)
            needed = bool(name) and (not optional or field in required)
            attributes.append(Attribute(name, field, needed, bool(name) and Mark.TYPED in marks))
    return Form(made, tuple(attributes), text, typed_text, tuple(children), specimen)


def _taken_apart(hint: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """A field's type without marks and None, its marks, and whether it may be None."""
    optional = type(None) in get_args(hint)
    if optional:
        hint = Union[tuple(one for one in get_args(hint) if one is not type(None))]  # noqa: UP007
    if get_origin(hint) is Annotated:
        return get_args(hint)[0], hint.__metadata__, optional
    return hint, (), optional


def written_name(field: str) -> str:
    """The name that a field has in documents: `specimenID` for `specimen_id`."""
    return _NAMES.get(field) or re.sub(r"_(.)", lambda found: found[1].upper(), field)


def _name(made: type[Any], field: str, *, many: bool = False) -> str:
    named = _NAMES.get(f"{made.__name__}.{field}") or _NAMES.get(field)
    return named or written_name(field.removesuffix("s") if many else field)


def _root(entities: dict[str, Form], required: tuple[str, ...], absent: tuple[str, ...]) -> Form:
    below = tuple(Child(name, form, "", required=False, many=True) for name, form in entities.items())
    centre = _form_of(Block, below, required=required, absent=absent)
    return Form(tuple, children=(Child("centre", centre, "", required=True, many=True),))


_OF_EXPERIMENTS: Final = ("pipeline", "project")
_OF_MICE: Final = ("dob",)
_OF_EMBRYOS: Final = ("stage", "stage_unit")

ROOTS: Final[dict[DocumentKind, tuple[str, Form]]] = {
    DocumentKind.SPECIMEN: (
        "centreSpecimenSet",
        _root(
            {
                "mouse": _form_of(Specimen, (), SpecimenKind.MOUSE, required=_OF_MICE, absent=_OF_EMBRYOS),
                "embryo": _form_of(Specimen, (), SpecimenKind.EMBRYO, required=_OF_EMBRYOS, absent=_OF_MICE),
            },
            required=(),
            absent=_OF_EXPERIMENTS,
        ),
    ),
    DocumentKind.EXPERIMENT: (
        "centreProcedureSet",
        _root(
            {"housing": _form_of(Housing), "line": _form_of(Line), "experiment": _form_of(Experiment)},
            required=_OF_EXPERIMENTS,
            absent=(),
        ),
    ),
}
"""The name and form of each kind's outermost element.

The content of its `centre` elements is not in their fields: it follows the block as separate objects.
"""


def path_of_centre(kind: DocumentKind, position: int) -> str:
    """The path of the centre element at a position in a document of a kind, as an XPath without namespaces."""
    return f"/{ROOTS[kind][0]}/centre[{position}]"
