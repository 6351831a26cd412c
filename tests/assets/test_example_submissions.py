"""The submissions of `dcc example` on the pages: what docs/quickstart.md and docs/wranglers.md say is seen there."""

from __future__ import annotations

from dcc.cli.demo.examples import example_submission
from dcc_assets.keys import CHECK_OF_GROUP
from dcc_assets.sessions import run_session
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation
from tests.support.databases import one_database

pytestmark = one_database


def test_the_checks_of_a_bad_submission_are_red_until_its_correction_comes(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    def submit(kind: str) -> str:
        key, content = example_submission(kind, "H")
        data.folder.put(key, content)
        run_session(data.settings, data.tracker, data_dagster.instance)
        return key

    def evaluated() -> dict[str, dict[str | None, str]]:
        checks = {group: data_dagster.checks(key) for group, key in CHECK_OF_GROUP.items()}
        return {group: found for group, found in checks.items() if found}

    bad = submit("data-errors")
    assert bad in data_dagster.materialised("zip_actions")
    assert evaluated() == {"specimen_background": {bad: "failed"}, "values": {bad: "failed"}}
    for group, rule in (("specimen_background", "S4"), ("values", "P9")):
        assert rule in str(data_dagster.evaluation(CHECK_OF_GROUP[group], bad))
    correction = submit("corrected")
    assert evaluated() == {"specimen_background": {bad: "passed"}, "values": {bad: "passed"}}
    assert correction in data_dagster.materialised("qc")
