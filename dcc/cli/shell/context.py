"""Opens what most commands need: the settings of the environment, the tracker and the QC database."""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dcc.cli.shell.output import note_json, warn
from dcc.errors import ConfigurationError, NotFoundError
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.redaction import keep_secret
from dcc.runtime.private_files import replacement_file, writing_errors

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from dcc.settings import Settings

_WARNED = "dcc.warned"
"""The key of a command's warnings in click's context."""

_Command = TypeVar("_Command", bound=Callable[..., Any])

json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=note_json, help="Print JSON on standard output."
)
"""The option of every command that reports."""

reason_option = click.option("--reason", required=True, help="Why, for everybody to read.")
"""The option of every command that records a person's decision."""


def options(*parameters: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """A decorator with options and arguments that several commands have, in the order of their help."""

    def decorate(command: _Command) -> _Command:
        for parameter in reversed(parameters):
            command = parameter(command)
        return command

    return decorate


def settings_from_environment(**overrides: object) -> Settings:
    """The settings; raises ConfigurationError with the name of each wrong one."""
    from dcc.settings import load_settings, renaming_warnings
    from dcc.settings.home import owner_other_than_root

    settings = load_settings(**overrides)
    if _is_first_time("old names"):
        for warning in renaming_warnings(os.environ):
            warn(warning)
    owner = owner_other_than_root(settings.home)
    if owner is not None and _is_first_time("root"):
        # They could not use the files that root makes.
        warn(
            f"DCC_HOME, {settings.home}, belongs to the user {owner}, and root makes files in it that {owner} cannot "
            f"use. Run the command as that user: sudo -u {owner} dcc ..."
        )
    return settings


def _is_first_time(subject: str) -> bool:
    """Whether this is a command's first warning about a subject; there must be a command."""
    context = click.get_current_context(silent=True)
    if context is None:
        return False
    warned: set[str] = context.meta.setdefault(_WARNED, set())
    is_first = subject not in warned
    warned.add(subject)
    return is_first


def open_tracker(settings: Settings) -> AbstractContextManager[Engine]:
    """The tracker, which must have this version's schema; its connections are closed afterwards.

    Raises TrackerOutdatedError, TrackerUnreachableError.
    """
    from dcc.databases.schema import current
    from dcc.tracker import database

    return current(database.open_tracker(settings))


def open_qc(settings: Settings) -> AbstractContextManager[Engine]:
    """The QC database, which must have this version's schema; its connections are closed afterwards.

    Raises QcDatabaseOutdatedError, QcDatabaseUnreachableError.
    """
    from dcc.databases.schema import current
    from dcc.qc import database

    return current(database.open_qc_database(settings))


@contextmanager
def reading_tracker(settings: Settings | None = None) -> Iterator[Connection]:
    """A connection to the tracker, by default that of the environment. Raises as `open_tracker`."""
    with open_tracker(settings or settings_from_environment()) as tracker, tracker.connect() as connection:
        yield connection


@contextmanager
def writing_tracker(settings: Settings | None = None) -> Iterator[Connection]:
    """One write transaction in the tracker, by default that of the environment. Raises as `open_tracker`."""
    from dcc.databases.transactions import writing

    with open_tracker(settings or settings_from_environment()) as tracker, writing(tracker) as connection:
        yield connection


@contextmanager
def reading_qc(settings: Settings | None = None) -> Iterator[Connection]:
    """A connection to the QC database, by default that of the environment. Raises as `open_qc`."""
    with open_qc(settings or settings_from_environment()) as qc, qc.connect() as connection:
        yield connection


def require_centres(settings: Settings, *centres: str | None) -> None:
    """Raise NotFoundError for a centre that the tracker does not know; None is any."""
    from dcc.tracker.register.centres import require_centre

    codes = [code for code in centres if code is not None]
    if codes:
        with reading_tracker(settings) as connection:
            for code in codes:
                require_centre(connection, code)


def require_centre_of_data(qc: Connection, settings: Settings, centre: str | None) -> None:
    """Raise NotFoundError for a centre that has no data and is not registered either; None is any.

    Only for one without data the tracker is asked: who reads the QC database may have none.
    """
    from dcc.analysis.parameters import is_known

    if centre is not None and not is_known(qc, "centre", centre):
        require_centres(settings, centre)


@contextmanager
def any_databases(settings: Settings) -> Iterator[tuple[Engine, Engine]]:
    """The tracker and the QC database, of any schema, or before they are made."""
    from dcc.databases.engines import disposed
    from dcc.qc.database import open_qc_database
    from dcc.tracker import database

    with disposed(database.open_tracker(settings)) as tracker, disposed(open_qc_database(settings)) as qc:
        yield tracker, qc


def parse_submission_key(text: str) -> SubmissionKey:
    """Parse `add/H.2013-10-31.1.impc.zip`; for an archive's name alone, its submission.

    Raises ConfigurationError with the right form, and NotFoundError for a name alone that the tracker does not know.
    """
    action, slash, file_name = text.partition("/")
    if text and not slash and text not in set(Action):
        return _only_action_of(text)
    if action not in set(Action) or not file_name:
        raise ConfigurationError(
            f"{text!r} names no submission. Write it as <action>/<file name>, the action one of "
            f"{', '.join(Action)}: add/H.2013-10-31.1.impc.zip."
        )
    return SubmissionKey(Action(action), file_name)


def _only_action_of(name: str) -> SubmissionKey:
    from dcc.tracker.queries.submission_lists import actions_of_archive
    from dcc.tracker.submission_rows import nearest_submissions

    with reading_tracker() as connection:
        actions = actions_of_archive(connection, name)
        nearest = "" if actions else nearest_submissions(connection, name)
    if not actions:
        raise NotFoundError(
            f"{name!r} names no submission that is known.{nearest} Write it as <action>/<file name>, as `dcc zips` "
            "lists it."
        )
    if len(actions) > 1:
        known = ", ".join(f"{action}/{name}" for action in actions)
        raise ConfigurationError(f"{name!r} names several submissions: {known}. Name one of them.")
    return SubmissionKey(actions[0], name)


def absolute_path(path: str) -> str:
    """The absolute path of a file or folder for the tracker, because other commands may run elsewhere."""
    return str(Path(path).expanduser().absolute())


@contextmanager
def writing_file(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """A new, empty file that replaces the one that a person named at the end of the block.

    Raises ConfigurationError if it cannot be written. What was there is then as before.
    """
    with writing_errors(path), replacement_file(path, mode) as part:
        yield part


def at_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def confirmed(question: str, *, option: str | None, default: bool = False) -> bool:
    """Ask the person at the terminal, and name the environment. Raises click.Abort at the end of input.

    `option` is what says yes where there is no terminal: there it raises ConfigurationError with the question. None is
    for a dialogue, which begins at a terminal only.
    """
    labelled = settings_from_environment().labelled(question)
    if option is not None and not at_terminal():
        raise ConfigurationError(
            f"{labelled} Nobody is at a terminal to answer. If yes, run the command again with {option}."
        )
    return click.confirm(labelled, default=default, err=True)


yes_option = click.option("--yes", is_flag=True, help="Under DCC_ENVIRONMENT=production, do not ask at a terminal.")
"""The option of every command that `ask_in_production` guards."""


def asks_in_production(*, yes: bool) -> bool:
    """Whether to ask before a command changes much; scripts are not asked."""
    return not yes and at_terminal() and settings_from_environment().environment == "production"


def ask_in_production(question: str, *, yes: bool) -> None:
    """Ask before a command changes much in production. Raises ConfigurationError if the person says no."""
    if asks_in_production(yes=yes) and not confirmed(question, option="--yes"):
        raise ConfigurationError("Nothing was changed.")


def user_name() -> str:
    """The user who runs this command, for the tracker's records."""
    try:
        return getpass.getuser()[:64]
    except (KeyError, OSError):
        return "unknown"


PLAIN_HELP = (
    "Keep the password that --accesskey gives in the tracker as it is, where backups and the server have it too."
)


def read_accesskey(given: str, *, plain: bool) -> str:
    """The access key of an option; `-` reads it from standard input, hidden on a terminal.

    Raises ConfigurationError for a password without `plain`, before it is asked for.
    """
    from pydantic import SecretStr

    from dcc.tracker.register.column_texts import is_plain_password

    if given != "-":
        accesskey = given
    elif not plain:
        raise ConfigurationError(_NOT_PLAIN)
    elif at_terminal():
        accesskey = click.prompt("Access key", hide_input=True, err=True)
    else:
        accesskey = sys.stdin.readline().rstrip("\r\n")
        if not accesskey:
            raise ConfigurationError(
                "No access key came on standard input, and nobody is at a terminal to type it. Give it there, or name "
                "what holds it: --accesskey env:NAME or --accesskey file:PATH. For none: --accesskey ''."
            )
    if is_plain_password(SecretStr(accesskey)):
        keep_secret(accesskey)
        if not plain:
            raise ConfigurationError(_NOT_PLAIN)
        return accesskey
    return _FILE_NAMED.sub(lambda found: f"{found[1]}{absolute_path(found[2])}", accesskey)


_FILE_NAMED = re.compile(r"((?:^|\?passphrase=)(?:file|key):)([^?]+)")
"""What names a file in an access key."""

_NOT_PLAIN = (
    "The access key is a password, or names a key file that is not there; the tracker would keep a password as it is. "
    "Name what holds it: --accesskey env:NAME or --accesskey file:PATH (key:PATH for a private key). To have it kept "
    "in the tracker anyway, add --plain."
)
