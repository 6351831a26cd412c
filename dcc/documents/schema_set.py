"""The XML schemas that documents are validated against: the platform's own, or those of an installation's directory."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lxml import etree

from dcc.documents.prolog import Root, read_prolog
from dcc.errors import ConfigurationError
from dcc.naming import DocumentKind

if TYPE_CHECKING:
    from dcc.documents.schema_model import SchemaModel

OWN_SCHEMAS = Path(__file__).parent / "schemas"
SCHEMA_FILES = {
    DocumentKind.SPECIMEN: "specimen_definition.xsd",
    DocumentKind.EXPERIMENT: "procedure_definition.xsd",
}
_PROLOG = 65_536
_XS = "{http://www.w3.org/2001/XMLSchema}"


@dataclass(frozen=True)
class SchemaSet:
    """The schemas of both kinds of document, compiled once a thread. Make one with `load`; threads may share it.

    `roots` are the root elements that a schema declares, as (namespace, local name).
    """

    directory: Path
    roots: dict[DocumentKind, frozenset[tuple[str, str]]]
    _compiled: threading.local = field(default_factory=threading.local, repr=False, compare=False)
    _compiling: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _models: dict[DocumentKind, SchemaModel | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, xsd_dir: Path | None = None) -> Self:
        """Load the schemas of `xsd_dir`, by default the platform's own, and compile them for this thread.

        Raises ConfigurationError with the file, the line and the problem.
        """
        directory = OWN_SCHEMAS if xsd_dir is None else xsd_dir
        try:
            roots = {kind: _declared_roots(directory / name) for kind, name in SCHEMA_FILES.items()}
        except OSError as error:
            raise ConfigurationError(
                f"The schema {error.filename} cannot be read ({error.strerror}). DCC_XSD_DIR must be a directory with "
                f"{' and '.join(SCHEMA_FILES.values())}."
            ) from error
        schemas = cls(directory, roots)
        for kind in DocumentKind:
            schemas.schema(kind)
        return schemas

    def kind_of(self, namespace: str, root: str) -> DocumentKind | None:
        """The kind of document with this root element; None if there is none."""
        return next((kind for kind in DocumentKind if (namespace, root) in self.roots[kind]), None)

    def kind_of_file(self, path: Path) -> DocumentKind | None:
        """The kind of document of a file's root element; None without one. Raises OSError."""
        with path.open("rb") as file:
            root = read_prolog(iter(lambda: file.read(_PROLOG), b""))
        return self.kind_of(root.namespace, root.name) if isinstance(root, Root) else None

    def schema(self, kind: DocumentKind) -> etree.XMLSchema:
        """The compiled schema of this thread: threads that share one wait for each other."""
        known: dict[DocumentKind, etree.XMLSchema] = self._compiled.__dict__.setdefault("by_kind", {})
        if kind not in known:
            with self._compiling:
                known[kind] = _compile(self.directory / SCHEMA_FILES[kind])
        return known[kind]

    def model(self, kind: DocumentKind) -> SchemaModel | None:
        """The schema's declarations, for documents that libxml2 refused; None if xmlschema cannot read the schema."""
        from dcc.documents.schema_model import read_model

        with self._compiling:
            if kind not in self._models:
                self._models[kind] = read_model(self.directory / SCHEMA_FILES[kind])
            return self._models[kind]


def _parse(path: Path) -> etree._ElementTree:
    parser = etree.XMLParser(no_network=True, load_dtd=False)
    try:
        with path.open("rb") as file:
            return etree.parse(file, parser, base_url=str(path))
    except etree.XMLSyntaxError as error:
        raise ConfigurationError(
            f"The schema {path} is not well-formed: line {error.lineno}: {error.msg}. Correct the file, or unset "
            "DCC_XSD_DIR to use the schemas that come with the platform."
        ) from error


def _declared_roots(path: Path) -> frozenset[tuple[str, str]]:
    root = _parse(path).getroot()
    namespace = root.get("targetNamespace", "")
    names = (element.get("name") for element in root.iterchildren(f"{_XS}element"))
    return frozenset((namespace, name) for name in names if name)


def _compile(path: Path) -> etree.XMLSchema:
    try:
        return etree.XMLSchema(_parse(path))
    except etree.XMLSchemaParseError as error:
        entries = [entry for entry in error.error_log if entry.level >= etree.ErrorLevels.ERROR]
        where = "; ".join(f"{entry.filename or path}, line {entry.line}: {entry.message}" for entry in entries[:5])
        raise ConfigurationError(
            f"The schema {path} cannot be used: {where or error}. Correct the file, or unset DCC_XSD_DIR to use the "
            "schemas that come with the platform."
        ) from error
