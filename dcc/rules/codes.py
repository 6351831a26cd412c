"""Status codes: a registered code, or one followed by a colon and free text."""

from __future__ import annotations

from typing import Final

from dcc.declarations import Declaration
from dcc.messages import mark, message
from dcc.reference.snapshots import StatusCodes
from dcc.rules.findings import Fault, fault
from dcc.vocabulary import Severity

SPECIMEN_FAMILY = "IMPC_SSC_"
PROCEDURE_FAMILY = "IMPC_PSC_"
PARAMETER_FAMILY = "IMPC_PARAMSC_"
_MEANT_FOR = {
    SPECIMEN_FAMILY: message(mark("specimens")),
    PROCEDURE_FAMILY: message(mark("lines and experiments")),
    PARAMETER_FAMILY: message(mark("parameters and their increments")),
}
_SOMETHING_ELSE = message(mark("something else"))
_NEEDING_TEXT = frozenset({"IMPC_PSC_015", "IMPC_PARAMSC_005", "IMPC_PARAMSC_006", "IMPC_SSC_003"})

UNREGISTERED_CODE: Final = Declaration(
    message=mark("The status '{value}' has no registered code: '{status_code}'. Use one of {first_code} and on."),
    cause=mark("The status code '{status_code}' is not registered"),
    remedy=mark("Use a registered status code, which begins as the message says."),
)
MISPLACED_CODE: Final = Declaration(
    message=mark("The status '{value}' has a code for {meant}, not for {takers}. Use one of {first_code} and on."),
    cause=mark("The status code of '{status_code}' is meant for {meant}"),
    remedy=mark("Use a registered status code, which begins as the message says."),
    cause_by=("status_code",),
)
NO_TEXT: Final = Declaration(
    message=mark("The status '{value}' says nothing without a text: write {status_code}:and why."),
    cause=mark("The status {status_code} says nothing without a text"),
    remedy=mark("Write why after the code and a colon."),
)


def code_of(text: str) -> str:
    """The code of a status: the part before the first colon, without surrounding blanks."""
    return text.partition(":")[0].strip()


def fault_of_status(text: str, family: str, codes: StatusCodes, line: int) -> Fault | None:
    """The fault of a status for a place that takes codes of one family; None without one.

    Its case is `misplaced` for the code of another family. A procedure's code on a specimen is a warning, because
    centres got the message that it is permitted.
    """
    code = code_of(text)
    first = f"{family}001"
    if code not in codes.meanings:
        return fault(line, text, status_code=code, first_code=first)
    if code.startswith(family):
        return None
    meant = next((who for which, who in _MEANT_FOR.items() if code.startswith(which)), _SOMETHING_ELSE)
    lenient = family == SPECIMEN_FAMILY and code.startswith(PROCEDURE_FAMILY)
    details = {"status_code": code, "meant": meant, "takers": _MEANT_FOR[family], "first_code": first}
    return Fault(line, text, details, "misplaced", Severity.WARNING if lenient else None)


def lacks_text(status: str) -> bool:
    """Whether the code of a status requires a text after the colon that is missing."""
    return code_of(status) in _NEEDING_TEXT and not status.partition(":")[2].strip()


def fault_without_text(status: str, line: int) -> Fault:
    """The fault of a status without its text."""
    return fault(line, status, status_code=status.strip().rstrip(":"))
