"""Checks of installed packages: their versions, and what they add to the platform."""

from __future__ import annotations

import platform
import sqlite3
import ssl
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from dcc.converters.conversion import made_converter
from dcc.errors import ConfigurationError
from dcc.notify.channels.open_channels import open_channels
from dcc.operations.doctor.checks import CheckFinding, Environment, failed, not_checked, ok, warning
from dcc.runtime.installed_packages import CHANNELS, CONVERTERS, RULES, SOURCES, added_entries, load_entry
from dcc.sources.protocols import LONGEST_PROTOCOL, PROTOCOLS

CONSTRAINTS: Final = Path(__file__).parents[3] / "constraints.txt"
"""The versions that this version of the platform was tested with; only a checkout has this file."""
_OLDEST_SQLITE: Final = (3, 38, 0)


def check_versions(_: Environment) -> Iterator[CheckFinding]:
    """The installed packages have the tested versions."""
    from lxml import etree

    needed = ".".join(map(str, _OLDEST_SQLITE))
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        message = f"It is {sqlite3.sqlite_version}, and {needed} or later is needed."
        yield failed("SQLite", message, "Install a later one.")
    else:
        yield ok("SQLite", f"It is {sqlite3.sqlite_version}; {needed} or later is needed.")
    libxml2 = ".".join(map(str, etree.LIBXML_VERSION))
    # An older Python than is needed does not come so far.
    known = f"dcc {version('dcc')}, Python {platform.python_version()}, {ssl.OPENSSL_VERSION}, libxml2 {libxml2}."
    yield ok("libraries", known)
    yield from _check_packages()


def _check_packages() -> Iterator[CheckFinding]:
    missing = sorted(name for name in _required() if _installed(name) is None)
    if missing:
        yield failed("packages", f"Not installed: {', '.join(missing)}.", "Install them: make install")
        return
    if not CONSTRAINTS.is_file():
        yield not_checked("packages", "No constraints.txt beside the platform says what was tested.")
        return
    others = [
        f"{name} {present} instead of {wanted}"
        for name, wanted in constrained(CONSTRAINTS.read_text("utf-8"))
        if (present := _installed(name)) not in (None, wanted)
    ]
    if others:
        yield warning(
            "packages",
            f"Other versions than tested: {', '.join(others[:8])}{' ...' if len(others) > 8 else ''}.",
            "Install those of constraints.txt: make install",
        )
    else:
        yield ok("packages", "The versions are those of constraints.txt.")


def constrained(text: str) -> Iterator[tuple[str, str]]:
    """The names and versions of a constraints file."""
    for line in text.splitlines():
        name, found, wanted = line.partition("==")
        if found and not line.startswith("#"):
            yield name.strip(), wanted.partition(";")[0].strip()


def _required() -> set[str]:
    """The packages that the whole platform requires, without what only other extras need."""
    lines = requires("dcc") or ()
    wanted = (line for line in lines if "extra ==" not in line or 'extra == "platform"' in line)
    return {line.partition(";")[0].split(">")[0].split("=")[0].strip() for line in wanted}


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


_ADVICE = "Install a corrected version with pip, or remove the package with pip uninstall."


_ADDED = {RULES: "the rules of", SOURCES: "the protocol", CONVERTERS: "the converter", CHANNELS: "the channel"}


def check_added(environment: Environment) -> Iterator[CheckFinding]:
    """What installed packages add can be used, and protocols have names of their own."""
    well: dict[str, list[str]] = defaultdict(list)
    channels = open_channels(environment.settings)
    faulty = set(channels.faulty)
    taken: dict[str, str] = {str(protocol): "the platform" for protocol in PROTOCOLS}
    for group in (RULES, SOURCES, CONVERTERS):
        for package, entry in added_entries(group):
            try:
                added = load_entry(entry, group)
                if group == CONVERTERS:
                    made_converter(added)
            except ConfigurationError as error:
                yield failed(f"package {package}", str(error), _ADVICE)
                faulty.add(package)
                continue
            if group == SOURCES and len(entry.name) > LONGEST_PROTOCOL:
                yield failed(
                    f"package {package}",
                    f"Its protocol {entry.name} is never used: its name has more than {LONGEST_PROTOCOL} characters.",
                    "Give its entry point a shorter name.",
                )
                faulty.add(package)
                continue
            other = taken.setdefault(entry.name, package) if group == SOURCES else package
            if other != package:
                yield warning(
                    f"package {package}",
                    f"Its protocol {entry.name} is never used: {other} has one of that name.",
                    "Give its entry point another name.",
                )
            well[package].append(f"{_ADDED[group]} {entry.name}")
    for problem in channels.problems:
        yield failed("channels of packages", problem, _ADVICE)
    for package, entry in added_entries(CHANNELS):
        well[package].append(f"{_ADDED[CHANNELS]} {entry.name}")
    for package, added in well.items():
        if package not in faulty:
            yield ok(f"package {package}", f"It adds {', '.join(added)}.")
