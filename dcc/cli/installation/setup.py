"""`dcc init`, `demo`, `instance`, `settings` and `completion`: set up an installation and show its settings."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import get_completion_class

from dcc.cli.shell.context import any_databases, json_option, open_tracker, settings_from_environment
from dcc.cli.shell.dagster_side import dagster_side
from dcc.cli.shell.group import CommandGroup, command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_result, printable, wants_json
from dcc.configuration_file import NAME, VARIABLE, configuration_path
from dcc.errors import ConfigurationError
from dcc.runtime.private_files import PRIVATE_FILE, keep_earlier, make_directory, replacement_file, writing_errors

if TYPE_CHECKING:
    from sqlalchemy import URL

    from dcc.databases.schema import InitReport
    from dcc.settings import ConfiguredSettings, Settings


@command(
    examples=[
        "dcc init",
        "export DCC_TRACKER_URL=mysql://dcc_init:secret@db.example.org/phenodcc_tracker",
        "export DCC_QC_URL=mysql://dcc_init:secret@db.example.org/phenodcc_raw",
        "dcc init",
        "export DCC_DAGSTER_URL=mysql://dcc_init:secret@db.example.org/phenodcc_dagster",
        "dcc init --production --grants > accounts.sql",
        "dcc init --production",
    ],
    exits={2: "a database is of a newer version, its server is too old"},
)
@click.option(
    "--production", is_flag=True, help="Have Dagster's storage on the server too, and print the grants of each account."
)
@click.option("--grants", "only_grants", is_flag=True, help="With --production: only print the grants.")
@click.option(
    "--from-host",
    metavar="HOST",
    help="With --production: where accounts connect from; by default as the one in use, else % (anywhere).",
)
@click.option("--force", is_flag=True, help="With --production: replace dagster.yaml, and keep the earlier one.")
@json_option
def init(production: bool, only_grants: bool, from_host: str | None, force: bool) -> None:
    """Make the databases, or upgrade older ones.

    Both are SQLite in DCC_HOME unless DCC_TRACKER_URL and DCC_QC_URL name databases on a MySQL or MariaDB server.
    Running it again changes nothing. No other command changes the schema.

    With --production, DCC_DAGSTER_URL and the other two name databases on a server, and Dagster keeps its runs and
    events there too. The command makes its tables, and writes DCC_HOME/dagster/dagster.yaml, which names the variable
    and contains no password. An existing file stays. Then it prints the SQL that makes an account for each use, with
    only the rights that it needs. --grants prints only that, for the server's administrator, and connects to nothing.
    Last it says what is left to do.

    JSON: {"tracker", "created", "from", "to", "qc_database"}: the tracker's URL without the password, whether it is
    new, the schema before (null if it is new) and at present; and an object with the same of the QC
    database: {"url", "created", "from", "to"}. With --production also "dagster": {"url", "created", "from", "to"},
    "dagster_yaml": {"path", "written", "kept"}, "grants", a list of lines of SQL; with --grants these alone; and
    "left", a list of sentences with what is left to do.
    """
    from dcc.databases.grants import grant_statements
    from dcc.databases.schema import init_database

    if not production and (only_grants or force or from_host is not None):
        raise click.UsageError("--grants, --from-host and --force go with --production.")
    settings = settings_from_environment()
    urls = _require_production(settings) if production else None
    if urls and only_grants:
        lines = grant_statements(*urls, from_host or "%")
        echo_result({"grants": lines}, *lines)
        return
    # Before anything is made: it is refused if it uses other databases.
    configuration = _write_configuration(settings, replace=False) if production and not force else {}
    with any_databases(settings) as (tracker, qc):
        of_tracker, of_qc = init_database(tracker), init_database(qc)
    if urls:
        dagster_url = urls[-1].render_as_string(hide_password=False)
        of_dagster = dagster_side().init_dagster_database(dagster_url)
        # Once all databases are there: the present file is of an installation that works.
        configuration = configuration or _write_configuration(settings, replace=True)
    if settings.dagster_home.is_dir():
        # The first session makes a missing instance.
        dagster_side().upgrade_instance(settings)
    made = _made("tracker database", settings.tracker_database_url, of_tracker)
    of_others = {"qc_database": _made("QC database", settings.qc_database_url, of_qc)}
    if urls:
        of_others["dagster"] = _made("Dagster database", dagster_url, of_dagster)
        of_others |= _tell_what_is_left(settings, urls, from_host, configuration)
    if wants_json():
        echo_json({"tracker": made.pop("url"), **made, **of_others})
    note_facts(created=of_tracker.created)


def _write_configuration(settings: Settings, *, replace: bool) -> dict[str, object]:
    """Write `dagster.yaml` if there is none; returns its path, whether it was written, and the replaced one's.

    Raises ConfigurationError if an existing file does not use the databases (unless `replace`), and
    DagsterStorageError.
    """
    path = dagster_side().configuration_path(settings)
    was_there = path.exists()
    kept = dagster_side().write_configuration(settings, replace=replace)
    return {"path": path, "written": not was_there or kept is not None, "kept": kept}


def _tell_what_is_left(
    settings: Settings, urls: tuple[URL, URL, URL], from_host: str | None, configuration: dict[str, object]
) -> dict[str, Any]:
    """Print what became of `dagster.yaml`, the accounts and what is left to do; returns them for JSON."""
    from dcc.databases.grants import client_host_of, grant_statements
    from dcc.tracker.register.source_addresses import load_addresses

    with open_tracker(settings) as tracker, tracker.connect() as connection:
        grants = grant_statements(*urls, from_host or client_host_of(tracker))
        has_sources = bool(load_addresses(connection, only_crawlable=False))
    left = _left_to_do(settings, configuration_path(os.environ), has_sources=has_sources)
    if not wants_json():
        did = (
            f"Wrote {configuration['path']}." if configuration["written"] else f"Kept {configuration['path']} as it is."
        )
        click.echo(did)
        if configuration["kept"] is not None:
            click.echo(f"The one before is {configuration['kept']}. Then: dcc instance rebuild.")
        click.echo("\n".join(["The accounts, for whoever looks after the server:", "", *grants]))
        # On the other stream, so that what is piped into the server is SQL.
        steps = [f"{place}. {step}" for place, step in enumerate(left, 1)]
        click.echo("\n".join(["", "Left to do:", *steps]), err=True)
    return {"dagster_yaml": configuration, "grants": grants, "left": left}


def _made(noun: str, url: str, report: InitReport) -> dict[str, Any]:
    """What became of a database as JSON, which is printed for people."""
    shown, before, after = shown_url(url), report.from_revision, report.to_revision
    if not wants_json():
        changed = f"Brought the {noun} {shown} from schema {before} to {after}."
        same = f"The {noun} {shown} is up to date (schema {after})."
        click.echo(f"Made the {noun} {shown}." if report.created else same if before == after else changed)
    return {"url": shown, "created": report.created, "from": before, "to": after}


def shown_url(database_url: str | URL) -> str:
    """A database's URL, as settings give it, without its password."""
    from sqlalchemy.engine import make_url

    url = make_url(database_url)
    hidden = {name: "***" if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=hidden).render_as_string(hide_password=True)


