"""What `pip install dcc` alone gives a centre: validate, explain, example, manifest and report, with few packages."""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.forking_interpreter import forking_interpreter
from tests.test_packaging import needed

ROOT = Path(__file__).parents[2]
AMONG_FEW = """
def among_few(find_spec):
    return lambda name, *rest: None if name in ABSENT else find_spec(name, *rest)

for finder in sys.meta_path:
    finder.find_spec = among_few(finder.find_spec)
import dcc.cli.main
# What the commands import.
from dcc.cli.demo import examples
from dcc.cli.submissions import explain, report, validate
from dcc.reports.submissions import collecting, page, plain_text
from dcc import validation
"""
MAIN = "from dcc.cli.main import main; main()"
Light = Callable[..., subprocess.CompletedProcess[str]]


def light_packages() -> set[str]:
    """The distributions that a light installation has, by canonical name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    return names.union(*(needed(name, ("",), set()) for name in names), {"dcc"})


@cache
def absent_modules() -> str:
    """The modules that a light installation lacks, as Python writes them."""
    packages = light_packages()
    distributions = packages_distributions().items()
    absent = {top for top, names in distributions if not packages & {canonicalize_name(name) for name in names}}
    assert {"dagster", "pandas", "matplotlib", "alembic", "paramiko"} <= absent
    return repr(absent - {"dcc"})


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Light]:
    """Runs `dcc` where nothing but the light installation can be imported, with the environment of an installation."""
    begin = AMONG_FEW.replace("ABSENT", absent_modules())
    with forking_interpreter(begin, os.environ, tmp_path_factory.mktemp("light")) as fork:

        def ran(dcc: Dcc, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
            variables = {**os.environ, **dcc.environment, "DCC_SUGGESTIONS": "false", **environment}
            return fork(MAIN, *map(str, arguments), environment=variables)

        yield ran


def test_the_light_installation_has_few_packages() -> None:
    assert len(light_packages()) <= 20, sorted(light_packages())


@only_sqlite
def test_a_light_installation_validates_and_explains(bare_dcc: Dcc, light: Light, tmp_path: Path) -> None:
    written = light(bare_dcc, "example", tmp_path / "centre", "--kind", "data-errors")
    assert written.returncode == 0, written.stderr
    validated = light(bare_dcc, "validate", tmp_path / "centre", "--json")
    assert validated.returncode == 1, validated.stderr
    kinds = {problem["kind"] for verdict in json.loads(validated.stdout) for problem in verdict["errors"]}
    assert {"S4", "P9"} <= kinds
    for code in ("S4", "schema-violation"):
        explained = light(bare_dcc, "explain", code)
        assert explained.returncode == 0, explained.stderr
    assert "No module" not in light(bare_dcc, "explain", "dcc").stderr


@only_sqlite
def test_what_a_light_installation_suggests_can_run_there(bare_dcc: Dcc, light: Light, tmp_path: Path) -> None:
    def said(*arguments: object) -> list[str]:
        return light(bare_dcc, *arguments, DCC_SUGGESTIONS="true").stderr.splitlines()

    for kind, suggested in (("data-errors", "S4"), ("schema-errors", "schema-violation")):
        assert f"Next: dcc validate {tmp_path / kind} " in said("example", tmp_path / kind, "--kind", kind)[-1]
        assert f"Next: dcc explain {suggested} " in said("validate", tmp_path / kind)[-1]
    light(bare_dcc, "example", tmp_path / "valid")
    assert said("validate", tmp_path / "valid")[-1].startswith("Now upload: new data to add/")
    assert "Now upload" not in bare_dcc("validate", tmp_path / "valid").stderr
    for name in ("P9", "xsd", "failed", "interrupted", "centre_silent", "listing:changed"):
        explained = light(bare_dcc, "explain", name, DCC_SUGGESTIONS="true")
        assert explained.returncode == 0, explained.stderr
        told = explained.stdout + explained.stderr
        assert set(re.findall(r"dcc ([a-z]+)", told)) <= {"explain", "validate", "example", "manifest"}, told
    assert "The DCC can set the rule aside." in " ".join(light(bare_dcc, "explain", "P9").stdout.split())


@only_sqlite
def test_the_help_of_a_light_installation_has_what_can_run_there(bare_dcc: Dcc, light: Light) -> None:
    helped = light(bare_dcc, "--help").stdout
    listed = set(re.findall(r"^  ([a-z]+) +[A-Z]", helped, re.MULTILINE))
    assert listed == {"completion", "example", "explain", "manifest", "report", "validate"}
    assert set(re.findall(r"`dcc ([a-z]+)", helped)) <= listed
    assert "pip install 'dcc[platform]'" in helped
    assert "crawl" in bare_dcc("--help").stdout


@only_sqlite
def test_a_light_installation_reports_from_databases_that_are_there(dcc: Dcc, light: Light, tmp_path: Path) -> None:
    dcc.collect("add/H.2013-10-31.1.impc.zip")
    page = tmp_path / "report.html"
    for asked in (["--json"], ["--html", page], []):
        reported = light(dcc, "report", "add/H.2013-10-31.1.impc.zip", *asked)
        assert reported.returncode == 0, reported.stderr
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


@only_sqlite
def test_a_command_of_the_platform_says_what_to_install(bare_dcc: Dcc, light: Light) -> None:
    for command in ("init", "crawl", "ui", "data export measurements"):
        told = light(bare_dcc, *command.split())
        assert told.returncode == 2, told.stderr
        assert told.stderr.splitlines()[-1].endswith("is not installed: `pip install 'dcc[platform]'`.")
