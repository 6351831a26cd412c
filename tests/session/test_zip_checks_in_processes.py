"""What ends processes that check archives; that they find what threads find is held in test_crash_recovery."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dcc.errors import InternalFaultError
from dcc.session.archives import archive_phases, archive_pools
from tests.support import ending_checks
from tests.support.ending_checks import DEADLY, FAULTY
from tests.support.installations import Installation, specimens
from tests.support.served_sources import logged
from tests.support.waiting import wait_until

PATIENCE = 30.0


@pytest.fixture(autouse=True)
def in_processes(forked_workers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have few archives be many."""
    monkeypatch.setattr(archive_phases, "MANY", 1)


def three(installation: Installation, *more: str) -> list[str]:
    """Three archives, and those named, on a source."""
    names = [*(f"H.2013-10-31.{inc}.impc.zip" for inc in (1, 2, 3)), *more]
    folder = installation.add_folder()
    for name in names:
        folder.put(f"add/{name}", specimens(stem=name.removeprefix("H.").removesuffix(".impc.zip")))
    return [f"add/{name}" for name in names]


def test_an_archive_that_a_process_cannot_check_costs_no_other_and_is_said(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends its process, and one that meets a fault in it."""
    keys = three(installation, DEADLY, FAULTY)
    unchecked = [f"add/{DEADLY}", f"add/{FAULTY}"]
    with monkeypatch.context() as patched:
        patched.setattr(archive_pools, "archive_checks", ending_checks)
        with pytest.raises(InternalFaultError):
            installation.run_session()
    states = dict.fromkeys(keys, "xsd done")
    assert installation.states() == states | dict.fromkeys(unchecked, "unzip running")
    told = " ".join(logged(installation))
    assert f"works on add/{DEADLY} ended before its work was done" in told
    assert f"add/{FAULTY}: ZeroDivisionError: oh" in told
    # What the dead session was done with is not validated again.
    again = installation.run_session().zips
    assert {key: outcome.succeeded for key, outcome in again.items()} == dict.fromkeys(unchecked, True)
    assert sorted(document for document, _ in installation.documents()) == sorted(
        key.replace("impc.zip", "specimen.impc.xml").removeprefix("add/") for key in keys
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_a_process_that_checks_ends_with_the_one_that_started_it() -> None:
    """Else it would be at the archives that the next session takes up."""
    child = (
        "import os, time; from dcc.runtime.processes import end_with_parent; end_with_parent();"
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        number = int(started.stdout.readline())
        assert Path(f"/proc/{number}").exists()
        started.send_signal(signal.SIGKILL)
        started.wait(PATIENCE)
        wait_until(lambda: not _runs(number))


def _runs(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