@command(
    examples=[
        "DCC_DOWNLOADERS=12 dcc settings",
        "DCC_DOWNLOADERS=12 dcc settings --write",
        "dcc settings --write /etc/dcc/dcc.toml",
    ],
    exits={2: "a setting is wrong, or the file cannot be written"},
    offline=True,
)
@click.option(
    "--write",
    "target",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Write the configuration file with every setting, by default where commands read it.",
)
@json_option
def show_settings(target: str | None) -> None:
    """List every setting, its value and the value's origin.

    A setting comes from its environment variable, else from the configuration file, else it has its default. The file
    is dcc.toml in DCC_HOME, or the one that DCC_CONFIG names. Secrets are masked.

    With --write, the file is written with the values that are set now, secrets too, and with all other settings in
    comments. Only this user can read it. An earlier file is kept beside it, as FILE.before, the next as FILE.before.2.

    JSON: a list of {"name", "variable", "value", "from" (environment, file, default), "description"}; with --write
    {"path", "written" (the names of the settings that are set in it), "kept" (the path of the earlier file, or null)}
    """
    settings = settings_from_environment()
    if target is not None:
        _write_settings(settings, target)
        return
    from dcc.settings import configured_settings

    given = configured_settings(os.environ)
    entries = _setting_entries(settings, given)
    if wants_json():
        echo_json(entries)
        return
    click.echo(f"Configuration file: {printable('none' if given.file is None else given.file.path)}")
    for entry in entries:
        is_default = entry["from"] == "default"
        origin = "default" if is_default else click.style(str(entry["from"]), fg="green")
        click.echo(f"{click.style(str(entry['variable']), bold=True)} = {printable(entry['value'])} ({origin})")
        click.echo(f"    {entry['description']}")


