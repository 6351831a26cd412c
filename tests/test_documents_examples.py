"""The examples of docs/extending.md do what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from dcc_resources.crawling import list_source
from dcc_resources.file_sources import connect as connecting
from dcc_resources.file_sources.base import SourceAddress, SourceProtocol
from dcc_resources.report_channels import Report
from dcc_resources.settings import Settings

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def examples() -> Mapping[str, Any]:
    """The names that the Python blocks of the document define."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/extending.md").read_text("utf-8"), re.M | re.S)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/extending.md", "exec"), names)
    return names


def test_a_protocol_of_ones_own_is_crawled(
    examples: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openers = {**connecting.OPENERS, SourceProtocol.FILE: examples["MemoryConnection"]}
    monkeypatch.setattr(connecting, "OPENERS", openers)
    address = SourceAddress(1, "H", SourceProtocol.FILE, "memory", "", SecretStr(""), "")
    listing = list_source(address, Settings(home=tmp_path))
    assert [file.name for part in listing.listings for file in part.zips] == ["H.2013-10-31.1.impc.zip"]
    received: list[bytes] = []
    with connecting.connect(address, Settings(home=tmp_path)) as connection:
        connection.fetch(listing.listings[0].action, "H.2013-10-31.1.impc.zip", received.append, size=3, offset=1)
    assert received == [b".."]


def test_a_channel_of_ones_own_sends_reports(examples: Mapping[str, Any], tmp_path: Path) -> None:
    channel = examples["JsonLinesChannel"](tmp_path / "reports.jsonl")
    assert "session 7" in channel.send(Report(7, "All well", "Nothing new."))
    (line,) = (tmp_path / "reports.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line) == {"session": 7, "subject": "All well", "text": "Nothing new."}
