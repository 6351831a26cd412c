"""Suggests the next command after each command: one line on standard error.

A step's `{fields}` are the command's own arguments and options, and the facts that it passed to `note_facts`; the first
step with all fields known is shown. Nothing is suggested with --json, if standard error is a log, after an error, and
with DCC_SUGGESTIONS=false.
"""

from __future__ import annotations

import os
import shlex
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import click

from dcc.cli.shell.output import printable
from dcc.configuration_file import configured_variables
from dcc.runtime.logging_setup import log_plan


class NextStep(NamedTuple):
    """The next command and its purpose; `codes` are the exit codes after which it is suggested.

    `needs` names a further fact that must be known.
    """

    command: str
    why: str
    codes: tuple[int, ...] = (0,)
    needs: str = ""


_SHOW_CODES = (0, 1)
_ANY = (0, 1, 4)
_STATUS = NextStep("dcc status", "how far everything is")
_CRAWL = NextStep("dcc crawl", "a session goes on from here")
_CONTEXTS = NextStep("dcc qc contexts --waiting", "data that wait for quality control")
_CENTRES = NextStep("dcc centre list", "all centres")
_SOURCES = NextStep("dcc source list", "all file sources")

NEXT: Final[Mapping[str, tuple[NextStep, ...]]] = {
    "init": (NextStep("dcc source add", "registers a centre and its file source: it asks", needs="created"), _STATUS),
    "centre add": (NextStep("dcc source add --centre {code}", "registers where its archives are: it asks"),),
    "centre change": (_CENTRES,),
    "centre list": (NextStep("dcc source list", "where their archives are"),),
    "centre activate": (NextStep("dcc crawl", "collects what it has published since"),),
    "centre deactivate": (_CENTRES,),
    "centre delegate": (NextStep("dcc centre delegations", "which centre speaks for which"),),
    "centre delegations": (_CENTRES,),
    "archive status": (NextStep("dcc archive audit", "reads the copies whose turn it is"),),
    "archive audit": (NextStep("dcc archive status", "what each replica holds", codes=_ANY),),
    "archive repair": (NextStep("dcc archive status", "what each replica holds", codes=_ANY),),
    "archive decline": (NextStep("dcc archive declined", "what was turned down, by whom and why"),),
    "archive list": (NextStep("dcc archive get {archive}", "writes it to a file"),),
    "archive get": (NextStep("dcc show {archive}", "what became of it"),),
    "archive declined": (NextStep("dcc status", "held documents"),),
    "source add": (
        NextStep("dcc source test {unusable}", "when it should be usable"),
        NextStep("dcc crawl --source {added}", "collects what is there"),
    ),
    "source list": (NextStep("dcc source test {first}", "connects to the first of them, step by step"),),
    "source test": (NextStep("dcc crawl --source {source_id}", "collects what is there"),),
    "source why": (NextStep("dcc source test {source_id}", "connects to it, step by step"), _SOURCES),
    "source missing": (NextStep("dcc data proposals", "the withdrawals that are proposed"),),
    "source change": (NextStep("dcc source test {source_id}", "whether it can be used"),),
    "source set-state": (_SOURCES,),
    "source pause": (_SOURCES,),
    "source resume": (NextStep("dcc crawl --source {source_id}", "crawls it now"),),
    "source remove": (_SOURCES,),
    "crawl": (
        NextStep("dcc show {problem}", "what stopped it", codes=_ANY),
        NextStep("dcc source test {down}", "why it could not be used", codes=(4,)),
        NextStep("dcc status", "how far everything is", codes=_ANY),
    ),
    "hold": (NextStep("dcc zips --on-hold", "what is on hold", needs="done"), _STATUS),
    "release": (_CRAWL,),
    "cancel": (NextStep("dcc retry {done}", "takes the first of them up again"), _STATUS),
    "acknowledge": (NextStep("dcc zips --acknowledged", "what nobody has to act on", needs="done"), _STATUS),
    "retry": (NextStep("dcc show {zip_actions}", "its whole story", codes=_ANY),),
    "status": (
        NextStep("dcc data plan {held}", "what it would change, if you confirm it"),
        NextStep("dcc zips --status failed", "which archives failed", needs="failed"),
        NextStep("dcc source test {down}", "why its last crawl failed"),
        NextStep("dcc source add", "registers a file source: it asks", needs="without_sources"),
        NextStep("dcc session show {in_trouble}", "why the last session did not end well"),
        _CONTEXTS._replace(needs="waits_for_qc"),
        NextStep("dcc crawl", "collects new archives"),
    ),
    "zips": (
        NextStep("dcc show {first}", "what happened to the first of them"),
        NextStep("dcc status", "how far everything is"),
    ),
    "show": (
        NextStep("dcc data causes --zip {in_error}", "what is wrong in it, by its causes, and who acts"),
        NextStep("dcc retry {faulty}", "processes it again, once the platform is corrected"),
        NextStep("dcc report {failed}", "what to tell the centre"),
        NextStep("dcc data plan {held}", "what it would change, if you confirm it"),
        NextStep("dcc zips --centre {centre}", "the other archives of the centre"),
        _STATUS,
    ),
    "report": (
        NextStep("dcc report {zip_action} --html report.html", "the page to send to the centre", needs="without_page"),
        NextStep(
            "dcc report --centre {centre} --html report.html", "the page to send to the centre", needs="without_page"
        ),
        NextStep("dcc report --centre {centre_of_zip}", "all that the centre has submitted"),
        NextStep("dcc data causes --centre {centre} --spreadsheet {centre}.xlsx", "every finding, to be sent with it"),
        _STATUS,
    ),
    "session list": (NextStep("dcc session show {last_session}", "what the last one did"), _STATUS),
    "session show": (NextStep("dcc report --session {session_id}", "what it found, and who acts", needs="in_error"),),
    "sessions": (_STATUS,),
    "notify": (
        NextStep("dcc notify", "sends the due messages", needs="dry_run"),
        NextStep("dcc status", "how far everything is", needs="listed"),
        NextStep("dcc notify --list", "which messages were sent, and to whom"),
    ),
    "data plan": (
        NextStep("dcc data confirm {held} --reason ...", "lets it take effect"),
        NextStep("dcc show {zip_action}", "what happened to it"),
    ),
    "data confirm": (
        NextStep("dcc crawl", "goes on with it"),
        NextStep("dcc show {zip_action}", "what happened to it", codes=(1,)),
    ),
    "data undo": (NextStep("dcc show {zip_action}", "what became of it", codes=_SHOW_CODES),),
    "data proposals accept": (
        NextStep("dcc crawl", "brings data contexts and overviews up to date", codes=_SHOW_CODES),
    ),
    "data proposals turn-down": (NextStep("dcc source missing", "what sources do not list any more"),),
    "data history": (_STATUS,),
    "data recheck": (NextStep("dcc crawl", "judges them again"),),
    "data causes": (
        NextStep("dcc report {zip_action}", "the answer to the centre", needs="found"),
        NextStep(
            "dcc data causes --centre {centre} --spreadsheet {centre}.xlsx",
            "the same with every finding, to be sent to the centre",
            needs="unwritten",
        ),
        NextStep("dcc data findings --each", "every finding, with document, line and value", needs="by_rules"),
    ),
    "data findings": (
        NextStep("dcc show {zip_action}", "what happened to the archive"),
        NextStep("dcc data findings --each", "the same one by one, with document, line and value", needs="counted"),
        NextStep("dcc rules list", "what each rule asks for"),
    ),
    "data record": (_STATUS,),
    "data parameters": (
        NextStep(
            "dcc data export {parameter}.csv --parameter {parameter}", "writes its measurements", needs="parameter"
        ),
    ),
    "data schema": (NextStep("dcc data schema {tables}", "the columns of a table", needs="tables"),),
    "data export": (NextStep("dcc data findings", "what is wrong with the data"),),
    "qc contexts": (NextStep("dcc qc done --help", "says that somebody is done with them"),),
    "qc done": (_CONTEXTS,),
    "qc issue": (_CONTEXTS,),
    "qc reopen": (_CONTEXTS,),
    "qc history": (_CONTEXTS,),
    "qc overview": (_CONTEXTS,),
    "qc plot": (_CONTEXTS,),
    "qc expected": (
        NextStep(
            "dcc qc expected --csv expected.csv", "each animal and colony that lacks a procedure", needs="unwritten"
        ),
        _CONTEXTS,
    ),
    "qc recount": (_CONTEXTS,),
    "rules list": (NextStep("dcc data findings", "what they found"),),
    "rules waive": (NextStep("dcc crawl", "judges what it concerns again"),),
    "rules revoke": (NextStep("dcc crawl", "judges what it concerns again"),),
    "rules waivers": (NextStep("dcc data findings", "what rules found"),),
    "reference list": (NextStep("dcc reference refresh", "retrieves them again"),),
    "reference refresh": (NextStep("dcc crawl", "judges again what has findings by them"),),
    "validate": (
        NextStep("dcc explain {kind}", "what this means", codes=(1,)),
        NextStep("dcc crawl", "collects what is uploaded"),
    ),
    "replay": (
        NextStep("dcc replay --page replay.html", "the same as a page", needs="unwritten"),
        NextStep("dcc data causes", "what is wrong at present"),
    ),
    "doctor": (
        NextStep("dcc init", "makes the databases", (4,), needs="unmade"),
        NextStep("dcc source add", "registers a centre and its file source: it asks", (1,), needs="without_sources"),
        _STATUS,
    ),
    "upgrade": (
        NextStep("dcc init", "brings the databases up to date; back up first: dcc backup", (1,), needs="pending"),
        NextStep("dcc doctor", "whether the installation is fit to work"),
    ),
    "staging list": (NextStep("dcc staging clean --dry-run", "what would be removed"),),
    "staging clean": (NextStep("dcc staging list", "what is left"),),
    "backup": (NextStep("dcc backup --verify {directory}", "whether it could be restored"),),
    "restore": (NextStep("dcc instance rebuild", "has the Dagster UI show what was restored; then a crawl"),),
    "migrate-storage": (NextStep("dcc doctor", "whether the installation is fit to work"),),
    "instance rebuild": (NextStep("dcc ui", "opens the Dagster UI on it"),),
    "settings": (NextStep("dcc doctor", "whether the installation is fit to work"),),
    "explain": (
        NextStep("dcc data findings --each --rule {explained_rule}", "what it found"),
        NextStep("dcc zips --phase {explained_phase} --status {explained_status}", "the submissions there"),
        NextStep("dcc zips --phase {explained_phase}", "the submissions there"),
        NextStep("dcc zips --status {explained_status}", "the submissions there"),
        NextStep("dcc zips --code {explained_error}", "the submissions with it"),
        NextStep("dcc session list", "why each session ended", needs="of_session"),
        NextStep("dcc source list", "all file sources", needs="of_source"),
        NextStep("dcc doctor", "whether the installation is fit to work", needs="of_platform"),
    ),
    "example": (NextStep("dcc validate {directory}", "checks its archives as the platform would"),),
    "manifest": (NextStep("dcc validate {path}", "checks the documents as the platform would"),),
}

