"""What takes long to make or to start is shared: by modules of one process of the run, or by all of its processes."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

OF_PAGE = (
    "tests/assets/test_browser.py",
    "tests/assets/pages/test_browser_reports.py",
    "tests/hostile/test_web_page.py",
    "tests/resources/test_resources_page.py",
    "tests/test_deploy.py",
    "tests/cli/test_ui.py",
)
"""Those that use `page`: first those that look at the demonstration alone."""


def made_once(folders: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder of all test processes that `make` fills for the first that asks; it is to be looked at or copied."""
    root = folders.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / f"shared-{name}"
    with (root / f"shared-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / f"shared-{name}.made").exists():
            folder.mkdir()
            make(folder)
            (root / f"shared-{name}.made").touch()
    return folder
