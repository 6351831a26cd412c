"""What should stand after a history of submissions: a model that knows no database and no file.

It is written from what docs/centres.md and docs/wranglers-reference.md promise, not from the code:

- Documents take effect in the order of their dates and numbers. An addition takes what is not there, an edit and a
  deletion what is; what is refused of a document does not keep the rest from taking effect.
- A document that says the same as one that stands, however it is written, is done and changes nothing.
- Documents count wherever they lie in an archive, to a depth of two archives; what is not opened fails by its name.
- An archive that does not hold what its manifest says fails as a whole, and one without a manifest is as any other.
- An archive that failed and changed is taken anew; one of which anything was loaded, or that was withdrawn, is not.
- What a step is left out of goes on without it, except that nothing follows a left-out upload or context. When the step
  is left out no more, the next session goes on from there.
- What is withdrawn leaves what was there before it, unless a later document changed the same.
- An edit or a deletion that changes more than is permitted is held until a person confirms it, which has it applied at
  once, even if the upload is left out, or withdraws it, or until its archive is replaced. While it is held, younger
  edits and deletions of the centre wait, in its own archive too, and are told for what. So do additions of something
  that is there already, since it may be what a deletion takes away. The session after the decision takes them.
- A document whose animals break a rule fails while these are there, and one that was refused in part, as each session
  sees, unless the rule is waived or lowered to a warning then. What was refused as a whole stays refused.
- Sessions leave alone what is on hold, but for what was uploaded of it, and others wait for it as for what is held.
  They leave alone what was set aside, until it is retried, and nothing waits for that. What is acknowledged is so until
  it fails no more or is opened again.
- What is retried is processed anew, from the same bytes if they did not change: what stands of it stands, the rest is
  tried again, and what was withdrawn or set aside comes back. Others are left as they are.
- Nobody confirms what is younger than something else that is held, on hold or on its way.
- The withdrawal of what a whole listing no longer has is proposed, and carried out when a person accepts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dcc.naming import Action
from tests.histories.happenings import STEPS
from tests.histories.records import (
    DONE,
    IN_PART,
    NO_CONTEXT,
    NO_NAME,
    NOT_OPENED,
    PENDING,
    REFUSED,
    SET_ASIDE,
    UNDONE,
    UPLOADED,
    WAITING,
    Applied,
    Record,
    Standing,
)
from tests.histories.submissions import BAD, HOLD_ABOVE, MICE, REFUSALS, RIGHT, UNREGISTERED, Packing, Submission

_ORDER: Final = (NOT_OPENED, NO_NAME, REFUSED, IN_PART)
_LEAST_ADVANCED: Final = (PENDING, UPLOADED, UNDONE, NO_CONTEXT, DONE)
_FEWEST_LOST, _LIMIT = 3, 0.2


@dataclass
class Model:
    """The model. What lies at the source is told to it as it is told to the real installation.

    `versions` has, by group, the documents that changed it, oldest first, and the variant that each left there; None
    where it left none.
    """

    lying: dict[int, tuple[Submission, int]] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)
    versions: dict[int, list[tuple[Applied, int | None]]] = field(default_factory=dict)
    deletions: list[Applied] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    duplicates: set[str] = field(default_factory=set)
    left_out: str = ""
    waivers: list[str] = field(default_factory=list)
    touched: set[tuple[int, str]] = field(default_factory=set)

    def crawl(self) -> None:
        """A session."""
        believed = [self._list(action) for action in Action]
        is_believed = all(believed)
        for record in self.records.values():
            if not record.gone and not record.missed:
                record.proposed = record.decided = False
            elif is_believed and record.gone and not record.decided and record.is_loaded:
                record.proposed = True
        due = []
        for number, record in self.records.items():
            self._resume(record)
            due += self._due(number)
        for number, place in sorted(due):
            self._process(self.records[number], place)
        for record in self.records.values():
            self._judge(record)
            if record.documents:
                self._roll_up(record)

    def withdraw(self, number: int) -> bool:
        """Withdraw what an archive brought; whether that is possible."""
        mine = [one for one in self.applied if one.number == number]
        logs = [log for log in self.versions.values() if any(one in mine for one, _ in log)]
        record = self.records[number]
        if any(log[-1][0] not in mine for log in logs) or not (mine or record.held):
            return not mine
        for log in logs:
            while log and log[-1][0] in mine:
                log.pop()
            self._touch(log)
        self.applied = [one for one in self.applied if one not in mine]
        self.deletions = [one for one in self.deletions if one not in mine]
        names = {one.name for one in mine} | record.held | {*record.in_state(PENDING)}
        names |= {name for name, step in record.left_out.items() if step == "upload"}
        record.held = set()
        self.duplicates -= names
        record.left_out = {name: step for name, step in record.left_out.items() if name not in names}
        record.documents |= dict.fromkeys(names, UNDONE)
        record.proposed, record.decided = False, record.decided or record.proposed
        self._roll_up(record)
        return True

    def confirm(self, number: int) -> None:
        """Confirm what is held of an archive, unless something older is held."""
        record = self.records[number]
        first = self._document(record, record.submission.place_of(min(record.held)))
        if self._older(first) not in (None, record):
            return
        for name in sorted(record.held):
            record.left_out.pop(name, None)
            document = self._document(record, record.submission.place_of(name))
            state = self._apply(document, is_confirmed=True)
            record.documents[name], record.applied[name] = REFUSED if state == REFUSED else UPLOADED, state
        record.held = set()
        self._roll_up(record)

    def decide(self, accepts: bool) -> None:
        """Accept all that is proposed, or turn it down; what others build on stays proposed."""
        proposed = [number for number, record in sorted(self.records.items()) if record.proposed]
        if not accepts:
            for number in proposed:
                self.records[number].proposed, self.records[number].decided = False, True
            return
        while left := [number for number in reversed(proposed) if not self._accept(number)]:
            if left == list(reversed(proposed)):
                return
            proposed = list(reversed(left))

    def _accept(self, number: int) -> bool:
        if not self.withdraw(number):
            return False
        self.records[number].proposed, self.records[number].decided = False, True
        return True

    def see_judged_again(self, held: Standing) -> None:
        """Take over which documents were judged again while a step was left out.

        Those may be of which others changed what they brought, or brought it back; whether it matters is not modelled.
        """
        for number, name in self.touched:
            record = self.records[number]
            if self.left_out and held.left_out.get(name) == self.left_out and name not in record.left_out:
                self._go_on(record, name, "data")
                self._roll_up(record)
        if self.left_out != "data":
            # Otherwise it is found again when what changed them is judged.
            self.touched.clear()

    def standing(self) -> Standing:
        """What the databases should hold."""
        records = self.records.values()
        return Standing(
            {record.submission.file_name: record.state for record in records},
            {name: state for record in records for name, state in record.documents.items()},
            frozenset(self.duplicates),
            {group: log[-1][1] for group, log in self.versions.items() if log and log[-1][1] is not None},
            frozenset(record.submission.file_name for record in records if record.proposed),
            {name: step for record in records for name, step in record.left_out.items()},
            frozenset(name for record in records for name in record.held),
            dict(self._waits()),
            frozenset(record.submission.file_name for record in records if record.on_hold),
            frozenset(
                record.submission.file_name
                for record in records
                if record.acknowledged and record.state.endswith("failed")
            ),
        )

    def _list(self, action: Action) -> bool:
        """Take in a directory; whether what it lists no more is believed."""
        here = {number: one for number, one in self.lying.items() if one[0].action is action}
        known = {
            number: record
            for number, record in self.records.items()
            if record.submission.action is action and not record.gone
        }
        absent = [record for number, record in known.items() if number not in here]
        newly = [record for record in absent if not record.missed]
        before = len(known) - (len(absent) - len(newly))
        fewer = before - len(here)
        is_doubtful = bool(newly) and (not here or (fewer >= _FEWEST_LOST and fewer > _LIMIT * before))
        for record in newly if is_doubtful else absent:
            record.missed, record.gone = is_doubtful, not is_doubtful
        for number, (submission, time) in here.items():
            record = self.records.setdefault(number, Record(submission, time))
            record.gone = record.missed = False
            if record.time != time:
                self._change(record, submission, time)
        return not is_doubtful

    def _change(self, record: Record, submission: Submission, time: int) -> None:
        record.time = time
        withdrawn = {name for name, state in record.documents.items() if state == UNDONE} - record.left_out.keys()
        if not record.is_loaded and not withdrawn and record.state != SET_ASIDE:
            record.submission = submission
            self.open_again(record)

    def open_again(self, record: Record) -> None:
        """Have an archive wait for its download, and nothing of former ones count."""
        self.duplicates -= record.documents.keys()
        record.open_again()

    def take(self, number: int) -> None:
        """A session for one archive."""
        record = self.records[number]
        for _, place in sorted(self._due(number)):
            self._process(record, place)
        self._judge(record)
        if record.documents:
            self._roll_up(record)

    def _due(self, number: int) -> Iterator[tuple[int, int]]:
        """The documents of an archive that wait for the upload; those beyond go on."""
        record = self.records[number]
        if not record.on_hold:
            if record.state == WAITING and record.is_there:
                yield from self._opened(record)
            for name in record.in_state(PENDING):
                yield number, record.submission.place_of(name)
        for name in record.in_state(UPLOADED):
            self._go_on(record, name, "data")

    def _opened(self, record: Record) -> Iterator[tuple[int, int]]:
        """The documents of an archive, by its number and their places in it, unless it is refused."""
        submission = record.submission
        record.state, record.fetched = NOT_OPENED, record.time
        if submission.listing not in RIGHT:
            return
        record.state = DONE
        # The first document lies at the top, where the others are too deep.
        for place in range(1 if submission.packing is Packing.DEEP else len(submission.documents)):
            yield submission.number, place

    def _resume(self, record: Record) -> None:
        """Documents wait again for an upload which is left out no more; those beyond go on from where they are."""
        for name, step in list(record.left_out.items()):
            if step == self.left_out:
                continue
            del record.left_out[name]
            if step == "upload":
                record.documents[name] = PENDING
            else:
                self._go_on(record, name, step)

    def _process(self, record: Record, place: int) -> None:
        document = self._document(record, place)
        name = document.name
        if self.left_out == "upload":
            record.documents[name], record.left_out[name] = UNDONE, "upload"
            return
        is_there = any(self._owner(group) is not None for group, _ in document.said)
        may_wait = document.action is not Action.ADD or (is_there and self._former(document) is None)
        if name in record.held or (may_wait and self._older(document) is not None):
            record.documents[name] = PENDING
            return
        record.documents[name] = record.applied[name] = self._apply(document)
        if record.documents[name] == PENDING:
            record.held.add(name)
        elif record.documents[name] != REFUSED:
            self._go_on(record, name, "data")

    @staticmethod
    def _document(record: Record, place: int) -> Applied:
        submission = record.submission
        said = submission.documents[place]
        return Applied(submission.document_name(place), submission.number, submission.action, said)

    def _former(self, document: Applied) -> Applied | None:
        return next((one for one in self.applied if one.name == document.name), None)

    def _older(self, document: Applied) -> Record | None:
        """The oldest archive before it that has held documents, is on hold or, if it changes data, is on its way."""
        is_new = document.action is Action.ADD
        for number, record in sorted(self.records.items()):
            is_on_its_way = record.state == WAITING and record.is_there
            is_unfinished = is_on_its_way or bool(record.in_state(PENDING))
            waits = record.held or (record.on_hold and is_unfinished) or (is_on_its_way and not is_new)
            if number < document.number and waits:
                return record
            if number == document.number and any(name < document.name for name in record.held):
                return record
        return None

    def _waits(self) -> Iterator[tuple[str, str]]:
        """Archives that wait for another one, each with that."""
        for record in self.records.values():
            for name in [] if record.on_hold else record.in_state(PENDING):
                older = self._older(self._document(record, record.submission.place_of(name)))
                if older not in (None, record):
                    yield record.submission.file_name, older.submission.file_name

    def _go_on(self, record: Record, name: str, first: str) -> None:
        """Have a document that took effect go on from a step, as far as nothing that is left out keeps it."""
        is_bad = self._fails(record, name) and self.left_out != "data"
        is_left_out = self.left_out in STEPS[STEPS.index(first) :] and not is_bad
        record.documents[name] = IN_PART if is_bad else DONE
        if is_left_out:
            record.left_out[name] = self.left_out
            if self.left_out == "context":
                record.documents[name] = NO_CONTEXT

    def _judge(self, record: Record) -> None:
        """Have documents fail or not, by what holds now."""
        if self.left_out != "data":
            for name in record.documents.keys() - record.left_out.keys():
                if record.documents[name] in {DONE, IN_PART}:
                    record.documents[name] = IN_PART if self._fails(record, name) else DONE

    def _fails(self, record: Record, name: str) -> bool:
        """Whether a document breaks a rule that is not waived: its bad animals are there, or it was refused in part."""
        bad = {log[-1][0].name for log in self.versions.values() if log and log[-1][1] == BAD}
        broken = [UNREGISTERED] if name in bad else []
        if record.applied[name] == IN_PART:
            broken.append(REFUSALS[record.submission.action])
        return not set(broken) <= set(self.waivers)

    def _apply(self, document: Applied, *, is_confirmed: bool = False) -> str:
        """What becomes of a document."""
        former = self._former(document)
        if former is not None and not former.is_duplicate:
            return self.records[document.number].applied[document.name]
        self.applied = [one for one in self.applied if one.name != document.name]
        self.deletions = [one for one in self.deletions if one.name != document.name]
        self.duplicates.discard(document.name)
        there = {group: self._owner(group) for group, _ in document.said}
        owners = set(there.values())
        if self._is_duplicate(document, owners):
            document.is_duplicate = True
            self.duplicates.add(document.name)
            self._note(document)
            return DONE
        is_new = document.action is Action.ADD
        taken = [group for group, owner in there.items() if (owner is None) is is_new]
        if not is_new and not is_confirmed and MICE * len(taken) > HOLD_ABOVE:
            return PENDING
        for group, variant in document.said:
            if group in taken:
                self._touch(self.versions.get(group))
                left = None if document.action is Action.DELETE else variant
                self.versions.setdefault(group, []).append((document, left))
        if not taken:
            return REFUSED
        self._note(document)
        return DONE if len(taken) == len(there) else IN_PART

    def _touch(self, log: Sequence[tuple[Applied, int | None]] | None) -> None:
        """Note that another document changes what the last one brought, or brings it back."""
        if log:
            self.touched.add((log[-1][0].number, log[-1][0].name))

    def _note(self, document: Applied) -> None:
        self.applied.append(document)
        if document.action is Action.DELETE:
            self.deletions.append(document)

    def _owner(self, group: int) -> Applied | None:
        """The document that a group of animals is there by."""
        log = self.versions.get(group)
        return log[-1][0] if log and log[-1][1] is not None else None

    def _is_duplicate(self, document: Applied, owners: set[Applied | None]) -> bool:
        if document.action is Action.DELETE:
            return owners == {None} and any(one.said == document.said for one in self.deletions)
        (owner, *others) = owners
        return not others and owner is not None and owner.said == document.said

    @staticmethod
    def _roll_up(record: Record) -> None:
        """An archive shows the earliest failure, else what is least advanced."""
        states = {*record.documents.values(), *([NO_NAME] if record.submission.packing is Packing.DEEP else [])}
        failed = [state for state in _ORDER if state in states]
        record.state = [*failed, *(state for state in _LEAST_ADVANCED if state in states)][0]
