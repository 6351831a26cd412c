"""No SQL is composed from values: they are bound. What statements are put together from is looked through here.

ruff's S608 sees most of what looks like SQL; this sees whatever is given to a database as text, in any module. What a
statement may hold are constants of the module, and identifiers that are quoted or come from the schema: each of these
is listed, with what it is.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster", "dcc_sensors")
FUNCTIONS = {"text", "DDL", "literal_column"}
TAKES_SQL = FUNCTIONS | {"exec_driver_sql", "executescript", "executemany"}
TAKES_SQL_IF_TEXT = {"execute", "scalar", "scalars", "query", "stream"}
SQL = re.compile(
    r"\W*(SELECT|INSERT\s+INTO|UPDATE|DELETE\s+FROM|DROP|ALTER|CREATE|LOAD\s+DATA|PRAGMA|GRANT|SET\s+SESSION|"
    r"REPLACE\s+INTO|TRUNCATE|BEGIN)\s"
)
# Most modules give nothing to a database: those need not be parsed, which takes longest here.
COULD_HOLD_SQL = re.compile(
    SQL.pattern.removeprefix(r"\W*") + rf"|\b({'|'.join(TAKES_SQL | TAKES_SQL_IF_TEXT)})\(|[A-Z]\.format\("
)
NAMES = "names of tables, columns and indexes of the platform's own schema, or as the database itself tells them"
REVIEWED = {
    "dcc/operations/backups/database_files.py": (
        NAMES + "; types of columns",
        {
            "', '.join(self.reading)",
            "_CLIENT_SECONDS",
            "column",
            "index['name']",
            "kind",
            "name",
            "names",
            "order",
            "places",
            "pragma",
            "self.name",
            "shape.query()",
            "statement",
        },
    ),
    "dcc/operations/backups/targets.py": (
        NAMES,
        {"_CHECKS.format(0)", "_CHECKS.format(1)", "last + 1", "name", "statement"},
    ),
    "dcc/databases/descriptions.py": (
        NAMES + "; definitions of columns as the database itself tells them; descriptions, quoted",
        {"changed", "table.name"},
    ),
    "dcc/databases/engines.py": (
        "constants; a name that is made of a number",
        {"'BEGIN IMMEDIATE' if writes else 'BEGIN'", "name"},
    ),
    "dcc/databases/grants.py": (
        "quoted; printed for people, run by nobody",
        {"_pattern(str(database))", "_text(password)", "_user(name, client_host)", "right", "user"},
    ),
    "dcc/databases/schema.py": (
        NAMES + "; types of columns, queries of views and a database of the settings, quoted",
        {
            "_TRIGGER.format(table=table)",
            "creation.replace('%', '%%')",
            "described",
            "name",
            "query",
            "table",
            "table.name",
        },
    ),
    "dcc/databases/list_parameters.py": (
        "the mark of a parameter, as SQLAlchemy writes it",
        {"compiler.process(element.clauses, **options)"},
    ),
    "dcc/qc/apply/upload_lock.py": (
        NAMES + ", quoted",
        {"' UNION ALL '.join(highest)", "preparer.format_table(table)", "table.name"},
    ),
    "dcc/qc/rows/bulk.py": (
        "quoted names of the platform's own tables and columns, rows of parameters' marks, and the quoted path of a "
        "file that was made just now",
        {
            "' SET ' if assignments else ''",
            "', '.join(assignments)",
            "', '.join(rows)",
            "_name(connection, table)",
            "_quoted(path)",
            "columns",
            "marks",
            "names",
            "read",
            "statement",
            "statement.replace('%', '%%')",
            "table.name",
        },
    ),
    "dcc/qc/apply/entity_rows.py": (
        "quoted names of the platform's own tables and columns, and of a file that is attached",
        {
            "', '.join(columns)",
            "', '.join((quoted(column.name) for column in table.columns))",
            "_INSERT[table.name] + _SHIFTED[table.name].format(source=source)",
            "quoted(table.name)",
            "source",
        },
    ),
    "dcc/qc/rows/prepared_file.py": (
        "quoted names of the platform's own tables and columns, and marks of parameters",
        {
            "', '.join(_ENTRY_COLUMNS)",
            "', '.join(columns)",
            "quoted(_ENTRY)",
            "into",
            "marks",
            "quoted(table)",
            "statement",
        },
    ),
    "dcc/qc/models/views.py": (
        "constants",
        {"_IS_CURRENT", "_IS_VALID", "_IS_VALID_ON_ANIMALS", "_OF_OWNER", "_OF_RUN", "_OWNERS"},
    ),
    "dcc/qc/upgrades.py": (NAMES, {"name", "on"}),
    "dcc/qc/database.py": (NAMES, {"names"}),
    "dcc_dagster/sqlite_instance.py": (
        "names of Dagster's tables, as the file tells them or Dagster has them",
        {"table"},
    ),
    "dcc_dagster/dagster_database.py": (
        "names of Dagster's tables, as the database tells them, and types that are constants",
        {"', '.join(parts)", "_WIDER[kind.lower()]", "column", "index", "null", "table"},
    ),
}
"""What statements are put together from, by module: what it is, and the expressions."""


def composed(module: Path) -> Iterator[tuple[int, str]]:
    """Line and source of each expression that is put into a statement, constants of a module left out."""
    text = module.read_text("utf-8")
    if not COULD_HOLD_SQL.search(text):
        return
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    # Others may have a function of the same name.
    others = {node.name for node in nodes if isinstance(node, ast.FunctionDef)} | {
        name.asname or name.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("sqlalchemy")
        for name in node.names
    }
    harmless = {name for name, value in _constants(tree).items() if not SQL.match(value)}
    for node in nodes:
        parts: list[ast.expr] = []
        if isinstance(node, ast.JoinedStr) and SQL.match(_literal(node)):
            parts = [value.value for value in node.values if isinstance(value, ast.FormattedValue)]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod) and SQL.match(_literal(node)):
            parts = [side for side in (node.left, node.right) if not _is_text(side)]
        elif isinstance(node, ast.Call):
            parts = _given(node, others, harmless)
        for part in parts:
            if not _is_constant(part):
                yield node.lineno, ast.unparse(part)


def _given(call: ast.Call, others: set[str], harmless: set[str]) -> list[ast.expr]:
    """What a call puts into a statement: by `format`, or by composing what it gives to a database."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "format" and isinstance(call.func, ast.Attribute):
        held = call.func.value
        is_sql = SQL.match(_literal(held)) or (
            isinstance(held, ast.Name) and held.id.isupper() and held.id not in harmless
        )
        return [*call.args, *(keyword.value for keyword in call.keywords)] if is_sql else []
    if name in (others if isinstance(call.func, ast.Name) else FUNCTIONS):
        return []
    if name in TAKES_SQL | TAKES_SQL_IF_TEXT and call.args:
        first = call.args[0]
        if isinstance(first, ast.JoinedStr):
            return [value.value for value in first.values if isinstance(value, ast.FormattedValue)]
        if name in TAKES_SQL and not _is_text(first):
            return [first]
    return []


