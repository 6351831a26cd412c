"""The platform runs without Dagster, and cites nothing that its readers do not have. Layers are in pyproject.toml."""

import ast
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

from tests import conftest

ROOT = Path(__file__).parent.parent
PACKAGES = ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster", "dcc_sensors")
MODULES = [module for package in PACKAGES for module in sorted((ROOT / package).rglob("*.py"))]


def test_the_platform_runs_without_dagster() -> None:
    names = [
        ".".join(module.relative_to(ROOT).with_suffix("").parts)
        for module in MODULES
        if module.is_relative_to(ROOT / "dcc") and module.name != "__init__.py"
    ]
    assert len(names) > 300
    program = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print(sorted(n for n in sys.modules if n.startswith('dagster')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_no_module_imports_relatively_or_from_the_tests() -> None:
    found = [
        f"{module.relative_to(ROOT)}:{node.lineno}"
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.level > 0 or (node.module or "").split(".")[0] in {"tests", "benchmarks"})
    ]
    assert found == []


def test_nothing_cites_what_its_readers_do_not_have() -> None:
    """Numbers of issues, and notes beside this repository."""
    cited = re.compile(r"\bissues? #?\d|\.\./shared|" + re.escape(str(ROOT.parent / "shared")))
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True)
    found = []
    for name in listed.stdout.split("\n")[:-1]:
        path = ROOT / name
        if path == Path(__file__) or not path.is_file():
            continue
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1):
            if cited.search(line):
                found.append(f"{name}:{number}")
    assert found == []


_MESSAGES = {"message", "said", "fact", "marked", "problem", "statement", "remedy"}
_TAKE_APART = {"partition", "rpartition", "split", "rsplit", "splitlines", "removeprefix", "removesuffix", "endswith"}
_PATTERNS = {"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}


def _is_message(node: ast.AST) -> bool:
    """Whether a node is an attribute that holds a message, or its text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        return _is_message(node.args[0])
    return isinstance(node, ast.Attribute) and node.attr in _MESSAGES


def _takes_message_apart(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    taken_apart = node.func.attr in _TAKE_APART and _is_message(node.func.value)
    return taken_apart or (node.func.attr in _PATTERNS and any(map(_is_message, node.args)))


def test_no_message_is_taken_apart() -> None:
    """What is in it is among its details."""
    assert _takes_message_apart(ast.parse("re.match('a', str(error.said))", mode="eval").body)
    assert _takes_message_apart(ast.parse("row.message.partition('. ')", mode="eval").body)
    found = [
        f"{module.relative_to(ROOT)}:{node.lineno}"
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Call) and _takes_message_apart(node)
    ]
    assert found == []


def test_what_the_run_of_the_tests_is_ordered_by_exists() -> None:
    named = [*chain.from_iterable(conftest.LONG), *conftest.OF_DATABASES]
    assert [name for name in named if not list(ROOT.glob(f"{name.rstrip('/')}*"))] == []
