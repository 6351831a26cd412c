"""The paths of centre elements and entities in their documents, as XPaths without namespaces.

Does not import the database, like `dcc.qc.rows.building`.
"""

from __future__ import annotations

from typing import Final

from dcc.documents import contents
from dcc.naming import DocumentKind

_ROOTS: Final = {DocumentKind.SPECIMEN: "centreSpecimenSet", DocumentKind.EXPERIMENT: "centreProcedureSet"}
_NAMES: Final[dict[type, str]] = {contents.Housing: "housing", contents.Line: "line", contents.Experiment: "experiment"}


def path_of_centre(kind: DocumentKind, position: int) -> str:
    """The path of the centre element at a position in a document of a kind."""
    return f"/{_ROOTS[kind]}/centre[{position}]"


def element_name(entity: contents.Entity) -> str:
    """The name of an entity's element; entities are counted by it."""
    return entity.kind if isinstance(entity, contents.Specimen) else _NAMES[type(entity)]
