"""A picture: what it shows, in words, and the means to have it as SVG or PNG. matplotlib is imported when one is drawn.

matplotlib's state is global to the process, so that one picture is drawn at a time. It is drawn with matplotlib's own
defaults and the settings here, whatever `matplotlibrc` there is; without a display and without pyplot. Texts are never
taken for formulas.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dcc.errors import ConfigurationError
from dcc.reports.plots.svg import tidy_svg
from dcc.runtime.private_files import make_directory
from dcc.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI: Final = 144
"""Dots per inch of a PNG."""

_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]")
_CONFIGURATION: Final = "MPLCONFIGDIR"
_STYLE: Final[dict[str, Any]] = {
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "dcc",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#555555",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "savefig.facecolor": "white",
}
_ONE_AT_A_TIME: Final = threading.Lock()


class PictureKind(StrEnum):
    """What a picture is of."""

    DISTRIBUTION = "distribution"
    SERIES = "series"
    WEEKS = "weeks"


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture, drawn when it is first asked for.

    `name` tells it from the others of the same centre or zip action, in letters that file names may have. `caption`
    tells what is drawn, `rule` how values are marked, which is the same for all pictures of a kind and empty where none
    are, `alt` says in words what there is to see. All texts are
    plain: escaping them is the business of who puts them into HTML. `parameter_id` is None where it is of none,
    `outliers` how many of the new values are marked. `size` is in inches. `fonts` is where matplotlib keeps its list of
    fonts (`font_directory`), by default a directory that goes with the process.
    """

    name: str
    kind: PictureKind
    title: str
    caption: str
    alt: str
    size: tuple[float, float]
    draw: Callable[[Figure], None] = field(repr=False)
    rule: str = ""
    parameter_id: str | None = None
    outliers: int = 0
    fonts: Path | None = field(default=None, repr=False)

    @cached_property
    def svg(self) -> str:
        """The picture as an `svg` element, to stand in a page as it is, beside others.

        It has no script, style element, style attribute or link to elsewhere, and no id that another picture has. Its
        title and description are for screen readers. The same data make the same text.
        """
        return tidy_svg(self._drawn("svg").decode(), title=self.title, description=self.alt)

    @cached_property
    def png(self) -> bytes:
        """The picture as a PNG file of 144 dots an inch; the same data make the same bytes."""
        return self._drawn("png")

    def _drawn(self, form: str) -> bytes:
        with _ONE_AT_A_TIME, _matplotlib(self.fonts):
            from matplotlib.figure import Figure

            figure = Figure(figsize=self.size)
            self.draw(figure)
            written = BytesIO()
            metadata = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
            figure.savefig(written, format=form, dpi=DPI if form == "png" else 72, metadata=metadata)
            return written.getvalue()


def file_name_of(*parts: str) -> str:
    """The name of a picture from what it shows: letters, digits and `.-_`, at most 120."""
    return _UNUSUAL.sub("_", "-".join(parts))[:120]


def font_directory(settings: Settings) -> Path:
    """Where an installation keeps matplotlib's list of fonts: `matplotlib` in DCC_HOME."""
    return settings.home / "matplotlib"


@contextmanager
def _matplotlib(fonts: Path | None) -> Iterator[None]:
    """Import matplotlib without it writing into the user's home, and have its settings be those here for a while."""
    if "matplotlib" not in sys.modules and not os.environ.get(_CONFIGURATION):
        os.environ[_CONFIGURATION] = str(_directory(fonts))
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # Of letters that the font does not have: the reader's machine has them, and a PNG has boxes instead.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **_STYLE}
        matplotlib.rcParams.update({name: value for name, value in settings.items() if not name.startswith("backend")})
        yield


def _directory(fonts: Path | None) -> Path:
    if fonts is None:
        made = tempfile.mkdtemp(prefix="dcc-matplotlib-")
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        return Path(made)
    try:
        make_directory(fonts)
    except OSError as error:
        raise ConfigurationError(
            f"{fonts} cannot be made: {error}. Make it, or have it belong to this user."
        ) from error
    return fonts
