"""Status codes: a registered code, or one followed by a colon and free text."""

from __future__ import annotations

from dcc.reference.snapshots import StatusCodes
from dcc.rules.findings import Fault, Severity

SPECIMEN_FAMILY = "IMPC_SSC_"
PROCEDURE_FAMILY = "IMPC_PSC_"
PARAMETER_FAMILY = "IMPC_PARAMSC_"
_MEANT_FOR = {
    SPECIMEN_FAMILY: "specimens",
    PROCEDURE_FAMILY: "lines and experiments",
    PARAMETER_FAMILY: "parameters and their increments",
}
_NEEDING_TEXT = frozenset({"IMPC_PSC_015", "IMPC_PARAMSC_005", "IMPC_PARAMSC_006", "IMPC_SSC_003"})


def code_of(text: str) -> str:
    """The code of a status: what is before the first colon, without blanks around it."""
    return text.partition(":")[0].strip()


def fault_of_status(text: str, family: str, codes: StatusCodes, line: int) -> Fault | None:
    """What is wrong with a status at a place that takes codes of one family; None if nothing is.

    A procedure's code given to a specimen is a warning, because centres were told that it may be.
    """
    code = code_of(text)
    if code not in codes.meanings:
        return Fault(
            f"The status {text!r} has no registered code: {code!r}. Use one of {family}001 and on.", line, text
        )
    if code.startswith(family):
        return None
    meant = next((who for which, who in _MEANT_FOR.items() if code.startswith(which)), "something else")
    lenient = family == SPECIMEN_FAMILY and code.startswith(PROCEDURE_FAMILY)
    return Fault(
        f"The status {text!r} has a code for {meant}, not for {_MEANT_FOR[family]}. Use one of {family}001 and on.",
        line,
        text,
        Severity.WARNING if lenient else None,
    )


def lacks_text(status: str) -> bool:
    """Whether the code of a status says that a text follows the colon, and none does."""
    return code_of(status) in _NEEDING_TEXT and not status.partition(":")[2].strip()
