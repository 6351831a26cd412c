"""What the metrics of a large tracker cost: `python -m benchmarks.metrics --zips 100000 [--database mariadb]`.

The tracker has that many zip actions of twelve centres, each downloaded once with two documents, in all states, after
a thousand sessions; nothing is in staging.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import Connection, insert

from benchmarks.mariadb import mariadb_server
from dcc.operations.metrics.collector import Collection, exposition
from dcc.phases import KNOWN_CENTRES
from dcc.settings import Settings
from dcc.tracker import models
from dcc.tracker.database import init_tracker, open_tracker, writing

_AT_ONCE = 5_000
_SESSIONS = 1_000
_RUNS = 5
_STATES = ((11, 3), (6, 5), (11, 1), (8, 5), (2, 3), (7, 1), (4, 5))


def main() -> None:
    """Make the tracker, collect its metrics some times, and say how long that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zips", type=int, default=100_000)
    parser.add_argument("--database", choices=["sqlite", "mariadb"], default="sqlite")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dcc-metrics-") as folder, ExitStack() as stack:
        home = Path(folder)
        settings = Settings(home=home)
        if arguments.database == "mariadb":
            server = stack.enter_context(mariadb_server(home / "mariadb"))
            url = SecretStr(server.url("phenodcc_tracker"))
            settings = settings.model_copy(update={"tracker_url": url})
        _fill(settings, arguments.zips)
        collection = Collection(settings, part_seconds=600)
        for _ in range(_RUNS):
            began = time.perf_counter()
            text = exposition(collection.collect())
            seconds = time.perf_counter() - began
            print(f"{seconds:.2f} s, {text.count(b'dcc_'):,} samples and names, {len(text):,} bytes")


def _fill(settings: Settings, zips: int) -> None:
    tracker = open_tracker(settings)
    init_tracker(tracker)
    now = models.utc_now()
    with writing(tracker) as connection:
        centres = range(1, len(KNOWN_CENTRES) + 1)
        _add(
            connection,
            models.Centre,
            [
                {
                    "id": number,
                    "short_name": known.short_name,
                    "full_name": known.full_name,
                    "email": "",
                    "created": now,
                }
                for number, known in enumerate(KNOWN_CENTRES, start=1)
            ],
        )
        source: dict[str, object] = {"protocol_id": 2, "username": "", "accesskey": "", "state_id": 1, "created": now}
        _add(
            connection,
            models.FileSource,
            [{"id": number, "centre_id": number, "hostname": f"server-{number}", **source} for number in centres],
        )
        session: dict[str, object] = {"start_time": now, "finish_time": now, "status": 0, "created": now}
        _add(connection, models.CrawlingSession, [{"id": number, **session} for number in range(1, _SESSIONS + 1)])
        _add(
            connection,
            models.SourceCrawlRow,
            [
                {"session_id": number, "file_source_id": centre, "start_time": now, "finish_time": now, "outcome": "ok"}
                for number in range(1, _SESSIONS + 1)
                for centre in centres
            ],
        )
        _add(connection, models.AnException, [{"id": 1, "short_name": "SchemaViolationError"}])
        for first in range(1, zips + 1, _AT_ONCE):
            _add_zips(connection, range(first, min(first + _AT_ONCE, zips + 1)), len(centres))
    tracker.dispose()


def _add_zips(connection: Connection, numbers: range, centres: int) -> None:
    now = models.utc_now()
    zips, actions, hostings, documents, problems = [], [], [], [], []
    downloads: list[dict[str, object]] = []
    for number in numbers:
        centre = number % centres + 1
        phase, status = _STATES[number % len(_STATES)]
        state = {"phase_id": phase, "status_id": status}
        zips.append({"id": number, "file_name": f"H.2013-10-31.{number}.impc.zip", "centre_id": centre})
        actions.append({"id": number, "zip_id": number, "todo_id": 1, **state})
        hostings.append({"id": number, "za_id": number, "file_source_id": centre})
        times: dict[str, object] = {"request": now, "received": now, "downloaded_size_bytes": 1000}
        downloads.append({"id": number, "zf_id": number, **times, **state})
        for which in (0, 1):
            xml: dict[str, object] = {
                "id": 2 * number + which,
                "zip_id": number,
                "fname": f"{number}.{which}.xml",
                "centre_id": centre,
            }
            documents.append({**xml, **state})
        if status == 5:
            problems.append({"xml_id": 2 * number, "exception_id": 1, "message": "Wrong."})
    _add(connection, models.ZipFile, zips)
    _add(connection, models.ZipAction, actions)
    _add(connection, models.FileSourceHasZip, hostings)
    _add(connection, models.ZipDownload, downloads)
    _add(connection, models.XmlFile, documents)
    _add(connection, models.XmlLog, problems)


def _add(connection: Connection, model: type[models.Base], rows: Sequence[Mapping[str, object]]) -> None:
    if rows:
        connection.execute(insert(model), rows)


if __name__ == "__main__":
    main()
