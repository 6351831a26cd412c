"""An interpreter of its own that runs code in forks, so that what it has imported once no run imports again."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]
_FORKS = """
import json, os, sys
BEGIN

for line in sys.stdin:
    code, arguments, environment, *outputs = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(environment)
        for number, path in enumerate(outputs, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["-c", *arguments]
        exec(code, {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def forking_interpreter(begin: str, environment: Mapping[str, str], folder: Path) -> Iterator[Run]:
    """Start it with the code `begin`; outputs are kept in `folder`.

    It runs code, as `python -c` does, with arguments and the keyword `environment`, which has nothing of that of the
    interpreter.
    """
    outputs = folder / "output", folder / "errors"
    command = [sys.executable, "-c", _FORKS.replace("BEGIN", begin)]
    with subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as interpreter:
        asked, ended = interpreter.stdin, interpreter.stdout
        assert asked is not None
        assert ended is not None

        def run(code: str, *arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
            print(json.dumps([code, arguments, dict(environment), *map(str, outputs)]), file=asked, flush=True)
            exit_code = ended.readline()
            assert exit_code, "The interpreter has ended."
            return subprocess.CompletedProcess(
                arguments, int(exit_code), *(path.read_text("utf-8") for path in outputs)
            )

        yield run
