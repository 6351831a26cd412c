"""`dcc upgrade --check`: it says what an upgrade would do, and changes nothing."""

from importlib.metadata import version

from tests.cli.conftest import Dcc


def test_a_new_installation_an_earlier_one_and_one_of_today(bare_dcc: Dcc) -> None:
    assert bare_dcc.error("upgrade", exit_code=2).endswith("See first what it would do: dcc upgrade --check")
    found = bare_dcc.json("upgrade", "--check", exit_code=1)
    assert (found["version"], found["dagster"]) == (version("dcc"), version("dagster"))
    assert [one["present"] for one in found["databases"]] == [None, None]
    bare_dcc("init")
    assert bare_dcc.json("upgrade", "--check")["to_do"] is False
    assert bare_dcc("upgrade", "--check").stdout.lower().count("nothing to do") == 4
    bare_dcc.environment["DCC_SLOWEST_DOWNLOAD"] = "7"
    renamed = bare_dcc.json("upgrade", "--check", exit_code=1)["settings"]
    assert "DCC_MIN_DOWNLOAD_SPEED" in renamed[0]
