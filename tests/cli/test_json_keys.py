"""What `--json` prints, beside what each command's help says of it: no key that a reader of the help does not know."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dcc.cli.main import dcc as command
from tests.cli.test_demo import Demonstration
from tests.cli.test_main import ALL

HELP = {
    " ".join(path): (found.help or "").partition("JSON")[2]
    for path, found in ALL.items()
    if any("--json" in parameter.opts for parameter in found.params)
}
"""What the help of each command with --json says of it."""
H, J, REFUSED, DAMAGED = (
    f"add/{name}.zip"
    for name in ("H.2013-11-04.3.impc", "J.2013-11-04.28.impc", "jax_november_final", "J.2013-11-01.27.impc")
)
EDIT = "edit/H.2013-11-05.4.impc.zip"
COMMANDS = f"""
    status
    centre list
    centre add Ics
    centre change Ics --email data@ics.example.org
    centre delegate H --to J --until 2027-06-30
    centre delegations
    source list
    source add --centre Ics --protocol file --base-path ics --no-test
    source test 3
    source why 2
    source missing 3
    zips --status failed
    zips
    show {H}
    show {J}
    show {DAMAGED}
    show {REFUSED}
    archive list {H}
    archive audit
    archive status
    archive status --audits
    archive repair
    hold {H} --reason x
    show {H}
    release {H}
    acknowledge {DAMAGED} --reason x
    cancel {H} --reason x --dry-run
    retry {J} --dry-run
    session list
    session show 1
    sessions
    report {J}
    report --centre J
    report --session 1
    notify --list
    notify --session 1 --dry-run
    data history --centre H --specimen H-M000003
    data causes
    data causes --zip {J}
    data record specimen H-M000003 --centre H
    data findings
    data findings --each
    data parameters weight
    data schema
    data export one.csv
    data export many --partitioned
    data recheck --centre H --reason x
    data undo {EDIT} --reason x
    data proposals
    qc contexts
    qc done --centre Tcp --reason x
    qc reopen --centre Tcp --reason x
    qc issue --centre Tcp --parameter IMPC_GRS_001_001 --reason x
    qc history --centre Tcp
    qc overview genotypes
    qc overview strains
    qc overview animals
    qc overview metadata-groups
    qc recount --reason x
    qc plot --centre H --parameter IMPC_CBC_004_001 --output urea.svg
    qc expected
    rules list
    rules waive P9 --centre J --reason x
    rules waivers
    rules revoke 1 --reason x
    reference list
    reference refresh
    example centre --kind data-errors
    validate centre
    manifest centre/add
    replay --limit 3
    explain
    explain S4
    settings
    settings --write written.toml
    doctor
    upgrade --check
    metrics
    staging list
    staging list --files
    staging clean --dry-run
    crawl
    init
    backup backups
    backup --verify backups
    restore backups --replace --yes
    instance rebuild
"""
ELSEWHERE = {
    "archive decline",
    "archive declined",
    "data confirm",
    "data plan",
    "data proposals accept",
    "data proposals turn-down",
    "migrate-storage",
}
"""Commands that the demonstration has nothing for: the tests of each look at what they print."""
KEYED_BY_DATA = {("session show", "seconds"), ("data causes", "entities"), ("metrics", "labels")}
"""Objects whose keys are data, such as names of phases; and the commands that print them."""


def test_the_help_names_every_key(
    demonstration: Demonstration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(demonstration[0] / ".demo", tmp_path / ".demo")
    monkeypatch.chdir(tmp_path)
    environment = {"DCC_HOME": str(tmp_path / ".demo" / "home"), "DCC_SUGGESTIONS": "false"}
    run, unknown = set(), {}
    for line in filter(None, map(str.strip, COMMANDS.splitlines())):
        name = next(name for name in sorted(HELP, key=len, reverse=True) if f"{line} ".startswith(f"{name} "))
        result = CliRunner(env=environment).invoke(command, [*line.split(), "--json"], prog_name="dcc")
        assert result.exit_code in (0, 1, 4), f"{line}: {result.output}"
        named = set(re.findall(r"\w+", _told_of(name)))
        missing = sorted(set(_keys(json.loads(result.stdout), name)) - named)
        unknown |= {line: missing} if missing else {}
        run.add(name)
    assert unknown == {}, "Say what these keys are, in the help of their commands."
    assert run | ELSEWHERE == HELP.keys(), "Add a line to COMMANDS for each command with --json."


def _told_of(name: str) -> str:
    """What a command's help says of its JSON, with that of the commands which it refers to."""
    told, texts = [name], []
    for one in told:
        texts.append(HELP[one])
        references = re.findall(r"`dcc ([a-z -]+)", HELP[one])
        told += [
            other
            for other in HELP
            if other not in told and any(f"{reference} ".startswith(f"{other} ") for reference in references)
        ]
    return " ".join(texts)


def _keys(value: Any, name: str, of: str = "") -> Iterator[str]:
    """The keys of all objects in a value that a command printed, but for those that are data."""
    if isinstance(value, list):
        for one in value:
            yield from _keys(one, name, of)
    elif isinstance(value, dict):
        for key, one in value.items():
            if (name, of) not in KEYED_BY_DATA:
                yield key
            # The help on reports names what is in it, and says "..." of the rest.
            if name != "report":
                yield from _keys(one, name, key)