def _constants(tree: ast.Module) -> dict[str, str]:
    """The texts that are assigned to names in a module."""
    named: dict[str, str] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if targets and isinstance(targets[0], ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            named[targets[0].id] = _literal(node.value)
    return named


def _literal(node: ast.AST) -> str:
    """The text that is written out in an expression."""
    return " ".join(
        part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) and _is_text(node.right)
    return isinstance(node, ast.Constant) or _is_constant(node)


def _is_constant(node: ast.expr) -> bool:
    """A constant of a module, by its name, or a number that was made one."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Attribute):
        return node.attr.isupper()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int":
        return True
    return isinstance(node, ast.Name) and node.id.isupper()


def found() -> dict[str, set[str]]:
    said: dict[str, set[str]] = {}
    for package in PACKAGES:
        for module in sorted((ROOT / package).rglob("*.py")):
            for _, part in composed(module):
                said.setdefault(str(module.relative_to(ROOT)), set()).add(part)
    return said


def test_what_statements_are_put_together_from_was_looked_through() -> None:
    known = {module: parts for module, (_, parts) in REVIEWED.items()}
    new = {module: parts - known.get(module, set()) for module, parts in found().items()}
    unknown = {module: parts for module, parts in new.items() if parts}
    assert not unknown, "Bind values. Quote identifiers, and list their expressions in REVIEWED above."


def test_the_look_finds_statements_that_hold_values(tmp_path: Path) -> None:
    for program in (
        "connection.execute(text(f'SELECT id FROM centre WHERE short_name = {name!r}'))",
        "connection.exec_driver_sql('SELECT 1 FROM x WHERE y = ' + value)",
        "connection.exec_driver_sql(statement)",
        "connection.execute('DELETE FROM x WHERE y = %s' % value)",
        "statement = 'UPDATE x SET y = {}'.format(value)",
        "statement = f'INSERT INTO x VALUES ({value})'",
        "text(QUERY.format(value))",
        "literal_column(value)",
        "cursor.execute(f'{value}')",
    ):
        (tmp_path / "module.py").write_text(program)
        assert list(composed(tmp_path / "module.py")), program
