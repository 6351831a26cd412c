"""Links between pages: of assets, checks and partitions, and of the reports that the web server of `dcc ui` makes.

The only module that makes Markdown. It uses only words of the platform and paths in which all names from centres are
percent-encoded. So no name can become a link, an image or an element of a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from dagster import AssetKey, MarkdownMetadataValue, MetadataValue

from dcc.outcomes import SubmissionKey
from dcc_dagster.metadata import Metadata, table

HOME: Final = "/dcc/"
REPORTS: Final = "/dcc/reports"
PICTURES: Final = "/dcc/pictures"
EXPECTED: Final = "/dcc/expected"
CAUSES: Final = "/dcc/causes"
KEPT: Final = "/dcc/kept"
BOARD: Final = "/dcc/board"
DOCUMENTS: Final = "/dcc/documents"
"""The beginnings of the paths of pages on the web server of `dcc ui`; `dcc_assets.pages.server` has them complete."""

_DOCUMENTS_LINKED: Final = 10

Link = tuple[str, str]
"""A link's text, in words of the platform, and its path."""


def report_of_submission(key: SubmissionKey) -> str:
    """The path of a submission's report."""
    return f"{REPORTS}/{_encoded(key.partition, '/')}"


def xml_of_document(key: SubmissionKey, file_name: str) -> str:
    """The path of a document's XML as its last download brought it."""
    return f"{DOCUMENTS}/{_encoded(key.partition, '/')}/{_encoded(file_name)}"


def report_of_centre(centre: str) -> str:
    """The path of a centre's report, by its code."""
    return f"{REPORTS}/centre/{_encoded(centre)}"


def expected_of_centre(centre: str) -> str:
    """The path of the page of the procedures that are due at a centre."""
    return f"{EXPECTED}/{_encoded(centre)}"


def page_of_causes(centre: str | None) -> str:
    """The path of the causes at a centre, or at all."""
    return CAUSES if centre is None else f"{CAUSES}/{_encoded(centre)}"


def stored_reports_of_centre(centre: str | None) -> str:
    """The path of the list of kept reports of a centre, or of all."""
    return KEPT if centre is None else f"{KEPT}/{_encoded(centre)}"


def stored_report_path(action: str, name: str) -> str:
    """The path of a kept report by the name of its file without the suffix."""
    return f"{KEPT}/{action}/{_encoded(name)}"


def localised(path: str, language: str | None) -> str:
    """A path with the language that is asked for, if any."""
    return path if language is None else f"{path}{'&' if '?' in path else '?'}language={_encoded(language)}"


def board_of_centre(centre: str) -> str:
    """The path of the tracking board of a centre, by its code."""
    return f"{BOARD}?centre={_encoded(centre)}"


def report_of_session(session_id: int) -> str:
    """The path of a crawling session's report."""
    return f"{REPORTS}/session/{session_id}"


def picture_of_centre(centre: str, number: int) -> str:
    """The path of a centre's plot; the first is number 1."""
    return f"{PICTURES}/centre/{_encoded(centre)}/{number}.png"


def page_of_partition(asset: AssetKey, partition: str) -> str:
    """The path of the page of an asset's partition."""
    return f"/assets/{asset.to_user_string()}?view=partitions&partition={_encoded(partition)}"


def links(wanted: Sequence[Link]) -> MarkdownMetadataValue:
    """Links for an event, in one line."""
    return MetadataValue.md(" · ".join(f"[{text}]({path})" for text, path in wanted))


def xml_of_documents(key: SubmissionKey, file_names: Sequence[str]) -> dict[str, MarkdownMetadataValue]:
    """Links to the XML of the first documents of a table, by their rows; nothing without any."""
    shown = file_names[:_DOCUMENTS_LINKED]
    found = [(f"Document {row}", xml_of_document(key, name)) for row, name in enumerate(shown, start=1)]
    return {"XML": links(found)} if found else {}


def linked_documents(key: SubmissionKey, file_names: Sequence[str]) -> Metadata:
    """The names of the first documents of a submission, as text, and links to their XML."""
    rows = [(name,) for name in file_names[:_DOCUMENTS_LINKED]]
    # Not the names as the texts of links: a centre gives them.
    return {"first documents": table(("document",), rows), **xml_of_documents(key, file_names)} if rows else {}


def pictures(wanted: Sequence[Link]) -> MarkdownMetadataValue:
    """Plots for an event, one below the other, each by its alternative text and path."""
    return MetadataValue.md("\n\n".join(f"![{text}]({path})" for text, path in wanted))


def _encoded(text: str, safe: str = "") -> str:
    return quote(text, safe=safe, errors="surrogatepass")
