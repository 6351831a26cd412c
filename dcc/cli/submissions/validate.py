"""`dcc validate`: submissions checked as the platform would, before they are uploaded."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json_list, echo_wrapped, printable, wants_json, warn
from dcc.cli.submissions.show import print_errors
from dcc.errors import ConfigurationError, DocumentError
from dcc.messages import count_of
from dcc.naming import KNOWN_CENTRES
from dcc.runtime.disk_space import is_full
from dcc.runtime.installed_packages import has_platform
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcc.reference.loading import ReferenceData
    from dcc.settings import Settings
    from dcc.validation.verdicts import PathVerdict

_INVALID = 1
_ERRORS_SHOWN = 20
_MISSED_SHOWN = 10
_SKIPPED_SHOWN = 5
_OF_DOCUMENTS = DocumentError.short_name()
_UPLOAD = (
    "Now upload: new data to add/, corrected data to edit/, data to withdraw to delete/. Put the .md5 and the "
    "manifest of an archive beside it, if it has them."
)


@command(
    examples=["dcc validate H.2013-10-31.1.impc.zip", "dcc validate --json exports/ > verdicts.json"],
    exits={0: "all valid", 1: "something is invalid or cannot be read", 2: "a path is missing"},
    offline=True,
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--centre", "centres", multiple=True, metavar="CODE", help="A further centre code; may be repeated.")
@click.option("--all-errors", is_flag=True, help=f"Print all errors of a document, not only {_ERRORS_SHOWN}.")
@click.option(
    "--reference",
    metavar="DIR|URL",
    help="Where the reference data to judge by are; by default those that come with the platform.",
)
@click.option("--schema-only", is_flag=True, help="Hold documents against the schema alone, not against the rules.")
@json_option
@click.pass_context
def validate(
    ctx: click.Context,
    paths: tuple[Path, ...],
    centres: tuple[str, ...],
    all_errors: bool,
    reference: str | None,
    schema_only: bool,
) -> None:
    """Check archives and documents as a session would, offline.

    PATH is an archive, a document or a folder of them; no database is needed. The rules judge documents that follow the
    schema; rules about other documents, such as the animals of experiments, use all files given. A session checks what
    depends on earlier submissions. An archive is checked with its name, every document in it, and its .md5 if it lies
    beside it. In a folder edit or delete, as an edit or deletion. For a single document its root element decides
    what it is; a name that does not follow the convention is then a warning, in an archive it is an error. The known
    centre codes are those of the consortium.

    \b
    JSON: a list of {"path", "valid", "errors": [{"kind", "message", "line", "column"}],
      "warnings": [the same], "missing": [the same: what is in none of the files, and fails or is
      warned of unless it was submitted before]}, one for each archive (its own errors) and one for
      each document (<archive>/<document>)
    """
    from dcc.archives.manifest import MANIFEST_NAMES
    from dcc.cli.shell.error_advice import explain
    from dcc.documents.schema_set import SchemaSet
    from dcc.reference.loading import load_shipped
    from dcc.validation.path_checks import check_paths, skipped_files

    settings = settings_from_environment()
    schemas = SchemaSet.load(settings.xsd_dir)
    known = frozenset(centre.short_name for centre in KNOWN_CENTRES) | frozenset(centres)
    judged_by = None
    if not schema_only:
        judged_by = load_shipped() if reference is None else _reference_data(reference, settings)
    try:
        verdicts = check_paths(paths, settings, known, schemas, judged_by)
    except OSError as error:
        if is_full(error):
            raise
        raise ConfigurationError(
            f"{error.filename or 'The folder for temporary files'} cannot be used: {error.strerror or error}. See to "
            "it, or set TMPDIR to another folder."
        ) from error
    skipped = skipped_files(paths)
    manifests = [file for file in skipped if file.parent in paths and file.name in MANIFEST_NAMES]
    for manifest in manifests:
        warn(f"{manifest} was not compared with the files: pack them, and validate the archive.")
    if unchecked := [str(file) for file in skipped if file not in manifests]:
        warn(
            f"{count_of(len(unchecked), 'file')} not checked, since the name is of no archive, document or table: "
            f"{_first_of(unchecked, _SKIPPED_SHOWN)}."
        )
    note_facts(has_tracker=_has_tracker(settings))
    counts = _Counts()
    counted = map(counts.take, verdicts)
    if wants_json():
        echo_json_list(fields_of(verdict, "path", "valid", "errors", "warnings", "missing") for verdict in counted)
    else:
        for verdict in counted:
            _print_verdict(verdict, None if all_errors else _ERRORS_SHOWN)
        invalid = f"{counts.invalid:,} not valid" if counts.invalid else "all valid"
        click.echo(f"{count_of(counts.files, 'file')} checked, {invalid}.", err=True)
        click.echo(
            "Not checked: the rules. A session checks them." if schema_only else counts.checks_left_out, err=True
        )
        if not counts.invalid and not has_platform():
            click.echo(_UPLOAD, err=True)
    if counts.first_error is not None:
        entry = explain(counts.first_error)
        note_facts(kind=counts.first_error if entry is None else entry.id)
    ctx.exit(_INVALID if counts.invalid else 0)


def _first_of(names: Sequence[str], most: int) -> str:
    """The first names of many, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _has_tracker(settings: Settings) -> bool:
    """Whether this machine has an installation: a tracker on a server, or its file."""
    scheme, _, file = settings.tracker_database_url.partition(":///")
    return not scheme.startswith("sqlite") or os.access(file, os.F_OK)


