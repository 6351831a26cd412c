"""The check of what other packages add: rules, protocols, converters and channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dcc.converters.conversion import made_converter
from dcc.errors import ConfigurationError
from dcc.notify.channels.base import open_channels
from dcc.operations.doctor.checks import CheckFinding, Environment, failed, ok, warning
from dcc.runtime.installed_packages import CHANNELS, CONVERTERS, RULES, SOURCES, added_entries, load_entry
from dcc.sources.connect import OPENERS

_ADVICE = "Install a corrected version with pip, or remove the package with pip uninstall."


def check_added(environment: Environment) -> Iterator[CheckFinding]:
    """What installed packages add can be used, and protocols have names of their own."""
    well: dict[str, list[str]] = defaultdict(list)
    taken: dict[str, str] = {str(protocol): "the platform" for protocol in OPENERS}
    for group in (RULES, SOURCES, CONVERTERS):
        for package, entry in added_entries(group):
            try:
                added = load_entry(entry, group)
                if group == CONVERTERS:
                    made_converter(added)
            except ConfigurationError as error:
                yield failed(f"package {package}", str(error), _ADVICE)
                continue
            other = taken.setdefault(entry.name, package) if group == SOURCES else package
            if other != package:
                yield warning(
                    f"package {package}",
                    f"Its protocol {entry.name} is never used: {other} has one of that name.",
                    "Give its entry point another name.",
                )
            well[package].append(f"{entry.value} ({group})")
    problems: list[str] = []
    open_channels(environment.settings, problems)
    for problem in problems:
        yield failed("channels of packages", problem, _ADVICE)
    for package, entry in () if problems else added_entries(CHANNELS):
        well[package].append(f"{entry.value} ({CHANNELS})")
    for package, added in well.items():
        yield ok(f"package {package}", f"It adds {', '.join(added)}.")
