"""Suggests the next command after each command: one line on standard error.

A step's `{fields}` are the command's own arguments and options, and the facts that it passed to `note_facts`; the first
step with all fields known is shown. Nothing is suggested with --json, if standard error is a log, after an error, and
with DCC_SUGGESTIONS=false.
"""

from __future__ import annotations

import os
import re
import shlex
import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import click

from dcc.cli.shell.output import printable, wants_json
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


_TABLE: Final = """
init ?created: dcc source add  # registers a centre and its file source: it asks
centre add: dcc source add --centre {code}  # registers where its archives are: it asks
centre list: dcc source list  # where their archives are
centre activate: dcc crawl  # collects what it has published since
centre delegate: dcc centre delegations  # which centre speaks for which
archive status: dcc archive audit  # reads the copies whose turn it is
archive decline: dcc archive declined  # what was turned down, by whom and why
archive list: dcc archive get {archive}  # writes it to a file
archive get: dcc show {archive}  # what became of it
archive declined: dcc status  # held documents
source add: dcc source test {unusable}  # when it should be usable
source add: dcc crawl --source {added}  # collects what is there
source list: dcc source test {first}  # connects to the first of them, step by step
source test: dcc crawl --source {source_id}  # collects what is there
source why: dcc source resume {paused}  # ends the pause
source why: dcc source test {source_id}  # connects to it, step by step
source missing: dcc data proposals  # the withdrawals that are proposed
source change: dcc source test {source_id}  # whether it can be used
source resume: dcc crawl --source {crawlable}  # crawls it now
crawl 0,1,4: dcc show {problem}  # what stopped it
crawl 4: dcc source test {down}  # why it could not be used
crawl 0,1,4: dcc status  # how far everything is
hold ?done: dcc zips --on-hold  # what is on hold
release ?done: dcc crawl  # a session goes on from here
release: dcc zips --on-hold  # what is on hold
cancel: dcc retry {done}  # takes the first of them up again
acknowledge ?done: dcc zips --acknowledged  # what nobody has to act on
retry 0,1,4: dcc show {zip_actions}  # its whole story
status: dcc data plan {held}  # what it would change, if you confirm it
status ?failed: dcc zips --status failed  # which archives failed
status: dcc source test {down}  # why its last crawl failed
status ?without_sources: dcc source add  # registers a file source: it asks
status: dcc session show {in_trouble}  # why the last session did not end well
status ?waits_for_qc: dcc qc contexts --waiting  # data that wait for quality control
status: dcc crawl  # collects new archives
zips: dcc show {first}  # what happened to the first of them
show: dcc data causes --zip {in_error}  # what is wrong in it, by its causes, and who acts
show: dcc retry {faulty}  # processes it again, once the platform is corrected
show: dcc report {failed}  # what to tell the centre
show: dcc data plan {held}  # what it would change, if you confirm it
show: dcc zips --centre {centre}  # the other archives of the centre
report ?without_page: dcc report {zip_action} --html report.html  # the page to send to the centre
report ?without_page: dcc report --centre {centre} --html report.html  # the page to send to the centre
report: dcc report --centre {centre_of_archive}  # all that the centre has submitted
report: dcc data causes --centre {centre} --spreadsheet {centre}.xlsx  # every finding, to be sent with it
session list: dcc session show {last_session}  # what the last one did
session show ?in_error: dcc report --session {session_id}  # what it found, and who acts
session show ?in_trouble: dcc doctor  # what keeps sessions from their work
notify ?planned: dcc notify  # sends the due messages
notify ?listed: dcc status  # how far everything is
notify: dcc notify --list  # which messages were sent, and to whom
data plan: dcc data confirm {held} --reason ...  # lets it take effect
data plan: dcc show {zip_action}  # what happened to it
data confirm: dcc crawl  # goes on with it
data confirm 1: dcc show {zip_action}  # what happened to it
data undo 0,1: dcc show {zip_action}  # what became of it
data proposals accept 0,1: dcc crawl  # brings data contexts and overviews up to date
data proposals turn-down: dcc source missing  # what sources do not list any more
data recheck: dcc crawl  # judges them again
data causes ?found: dcc report {zip_action}  # the answer to the centre
data causes ?unwritten: dcc data causes --centre {centre} --spreadsheet {centre}.xlsx  # every finding, for the centre
data causes ?by_rules: dcc data findings --each  # every finding, with document, line and value
data findings: dcc show {zip_action}  # what happened to the archive
data findings ?counted: dcc data findings --each  # the same one by one, with document, line and value
data findings: dcc rules list  # what each rule asks for
data parameters ?parameter: dcc data export {parameter}.csv --parameter {parameter}  # writes its measurements
data schema ?tables: dcc data schema {tables}  # the columns of a table
data export: dcc data findings  # what is wrong with the data
qc contexts: dcc qc done --help  # says that somebody is done with them
qc expected ?unwritten: dcc qc expected --csv expected.csv  # each animal and colony that lacks a procedure
rules list: dcc data findings  # what they found
rules waivers: dcc data findings  # what rules found
reference list: dcc reference refresh  # retrieves them again
reference refresh: dcc crawl  # judges again what has findings by them
validate 1: dcc explain {kind}  # what this means
validate ?has_tracker: dcc crawl  # collects what is uploaded
replay ?unwritten: dcc replay --page replay.html  # the same as a page
replay: dcc data causes  # what is wrong at present
doctor 4 ?unmade: dcc init  # makes the databases
doctor 1 ?without_sources: dcc source add  # registers a centre and its file source: it asks
upgrade 1 ?pending: dcc init  # brings the databases up to date; back up first: dcc backup
staging list: dcc staging clean --dry-run  # what would be removed
staging clean: dcc staging list  # what is left
backup ?backed_up: dcc backup --verify {directory}  # whether it could be restored
restore: dcc instance rebuild  # has the Dagster UI show what was restored; then a crawl
instance rebuild: dcc ui  # opens the Dagster UI on it
explain: dcc data findings --each --rule {explained_rule}  # what it found
explain: dcc zips --phase {explained_phase} --status {explained_status}  # the submissions there
explain: dcc zips --phase {explained_phase}  # the submissions there
explain: dcc zips --status {explained_status}  # the submissions there
explain: dcc zips --code {explained_error}  # the submissions with it
explain ?of_session: dcc session list  # why each session ended
explain ?of_source: dcc source list  # all file sources
explain ?of_platform: dcc doctor  # whether the installation is fit to work
example: dcc validate {directory}  # checks its archives as the platform would
manifest: dcc validate {path}  # checks the documents as the platform would
init, hold, cancel, acknowledge, zips, show, report, session list, sessions: dcc status  # how far everything is
data history, data record, doctor: dcc status  # how far everything is
centre change, centre deactivate, centre delegations: dcc centre list  # all centres
archive audit, archive repair 0,1,4: dcc archive status  # what each replica holds
source why, source set-state, source pause, source remove: dcc source list  # all file sources
qc done, qc issue, qc reopen, qc history, qc overview: dcc qc contexts --waiting  # data that wait for quality control
qc plot, qc expected, qc recount: dcc qc contexts --waiting  # data that wait for quality control
rules waive, rules revoke: dcc crawl  # judges what it concerns again
upgrade, migrate-storage, settings: dcc doctor  # whether the installation is fit to work
"""
"""The steps after commands, a line for each; before the colon after which exit codes (else 0), and what it `?needs`."""

_LINE = re.compile(r"([a-z ,-]+?)(?: ([\d,]+))?(?: \?(\w+))?: (.+)  # (.+)")
NEXT: Final[dict[str, list[NextStep]]] = defaultdict(list)
"""What is suggested after each command, the first one first that can be."""
for _line in _TABLE.strip().splitlines():
    _read = _LINE.fullmatch(_line)
    if _read is None:
        raise ValueError(_line)
    _commands, _codes, _needs, _next, _why = _read.groups(default="")
    for _command in _commands.split(", "):
        NEXT[_command].append(NextStep(_next, _why, tuple(map(int, (_codes or "0").split(","))), _needs))

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
    if ran is None or not wanted or wants_json():
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
