"""Dagster's daemon, started like its own command `dagster-daemon`, without searching the disk for that command."""

from __future__ import annotations

from importlib.metadata import entry_points

from dcc.runtime.processes import importing_much


def main() -> None:
    """Run the daemon with the arguments of this process. Ends the process."""
    (command,) = entry_points(group="console_scripts", name="dagster-daemon")
    with importing_much():
        run = command.load()
    run()


if __name__ == "__main__":
    main()
