"""Five people's tasks, as scripts of the commands that the documents name for them, on one installation.

A table of tasks: whose it is, the pages that say how it is done, and the commands with the words to look for in what
they print. `python -m pytest tests/test_tasks.py -s` prints how many commands and pages each task needs.
"""

import sys
from pathlib import Path
from typing import NamedTuple

from tests.test_documents_commands import ROOT, Command, fork, run

GOOD, FAILED = "H.2013-10-31.1.impc.zip", "add/H.2013-11-05.3.impc.zip"


class Task(NamedTuple):
    """`commands` are a command, the words that it prints in order, and its exit code."""

    person: str
    pages: tuple[str, ...]
    commands: tuple[tuple[str, tuple[str, ...], int], ...]


TASKS = (
    Task(
        "operator: an installation with its settings in a file, that collects, is healthy and has a backup",
        ("README.md", "docs/operations/install.md", "docs/operations/monitoring.md", "docs/operations/backup.md"),
        (
            ("dcc init", ("Made the tracker database ...", "Made the QC database ..."), 0),
            ("dcc settings --write", ("Wrote ...dcc.toml...",), 0),
            ("dcc centre add H --email data@example.org", ("Registered centre H, MRC Harwell.",), 0),
            ("dcc example centre", ("Wrote centre/add/...",), 0),
            ("dcc example centre --kind data-errors", ("Wrote centre/add/...",), 0),
            ("dcc source add --centre H --protocol file --base-path centre", ("add: holds 2 archives",), 0),
            ("dcc crawl", ("ok file source 1 ...", "Session 1 (finished): ... 1 data failed, 1 qc pending; ..."), 1),
            ("dcc doctor", ("ok tracker database: ...", "ok session: ... finished."), 0),
            ("dcc backup backups", ("Backed up to ...backups/dcc-...",), 0),
            ("dcc backup --verify backups", ("... is whole: ...",), 0),
            ("dcc upgrade --check", ("...",), 0),
        ),
    ),
    Task(
        "centre: the verdict on an export before its upload, and a manifest",
        ("docs/centres.md",),
        (
            ("dcc example export --kind schema-errors", ("Wrote export/add/...",), 0),
            ("dcc validate export", ("INVALID export/add/...", "line 4, column 5: ...expected true or false..."), 1),
            (f"dcc manifest centre/add/{GOOD}", ("Wrote ....manifest.json: ...",), 0),
        ),
    ),
    Task(
        "wrangler: why an archive failed, who acts, and the answer to the centre",
        ("docs/wranglers.md",),
        (
            ("dcc status", ("Submissions: 2", "data failed 1"), 0),
            ("dcc zips --status failed", (f"{FAILED} ... data@example.org ...",), 0),
            (f"dcc show {Path(FAILED).name}", (f"{FAILED} data failed", "...The colony 'Fto-A'..."), 0),
            (f"dcc data causes --zip {FAILED}", ("...The colony 'Fto-A' is not registered...", "...H-Fto-A..."), 0),
            (f"dcc report {FAILED} --html answer.html", ("Wrote answer.html.",), 0),
        ),
    ),
    Task(
        "analyst: a parameter's measurements as a file",
        ("docs/analysts.md",),
        (
            ("dcc data parameters weight", ("IMPC_BWT_001_001 ...",), 0),
            ("dcc data export weights.csv --parameter IMPC_BWT_001_001 --centre H", ("... holds 2 measurements.",), 0),
        ),
    ),
    Task(
        "engineer: a document from its archive to its rows, and what a change of the rules would change",
        ("docs/extending.md", "docs/wranglers-reference.md"),
        (
            (f"dcc archive list {GOOD}", (f"... add/{GOOD} ...", "... H.2013-10-31.1.specimen.impc.xml"), 0),
            ("dcc data document H.2013-10-31.1.specimen.impc.xml --diff", (), 0),
            ("dcc explain S4", ("S4", "means A mutant's colonyID is a registered colony. ..."), 0),
            ("dcc replay --workers 1", ("2 archives, 4 documents: 0 verdicts would change, ...",), 0),
        ),
    ),
)


def test_five_people_do_their_tasks_from_the_documents_alone(tmp_path: Path) -> None:
    for task in TASKS:
        pages = "".join((ROOT / page).read_text("utf-8") for page in task.pages)
        for text, printed, exit_code in task.commands:
            words = [word for word in text.split()[:3] if word.isalpha()]
            assert " ".join(words) in pages, f"{task.person}: no page of it names `{' '.join(words)}`"
            run(Command(text, list(printed), exit_code), tmp_path, fork)
        print(f"{len(task.commands)} commands, {len(task.pages)} pages: {task.person}", file=sys.stderr)
