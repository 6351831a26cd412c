"""What a fresh clone installs: the pinned versions, the package's contents, and the commands that build on it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PACKAGES = ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster", "dcc_sensors")
PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[0-9][A-Za-z0-9.+!]*)")
EXTRAS = ("", "platform", "s3", "celery", "k8s", "demo", "test")


def test_the_version_says_whether_it_has_changes_that_are_not_released() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    _, unreleased, newest, *_ = re.split(r"^## ", changes, flags=re.MULTILINE)
    assert unreleased.startswith("Next\n")
    released = re.match(r"(\S+) \(\d{4}-\d\d-\d\d\)\n", newest)
    assert released is not None
    version = Version(project["version"])
    if "\n- " in unreleased:
        assert version.is_devrelease
        assert version > Version(released[1])
    else:
        assert project["version"] == released[1]
    assert f"appVersion: {project['version']}\n" in (ROOT / "deploy" / "helm" / "Chart.yaml").read_text("utf-8")


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    found = [PIN.fullmatch(line) for line in lines if not line.startswith("#")]
    assert None not in found, "constraints.txt holds a line that is no name==version"
    return {canonicalize_name(match["name"]): match["version"] for match in found if match}


def needed(name: str, extras: tuple[str, ...], seen: set[tuple[str, tuple[str, ...]]], **surroundings: str) -> set[str]:
    """All distributions that an installed one with its extras needs here, or in these surroundings; canonical names."""
    if (canonicalize_name(name), extras) in seen:
        return set()
    seen.add((canonicalize_name(name), extras))
    names = set()
    for text in requires(name) or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra, **surroundings}) for extra in extras):
            names.add(canonicalize_name(requirement.name))
            with suppress(PackageNotFoundError):
                names |= needed(requirement.name, ("", *sorted(requirement.extras)), seen, **surroundings)
    return names


def test_every_direct_dependency_is_pinned_to_a_version_that_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    listed = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        listed += extra
    pinned = pins()
    for text in listed:
        requirement = Requirement(text)
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, text


def test_everything_that_the_installation_needs_is_installed_in_the_pinned_version() -> None:
    names = needed("dcc", EXTRAS, set())
    assert len(names) > 50
    pinned = pins()
    assert sorted(names - set(pinned)) == []
    assert {name: version(name) for name in names} == {name: pinned[name] for name in names}


def test_what_the_python_of_debian_12_needs_besides_is_pinned_too() -> None:
    assert sorted(needed("dcc", EXTRAS, set(), python_full_version="3.11.2") - set(pins())) == []


def test_centres_are_told_how_many_packages_they_install() -> None:
    page = (ROOT / "docs" / "centres.md").read_text("utf-8")
    for sentence, extras in (
        (r"The checker installs (\d+) packages", ("",)),
        (r"The whole platform, .+ has (\d+) packages", ("", "platform")),
    ):
        found = re.search(sentence, page)
        assert found is not None, sentence
        assert int(found[1]) == len({"dcc"} | needed("dcc", extras, set()))


def test_no_file_of_the_installation_names_a_host() -> None:
    files = [ROOT / "constraints.txt", ROOT / "pyproject.toml", ROOT / "Makefile", *(ROOT / ".ci").iterdir()]
    naming = [str(path) for path in files if "://" in path.read_text("utf-8")]
    assert naming == []


def test_the_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in ("pyproject.toml", "README.md", "dcc_definitions.py"):
        shutil.copy(ROOT / name, source / name)
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(tmp_path), "."]
    subprocess.run([sys.executable, "-m", *command], cwd=source, check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        packed = set(opened.namelist())
    here = {str(path.relative_to(ROOT)) for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file()}
    here = {path for path in here if "__pycache__" not in path and not Path(path).name.startswith(".")}
    assert "dcc/documents/schemas/procedure_definition.xsd" in here
    assert sorted(here - packed) == []
    assert "dcc_definitions.py" in packed


def test_make_install_does_nothing_when_nothing_changed(tmp_path: Path) -> None:
    """The stamp holds what was installed: a second run neither asks a network nor touches the environment.

    The checkout is one of the test's own, since a real one may change beside it; its interpreter notes what it is told.
    """
    for name in ("Makefile", ".ci/install", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    binaries, told = tmp_path / ".venv" / "bin", tmp_path / "told"
    binaries.mkdir(parents=True)
    for name in ("python", "dcc"):
        (binaries / name).write_text(f'#!/bin/sh\necho "$*" >>"{told}"\n')
        (binaries / name).chmod(0o755)
    # Run from `make test`, make would say which directory it enters.
    alone = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}

    def make_install() -> tuple[str, str]:
        """What it says, and what it tells the environment's interpreter."""
        told.write_text("")
        run = subprocess.run(
            ["make", "install"], cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=120, check=True
        )
        return run.stdout + run.stderr, told.read_text()

    assert "--constraint constraints.txt" in make_install()[1]
    stamp = tmp_path / ".venv" / "installed"
    before = stamp.stat().st_mtime_ns
    assert make_install() == ("", "")
    assert stamp.stat().st_mtime_ns == before
    with (tmp_path / "constraints.txt").open("a") as constraints:
        constraints.write("another==1.0\n")
    assert "--constraint constraints.txt" in make_install()[1]
    assert make_install() == ("", "")


def test_make_install_names_an_interpreter_that_is_none(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/install", tmp_path / ".ci/install")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    named = os.environ | {"PYTHON": "python2.nothing"}
    run = subprocess.run([tmp_path / ".ci/install"], env=named, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, "python2.nothing" in run.stderr) == (1, True)
