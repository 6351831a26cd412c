"""The schemas, the objects that documents are read as, and the samples of the other tests know the same elements."""

import pytest
from xmlschema import XMLSchema10
from xmlschema.validators import XsdElement

from dcc.documents.forms import ROOTS, Form
from dcc.documents.schema_set import OWN_SCHEMAS, SCHEMA_FILES
from dcc.naming import DocumentKind
from tests.support.strategies_documents import KINDS


@pytest.mark.parametrize(
    ("kind", "samples"), [(DocumentKind.SPECIMEN, "specimens"), (DocumentKind.EXPERIMENT, "procedures")]
)
def test_schemas_objects_and_samples_have_the_same_attributes_and_children(kind: DocumentKind, samples: str) -> None:
    name, root = ROOTS[kind]
    unseen: list[tuple[XsdElement, Form, str]] = [
        (XMLSchema10(OWN_SCHEMAS / SCHEMA_FILES[kind]).elements[name], root, samples)
    ]
    for declared, form, sample in unseen:
        where = f"{declared.local_name}: dcc/documents/schemas, contents.py, tests/support/strategies_documents.py"
        attributes = {name: attribute.use == "required" for name, attribute in declared.attributes.items()}
        assert {one.name: one.required for one in form.attributes if one.name} == attributes, where
        assert {name: needed for name, (_, needed) in KINDS[sample].attributes.items()} == attributes, where
        group = declared.type.model_group
        children = {child.local_name: child for child in (group.iter_elements() if group is not None else ())}
        below = {name: kind for name, kind, _, _ in KINDS[sample].children}
        assert form.forms.keys() == below.keys() == children.keys(), where
        unseen += [(child, form.forms[name], below[name]) for name, child in children.items()]
    assert len(unseen) > 10
