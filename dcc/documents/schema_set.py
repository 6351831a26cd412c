"""The XML schemas that documents are validated against: the platform's own, or those of an installation's directory."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

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
_NUMBER = r"[+\-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([Ee][+\-]?[0-9]+)?|-?INF|NaN"
_PATTERNS = {
    **dict.fromkeys(("date", "dateTime", "time", "gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay"), ".*"),
    **dict.fromkeys(("float", "double"), _NUMBER),
}
"""Patterns that all values of a type have, and by which libxml2 judges them as XML Schema says.

Without a pattern, libxml2 refuses white space around a date or after `INF`, and takes `1e` for a number.
"""


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


class _WithPatterns(etree.Resolver):
    """Gives libxml2 the schemas that another one imports or includes with the patterns of their types."""

    def resolve(self, system_url: str, _public_id: str, context: Any = None) -> Any:
        try:
            tree = etree.parse(system_url, etree.XMLParser(no_network=True, load_dtd=False))
        except (OSError, etree.XMLSyntaxError):
            return None  # libxml2 says what is wrong with it.
        _add_patterns(tree)
        return self.resolve_string(etree.tostring(tree), context, base_url=system_url)


def _add_patterns(tree: etree._ElementTree) -> None:
    """Give the built-in types of a schema's attributes and elements, and those that it restricts, their patterns."""
    for element in list(tree.iter(f"{_XS}attribute", f"{_XS}element")):
        if _built_in(element, "type") in _PATTERNS:
            own = etree.Element(f"{_XS}simpleType")
            etree.SubElement(own, f"{_XS}restriction", base=element.attrib.pop("type"))
            element.insert(len(element.findall(f"{_XS}annotation")), own)
    for restriction in tree.iter(f"{_XS}restriction"):
        pattern = _PATTERNS.get(_built_in(restriction, "base"))
        if pattern is not None and restriction.find(f"{_XS}pattern") is None:
            etree.SubElement(restriction, f"{_XS}pattern", value=pattern)


def _built_in(element: etree._Element, attribute: str) -> str:
    """The name of the type of XML Schema that an attribute names; empty for any other type."""
    prefix, _, name = str(element.get(attribute, "")).rpartition(":")
    return name if f"{{{element.nsmap.get(prefix or None)}}}" == _XS else ""


def _parse(path: Path, *resolvers: etree.Resolver) -> etree._ElementTree:
    parser = etree.XMLParser(no_network=True, load_dtd=False)
    for resolver in resolvers:
        parser.resolvers.add(resolver)
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
    schema = _parse(path, _WithPatterns())
    _add_patterns(schema)
    with suppress(etree.XMLSchemaParseError):
        return etree.XMLSchema(schema)
    try:
        # The places of what is wrong are those of the files as they are.
        return etree.XMLSchema(_parse(path))
    except etree.XMLSchemaParseError as error:
        entries = [entry for entry in error.error_log if entry.level >= etree.ErrorLevels.ERROR]
        where = "; ".join(f"{entry.filename or path}, line {entry.line}: {entry.message}" for entry in entries[:5])
        raise ConfigurationError(
            f"The schema {path} cannot be used: {where or error}. Correct the file, or unset DCC_XSD_DIR to use the "
            "schemas that come with the platform."
        ) from error
