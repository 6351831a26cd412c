"""Links between the pages: of assets, checks and partitions, and of the reports that the web server of `dcc ui` makes.

The only module that makes Markdown. It is made of words of our own and of paths in which all that centres have named is
percent-encoded, so that nothing they write can become a link, a picture or an element of a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from dagster import AssetKey, MarkdownMetadataValue, MetadataValue

from dcc.outcomes import ZipKey

REPORTS: Final = "/dcc/reports"
"""Where the web server of `dcc ui` has the reports: of a zip action at `/dcc/reports/<action>/<file name>`."""
PICTURES: Final = "/dcc/pictures"
"""Where it has pictures of the data: `/dcc/pictures/centre/<code>/<number>.png`."""

Link = tuple[str, str]
"""What it says, in words of our own, and the path that it leads to."""


def report_of_zip(key: ZipKey) -> str:
    """The path of the report on a zip action."""
    return f"{REPORTS}/{_encoded(key.partition, '/')}"


def report_of_centre(centre: str) -> str:
    """The path of the report on a centre, by its code."""
    return f"{REPORTS}/centre/{_encoded(centre)}"


def report_of_session(session_id: int) -> str:
    """The path of the report on a crawling session."""
    return f"{REPORTS}/session/{session_id}"


def picture_of_centre(centre: str, number: int) -> str:
    """The path of a centre's picture, the first being number 1."""
    return f"{PICTURES}/centre/{_encoded(centre)}/{number}.png"


def page_of_partition(asset: AssetKey, partition: str) -> str:
    """The path of the page that shows a partition of an asset."""
    return f"/assets/{asset.to_user_string()}?view=partitions&partition={_encoded(partition)}"


def links(wanted: Sequence[Link]) -> MarkdownMetadataValue:
    """Links as they are shown beside an event, in one line."""
    return MetadataValue.md(" · ".join(f"[{text}]({_safe(path)})" for text, path in wanted))


def pictures(wanted: Sequence[Link]) -> MarkdownMetadataValue:
    """Pictures as they are shown beside an event, each by what it is instead and its path, one below the other."""
    return MetadataValue.md("\n\n".join(f"![{text}]({_safe(path)})" for text, path in wanted))


def _encoded(text: str, safe: str = "") -> str:
    return quote(text, safe=safe, errors="surrogatepass")


def _safe(path: str) -> str:
    # What ends a link's target in Markdown is no character of these paths as they are made above.
    return quote(path, safe="/?&=%~")
