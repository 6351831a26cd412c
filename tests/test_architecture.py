"""What holds of all modules of the platform. Layers, and that `dcc` imports no Dagster, are in pyproject.toml."""

import ast
import re
import subprocess
from itertools import chain
from pathlib import Path

from tests import conftest

ROOT = Path(__file__).parent.parent
PACKAGES = ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster", "dcc_sensors")
MODULES = [module for package in PACKAGES for module in sorted((ROOT / package).rglob("*.py"))]


def test_no_module_imports_relatively_or_from_the_tests() -> None:
    assert len(MODULES) > 300
    found = [
        f"{module.relative_to(ROOT)}:{number}"
        for module in MODULES
        for number, line in enumerate(module.read_text("utf-8").splitlines(), start=1)
        if re.match(r" *from (\.|(tests|benchmarks)\b)", line)
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


_MESSAGES = {"message", "said", "translatable", "fact", "marked", "problem", "statement", "remedy"}
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
    assert _takes_message_apart(ast.parse("re.match('a', str(error.translatable))", mode="eval").body)
    assert _takes_message_apart(ast.parse("row.message.partition('. ')", mode="eval").body)
    texts = ((module, module.read_text("utf-8")) for module in MODULES)
    # Most modules name no message: those need not be parsed, which takes longer than all else here.
    named = re.compile(rf"\.({'|'.join(_MESSAGES)})\b")
    found = [
        f"{module.relative_to(ROOT)}:{node.lineno}"
        for module, text in texts
        if named.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and _takes_message_apart(node)
    ]
    assert found == []


def test_what_the_run_of_the_tests_is_ordered_by_exists() -> None:
    named = [*chain.from_iterable(conftest.LONG), *conftest.OF_DATABASES]
    assert [name for name in named if not list(ROOT.glob(f"{name.rstrip('/')}*"))] == []
