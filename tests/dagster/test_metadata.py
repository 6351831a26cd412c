"""What Dagster's pages are given of centres' texts is text, and is read as it is written."""

import re
from pathlib import Path

from dagster import TableMetadataValue
from dagster._serdes import serialize_value

from dcc_dagster.metadata import LONGEST_CELL, as_shown, table

HOSTILE = "<script>\x1b[2J\N{RIGHT-TO-LEFT OVERRIDE}[x](javascript:alert(1))\ud800"
LEGIBLE = "<script>\\x1b[2J\\u202e[x](javascript:alert(1))\\ud800"


def test_cells_and_texts_are_legible() -> None:
    made = table(("name", "count"), [(HOSTILE, 1), (None, None)])
    assert isinstance(made, TableMetadataValue)
    assert [dict(record.data) for record in made.records] == [
        {"name": LEGIBLE, "count": 1},
        {"name": "", "count": ""},
    ]
    assert as_shown({"reason": HOSTILE, "count": 2, "table": made}) == {"reason": LEGIBLE, "count": 2, "table": made}


def test_a_long_cell_is_cut_so_that_an_event_stays_small() -> None:
    made = table(("name", "count"), [("x" * 100_000, 1)] * 100)
    assert {len(str(record.data["name"])) for record in made.records} == {LONGEST_CELL}
    assert len(serialize_value(made)) < 100_000


def test_only_the_links_of_our_own_are_markdown() -> None:
    """Of these, a text could load and run something; the others show it as it is."""
    root = Path(__file__).parents[2]
    packages = ("dcc_assets", "dcc_dagster", "dcc_sensors")
    sources = [path for package in packages for path in (root / package).rglob("*.py")]
    assert sources
    risky = re.compile(r"MetadataValue\.(md|url|notebook|job)\b|(Markdown|Url|Notebook)MetadataValue")
    assert [path.name for path in sources if risky.search(path.read_text("utf-8"))] == ["links.py"]
