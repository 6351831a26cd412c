"""Hypothesis strategies for documents of the exchange format: valid ones, and ones with a single fault.

The grammar is written down here a second time, from the description of the format and not from the schemas, so
that the one checks the other.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

from dcc.naming import DocumentKind

BASE = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/"
NAMESPACES = {DocumentKind.SPECIMEN: BASE + "specimen", DocumentKind.EXPERIMENT: BASE + "procedure"}
ROOTS = {DocumentKind.SPECIMEN: "centreSpecimenSet", DocumentKind.EXPERIMENT: "centreProcedureSet"}

CENTRES = ["Bcm", "Gmc", "H", "Ics", "J", "Krb", "Ning", "Rbrc", "Tcp", "Ucd", "Wtsi"]
CENTRES += ["CDTA", "Crl", "Kmpc", "Ph", "Biat", "Ccpcz"]
_VOCABULARIES = {
    "ilar": CENTRES,
    "zygosity": ["wild type", "homozygous", "heterozygous", "hemizygous"],
    "gender": ["male", "female", "intersex", "no data"],
    "strict gender": ["male", "female"],
    "stage unit": ["DPC", "Theiler"],
    "relationship": ["mother", "father", "littermate", "from_similar_breeding", "from_stock_breeding"],
    "boolean": ["true", "false", "1", "0"],
}
_TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFFFD, blacklist_categories=["Cs", "Cc"]), max_size=12)
_SPACE = st.sampled_from(["", "", "", " ", "\t", "\n  "])


def _spaced(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Values of a type that ignores white space around them."""
    return st.tuples(_SPACE, values, _SPACE).map("".join)


_WHOLE = st.integers(-(10**20), 10**20).map(str)
VALUES: dict[str, st.SearchStrategy[str]] = {
    "text": _TEXT,
    "date": st.one_of(
        st.dates().map(lambda day: f"{day.year:04}-{day.month:02}-{day.day:02}"),
        st.sampled_from(["2012-02-29", "2013-10-31Z", "2013-10-31+01:00"]),
    ),
    "integer": st.one_of(_WHOLE, st.sampled_from(["+1", "007", " 3 "])),
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "decimal": st.one_of(st.decimals(-1000, 1000, places=3).map(str), st.sampled_from(["1.", ".5", "+1.50", " 2 "])),
    "double": st.one_of(
        st.floats(allow_nan=False, allow_infinity=False).map(repr), st.sampled_from(["INF", "-INF", "NaN", "1E4"])
    ),
    **{name: st.sampled_from(words) for name, words in _VOCABULARIES.items()},
}
VALUES |= {name: _spaced(VALUES[name]) for name in ("boolean", "date", "integer", "int", "decimal", "double")}
WRONG_VALUES = {
    "date": ["", "2013-02-30", "31/10/2013", "2013-10-31T00:00:00", "2013-1-1", "n/a"],
    "integer": ["", "1.5", "one", "1e3", "0x1"],
    "int": ["", "2147483648", "1.0"],
    "decimal": ["", "1e3", "1,5", "NaN", "abc"],
    "double": ["", "1,5", "abc", "inf", "1e"],
    **{name: ["", "?", f"{words[0]} ", words[0].swapcase()] for name, words in _VOCABULARIES.items()},
    "boolean": ["", "yes", "TRUE", "2"],
}


@dataclass(frozen=True)
class Kind:
    """A type of element. Attributes are name -> (type, required); children (name, Kind's name, least, most or None)."""

    attributes: dict[str, tuple[str, bool]] = field(default_factory=dict)
    children: tuple[tuple[str, str, int, int | None], ...] = ()
    text: str | None = None
    any_order: bool = False


def _attributes(required: str = "", optional: str = "") -> dict[str, tuple[str, bool]]:
    """From `name:type` words; the type of a bare name is text."""
    found = {}
    for words, needed in ((required, True), (optional, False)):
        for word in words.split():
            name, _, type_name = word.partition(":")
            found[name] = (type_name.replace("_", " ") or "text", needed)
    return found


_SPECIMEN_REQUIRED = (
    "specimenID isBaseline:boolean gender:gender zygosity:zygosity litterId pipeline phenotypingCentre:ilar project"
)
_SPECIMEN_OPTIONAL = "colonyID strainID productionCentre:ilar"
_SPECIMEN_CHILDREN = (
    ("relatedSpecimen", "relatedSpecimen", 0, None),
    ("genotype", "genotype", 0, None),
    ("chromosomalAlteration", "chromosomalAlteration", 0, None),
    ("parentalStrain", "parentalStrain", 0, None),
    ("statusCode", "statusCode", 0, 1),
)
_METADATA = ("procedureMetadata", "procedureMetadata", 0, None)
_ASSOCIATION = ("parameterAssociation", "parameterAssociation", 0, None)
_STATUS = ("parameterStatus", "text", 0, 1)
_CHROMOSOME = _attributes("start end", "species")