def _write_settings(settings: Settings, target: str) -> None:
    from dcc.settings import configured_settings, variable_of
    from dcc.settings.settings_page import configuration_text

    given = configured_settings(os.environ)
    usual = configuration_path(os.environ)
    path = Path(target).expanduser().absolute() if target or usual is None else usual
    with writing_errors(path):
        kept = keep_earlier(path) if path.exists() else None
        make_directory(path.parent)
        with replacement_file(path, PRIVATE_FILE) as part:
            part.write_text(configuration_text(given, settings, path), "utf-8")
    if wants_json():
        written = sorted({**given.of_file, **given.environment})
        echo_json({"path": str(path), "written": written, "kept": None if kept is None else str(kept)})
        return
    click.echo(f"Wrote {printable(path)}." + (f" The earlier file is {printable(kept)}." if kept else ""))
    if path != usual:
        click.echo(f"Commands read it if {VARIABLE}={printable(path)} is in their environment.")
    named = ", ".join(variable_of(name) for name in sorted(given.environment) if name != "home")
    if named:
        click.echo(f"These variables override it as long as they are set: {named}.")


def _setting_entries(settings: Settings, given: ConfiguredSettings) -> list[dict[str, object]]:
    from pydantic import SecretStr

    from dcc.settings import variable_of
    from dcc.settings.reference import shown_source

    in_effect: dict[str, object] = {
        "tracker_url": shown_url(settings.tracker_database_url),
        "qc_url": shown_url(settings.qc_database_url),
        "dagster_url": None if settings.dagster_url is None else shown_url(settings.dagster_url.get_secret_value()),
        "staging": settings.staging_directory,
        **{
            f"reference_{name}": None if source is None else shown_source(source)
            for name, source in settings.reference_sources.items()
        },
    }
    entries: list[dict[str, object]] = []
    for name, field in type(settings).model_fields.items():
        value, origin = in_effect.get(name, getattr(settings, name)), given.origin_of(name)
        if isinstance(value, SecretStr):
            # What nobody gave, the default, is no secret.
            value = value.get_secret_value() if origin == "default" else "***"
        variable, description = variable_of(name), field.description
        entries.append({"name": name, "variable": variable, "value": value, "from": origin, "description": description})
    return entries


@click.group(cls=CommandGroup)
def instance() -> None:
    """Maintain the Dagster instance, which shows the tracker."""


@instance.command(
    examples=["rm -rf ~/.dcc/dagster && dcc instance rebuild"],
    exits={3: "", 4: "it, or Dagster's storage, cannot be reached"},
)
@json_option
def rebuild() -> None:
    """Rebuild the Dagster instance from the tracker.

    For a lost instance. The tracker is the truth: this writes partitions, materialisations and failed checks for
    everything in it. Stop `dcc ui` and `dcc daemon` first.

    JSON: {"file_sources", "zip_actions", "failed", "centres", "run_id"}: how many of each it shows, the submissions
    that failed, and the centres with data
    """
    settings = settings_from_environment()
    say = None if wants_json() else lambda message: click.echo(printable(message), err=True)
    with open_tracker(settings) as tracker, dagster_side().open_instance(settings) as dagster:
        report = dagster_side().rebuild_instance(settings, tracker, dagster, say)
    if wants_json():
        echo_json(report)


