"""What data look like, as pictures for reports and for Dagster's pages: made on demand, on no session's path.

Only values that are current and that the integrity rules found no error with are drawn. A picture is of bounded size,
time and memory, whatever the number of measurements: of many, a sample is drawn, always the same one.
"""

from dcc.reports.plots.bars import draw_expected, draw_weeks
from dcc.reports.plots.picture import Picture, use_font_cache
from dcc.reports.plots.selection import MAX_PICTURES, picture_of_parameter, pictures_of

__all__ = [
    "MAX_PICTURES",
    "Picture",
    "draw_expected",
    "draw_weeks",
    "picture_of_parameter",
    "pictures_of",
    "use_font_cache",
]
