"""The platform runs without Dagster, and cites nothing that its readers do not have. Layers are in pyproject.toml."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster", "dcc_sensors")
MODULES = [module for package in PACKAGES for module in sorted((ROOT / package).rglob("*.py"))]


def test_the_platform_runs_without_dagster() -> None:
    names = [
        ".".join(module.relative_to(ROOT).with_suffix("").parts)
        for module in MODULES
        if module.is_relative_to(ROOT / "dcc") and module.name != "__init__.py" and "migrations" not in module.parts
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


def test_nothing_refers_to_what_was_only_there_to_build_it() -> None:
    shared = str(ROOT.parent / "shared")
    texts = {str(module.relative_to(ROOT)): module.read_text("utf-8") for module in MODULES}
    assert [name for name, text in texts.items() if shared in text or "../shared" in text] == []
