"""Several commands of `dcc` in one process of its own, which imports once what they need."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

OBEYING = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""What makes even root obey the permissions of files."""
_CODE = """
import shlex, sys
from dcc.cli.main import main

for command in sys.argv[1:]:
    sys.argv[1:] = shlex.split(command)
    try:
        main()
    except SystemExit as ended:
        print(end=f"\\0{ended.code}\\0")
        print(end="\\0", file=sys.stderr)
"""


def run_commands(
    *commands: str, environment: Mapping[str, str], by: Sequence[object] = ()
) -> list[subprocess.CompletedProcess[str]]:
    """How each ended, and what it printed; `by` is a command that starts the process."""
    run = [*map(str, by), sys.executable, "-c", _CODE, *commands]
    ended = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=120, check=False)
    printed, complaints = ended.stdout.split("\0")[:-1], ended.stderr.split("\0")
    assert len(printed) == 2 * len(commands), ended.stderr
    outputs, codes = printed[::2], map(int, printed[1::2])
    return [subprocess.CompletedProcess(*each) for each in zip(commands, codes, outputs, complaints, strict=False)]
