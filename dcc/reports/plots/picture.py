"""Pictures: their descriptions, their looks, and their SVG or PNG.

Colours are Okabe and Ito's, which differ for colour-blind eyes and in grey. Earlier values are small grey dots, new
ones are diamonds, and outliers have a ring, so that nothing depends on colour alone.

matplotlib is imported when a picture is drawn. Its state is global to the process, so one picture is drawn at a time,
with matplotlib's defaults and the settings here, whatever `matplotlibrc` says. It needs no display and no pyplot. Texts
are never taken for formulas.
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
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dcc.errors import ConfigurationError
from dcc.reports.languages import Catalogue, mark
from dcc.runtime.legible_text import legible
from dcc.runtime.private_files import SHARED_FILE, make_directory, replacement_file, writing_errors
from dcc.settings import Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDTH: Final = 7.2
"""Inches; what fits on a page of paper."""
HEADING: Final = 0.85
"""Inches above the panels: for the title, a line below it, and the legend."""

EARLIER: Final = "#767676"
BOX: Final = "#e6edf3"
BOX_EDGE: Final = "#3d4a57"
NEW: Final = "#0072b2"
OUTLIER: Final = "#c44601"
INK: Final = "#1f1f1f"
GRID: Final = "#dddddd"

_LONGEST: Final = 40
_LEAST_PLAIN: Final = 1e-5
_MAX_PLAIN: Final = 1e9

KNOWN_WORDS: Final = (
    mark("male"),
    mark("female"),
    mark("intersex"),
    mark("no data"),
    mark("homozygous"),
    mark("heterozygous"),
    mark("hemizygous"),
    mark("wild type"),
)
"""Sexes and zygosities that documents may name, which are translated."""


def shown_text(text: str, longest: int = _LONGEST) -> str:
    """A text from outside as a picture has it: nothing unseen in it, and not longer than so many characters."""
    text = legible(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def word_for(catalogue: Catalogue, word: str) -> str:
    """A sex or zygosity in the reader's language."""
    return catalogue.say(word) if word in KNOWN_WORDS else shown_text(word)


def format_number(catalogue: Catalogue, number: float) -> str:
    """A number as the reader's language writes it; one with too many digits by its power of ten (`1.5e+30`)."""
    if number == 0 or _LEAST_PLAIN <= abs(number) < _MAX_PLAIN:
        return catalogue.number(number)
    return f"{number:.3g}"


def format_quantity(catalogue: Catalogue, number: float, unit: str) -> str:
    """A number with its unit, if it has one."""
    return f"{format_number(catalogue, number)} {shown_text(unit)}".rstrip()


def lay_out(
    figure: Figure, title: str, subtitle: str, *, left: float, bottom: float, panels: int = 1, gap: float = 0
) -> list[Axes]:
    """Panels side by side below a heading; `left`, `bottom` and `gap`, below the heading, are in inches."""
    width, height = figure.get_size_inches()
    given = {"xycoords": "figure fraction", "va": "top", "annotation_clip": False, "color": INK}
    figure.subplots_adjust(
        left=left / width, right=1 - 0.25 / width, bottom=bottom / height, top=1 - (HEADING + gap) / height, wspace=0.08
    )
    axes = list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])
    margin = 0.1 / width
    axes[0].annotate(shown_text(title, 84), (margin, 1 - 0.1 / height), fontsize=10.5, fontweight="bold", **given)
    axes[0].annotate(shown_text(subtitle, 120), (margin, 1 - 0.32 / height), **given)
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.set_axisbelow(True)
    return axes


