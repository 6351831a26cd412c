"""Dagster's daemon, started like its own command `dagster-daemon`, without searching the disk for that command."""

from __future__ import annotations

from importlib.metadata import entry_points


def main() -> None:
    """Run the daemon with the arguments of this process. Ends the process."""
    (command,) = entry_points(group="console_scripts", name="dagster-daemon")
    command.load()()


if __name__ == "__main__":
    main()
