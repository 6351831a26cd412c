"""The submissions of `dcc example` on the pages: what docs/quickstart.md and docs/wranglers.md say is seen there."""

from dcc.cli.demo.examples import example_submission
from dcc_assets.graph import CHECK_OF_GROUP
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation


def test_the_checks_of_a_bad_submission_are_red_until_its_correction_comes(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    def submit(kind: str) -> str:
        key, content = example_submission(kind, "H")
        data.folder.put(key, content)
        data_dagster.session(data)
        return key

    def groups(state: str) -> set[str]:
        return {group for group, key in CHECK_OF_GROUP.items() if data_dagster.checks(key).get(bad) == state}

    bad = submit("data-errors")
    assert bad in data_dagster.materialised("zip_actions")
    assert groups("failed") == {"specimen_background", "values"}
    assert groups("passed") == CHECK_OF_GROUP.keys() - {"specimen_background", "values"}
    for group, rule in (("specimen_background", "S4"), ("values", "P9")):
        assert rule in str(data_dagster.evaluation(CHECK_OF_GROUP[group], bad))
    correction = submit("corrected")
    assert groups("passed") == set(CHECK_OF_GROUP)
    assert correction in data_dagster.materialised("qc")
