"""The procedures that are due for the animals of a centre: delivered, in error, explained, and missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dcc.errors import NotFoundError
from dcc.qc.expected_procedures import Delivery, ProcedureDeliveries
from dcc.reports.languages import Catalogue
from dcc.reports.plots.picture import (
    GRID,
    HEADING,
    NEW,
    OUTLIER,
    WIDTH,
    Picture,
    PictureKind,
    add_legend,
    file_name_of,
    lay_out,
    shown_text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_BARS: Final = 60
_BAR: Final = 0.19
_COLOURS: Final = {
    Delivery.DELIVERED: NEW,
    Delivery.INVALID: "#e69f00",
    Delivery.EXPLAINED: "#b9c2cb",
    Delivery.MISSING: OUTLIER,
}


def draw_expected(counted: Sequence[ProcedureDeliveries], catalogue: Catalogue) -> Picture:
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
        axes.locator_params(axis="x", integer=True, nbins=6)
        axes.xaxis.set_major_formatter(lambda value, _: catalogue.number(int(value)))
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        square: dict[str, Any] = {"marker": "s", "markersize": 7, "linestyle": "none"}
        add_legend(figure, [({**square, "color": colour}, words[state]) for state, colour in _COLOURS.items()])

    centres = {procedure.centre for procedure in drawn}
    return Picture(
        name=file_name_of(PictureKind.EXPECTED, *(centres if len(centres) == 1 else ())),
        kind=PictureKind.EXPECTED,
        title=title,
        caption=caption,
        alt=alt,
        size=(WIDTH, HEADING + 0.5 + _BAR * max(len(drawn), 3)),
        draw=draw,
    )