KINDS: dict[str, Kind] = {
    "text": Kind(text="text"),
    "statusCode": Kind(_attributes("", "date:date"), text="text"),
    "specimens": Kind({}, (("centre", "specimen centre", 1, None),)),
    "specimen centre": Kind(
        _attributes("centreID:ilar"), (("mouse", "mouse", 0, None), ("embryo", "embryo", 0, None)), any_order=True
    ),
    "mouse": Kind(_attributes(_SPECIMEN_REQUIRED + " DOB:date", _SPECIMEN_OPTIONAL), _SPECIMEN_CHILDREN),
    "embryo": Kind(
        _attributes(_SPECIMEN_REQUIRED + " stage stageUnit:stage_unit", _SPECIMEN_OPTIONAL), _SPECIMEN_CHILDREN
    ),
    "relatedSpecimen": Kind(_attributes("specimenID relationship:relationship")),
    "genotype": Kind(
        _attributes("MGIGeneId geneSymbol MGIAlleleId", "fatherZygosity:zygosity motherZygosity:zygosity")
    ),
    "chromosomalAlteration": Kind(
        {}, (("chromosomeAdded", "chromosome", 0, None), ("chromosomeRemoved", "chromosome", 0, None))
    ),
    "chromosome": Kind(_CHROMOSOME),
    "parentalStrain": Kind(_attributes("percentage:double MGIStrainID gender:strict_gender level:int")),
    "procedures": Kind({}, (("centre", "procedure centre", 1, None),)),
    "procedure centre": Kind(
        _attributes("centreID:ilar pipeline project"),
        (("housing", "housing", 0, 2), ("line", "line", 0, None), ("experiment", "experiment", 0, None)),
    ),
    "housing": Kind(_attributes("fromLIMS:boolean", "lastUpdated:date"), (("procedure", "procedure", 1, 1),)),
    "line": Kind(
        _attributes("colonyID", "sequenceID"),
        (("procedure", "procedure", 1, 1), ("statusCode", "statusCode", 0, None)),
    ),
    "experiment": Kind(
        _attributes("experimentID dateOfExperiment:date", "sequenceID"),
        (
            ("specimenID", "text", 1, None),
            ("procedure", "procedure", 0, 1),
            ("statusCode", "statusCode", 0, None),
        ),
    ),
    "procedure": Kind(
        _attributes("procedureID"),
        (
            ("simpleParameter", "simpleParameter", 0, None),
            ("ontologyParameter", "ontologyParameter", 0, None),
            ("seriesParameter", "seriesParameter", 0, None),
            ("mediaParameter", "mediaParameter", 0, None),
            ("mediaSampleParameter", "mediaSampleParameter", 0, None),
            ("seriesMediaParameter", "seriesMediaParameter", 0, None),
            _METADATA,
        ),
    ),
    "simpleParameter": Kind(_attributes("parameterID", "unit sequenceID:integer"), (("value", "text", 0, 1), _STATUS)),
    "ontologyParameter": Kind(_attributes("parameterID", "sequenceID:integer"), (("term", "text", 1, None), _STATUS)),
    "seriesParameter": Kind(
        _attributes("parameterID", "sequenceID:integer unit"), (("value", "series value", 0, None), _STATUS)
    ),
    "series value": Kind(_attributes("incrementValue", "incrementStatus"), text="text"),
    "mediaParameter": Kind(_attributes("parameterID URI fileType", "link"), (_STATUS, _ASSOCIATION, _METADATA)),
    "mediaSampleParameter": Kind(_attributes("parameterID"), (("mediaSample", "mediaSample", 0, None), _STATUS)),
    "mediaSample": Kind(_attributes("localId"), (("mediaSection", "mediaSection", 1, None),)),
    "mediaSection": Kind(_attributes("localId"), (("mediaFile", "mediaFile", 1, None),)),
    "mediaFile": Kind(_attributes("localId URI fileType", "link"), (_METADATA, _ASSOCIATION)),
    "parameterAssociation": Kind(_attributes("parameterID", "sequenceID:integer link"), (("dim", "dim", 0, None),)),
    "dim": Kind(_attributes("id origin", "unit"), text="decimal"),
    "seriesMediaParameter": Kind(
        _attributes("parameterID"), (("value", "series media value", 0, None), _STATUS, _METADATA)
    ),
    "series media value": Kind(_attributes("incrementValue URI", "fileType link"), (_ASSOCIATION, _METADATA)),
    "procedureMetadata": Kind(_attributes("parameterID", "sequenceID:integer"), (_STATUS, ("value", "text", 0, 1))),
}