@command(exits={0: "the outcome was the expected one", 1: "it was not"}, offline=True)
@click.pass_context
def demo(ctx: click.Context) -> None:
    """Show a crawling session on demonstration servers.

    Everything is in .demo of the working directory.
    """
    from dcc.cli.demo.demonstration import demonstrate

    ctx.exit(demonstrate(Path(".demo")))


_OF_INIT: Final = "dcc-init.toml"
"""The configuration file with the URLs of dcc_init, as docs/operations/mariadb.md has it."""


def _left_to_do(settings: Settings, read: Path | None, *, has_sources: bool) -> list[str]:
    """What an operator has to do after `dcc init --production`, in this order.

    `read` is where the configuration file is, or would be. Beside one of dcc_init, that of all else is dcc.toml.
    """
    from sqlalchemy.engine import make_url

    from dcc.databases.engines import SESSIONS_ACCOUNT
    from dcc.notify.channels.open_channels import notifies

    file = NAME if read is None else str(read.with_name(NAME) if read.name == _OF_INIT else read)
    steps = ["Have the server's administrator run this SQL and set passwords; until then the accounts are locked."]
    if make_url(settings.tracker_database_url).username != SESSIONS_ACCOUNT:
        steps.append(
            f"Write the URLs with the account {SESSIONS_ACCOUNT} into {file}, and that of dcc_ui for the page."
        )
    if settings.environment is None:
        steps.append(f'Say in {file} which installation this is: environment = "production"')
    if not any(settings.reference_sources.values()):
        steps.append(
            f"Name sources of reference data in {file}, such as reference_impress, then: dcc reference refresh"
        )
    if not (settings.asks_for_reports or notifies(settings)):
        steps.append(f"Say in {file} who gets reports and notifications: report_to, notify_to")
    if not has_sources:
        steps.append("Register centres and their sources: dcc centre add; dcc source add")
    steps.append(
        "Start the services: "
        "systemctl enable --now dcc.target dcc-backup.timer dcc-staging-clean.timer dcc-doctor.timer"
    )
    steps.append("See that all is well: dcc doctor")
    return steps


def _require_production(settings: Settings) -> tuple[URL, URL, URL]:
    from sqlalchemy.engine import make_url

    from dcc.databases.columns import MYSQL_FAMILY
    from dcc.databases.engines import same_database

    urls: list[URL] = []
    for variable, name, secret in (
        ("DCC_TRACKER_URL", "phenodcc_tracker", settings.tracker_url),
        ("DCC_QC_URL", "phenodcc_raw", settings.qc_url),
        ("DCC_DAGSTER_URL", "phenodcc_dagster", settings.dagster_url),
    ):
        url = None if secret is None else make_url(secret.get_secret_value())
        if url is None or url.get_backend_name() not in MYSQL_FAMILY:
            raise ConfigurationError(
                f"{variable} names no database on a MySQL or MariaDB server, as --production needs. Set it: "
                f"mysql://user:password@host/{name}."
            )
        urls.append(url)
    if any(same_database(one, other) for one, other in combinations(urls, 2)):
        raise ConfigurationError(
            "DCC_TRACKER_URL, DCC_QC_URL and DCC_DAGSTER_URL name the same database twice. Name three databases; they "
            "may be on one server."
        )
    return urls[0], urls[1], urls[2]


@command(
    examples=[
        "echo 'eval \"$(dcc completion bash)\"' >> ~/.bashrc",
        "echo 'eval \"$(dcc completion zsh)\"' >> ~/.zshrc",
        "dcc completion fish > ~/.config/fish/completions/dcc.fish",
    ],
    offline=True,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options and their choices, and from the tracker submissions, centres and sources; rules too.
    """
    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 - click knows the three
    click.echo(made(ctx.find_root().command, {}, "dcc", "_DCC_COMPLETE").source())
