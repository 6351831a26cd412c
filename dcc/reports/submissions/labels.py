"""Texts of reports, for a centre's data manager: outcomes, phases, kinds of data, and what happens next.

All are English texts for the catalogues (`mark`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from dcc.naming import Action
from dcc.outcomes import CrawlOutcome, EndReason
from dcc.phases import Phase, Status
from dcc.reports.languages import mark
from dcc.reports.submissions.model import Noted, Outcome, Standing, Tone
from dcc.vocabulary import Actor, ContextState


class OutcomeText(NamedTuple):
    """The texts of an outcome: in a list, as a headline, explained, and what happens next.

    `actor` is who acts where no cause tells; `acts` says it, if not as usual (`ACTOR_LABELS`).
    """

    short: str
    headline: str
    explanation: str
    actor: Actor
    next: tuple[str, ...]
    acts: str = ""


ACTOR_LABELS: Final[Mapping[Actor, str]] = {
    Actor.CENTRE: mark("You, at the centre"),
    Actor.REGISTRY: mark("You, at the centre, or the registry"),
    Actor.DCC: mark("The Data Coordination Centre"),
    Actor.NOBODY: mark("Nobody: it goes on by itself"),
}
"""Who acts, as a centre reads it."""
ALSO_DCC: Final = mark("{who}; the Data Coordination Centre, too")

SUBMIT_FOR_EDIT: Final = mark(
    "Animals and experiments with errors: correct them, and submit them in a new archive in the directory “edit”, "
    "unless the error names another. You need not submit again what was accepted, nor what clears by itself."
)
SUBMIT_AGAIN: Final = mark(
    "Documents that were not taken at all: correct them, and submit them in a new archive, under a new name, in the "
    "same directory, unless the error names another."
)
"""What to do about documents that failed before their contents were checked, and in that check."""
ACKNOWLEDGED_NEXT: Final = mark("You need not do anything. Submit data that are still missing in a new archive.")
"""What happens next with a submission of which somebody said that nobody has to act."""
ACKNOWLEDGED_EXPLANATION: Final = mark("What is correct took effect. What has errors was left out.")
"""The explanation of such a submission that was accepted in part."""
CHANGE_LATER: Final = mark("You need not do anything. To change something later, submit it in the directory “edit”.")
OF_DELETIONS: Final[Mapping[str, str]] = {
    SUBMIT_FOR_EDIT: mark(
        "What was not deleted: see what the error says. What you still want deleted, submit in a new archive in "
        "the directory “delete”. You need not submit again what was deleted."
    ),
    CHANGE_LATER: mark("You need not do anything. What was deleted can be submitted again, in the directory “add”."),
}
"""What is said in the place of these of an archive that deletes."""
CHANGED_SINCE: Final = mark(
    "The archive changed on its server after its data were taken over, and what it holds now was not taken. Submit "
    "what changed in a new archive, under a new name, in the directory “edit”."
)
_GOOD_ARCHIVE: Final = mark(
    "Correct the archive and replace the bad one, under the same name. If you publish a checksum or manifest "
    "beside it, make that again, too. The next session fetches it."
)
_AFTER_ALL: Final = mark("To have it taken after all, ask the Data Coordination Centre, or submit it under a new name.")

OUTCOME_TEXTS: Final[Mapping[Outcome, OutcomeText]] = {
    Outcome.NAME_REFUSED: OutcomeText(
        mark("Name refused"),
        mark("The archive was not taken: its name does not follow the convention"),
        mark("An archive is fetched only when its name tells whose it is, of which day and which number."),
        Actor.CENTRE,
        (
            mark("Rename the file on your server. The next session fetches it under its new name."),
            mark("If the name is right and your centre is not registered yet, tell the Data Coordination Centre."),
        ),
    ),
    Outcome.WAITING: OutcomeText(
        mark("Waits to be fetched"),
        mark("The archive was seen and waits to be fetched"),
        mark("Its name is correct."),
        Actor.NOBODY,
        (mark("Leave the file where it is, unchanged, until it was fetched."),),
    ),
    Outcome.GONE: OutcomeText(
        mark("Gone from its server"),
        mark("The archive waits to be fetched, and is not on its server any more"),
        mark("Its name is correct."),
        Actor.NOBODY,
        (
            mark("If you took it away on purpose, you need not do anything."),
            mark("If not, put it there again, under the same name."),
        ),
        acts=mark("Nobody, unless the archive is still meant: then you, at the centre"),
    ),
    Outcome.ON_HOLD: OutcomeText(
        mark("On hold"),
        mark("The archive is on hold"),
        mark("Sessions leave it alone until the Data Coordination Centre releases it."),
        Actor.DCC,
        (mark("Leave the file where it is. Ask the Data Coordination Centre what it waits for."),),
    ),
    Outcome.FOREIGN: OutcomeText(
        mark("On another centre's server"),
        mark("The archive lies on the server of another centre than that of its name, and is not taken"),
        mark(
            "It is taken when the centre of its name has it on its own server, or lets the other one act for it. "
            "Nothing of it was looked at."
        ),
        Actor.CENTRE,
        (
            mark(
                "If it is meant, the centre of its name puts it on its own server, or tells the Data Coordination "
                "Centre that the other one acts for it."
            ),
            mark("If it is of the centre on whose server it lies, that one renames it."),
            mark("If it is a mistake, tell the Data Coordination Centre, which turns it down."),
        ),
        acts=mark("The centre of its name, which decides; or the other one, if it is its own: that renames it"),
    ),
    Outcome.DECLINED: OutcomeText(
        mark("Turned down"),
        mark("The archive was turned down"),
        mark(
            "It lies on the server of another centre than that of its name, and the Data Coordination Centre decided "
            "not to take it. Nothing of it was looked at."
        ),
        Actor.NOBODY,
        (
            mark(
                "If it is meant after all, the centre of its name puts it on its own server, or tells the Data "
                "Coordination Centre."
            ),
            mark("The centre on whose server it lies can rename or remove it."),
        ),
        acts=mark("Nobody: it is decided"),
    ),
    Outcome.NOT_ARRIVED: OutcomeText(
        mark("Not arrived"),
        mark("The archive could not be fetched"),
        mark("No server delivered it whole. A session that tries again continues with the part that has arrived."),
        Actor.NOBODY,
        (
            mark("See that the file is still there, that it can be read, and that your server answers."),
            mark("When it was withdrawn on purpose, you need not do anything."),
        ),
        acts=mark("Nobody, unless you moved the file: a session tries again"),
    ),
    Outcome.CHECKSUM_WRONG: OutcomeText(
        mark("Wrong checksum"),
        mark("The checksum file beside the archive is not of this archive"),
        mark("It holds another checksum, or none. One of the two files changed, or was not written whole."),
        Actor.CENTRE,
        (mark("Make the checksum file again, or put the right archive there. The next session then fetches it."),),
    ),
    Outcome.UNREADABLE: OutcomeText(
        mark("Unreadable"),
        mark("The archive arrived whole, but cannot be used"),
        mark(
            "It cannot be opened, or does not hold what its manifest says. Nothing of it was taken. The file on your "
            "server has the same fault."
        ),
        Actor.CENTRE,
        (_GOOD_ARCHIVE,),
    ),
    Outcome.UNDER_WAY: OutcomeText(
        mark("Being checked"),
        mark("The archive is being checked"),
        mark("It has arrived. Not all checks are made yet, so this report is not the last word."),
        Actor.NOBODY,
        (mark("Ask for the report again when the checks are made."),),
    ),
    Outcome.NOTHING_TAKEN: OutcomeText(
        mark("Not accepted"),
        mark("Nothing of the archive was accepted"),
        mark("Every document has errors."),
        Actor.CENTRE,
        (SUBMIT_AGAIN, SUBMIT_FOR_EDIT),
    ),
    Outcome.PARTLY_TAKEN: OutcomeText(
        mark("Accepted in part"),
        mark("The archive was accepted in part: some of it must be corrected"),
        mark(
            "What is correct took effect. What has errors does not count until you correct it. Nor do earlier data "
            "that it replaced."
        ),
        Actor.CENTRE,
        (SUBMIT_AGAIN, SUBMIT_FOR_EDIT),
    ),
    Outcome.WAITS_FOR_DATA: OutcomeText(
        mark("Waits for other data"),
        mark("The archive waits for data that have not been accepted yet"),
        mark("You need not correct anything in it. Waiting data count as soon as the data that they refer to arrive."),
        Actor.NOBODY,
        (
            mark(
                "You need not submit this archive again. Submit what is missing, where you have not done so, and "
                "correct it where it was not accepted."
            ),
        ),
        acts=mark("Nobody, when what is missing is on its way; you, at the centre, when it was not accepted"),
    ),
    Outcome.HELD: OutcomeText(
        mark("Waits to be confirmed"),
        mark("The archive waits to be confirmed"),
        mark(
            "It would replace or delete much of what was submitted before, or adds data of another centre, so that a "
            "person looks at it first. Nothing has changed yet."
        ),
        Actor.DCC,
        (
            mark(
                "Tell the Data Coordination Centre whether it was meant. If it was, it is taken. If it was not, submit "
                "what you meant."
            ),
        ),
        acts=mark("You, at the centre, and then the Data Coordination Centre"),
    ),
    Outcome.LEFT_OUT: OutcomeText(
        mark("Not taken further"),
        mark("The Data Coordination Centre leaves out a step for this submission"),
        mark("Its documents follow the XML schema. The table shows which step is left out."),
        Actor.NOBODY,
        (mark("You need not do anything. Once the step is made, it goes on by itself."),),
    ),
    Outcome.WITHDRAWN: OutcomeText(
        mark("Withdrawn"),
        mark("The archive was withdrawn"),
        mark("None of its data count. What it had changed, if anything, was taken back."),
        Actor.NOBODY,
        (_AFTER_ALL,),
        acts=mark("Nobody: it is decided"),
    ),
    Outcome.COPY_OF_WITHDRAWN: OutcomeText(
        mark("Copy of withdrawn data"),
        mark("Nothing of the archive counts: it is a copy of data that were withdrawn"),
        mark("All of its documents had been taken before, from another archive. They were withdrawn since."),
        Actor.NOBODY,
        (mark("To have it taken after all, ask the Data Coordination Centre."),),
        acts=mark("Nobody: it is decided"),
    ),
    Outcome.TO_BE_TAKEN: OutcomeText(
        mark("Waits to be taken over"),
        mark("The documents follow the schema and wait to be taken over"),
        mark("What they say, such as animals, colonies and parameters, is checked when they are taken over."),
        Actor.NOBODY,
        (mark("Ask for the report again after the next session."),),
    ),
    Outcome.IN_ORDER: OutcomeText(
        mark("Waits for older archives"),
        mark("The archive waits for an older one of your centre that is still on its way"),
        mark(
            "It changes data, and what it changes may be in there. Archives of a centre are taken over in the order of "
            "the dates in their names. Its data are checked when it is taken over."
        ),
        Actor.NOBODY,
        (mark("It is taken over by itself, after the older one. Ask for the report again after the next session."),),
    ),
    Outcome.BEHIND_DECISION: OutcomeText(
        mark("Waits for a decision"),
        mark("The archive waits for a decision on an older one of your centre"),
        mark(
            "The older one would replace what is newer if it were taken over later. The data of this one are checked "
            "when it is taken over."
        ),
        Actor.DCC,
        (mark("It is taken over by itself, after the decision. Ask the Data Coordination Centre about it."),),
    ),
    Outcome.CHANGED: OutcomeText(
        mark("Changed afterwards"),
        mark("The archive changed on its server after its data were taken over"),
        mark("A name is taken once. The data of the former content stand."),
        Actor.DCC,
        (
            CHANGED_SINCE,
            mark(
                "To replace all of it, tell the Data Coordination Centre: it withdraws the data, and then takes the "
                "archive again."
            ),
            mark("If the change was not meant, take the archive from your server: its data stay."),
        ),
        acts=mark("The Data Coordination Centre; or you, at the centre, with a new archive"),
    ),
    Outcome.TO_BE_LOOKED_AT: OutcomeText(
        mark("Accepted, in quality control"),
        mark("The archive was accepted; the data are in quality control"),
        mark("No errors are left. A data wrangler looks at the data together with what they are compared with."),
        Actor.DCC,
        (mark("You need not do anything. You are asked when something looks odd."),),
    ),
    Outcome.DONE: OutcomeText(
        mark("Accepted"),
        mark("The archive was accepted and is through all checks"),
        mark("No errors are left, and quality control is done with it."),
        Actor.NOBODY,
        (CHANGE_LATER,),
        acts=mark("Nobody: it is done"),
    ),
}

TONE_LABELS: Final[Mapping[Tone, str]] = {
    Tone.GOOD: mark("In order"),
    Tone.WAIT: mark("Waits"),
    Tone.WARN: mark("Needs attention"),
    Tone.BAD: mark("Needs correction"),
}

ACTION_LABELS: Final[Mapping[Action, str]] = {
    Action.ADD: mark("New data (directory “add”)"),
    Action.EDIT: mark("Changes of earlier data (directory “edit”)"),
    Action.DELETE: mark("Withdrawal of earlier data (directory “delete”)"),
}

PHASE_LABELS: Final[Mapping[Phase, str]] = {
    Phase.ZIP_NAME: mark("Name of the archive"),
    Phase.DOWNLOAD: mark("Transfer"),
    Phase.ZIP_MD5: mark("Checksum"),
    Phase.UNZIP: mark("Opening the archive"),
    Phase.XML_NAME: mark("Name"),
    Phase.XSD: mark("Form"),
    Phase.UPLOAD: mark("Taken over"),
    Phase.DATA: mark("Contents"),
    Phase.CONTEXT: mark("Compared"),
    Phase.OVERVIEW: mark("Summed up"),
    Phase.QC: mark("Quality"),
}
"""The phases in a word or two, as headings of columns."""

STATUS_LABELS: Final[Mapping[Status, str]] = {
    Status.PENDING: mark("pending"),
    Status.RUNNING: mark("running"),
    Status.DONE: mark("done"),
    Status.CANCELLED: mark("cancelled"),
    Status.FAILED: mark("failed"),
}
"""The statuses of a phase, as the tracker names them."""

STATUS_SIGNS: Final[Mapping[Status, str]] = {
    Status.PENDING: "…",
    Status.RUNNING: "▸",
    Status.DONE: "✓",
    Status.CANCELLED: "–",
    Status.FAILED: "✗",
}
"""A sign of each status, for who does not see its colour."""

PHASE_MEANINGS: Final[Mapping[Phase, str]] = {
    Phase.XML_NAME: mark("The document's name follows the convention."),
    Phase.XSD: mark("The document follows the XML schema."),
    Phase.UPLOAD: mark("What it adds is new; what it changes or deletes is there."),
    Phase.DATA: mark("Colonies, animals, procedures, parameters and values are as the rules demand."),
    Phase.CONTEXT: mark("The data are put together with what they are compared with."),
    Phase.OVERVIEW: mark("The data are in the overviews that people look at."),
    Phase.QC: mark("A data wrangler has looked at the data."),
}

STANDING_LABELS: Final[Mapping[Standing, str]] = {
    Standing.PASSED: mark("passed"),
    Standing.IN_PART: mark("in part"),
    Standing.WAITS: mark("waits"),
    Standing.RUNNING: mark("under way"),
    Standing.CANCELLED: mark("withdrawn"),
    Standing.LEFT_OUT: mark("left out"),
    Standing.FAILED: mark("failed"),
    Standing.NOT_REACHED: mark("not reached"),
}

STANDING_SIGNS: Final[Mapping[Standing, str]] = {
    Standing.PASSED: "✓",
    Standing.IN_PART: "◐",
    Standing.WAITS: "…",
    Standing.RUNNING: "…",
    Standing.CANCELLED: "↶",
    Standing.LEFT_OUT: "–",
    Standing.FAILED: "✗",
    Standing.NOT_REACHED: "–",
}

KIND_LABELS: Final[Mapping[str, str]] = {
    "specimen": mark("Animals"),
    "experiment": mark("Experiments"),
    "line": mark("Lines"),
    "housing": mark("Housing records"),
}

CONTEXT_LABELS: Final[Mapping[str, str]] = {
    ContextState.NO_DATA.value: mark("without data"),
    ContextState.QC_DONE.value: mark("checked, without errors"),
    ContextState.DATA_ADDED.value: mark("with new data, to be looked at"),
    ContextState.DATA_CHANGED.value: mark("with changed data, to be looked at"),
    ContextState.DATA_REMOVED.value: mark("with data removed, to be looked at"),
    ContextState.HAS_ISSUES.value: mark("with an open question"),
}
"""Groups of data that are compared as a whole, by their state."""

SESSION_LABELS: Final[Mapping[str, str]] = {
    "active": mark("active"),
    "open": mark("open"),
    EndReason.FINISHED: mark("finished"),
    EndReason.STOPPED: mark("stopped"),
    EndReason.TIME_LIMIT: mark("time_limit"),
    EndReason.DISK: mark("disk"),
    EndReason.FAULTS: mark("faults"),
    EndReason.DIED: mark("died"),
}
"""The outcomes of sessions, in the words that commands have, too."""

SECTION_TITLES: Final[Mapping[Noted, str]] = {
    Noted.FAILED: mark("What failed"),
    Noted.WITHOUT_ROOM: mark("Archives that wait for room on a disk of the platform"),
    Noted.HELD: mark("Documents to be confirmed"),
    Noted.FINDINGS: mark("What the crawls noticed"),
    Noted.LATE: mark("Documents that came late"),
    Noted.IN_ORDER: mark("Archives that wait for an older one of their centre"),
    Noted.LEFT_ALONE: mark("Sources that are left alone"),
}

CRAWL_LABELS: Final[Mapping[str, str]] = {
    CrawlOutcome.OK: mark("listed"),
    CrawlOutcome.PARTIAL: mark("listed in part"),
    CrawlOutcome.FAILED: mark("could not be listed"),
}
