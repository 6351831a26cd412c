"""`dcc metrics`: figures for Prometheus, printed once or served."""

from __future__ import annotations

import sys

import click

from dcc.cli.installation.dagster_processes import stop_signals
from dcc.cli.shell.context import json_option, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.output import echo_json, wants_json
from dcc.errors import ConfigurationError
from dcc.runtime.json_values import fields_of


@command(
    examples=["dcc metrics", "dcc metrics --serve 127.0.0.1:9377"],
    exits={0: "with --serve after Ctrl-C or SIGTERM", 2: "a setting is wrong, or the address cannot be served"},
)
@click.option("--serve", metavar="HOST:PORT", help="Serve them until Ctrl-C, as /metrics, with /healthz for probes.")
@json_option
def metrics(serve: str | None) -> None:
    """Print figures for Prometheus, or serve them.

    Sessions, sources, submissions and documents by phase and status, bytes and failures, findings, data contexts, and
    the sizes of databases and staging. In the text format of Prometheus; docs/operations/monitoring.md explains
    scraping. With DCC_METRICS_FILE each session writes them at its end, for the node exporter. If a database is away,
    the other figures are printed, and dcc_metrics_part_up is 0.

    JSON: a list of {"name", "type" (gauge, counter), "help", "samples": [{"name", "labels", "value"}]}
    """
    from dcc.operations.metrics.collector import Collection, exposition
    from dcc.operations.metrics.server import Answers, open_server

    settings = settings_from_environment()
    if serve is not None:
        if wants_json():
            raise ConfigurationError("Metrics are served as text. Leave out --json or --serve.")
        host, _, port = serve.rpartition(":")
        if not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
            raise ConfigurationError(f"{serve!r} is no address. Write it as HOST:PORT, such as 127.0.0.1:9377.")
        host = host.strip("[]")
        with open_server(host, int(port), Answers.of(settings)) as server:
            shown = f"[{host}]" if ":" in host else host
            click.echo(f"The metrics are at http://{shown}:{server.server_address[1]}/metrics (Ctrl-C stops it).")
            sys.stdout.flush()
            with stop_signals():
                server.serve_forever()
        click.echo("Stopped.", err=True)
        return
    families = Collection(settings).collect()
    if wants_json():
        told = [
            fields_of(one, "name", "type", help="documentation")
            | {"samples": [fields_of(sample, "name", "labels", "value") for sample in one.samples]}
            for one in families
        ]
        echo_json(told)
    else:
        click.echo(exposition(families), nl=False)
    if not any(family.name == "dcc_zip_actions" for family in families):
        # The tracker is away.
        sys.exit(4)
