"""What a process does that breaks down, for tests of what it logs."""

import os
from pathlib import Path


def broken(_begun: object, told: Path) -> None:
    told.write_text(str(os.getpid()))
    raise RuntimeError("broken\n2026-01-01T00:00:00.000Z ERROR dcc[1] forged")
