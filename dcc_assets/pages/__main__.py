"""The web server of `dcc ui` as a program: `python -m dcc_assets.pages`.

It imports what serves pages while the process of the code location starts.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from dcc.runtime.processes import importing_much

with importing_much():
    import click
    from dagster import DagsterInstance

    from dcc.settings import load_settings
    from dcc_dagster.web_workspace import Serving, loading_workspace


@click.command()
@click.option("--host", required=True, help="Address to serve on.")
@click.option("--port", type=int, required=True, help="Port to serve on.")
@click.option("--workspace", type=click.Path(path_type=Path), required=True, help="File that names the code location.")
@click.option("--read-only", is_flag=True, help="Nothing can be changed or started.")
@click.option("--watch-overdue", is_flag=True, help="Keep the checks of what is overdue right: no daemon does.")
@click.option("--log-level", default="warning", show_default=True, help="Log messages of this level and above.")
@click.option("--log-format", default="colored", show_default=True, help="colored, json or rich.")
def main(watch_overdue: bool, **options: Any) -> None:
    """Serve Dagster's pages, reports and plots, until SIGINT or SIGTERM."""
    serving = Serving(**options, environment=load_settings().environment)
    with suppress(KeyboardInterrupt), DagsterInstance.get() as instance, loading_workspace(instance, serving) as loaded:
        with importing_much():
            from dcc_assets.pages.server import serve_pages
        serve_pages(instance, loaded, serving, watch_overdue=watch_overdue)


if __name__ == "__main__":
    main()
