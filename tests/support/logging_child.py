"""A process that reads documents and breaks down, for tests of what it logs."""

from __future__ import annotations

from typing import IO

from dcc.runtime.helper_process import Out, serve


def main() -> None:
    serve(_work)


def _work(_messages: IO[bytes], _out: Out) -> None:
    raise RuntimeError("broken\n2026-01-01T00:00:00.000Z ERROR dcc[1] forged")
