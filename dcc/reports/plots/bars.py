"""Bars: how many experiments a centre did week by week, and which of the procedures that are due it delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy import Connection, case, func, select

from dcc.databases.list_parameters import as_json, numbers_in
from dcc.errors import NotFoundError
from dcc.outcomes import SubmissionKey
from dcc.qc.expected_procedures import Delivery, ProcedureDeliveries
from dcc.qc.models import EXPERIMENT
from dcc.reports.languages import Catalogue
from dcc.reports.plots.distributions import subtitle_of
from dcc.reports.plots.picture import (
    GRID,
    HEADING,
    NEW,
    OUTLIER,
    WIDTH,
    Picture,
    add_legend,
    file_name_of,
    lay_out,
    shown_text,
)
from dcc.reports.plots.values import documents_of
from dcc.vocabulary import Validity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_WEEKS: Final = 104
"""Weeks of a picture: two years, up to the last one in which the submission, or else the centre, has an experiment."""

_WEEK: Final = timedelta(weeks=1)
_HEIGHT: Final = 2.9
_TICKS: Final = 5
_LEAST_SLOTS: Final = 8
_GREY: Final = "#b9c2cb"


@dataclass(frozen=True, slots=True)
class Week:
    """Experiments of a week, which begins on the Monday `first`: those there before, and those of a submission."""

    first: date
    earlier: int
    new: int


@dataclass(frozen=True, slots=True)
class Weeks:
    """Weeks without a gap, and how many experiments there are before and after them."""

    centre: str
    key: SubmissionKey | None
    weeks: tuple[Week, ...]
    outside: int


def draw_weeks(
    qc: Connection,
    catalogue: Catalogue,
    *,
    centre: str,
    key: SubmissionKey | None = None,
) -> Picture:
    """The current, valid experiments of a centre by the week of their date, those of the submission `key` picked out.

    Raises NotFoundError where the centre has none.
    """
    found = count_weeks(qc, centre, key)
    if found is None:
        raise NotFoundError(f"Centre {centre} has no current, valid experiment. See `dcc qc overview animals`.")
    return picture_of_weeks(found, catalogue)


def count_weeks(qc: Connection, centre: str, key: SubmissionKey | None) -> Weeks | None:
    """What the picture is drawn from; None where the centre has no experiment that is current, valid and has a date.

    With a submission, experiments of documents that were applied after its last one are left out.
    """
    documents = documents_of(qc, key) if key is not None else []
    own = EXPERIMENT.c
    is_new = case((own.document_id.in_(numbers_in("documents")), 1), else_=0)
    wanted = select(own.date, func.count(), func.sum(is_new)).group_by(own.date)
    wanted = wanted.where(own.centre == centre, own.is_current, own.validity == Validity.VALID, own.date.is_not(None))
    if documents:
        wanted = wanted.where(own.document_id <= max(documents))
    number, new = Counter[date](), Counter[date]()
    for day, of_day, new_of_day in qc.execute(wanted, {"documents": as_json(documents)}):
        monday = day - timedelta(days=day.weekday())
        number[monday] += of_day
        if new_of_day:
            new[monday] += int(new_of_day)
    if not number:
        return None
    last = max(new or number)
    # Nothing is taken from the last week: a date may be of the first year that there is.
    drawn = min((last - min(number)) // _WEEK + 1, MAX_WEEKS)
    first = last - (drawn - 1) * _WEEK
    weeks = [first + place * _WEEK for place in range(drawn)]
    counted = tuple(Week(week, number[week] - new[week], new[week]) for week in weeks)
    return Weeks(centre, key, counted, number.total() - sum(number[week] for week in weeks))


def picture_of_weeks(found: Weeks, catalogue: Catalogue) -> Picture:
    """The picture of counts per week."""
    title, subtitle = catalogue.say("Experiments per week"), subtitle_of(catalogue, found.centre, found.key)
    with_new = any(week.new for week in found.weeks)
    legend = (catalogue.say("earlier") if with_new else catalogue.say("experiments"), catalogue.say("new"))
    # A few weeks have the day on which they begin.
    places = range(0, len(found.weeks), -(-max(len(found.weeks), _LEAST_SLOTS) // _TICKS))
    days = [catalogue.date(found.weeks[place].first) for place in places]

    def draw(figure: Figure) -> None:
        (axes,) = lay_out(figure, title, subtitle, left=0.6, bottom=0.4)
        bars = range(len(found.weeks))
        earlier, new = [week.earlier for week in found.weeks], [week.new for week in found.weeks]
        axes.bar(bars, earlier, 0.86, color=_GREY, linewidth=0)
        if with_new:
            axes.bar(bars, new, 0.86, earlier, facecolor=NEW, edgecolor="white", hatch="////", linewidth=0)
        axes.set_xlim(-0.7, max(len(found.weeks), _LEAST_SLOTS) - 0.3)
        axes.set_xticks(places, days)
        _count_along(axes, "y", catalogue)
        drawn = ((_GREY, legend[0], any(earlier)), (NEW, legend[1], with_new))
        _add_legend(figure, {colour: text for colour, text, is_drawn in drawn if is_drawn})

    return Picture(
        name=file_name_of("weeks", found.centre),
        title=title,
        caption=_caption(found, catalogue),
        alt=_description(found, catalogue),
        size=(WIDTH, _HEIGHT),
        draw=draw,
    )


def _caption(found: Weeks, catalogue: Catalogue) -> str:
    caption = catalogue.say(
        "Experiments that are current and valid, by the week in which they were done; weeks begin on Monday."
    )
    if not found.outside:
        return caption
    return f"{caption} " + catalogue.say_plural(
        "One experiment is of a week that is not drawn.",
        "{number} experiments are of weeks that are not drawn.",
        found.outside,
    )


def _description(found: Weeks, catalogue: Catalogue) -> str:
    highest = max(found.weeks, key=lambda week: week.earlier + week.new)
    parts = [
        catalogue.say_plural(
            "One experiment, in the week of {week}.",
            "{number} experiments from the week of {first} to that of {last}; most, {most}, in the week of {week}.",
            sum(week.earlier + week.new for week in found.weeks),
            first=catalogue.date(found.weeks[0].first),
            last=catalogue.date(found.weeks[-1].first),
            most=catalogue.number(highest.earlier + highest.new),
            week=catalogue.date(highest.first),
        )
    ]
    with_new = [week for week in found.weeks if week.new]
    if with_new:
        parts.append(
            catalogue.say_plural(
                "One of them is new, of the week of {first}.",
                "{number} of them are new, of the weeks of {first} to {last}.",
                sum(week.new for week in with_new),
                first=catalogue.date(with_new[0].first),
                last=catalogue.date(with_new[-1].first),
            )
        )
    return " ".join(parts)


_MAX_BARS: Final = 60
_BAR: Final = 0.19
_COLOURS: Final = {
    Delivery.DELIVERED: NEW,
    Delivery.INVALID: "#e69f00",
    Delivery.EXPLAINED: _GREY,
    Delivery.MISSING: OUTLIER,
}


def picture_of_expected(counted: Sequence[ProcedureDeliveries], catalogue: Catalogue) -> Picture:
    """A bar for each centre, pipeline and procedure; of too many, those with most missing.

    Raises NotFoundError without any.
    """
    if not counted:
        raise NotFoundError("No procedure is due, so the plot would be empty. See `dcc qc expected`.")
    worst = sorted(counted, key=lambda one: -one.missing)[:_MAX_BARS]
    drawn = [procedure for procedure in counted if procedure in worst]
    words = {
        Delivery.DELIVERED: catalogue.say("delivered"),
        Delivery.INVALID: catalogue.say("with errors"),
        Delivery.EXPLAINED: catalogue.say("explained by a status code"),
        Delivery.MISSING: catalogue.say("missing"),
    }
    title = catalogue.say("Procedures that are due")
    caption = catalogue.say(
        "Animals, or colonies for procedures on lines, that have the age at which IMPReSS asks for it."
    )
    if len(drawn) < len(counted):
        number, total = (catalogue.number(len(procedures)) for procedures in (drawn, counted))
        caption += " " + catalogue.say(
            "Of {total} bars, those {number} with most missing are drawn.", total=total, number=number
        )
    totals = {state: sum(getattr(procedure, state.name.lower()) for procedure in counted) for state in Delivery}
    alt = ", ".join(f"{words[state]}: {catalogue.number(number)}" for state, number in totals.items())

    def draw(figure: Figure) -> None:
        (axes,) = lay_out(figure, title, alt, left=2.6, bottom=0.4)
        places, left = range(len(drawn)), [0] * len(drawn)
        for state, colour in _COLOURS.items():
            numbers = [getattr(procedure, state.name.lower()) for procedure in drawn]
            axes.barh(places, numbers, 0.8, left, color=colour, linewidth=0)
            left = [before + number for before, number in zip(left, numbers, strict=True)]
        labels = [
            shown_text(f"{procedure.centre} {procedure.due.pipeline} {procedure.due.procedure}") for procedure in drawn
        ]
        axes.set_yticks(list(places), labels)
        axes.invert_yaxis()
        _count_along(axes, "x", catalogue)
        _add_legend(figure, {colour: words[state] for state, colour in _COLOURS.items()})

    centres = {procedure.centre for procedure in drawn}
    return Picture(
        name=file_name_of("expected", *(centres if len(centres) == 1 else ())),
        title=title,
        caption=caption,
        alt=alt,
        size=(WIDTH, HEADING + 0.5 + _BAR * max(len(drawn), 3)),
        draw=draw,
    )


def _count_along(axes: Axes, axis: Literal["x", "y"], catalogue: Catalogue) -> None:
    """Whole numbers at an axis, with lines across."""
    axes.locator_params(axis=axis, integer=True, nbins=6)
    along = axes.xaxis if axis == "x" else axes.yaxis
    along.set_major_formatter(lambda value, _: catalogue.number(int(value)))
    along.grid(color=GRID, linewidth=0.6)


def _add_legend(figure: Figure, words: Mapping[str, str]) -> None:
    """What bars of each colour are."""
    square = {"marker": "s", "markersize": 7, "linestyle": "none"}
    add_legend(figure, [({**square, "color": colour}, word) for colour, word in words.items()])