@dataclass
class _Counts:
    """Totals of verdicts, none of which is kept."""

    files: int = 0
    invalid: int = 0
    first_error: str | None = None
    missing: dict[tuple[str, str], None] = field(default_factory=dict)

    def take(self, verdict: PathVerdict) -> PathVerdict:
        """Count a verdict, and pass it on."""
        self.files += 1
        self.invalid += not verdict.valid
        for one in verdict.missing:
            told = one.fact.all_details
            self.missing[str(told["centre"]), str(told["value"])] = None
        if self.first_error is None:
            # That documents of an archive would fail is told by the errors of these.
            self.first_error = next((error.kind for error in verdict.errors if error.kind != _OF_DOCUMENTS), None)
        return verdict

    @property
    def checks_left_out(self) -> str:
        """The checks that could not be made, in one line."""
        from dcc.rules.checking import JUDGED_TOGETHER, LEFT_TO_SESSIONS

        first = printable(_first_of([name for _, name in self.missing], _MISSED_SHOWN))
        named = f" They miss {count_of(len(self.missing), 'animal')}: {first}." if self.missing else ""
        if self.missing and self.invalid:
            named += " Some may be in the files that are not valid."
        rules, beyond = (", ".join(sorted(some)) for some in (LEFT_TO_SESSIONS, JUDGED_TOGETHER))
        return (
            f"Not checked, since it needs what was submitted before: {rules}, and {beyond} beyond these "
            f"files.{named} A session checks it."
        )


def _reference_data(place: str, settings: Settings) -> ReferenceData:
    from dcc.reference.loading import load_reference_data
    from dcc.reference.web_reader import load_from_url
    from dcc.settings.reference import is_url

    if is_url(place):
        return load_from_url(place, settings)
    if not Path(place).is_dir():
        raise ConfigurationError(f"No folder {place} with reference data exists. Name a folder or a URL.")
    return load_reference_data(Path(place))


def _print_verdict(verdict: PathVerdict, limit: int | None) -> None:
    mark = click.style("valid  ", fg="green") if verdict.valid else click.style("INVALID", fg="red")
    click.echo(f"{mark}  {printable(verdict.path)}")
    print_errors(verdict.errors, limit, hint="`dcc validate --all-errors` prints them all.")
    for warning in verdict.warnings:
        place = "" if not warning.place else f"{warning.place}: {warning.kind}: "
        echo_wrapped(f"  {click.style('warning', fg='yellow')}: {place}{printable(warning.fact)}", indent="      ")