_FACTS = "dcc.facts"
_RUN = "dcc.run"
_NO = frozenset({"0", "off", "f", "false", "n", "no"})


class CommandContext(click.Context):
    """The context of a command, which keeps its facts for the suggestion afterwards."""

    def invoke(self, callback: Any, /, *arguments: Any, **options: Any) -> Any:
        """Run the command."""
        self.meta[_RUN] = self
        return super().invoke(callback, *arguments, **options)


def note_facts(**facts: object) -> None:
    """Note what the running command found, for the steps that depend on it; empty values count as unknown."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta.setdefault(_FACTS, {}).update(facts)


def suggest_next(root: click.Context, exit_code: int, runs_here: Callable[[str], bool]) -> None:
    """Print the suggestion after a command that ended with `exit_code`, if there is one that runs here."""
    ran = root.meta.get(_RUN)
    # Read without the settings, whose import takes longer than some commands.
    wanted = configured_variables(os.environ).get("DCC_SUGGESTIONS", "").lower() not in _NO
    if ran is None or not wanted or ran.params.get("as_json"):
        return
    plan = log_plan()
    if plan is not None and plan.file is None:
        return
    known = {**ran.params, **root.meta.get(_FACTS, {})}
    steps = NEXT.get(ran.command_path.partition(" ")[2], ())
    line = next_line([step for step in steps if runs_here(step.command.split()[1])], exit_code, known)
    if line is not None:
        click.secho(line, err=True, dim=True)


def next_line(steps: Iterable[NextStep], exit_code: int, known: Mapping[str, object]) -> str | None:
    """`Next: dcc crawl  # purpose`, of the first step for this exit code with all facts known."""
    for step in steps:
        values = {name: _word(known.get(name)) for name in step_fields(step)}
        if exit_code in step.codes and all(values.values()):
            return f"Next: {step.command.format(**values)}  # {step.why}"
    return None


def step_fields(step: NextStep) -> list[str]:
    """The names of the facts that a step needs."""
    named = [name for _, name, _, _ in string.Formatter().parse(step.command) if name]
    return [*named, *([step.needs] if step.needs else [])]


def _word(value: object) -> str:
    """A value as a word of a shell's command line, the first one of several; empty if unknown."""
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    if value is None or value is False or value == "":
        return ""
    return shlex.quote(printable(value))