@dataclass
class Element:
    """An element of a generated document; `kind` is a key of KINDS."""

    name: str
    kind: str
    attributes: dict[str, str]
    children: list[Element]
    text: str | None = None
    stray_text: str = ""
    namespace: str | None = None

    def walk(self) -> Iterator[Element]:
        """The element and everything in it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass
class Document:
    """A generated document; as text it has one tag a line."""

    kind: DocumentKind
    root: Element
    prefix: str = ""

    def render(self) -> tuple[bytes, dict[int, tuple[int, int]]]:
        """The document, and the line and column, counted from 1, of each element's tag by the element's id()."""
        places: dict[int, tuple[int, int]] = {}
        lines = ['<?xml version="1.0" encoding="UTF-8" standalone="yes"?>']
        self._render(self.root, lines, places, 0)
        return "\n".join([*lines, ""]).encode(), places

    def _render(self, element: Element, lines: list[str], places: dict[int, tuple[int, int]], depth: int) -> None:
        name = f"{self.prefix}:{element.name}" if self.prefix else element.name
        attributes = dict(element.attributes)
        declaration = f"xmlns:{self.prefix}" if self.prefix else "xmlns"
        if depth == 0:
            attributes[declaration] = NAMESPACES[self.kind]
            attributes["xmlns:xsi"] = "http://www.w3.org/2001/XMLSchema-instance"
            attributes["xsi:schemaLocation"] = f"{NAMESPACES[self.kind]} http://nowhere.invalid/definition.xsd"
        if element.namespace is not None:
            attributes[declaration] = element.namespace
        places[id(element)] = (len(lines) + 1, depth * 2 + 1)
        tag = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
        indent = "  " * depth
        if element.text is not None:
            lines.append(f"{indent}<{name}{tag}>{escape(element.text)}</{name}>")
            return
        if not element.children and not element.stray_text:
            lines.append(f"{indent}<{name}{tag}/>")
            return
        lines.append(f"{indent}<{name}{tag}>{escape(element.stray_text)}")
        for child in element.children:
            self._render(child, lines, places, depth + 1)
        lines.append(f"{indent}</{name}>")


@st.composite
def _elements(draw: st.DrawFn, name: str, kind_name: str, depth: int = 0) -> Element:
    kind = KINDS[kind_name]
    attributes = {
        key: draw(VALUES[type_name])
        for key, (type_name, required) in kind.attributes.items()
        if required or draw(st.booleans())
    }
    children = []
    if kind.any_order:
        for index in range(draw(st.integers(1, 3))):
            child, child_kind, _, _ = kind.children[draw(st.integers(0, 1)) if index else 0]
            children.append(draw(_elements(child, child_kind, depth + 1)))
    else:
        for child, child_kind, least, most in kind.children:
            wanted = (
                draw(st.integers(least, max(least, min(most or 2, 2))))
                if depth < 3
                else draw(st.sampled_from([least, least, least, max(least, 1)]))
            )
            children += [draw(_elements(child, child_kind, depth + 1)) for _ in range(wanted)]
    text = draw(VALUES[kind.text]) if kind.text else None
    return Element(name, kind_name, attributes, children, text)


@st.composite
def valid_documents(draw: st.DrawFn, kind: DocumentKind | None = None) -> Document:
    """Documents that follow the exchange format."""
    chosen = kind or draw(st.sampled_from(list(DocumentKind)))
    types = {DocumentKind.SPECIMEN: "specimens", DocumentKind.EXPERIMENT: "procedures"}
    return Document(chosen, draw(_elements(ROOTS[chosen], types[chosen])), draw(st.sampled_from(["", "ns2"])))


@st.composite
def valid_procedures(draw: st.DrawFn) -> Document:
    """Experiment documents with one procedure, in which parameters and media hold all sorts of things, to any depth."""
    name, kind, _, _ = draw(st.sampled_from(KINDS["procedure"].children))
    parameters = [draw(_elements(name, kind, -2)) for _ in range(draw(st.integers(1, 2)))]
    procedure = Element("procedure", "procedure", {"procedureID": draw(_TEXT)}, parameters)
    experiment = Element(
        "experiment",
        "experiment",
        {"experimentID": "E1", "dateOfExperiment": "2013-10-31"},
        [Element("specimenID", "text", {}, [], "M1"), procedure],
    )
    centre = {"centreID": "J", "pipeline": "IMPC_001", "project": "JAX"}
    root = Element(
        ROOTS[DocumentKind.EXPERIMENT], "procedures", {}, [Element("centre", "procedure centre", centre, [experiment])]
    )
    return Document(DocumentKind.EXPERIMENT, root)


def full_document(kind: DocumentKind, most: int = 2) -> Document:
    """A document that says all that its kind can: each attribute, each child up to `most` times, no two alike."""
    types = {DocumentKind.SPECIMEN: "specimens", DocumentKind.EXPERIMENT: "procedures"}
    return Document(kind, _full_element(ROOTS[kind], types[kind], itertools.count(1), most))


_TYPED_EXAMPLES = {
    "date": "{:04}-02-03+01:00",
    "integer": "+00{}",
    "int": "-{}",
    "decimal": "{}.50",
    "double": "{}.5e3",
    "text": "  text {} ",
}


def _full_element(name: str, kind_name: str, numbers: Iterator[int], most: int) -> Element:
    kind = KINDS[kind_name]

    def value(type_name: str) -> str:
        number = next(numbers)
        words = _VOCABULARIES.get(type_name)
        return words[number % len(words)] if words else _TYPED_EXAMPLES[type_name].format(number)

    attributes = {key: value(type_name) for key, (type_name, _) in kind.attributes.items()}
    children = [
        _full_element(child, child_kind, numbers, most)
        for child, child_kind, _, limit in kind.children
        for _ in range(min(most, limit or most))
    ]
    return Element(name, kind_name, attributes, children, value(kind.text) if kind.text else None)


@dataclass
class Faulty:
    """A document with a single fault: what was done to it, and the element that is to be blamed."""

    document: Document
    what: str
    element: Element


def _faults(element: Element) -> Iterator[tuple[str, object]]:
    """What can be done to an element so that it, or a child of it, is wrong."""
    kind = KINDS[element.kind]
    for name, (type_name, required) in kind.attributes.items():
        if required:
            yield "lack attribute", name
        if type_name in WRONG_VALUES and name in element.attributes:
            yield "wrong attribute", (name, type_name)
    yield "unknown attribute", "surplus"
    if kind.text in WRONG_VALUES:
        yield "wrong text", kind.text
    if kind.text is None:
        yield "unknown child", "surplus"
        if kind.children:
            yield "stray text", "words"
    for name, child_kind, least, most in kind.children:
        same = [child for child in element.children if child.name == name]
        if least and same:
            yield "lack child", name
        if most is not None and same:
            yield "too many", (name, child_kind, most)
    if not kind.any_order and len({child.name for child in element.children}) > 1:
        yield "wrong order", None
    if element.children:
        yield "no namespace", None


@st.composite
def faulty_documents(draw: st.DrawFn) -> Faulty:
    """Documents with a single fault somewhere."""
    document = copy.deepcopy(draw(valid_documents()))
    element = draw(st.sampled_from(list(document.root.walk())))
    what, detail = draw(st.sampled_from(list(_faults(element))))
    return Faulty(document, what, _spoil(draw, element, what, detail))


def _spoil(draw: st.DrawFn, element: Element, what: str, detail: object) -> Element:
    children = element.children
    if what == "lack attribute":
        element.attributes.pop(str(detail))
    elif what == "wrong attribute" and isinstance(detail, tuple):
        element.attributes[detail[0]] = draw(st.sampled_from(WRONG_VALUES[detail[1]]))
    elif what == "unknown attribute":
        element.attributes[str(detail)] = "x"
    elif what == "wrong text":
        element.text = draw(st.sampled_from(WRONG_VALUES[str(detail)]))
    elif what == "stray text":
        element.stray_text = str(detail)
    elif what == "unknown child":
        place = draw(st.integers(0, len(children)))
        children.insert(place, Element(str(detail), "text", {}, [], "x"))
        return children[place]
    elif what == "lack child":
        element.children = [child for child in children if child.name != detail]
        return element if not element.children else element.children[0]
    elif what == "too many" and isinstance(detail, tuple):
        first = next(number for number, child in enumerate(children) if child.name == detail[0])
        present = sum(child.name == detail[0] for child in children)
        children[first:first] = [copy.deepcopy(children[first]) for _ in range(detail[2] + 1 - present)]
        return children[first + detail[2]]
    elif what == "wrong order":
        children.append(children.pop(0))
        return children[-1]
    elif what == "no namespace":
        child: Element = draw(st.sampled_from(children))
        child.namespace = "http://nowhere.invalid/other"
        return child
    return element
