"""`dcc metrics`: printed for people and programs, served until it is stopped."""

import http.client
import signal
import subprocess

from prometheus_client.parser import text_string_to_metric_families

from tests.cli.conftest import PROGRAM, Dcc
from tests.support.databases import only_sqlite


def test_it_prints_what_prometheus_reads(dcc: Dcc) -> None:
    dcc.add_folder().put("add/H.2013-10-31.1.impc.zip")
    dcc("crawl")
    names = {family.name for family in text_string_to_metric_families(dcc("metrics").stdout)}
    assert {"dcc_build_info", "dcc_sessions", "dcc_zip_actions", "dcc_staging_bytes", "dcc_contexts"} <= names
    by_name = {family["name"]: family for family in dcc.json("metrics")}
    assert set(by_name) == names
    (sample,) = by_name["dcc_zip_actions"]["samples"]
    labels = {"centre": "H", "phase": "xsd", "status": "done"}
    assert sample == {"name": "dcc_zip_actions", "labels": labels, "value": 1.0}


@only_sqlite
def test_without_a_tracker_it_prints_the_rest(bare_dcc: Dcc) -> None:
    result = bare_dcc("metrics", exit_code=4)
    assert 'dcc_metrics_part_up{part="tracker"} 0.0' in result.stdout.splitlines()


@only_sqlite
def test_it_serves_until_it_is_stopped(dcc: Dcc) -> None:
    process = subprocess.Popen(
        [PROGRAM, "metrics", "--serve", "127.0.0.1:0"],
        env=dcc.process_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("The metrics are at http://127.0.0.1:")
        address = line.split("/")[2]
        connection = http.client.HTTPConnection(address, timeout=60)
        for path in ("/healthz", "/metrics"):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200
            body = answer.read()
        connection.close()
        assert b"\ndcc_last_successful_session_end_timestamp_seconds" not in body
        assert b'\ndcc_metrics_part_up{part="tracker"} 1.0' in body
        second = dcc.error("metrics", "--serve", address, exit_code=2)
        assert second.startswith("The metrics cannot be served on 127.0.0.1, port ")
    finally:
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert told == "Stopped.\n"
