"""Dagster's daemon, started as its own command `dagster-daemon` is, without looking for that command on the disk."""

from __future__ import annotations

from importlib.metadata import entry_points


def main() -> None:
    """Run the daemon with the arguments of this process. Ends the process."""
    (command,) = entry_points(group="console_scripts", name="dagster-daemon")
    command.load()()


if __name__ == "__main__":
    main()
