"""The demonstration: a crawling session on real servers of this machine, from nothing to its outcome."""

from __future__ import annotations

from pathlib import Path


def run_demo(folder: Path | None = None) -> int:
    """Run the demonstration in `folder`, by default .demo of the working directory, which is emptied first.

    Prints what happens and returns the exit code: 0 if the outcome was the expected one, else 1. Raises
    ConfigurationError if the servers' packages are missing or `folder` has other content, and errors of the session. No
    server is left running, however it ends.
    """
    # The servers are modules of this package and start faster without the session's imports.
    from dcc.cli.demo.demonstration import demonstrate

    return demonstrate(folder or Path(".demo"))
