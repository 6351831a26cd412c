"""The pictures of a report. What draws them is imported when it is needed: it brings matplotlib and numpy with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection

from dcc.outcomes import ZipKey
from dcc.reports.languages import Catalogue, load_catalogue
from dcc.settings import Settings

if TYPE_CHECKING:
    from dcc.reports.plots.picture import Picture


def draw_pictures(
    qc: Connection | None,
    subject: ZipKey | str,
    settings: Settings,
    catalogue: Catalogue | None,
    most: int,
    *,
    with_others: bool = False,
) -> tuple[Picture, ...]:
    """Pictures of what a submission brought, or of a centre's data by its code, the most telling first.

    Reports for the centre have them without the data of others.
    """
    if qc is None or most < 1:
        return ()
    from dcc.reports.plots.picture import keep_fonts
    from dcc.reports.plots.selection import pictures_of_centre, pictures_of_zip

    texts = catalogue or load_catalogue(None, settings)
    keep_fonts(settings)
    if isinstance(subject, ZipKey):
        return tuple(pictures_of_zip(qc, subject, texts, most=most, with_others=with_others))
    return tuple(pictures_of_centre(qc, subject, texts, most=most, with_others=with_others))
