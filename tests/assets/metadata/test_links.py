"""Links beside events lead where they should, whatever centres have named things, and are nothing but links."""

import re
from urllib.parse import unquote

import pytest
from dagster import AssetKey

from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc_assets.metadata.links import (
    links,
    page_of_partition,
    picture_of_centre,
    pictures,
    report_of_centre,
    report_of_zip,
)

NAMES = [
    "H.2013-10-31.1.impc.zip",
    "[here](javascript:alert(1)).zip",
    "![](x)<svg onload=alert(1)>.zip",
    "a b?c#d&e=f%2e%2e.zip",
    "\u202etwo\nlines\ud800 | `x` \\ ~.zip",
    "x" * 200 + ".zip",
]
PLAIN = re.compile(r"[A-Za-z0-9/_.~%?=&-]+")


@pytest.mark.parametrize("name", NAMES)
def test_a_link_is_a_path_of_this_server_in_characters_that_mean_nothing(name: str) -> None:
    key = ZipKey(Action.ADD, name)
    page = page_of_partition(AssetKey("zip_downloads"), key.partition)
    for path in (report_of_zip(key), report_of_centre(name), picture_of_centre(name, 1), page):
        assert PLAIN.fullmatch(path), path
        assert path.startswith("/")
        assert not path.startswith("//")
        assert path.count("?") <= 1
    assert unquote(report_of_zip(key), errors="surrogatepass") == f"/dcc/reports/{key.partition}"
    assert unquote(page.partition("&partition=")[2], errors="surrogatepass") == key.partition


@pytest.mark.parametrize("name", NAMES)
def test_markdown_is_made_of_our_words_and_such_paths(name: str) -> None:
    key = ZipKey(Action.EDIT, name)
    made = links([("Report", report_of_zip(key)), ("Download", page_of_partition(AssetKey("a"), key.partition))])
    assert re.fullmatch(rf"\[Report\]\({PLAIN.pattern}\) · \[Download\]\({PLAIN.pattern}\)", made.md_str)
    shown = pictures([("Weights", picture_of_centre(name, 3))])
    assert re.fullmatch(rf"!\[Weights\]\(/dcc/pictures/centre/{PLAIN.pattern}/3\.png\)", shown.md_str)
