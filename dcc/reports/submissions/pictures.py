"""What causes and plots have to say in a report, as far as the databases at hand can tell it.

Their modules are imported when they are needed: pictures bring matplotlib and numpy with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection

from dcc.outcomes import ZipKey
from dcc.settings import Settings

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause
    from dcc.reports.causes.skipped import Skipped
    from dcc.reports.languages import Catalogue
    from dcc.reports.plots.picture import Picture


def gather_zip_causes(tracker: Connection, qc: Connection | None, key: ZipKey) -> list[Cause]:
    """The causes of what is wrong with a zip action, the worst first."""
    from dcc.reports.causes.collecting import causes_of_zip

    return causes_of_zip(tracker, qc, key)


def gather_centre_causes(tracker: Connection, qc: Connection | None, centre: str) -> list[Cause]:
    """The causes of what is wrong with a centre's submissions, the worst first."""
    from dcc.reports.causes.collecting import causes_of_centre

    return causes_of_centre(tracker, qc, centre)


def gather_session_causes(tracker: Connection, qc: Connection | None, session_id: int) -> list[Cause]:
    """The causes of what is wrong with the zip actions of a session, the worst first."""
    from dcc.reports.causes.collecting import causes_of_session

    return causes_of_session(tracker, qc, session_id)


def gather_not_taken(tracker: Connection, source_id: int) -> list[Skipped]:
    """What the last crawl of a file source did not take, and why."""
    from dcc.reports.causes.skipped import skipped_entries

    return skipped_entries(tracker, source_id)


def draw_zip_pictures(
    qc: Connection | None, key: ZipKey, settings: Settings, catalogue: Catalogue | None, most: int
) -> tuple[Picture, ...]:
    """Pictures of what a zip action brought beside its centre's own data, the most telling first."""
    if qc is None or most < 1:
        return ()
    from dcc.reports.languages import load_catalogue
    from dcc.reports.plots.picture import font_directory
    from dcc.reports.plots.selection import pictures_of_zip

    said = catalogue or load_catalogue(None, settings)
    return tuple(pictures_of_zip(qc, key, said, most=most, with_others=False, fonts=font_directory(settings)))


def draw_centre_pictures(
    qc: Connection | None,
    centre: str,
    settings: Settings,
    catalogue: Catalogue | None,
    most: int,
    *,
    with_others: bool = False,
) -> tuple[Picture, ...]:
    """Pictures of a centre's data, the most telling first: of nobody else's, since its reports are for the centre."""
    if qc is None or most < 1:
        return ()
    from dcc.reports.languages import load_catalogue
    from dcc.reports.plots.picture import font_directory
    from dcc.reports.plots.selection import pictures_of_centre

    said = catalogue or load_catalogue(None, settings)
    fonts = font_directory(settings)
    return tuple(pictures_of_centre(qc, centre, said, most=most, with_others=with_others, fonts=fonts))
