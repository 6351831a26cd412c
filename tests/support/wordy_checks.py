"""A process that checks documents and has more to say of each than the next questions take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcc.outcomes import Problem
from dcc.session.archives import checking_process

WORDS = "x" * 40_000


def main() -> None:
    """Do what a process that checks documents does, without looking at them."""

    def find_fault(path: Path, *_: Any, **_named: Any) -> list[Problem]:
        return [Problem("XsdError", f"{path.name}: {WORDS}")]

    checking_process.validate_document = find_fault  # type: ignore[assignment]
    checking_process.main()
