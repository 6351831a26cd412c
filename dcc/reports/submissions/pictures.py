"""The pictures of a report. What draws them is imported when it is needed: it brings matplotlib and numpy with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection

from dcc.outcomes import ZipKey
from dcc.reports.languages import Catalogue, load_catalogue
from dcc.settings import Settings

if TYPE_CHECKING:
    from dcc.reports.plots.picture import Picture


def draw_zip_pictures(
    qc: Connection | None, key: ZipKey, settings: Settings, catalogue: Catalogue | None, most: int
) -> tuple[Picture, ...]:
    """Pictures of what a submission brought beside its centre's own data, the most telling first."""
    if qc is None or most < 1:
        return ()
    from dcc.reports.plots.picture import font_directory
    from dcc.reports.plots.selection import pictures_of_zip

    texts, fonts = catalogue or load_catalogue(None, settings), font_directory(settings)
    return tuple(pictures_of_zip(qc, key, texts, most=most, with_others=False, fonts=fonts))


def draw_centre_pictures(
    qc: Connection | None,
    centre: str,
    settings: Settings,
    catalogue: Catalogue | None,
    most: int,
    *,
    with_others: bool = False,
) -> tuple[Picture, ...]:
    """Pictures of a centre's data, the most telling first; reports for the centre have them without others' data."""
    if qc is None or most < 1:
        return ()
    from dcc.reports.plots.picture import font_directory
    from dcc.reports.plots.selection import pictures_of_centre

    texts, fonts = catalogue or load_catalogue(None, settings), font_directory(settings)
    return tuple(pictures_of_centre(qc, centre, texts, most=most, with_others=with_others, fonts=fonts))
