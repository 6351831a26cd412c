"""The places that list the protocols of the platform agree."""

from dcc.cli.sources.add_dialog import protocols
from dcc.phases import REFERENCE_ROWS
from dcc.sources.base import SourceProtocol
from dcc.sources.connect import OPENERS


def test_each_protocol_of_the_platform_can_be_opened_chosen_and_kept() -> None:
    kept = {row.short_name for row in REFERENCE_ROWS["source_protocol"]}
    assert set(OPENERS) == set(SourceProtocol), "Correct OPENERS in dcc/sources/connect.py."
    assert set(protocols()) == set(SourceProtocol), "Correct _PROTOCOLS in dcc/cli/sources/add_dialog.py."
    assert kept == set(SourceProtocol), "Correct REFERENCE_ROWS in dcc/phases.py."
