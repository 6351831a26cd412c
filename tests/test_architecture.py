"""Imports point one way: dcc_resources <- dcc_assets <- dcc_sensors <- dcc_definitions <- dcc_cli."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ["dcc_resources", "dcc_assets", "dcc_sensors", "dcc_definitions", "dcc_cli"]


def modules(package: str) -> list[Path]:
    if (ROOT / package).is_dir():
        return sorted((ROOT / package).rglob("*.py"))
    return [ROOT / f"{package}.py"]


def imported(module: Path) -> set[str]:
    """The top-level packages that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("package", LAYERS)
def test_no_package_imports_one_above_it(package: str) -> None:
    above = set(LAYERS[LAYERS.index(package) + 1 :]) | {"tests", "benchmarks"}
    found = {str(module.relative_to(ROOT)): imported(module) & above for module in modules(package)}
    assert found
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize("package", ["dcc_resources"])
def test_what_the_graph_works_with_knows_nothing_of_dagster(package: str) -> None:
    found = {module.name for module in modules(package) if any(n.startswith("dagster") for n in imported(module))}
    assert found == set()


def test_the_resources_run_without_dagster() -> None:
    names = [
        ".".join(module.relative_to(ROOT).with_suffix("").parts)
        for module in modules("dcc_resources")
        if module.name != "__init__.py" and "migrations" not in module.parts
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print(sorted(n for n in sys.modules if n.startswith('dagster')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_nothing_refers_to_what_was_only_there_to_build_it() -> None:
    shared = str(ROOT.parent / "shared")
    found = [
        str(module.relative_to(ROOT))
        for package in LAYERS
        for module in modules(package)
        if shared in (text := module.read_text("utf-8")) or "../shared" in text
    ]
    assert found == []