def name_point(axes: Axes, text: str, x: float, y: float, zorder: int) -> None:
    """Write beside a point what it is, on the side towards the middle."""
    low, high = axes.get_xlim()
    is_right = x > (low + high) / 2
    axes.annotate(
        text,
        (x, y),
        xytext=(-7 if is_right else 7, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="center",
        fontsize=7.5,
        color=INK,
        zorder=zorder,
    )


def add_legend(figure: Figure, entries: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    """The key below the heading: pairs of how a line is drawn, and what it means."""
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    figure.legend(
        handles=[Line2D([], [], label=label, **how) for how, label in entries],
        loc="upper left",
        bbox_to_anchor=(0.06 / width, 1 - 0.5 / height),
        ncols=len(entries),
        frameon=False,
        borderaxespad=0,
        borderpad=0.2,
        handletextpad=0.3,
        columnspacing=1.1,
        fontsize=8,
    )


_SVG: Final = "http://www.w3.org/2000/svg"
_XLINK: Final = "http://www.w3.org/1999/xlink"
_FONTS: Final = "DejaVu Sans, Verdana, Arial, sans-serif"
_PRECISION: Final = re.compile(r"-?\d+\.\d{3,}")
_WRITTEN: Final = frozenset({"d", "x", "y", "transform", "width", "height"})


def tidy_svg(text: str, *, title: str, description: str) -> str:
    """The `svg` element of a file that matplotlib wrote (with texts as texts), for a page.

    Styles become attributes, which no policy refuses. Numbers have two decimals (of a 72nd of an inch). `title` and
    `description` go before all else, as role `img` wants them.
    """
    root = ET.fromstring(text)  # noqa: S314  (written by matplotlib a moment ago)
    for parent in root.iter():
        for child in [child for child in parent if child.tag in {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}]:
            parent.remove(child)
        for declaration in parent.attrib.pop("style", "").split(";"):
            name, _, value = (part.strip() for part in declaration.partition(":"))
            if name:
                parent.attrib[name] = _FONTS if name == "font-family" else value
        for name in _WRITTEN & parent.attrib.keys():
            parent.attrib[name] = _PRECISION.sub(_with_two_decimals, parent.attrib[name])
    root.attrib.pop("version", None)
    labels = {"title": title, "desc": description}
    for place, (tag, label) in enumerate(labels.items()):
        element = ET.Element(f"{{{_SVG}}}{tag}", {"id": tag})
        element.text = label
        root.insert(place, element)
    root.attrib |= {
        "role": "img",
        "aria-labelledby": " ".join(labels),
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    return ET.tostring(root, encoding="unicode")


def _with_two_decimals(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


_FORMS: Final = (".svg", ".png")

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


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture, drawn when it is first asked for.

    `name` tells it from the others of the same centre or submission, in letters that file names may have. `caption`
    tells what is drawn. `rule` tells how values are marked: the same for all pictures of a kind, empty where none are.
    `alt` says in words what the picture shows. All texts are plain: escaping them is the business of who puts them into
    HTML. `outliers` tells how many of the new values are marked. `size` is in inches.
    """

    name: str
    title: str
    caption: str
    alt: str
    size: tuple[float, float]
    draw: Callable[[Figure], None] = field(repr=False)
    rule: str = ""
    outliers: int = 0

    @cached_property
    def svg(self) -> str:
        """The picture as an `svg` element.

        It has no script, style element, style attribute or link to elsewhere. Its title and description are for screen
        readers. The same data make the same text.
        """
        return tidy_svg(self._drawn("svg").decode(), title=self.title, description=self.alt)

    @cached_property
    def png(self) -> bytes:
        """The picture as a PNG file of 144 dots an inch; the same data make the same bytes."""
        return self._drawn("png")

    def write(self, path: Path) -> None:
        """Write it to a file of the form that the name says, .svg or .png. Raises ConfigurationError."""
        form = path.suffix.lower()
        if form not in _FORMS:
            raise ConfigurationError(
                f"{path} is neither SVG nor PNG by its name. Name a file that ends in .svg or .png."
            )
        drawn = self.svg.encode() if form == ".svg" else self.png
        with writing_errors(path), replacement_file(path, SHARED_FILE) as part:
            part.write_bytes(drawn)

    def _drawn(self, form: str) -> bytes:
        with _ONE_AT_A_TIME, _matplotlib():
            from matplotlib.figure import Figure

            figure = Figure(figsize=self.size)
            self.draw(figure)
            image = BytesIO()
            metadata = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
            figure.savefig(image, format=form, dpi=DPI if form == "png" else 72, metadata=metadata)
            return image.getvalue()


def file_name_of(*parts: str) -> str:
    """The name of a picture from what it shows: letters, digits and `.-_`, at most 120."""
    return _UNUSUAL.sub("_", "-".join(parts))[:120]


_fonts: dict[str, Path] = {}
"""Where matplotlib keeps its list of fonts, if a caller has said so."""


def use_font_cache(settings: Settings) -> None:
    """Have matplotlib keep its list of fonts in `matplotlib` of DCC_HOME, unless MPLCONFIGDIR names a directory.

    By default, the list is in a directory that goes with the process.
    """
    _fonts["directory"] = settings.home / "matplotlib"


@contextmanager
def _matplotlib() -> Iterator[None]:
    """Import matplotlib without it writing into the user's home, and have its settings be those here for a while."""
    if "matplotlib" not in sys.modules and not os.environ.get(_CONFIGURATION):
        os.environ[_CONFIGURATION] = str(_font_directory())
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # Of letters that the font does not have: the reader's machine has them, and a PNG has boxes instead.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **_STYLE}
        matplotlib.rcParams.update({name: value for name, value in settings.items() if not name.startswith("backend")})
        yield


def _font_directory() -> Path:
    directory = _fonts.get("directory")
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="dcc-matplotlib-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        return directory
    try:
        make_directory(directory)
    except OSError as error:
        raise ConfigurationError(
            f"{directory} cannot be made: {error}. Make it, or have it belong to this user."
        ) from error
    return directory
