"""What a process keeps in memory and writes is nobody else's."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dcc.runtime.processes import environment_without_secrets
from dcc.runtime.worker_processes import WorkerProcesses

SECRET = "correct horse battery staple"
ENDS = """
import os, resource, signal, sys
from pathlib import Path
{protected}
os.chdir(sys.argv[1])
print(Path("/proc/self/limits").read_text())
sys.stdout.flush()
if sys.argv[2] == "abort":
    os.abort()
os.kill(os.getpid(), int(sys.argv[2]))
"""
PROTECTED = """
from dcc.runtime.processes import forbid_core_dumps
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
forbid_core_dumps()
"""
"""Whatever the limit of this machine is, the process begins with the largest one."""


@pytest.mark.parametrize("how", ["abort", str(int(signal.SIGSEGV)), str(int(signal.SIGQUIT))])
def test_a_process_that_holds_secrets_leaves_no_core_dump(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-c", ENDS.format(protected=PROTECTED), str(tmp_path), how]
    process = subprocess.Popen(
        command, env=os.environ | {"CENTRE_PASSWORD": SECRET}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    limits = process.stdout.read().decode()
    process.stdout.close()
    _, status = os.waitpid(process.pid, 0)
    process.returncode = -os.WTERMSIG(status)
    assert os.WIFSIGNALED(status)
    assert not os.WCOREDUMP(status)
    assert list(tmp_path.iterdir()) == []
    (cores,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    assert cores.split()[4:6] == ["0", "0"]


NOBODY = 65_534
HOLDS_SECRETS = f"""
import ctypes, os, sys
from dcc.runtime.processes import forbid_core_dumps
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
# Linux protects who has changed the user: here as any process of that user begins.
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if sys.argv[1] == "protected":
    forbid_core_dumps()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="It is Linux that can keep memory private.")
@pytest.mark.parametrize("protected", [True, False])
def test_memory_and_environment_are_closed_to_other_processes_of_the_same_user(protected: bool) -> None:
    if os.geteuid() != 0:
        pytest.skip("Only root can become another user.")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS_SECRETS, "protected" if protected else "open"],
        env=os.environ | {"CENTRE_PASSWORD": SECRET},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    for place in ("environ", "maps"):
        seen = subprocess.run(
            ["cat", f"/proc/{process.pid}/{place}"], user=NOBODY, cwd="/", capture_output=True, check=False
        )
        assert (seen.stdout == b"") is protected, place
        assert (b"Permission denied" in seen.stderr) is protected, place
    process.communicate()


COMMAND_LINE = """
import os, stat, sys
os.umask(0)
from dcc.cli import main
main.dcc.main = lambda **_: open(sys.argv[1], "w").close() or os.mkdir(sys.argv[1] + ".d") or print(
    open("/proc/self/limits").read())
main.main()
"""


def test_the_command_protects_itself_and_its_files_before_anything_else(tmp_path: Path) -> None:
    """Whatever the umask: here one that lets everybody write."""
    path = tmp_path / "made"
    done = subprocess.run([sys.executable, "-c", COMMAND_LINE, str(path)], capture_output=True, text=True, check=True)
    assert "Max core file size        0                    0" in done.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(Path(f"{path}.d").stat().st_mode) == 0o750


def test_a_stricter_umask_stays(tmp_path: Path) -> None:
    stricter = COMMAND_LINE.replace("os.umask(0)", "os.umask(0o077)")
    path = tmp_path / "made"
    subprocess.run([sys.executable, "-c", stricter, str(path)], capture_output=True, check=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _own_surroundings(_: object) -> bytes:
    return Path("/proc/self/environ").read_bytes() + Path("/proc/self/cmdline").read_bytes()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="Where there is no /proc, nobody looks there.")
def test_the_process_that_reads_documents_is_given_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "DCC_TRACKER_URL",
        "DCC_QC_URL",
        "DCC_SMTP_URL",
        "DCC_KEY_PASSPHRASE",
        "CENTRE_PASSWORD",
        "SSH_AUTH_SOCK",
    ):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("DCC_LOG_LEVEL", "debug")
    processes = WorkerProcesses(1, id, 0)
    seen = processes.submit("a.xml", _own_surroundings).result()
    processes.stop()
    assert b"multiprocessing" in seen
    assert b"DCC_LOG_LEVEL=debug" in seen
    assert SECRET.encode() not in seen
    assert environment_without_secrets().keys() >= {"PATH", "DCC_LOG_LEVEL"}
