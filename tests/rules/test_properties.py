"""Whatever a valid document says, the rules judge it: none fails, and each finding points at one element."""

import io
import tempfile
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from dcc.documents.contents import Block, Content, Specimen
from dcc.documents.reading import read_document
from dcc.naming import Action, DocumentKind
from dcc.reference import impress
from dcc.reference.impress import Impress, Option, ParameterType, Pipeline, ValueType
from dcc.reference.loading import ReferenceData
from dcc.rules.checking import check_contents
from dcc.rules.context import DocumentContext
from dcc.rules.elements import TYPE_OF, key_of, metadata_of_media, top_level_parameters
from dcc.rules.findings import Finding
from tests.support.integrity_cases import REFERENCE, TODAY, Uploaded, definition, increment
from tests.support.strategies_documents import Document, valid_documents, valid_procedures
from tests.support.trials import trials

INCREMENTS = (
    (),
    (increment("1"),),
    (increment(minimum=2),),
    (increment(kind="datetime"),),
    (increment(kind="repeat"),),
)


def impress_of(contents: list[Content]) -> Impress:
    """An IMPReSS that has the procedures and parameters of a document, with all sorts of values and increments."""
    types, increments = cycle([*ValueType, "COLOUR", ""]), cycle(INCREMENTS)
    options = cycle([(), (Option("1.5", True), Option("x", False))])
    pipelines: dict[str, dict[str, impress.Procedure]] = {}
    here: dict[str, impress.Procedure] = {}
    for content in contents:
        if isinstance(content, Block):
            here = pipelines.setdefault(content.pipeline or "", {})
        elif not isinstance(content, Specimen) and content.procedure is not None:
            parameters: dict[str, impress.Parameter] = {}
            for step in (*top_level_parameters(content.procedure), *metadata_of_media(content.procedure)):
                key, kind = key_of(step.parameter.parameter_id), TYPE_OF[type(step.parameter)]
                terms = ("MP:1",) if kind is ParameterType.ONTOLOGY else ()
                parameters[key] = definition(
                    key,
                    kind,
                    next(types),
                    increments=next(increments),
                    options=next(options),
                    ontology_terms=terms,
                    qc_minimum=0.0,
                )
            key = content.procedure.procedure_id
            here[key] = impress.Procedure(key, True, parameters, frozenset({"MISSING"}))
    return Impress(
        REFERENCE.impress.provenance, {key: Pipeline(key, procedures) for key, procedures in pipelines.items()}
    )


def findings(content: bytes, kind: DocumentKind, how: str) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "document.xml"
        path.write_bytes(content)
        contents = list(read_document(path, kind))
    references = {
        "all": replace(REFERENCE, impress=impress_of(contents)),
        "no impress": replace(REFERENCE, impress=None),
        "nothing": ReferenceData(),
    }
    lookups = Uploaded()
    lookups.add(contents)
    context = DocumentContext(Action.ADD, "H", TODAY, references[how], lookups)
    return list(check_contents(contents, context))


@given(
    document=st.one_of(valid_documents(), valid_procedures()),
    how=st.sampled_from(["all", "all", "no impress", "nothing"]),
)
@settings(max_examples=trials(150))
def test_every_valid_document_is_judged_and_each_finding_points_at_one_element(document: Document, how: str) -> None:
    content, _ = document.render()
    tree = etree.parse(io.BytesIO(content))
    for element in tree.iter(etree.Element):
        element.tag = etree.QName(element).localname
    for finding in findings(content, document.kind, how):
        pointed_at = tree.xpath(finding.path)
        assert isinstance(pointed_at, list)
        assert len(pointed_at) == 1, finding
        assert 0 < finding.line <= content.count(b"\n")
        assert finding.message.endswith(".")
