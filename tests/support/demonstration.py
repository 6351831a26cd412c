"""What `dcc demo` leaves, run once for all test processes: `demonstration`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.environments import clean
from tests.support.sharing import made_once


@pytest.fixture(scope="session")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A demonstration that has run, in an environment that names a tracker which must not be touched.

    Its folder, to be looked at or copied, and how the command ended.
    """
    folder = made_once(tmp_path_factory, "demo", _demonstrate)
    return folder / "shown", subprocess.CompletedProcess([], **json.loads((folder / "ended").read_text("utf-8")))


def _demonstrate(made: Path) -> None:
    folder = made / "shown"
    folder.mkdir()
    other = {"DCC_TRACKER_URL": "mysql://nobody:secret@127.0.0.1:1/real", "DCC_STAGING": str(folder / "real")}
    ended = subprocess.run(
        [Path(sys.executable).with_name("dcc"), "demo"],
        cwd=folder,
        env=clean(**other),
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
    )
    told = {"returncode": ended.returncode, "stdout": ended.stdout, "stderr": ended.stderr}
    (made / "ended").write_text(json.dumps(told), "utf-8")
