"""What should stand after a history of submissions: a model that knows no database and no file.

It is written from what docs/centres.md and docs/wranglers-reference.md promise, not from the code:

- Documents take effect in this order: those of animals before those of experiments, then by their dates and numbers.
  But before one that deletes animals come those of experiments in its archive, and in older ones.
- An addition takes what is not there, an edit and a deletion what is, unless it deletes animals that have experiments.
  What is refused of a document does not keep the rest from taking effect. Experiments are taken without their animals.
- A document that says the same as one that stands, however it is written, is done and changes nothing.
- Documents count wherever they lie in an archive, to a depth of two archives; what is not opened fails by its name.
- An archive that does not hold what its manifest says fails as a whole, and one without a manifest is as any other.
- An archive that failed and changed is taken anew; one of which anything was loaded, or that was withdrawn, is not.
- What a step is left out of goes on without it, except that nothing follows a left-out upload or context. When the step
  is left out no more, the next session goes on from there.
- What is withdrawn leaves what was there before it. It is not withdrawn if a later document changed the same, brought
  experiments on animals that it added, or deleted animals, missing since, whose experiments would come back.
- An edit or a deletion that changes more than is permitted is held until a person confirms it, which has it applied at
  once, even if the upload is left out, or withdraws it, or until its archive is replaced. While it is held, younger
  edits and deletions of the centre wait, in its own archive too, and are told for what. So do additions of something
  that is there already, since it may be what a deletion takes away. The session after the decision takes them.
- A document of which anything breaks a rule fails while that is there, and one that was refused in part, as each
  session sees, unless the rule is waived or lowered to a warning then. What was refused of it may break others, too.
  What was refused as a whole stays refused.
- Experiments break a rule while their animals are missing. They count in data contexts while they and their animals
  break no rule that is not waived. A context waits for quality control from when what counts in it has changed, and a
  document while such a context has experiments of it.
- Sessions leave alone what is on hold, but for what was uploaded of it, and others wait for it as for what is held.
  They leave alone what was cancelled, until it is retried, and nothing waits for that. What is acknowledged is so until
  it fails no more or is opened again.
- What is retried is processed anew, from the same bytes if they did not change: what stands of it stands, the rest is
  tried again, and what was withdrawn or cancelled comes back. Others are left as they are.
- Nobody confirms what is on hold, or younger than something else that is held, on hold or on its way.
- The withdrawal of what a whole listing no longer has is proposed, and carried out when a person accepts it. It stays
  proposed while the same is listed in another archive, from which it was not taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from dcc.naming import Action
from tests.histories.happenings import STEPS
from tests.histories.records import (
    CANCELLED,
    DONE,
    IN_PART,
    NO_CONTEXT,
    NO_NAME,
    NOT_OPENED,
    OPEN,
    PENDING,
    REFUSED,
    UNDONE,
    UPLOADED,
    WAITING,
    Applied,
    Record,
    Standing,
)
from tests.histories.submission_histories import Wish
from tests.histories.submissions import HOLD_ABOVE, MICE, RIGHT, THINGS, Packing, Submission, Thing
from tests.histories.versions import Contexts, Versions, in_order_of_upload

_ORDER: Final = (NOT_OPENED, NO_NAME, REFUSED, IN_PART)
_LEAST_ADVANCED: Final = (PENDING, UPLOADED, UNDONE, NO_CONTEXT, OPEN, DONE)
_FEWEST_LOST, _LIMIT = 3, 0.2


@dataclass
class Model:
    """The model: its methods are named as those of `Centre`, and return False for what is not possible yet.

    `counts_all`: no step was ever left out, so that data contexts are up to date.
    """

    lying: dict[int, tuple[Submission, int]] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)
    versions: Versions = field(default_factory=Versions)
    duplicates: set[str] = field(default_factory=set)
    left_out: str = ""
    counts_all: bool = True
    waivers: list[str] = field(default_factory=list)
    touched: set[tuple[int, str]] = field(default_factory=set)
    clock: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.contexts = Contexts(self.versions, self.waivers)

    def submit(self, submission: Submission) -> None:
        """An archive lies at the source, in the place of another one of its name."""
        self.lying[submission.number] = submission, next(self.clock)

    def take_away(self, number: int) -> bool:
        """An archive is taken away from the source."""
        return self.lying.pop(number, None) is not None

    def leave_out(self, step: str) -> None:
        """A step is left out from now on; an empty one: none."""
        self.left_out = step
        self.counts_all &= not step

    def waive(self, rule: str, only_warns: bool) -> None:
        """A person waives a rule, or lowers it to a warning: `dcc rules waive`."""
        self.waivers.append(rule)

    def restore(self) -> bool:
        """A person ends the oldest waiver: `dcc rules revoke`."""
        return bool(self.waivers and self.waivers.pop(0))

    def finish(self) -> None:
        """A person finishes all data contexts: `dcc qc done`."""
        self.contexts.unfinished.clear()

    def crawl(self) -> None:
        believed = [self._list(action) for action in Action]
        is_believed = all(believed)
        for record in self.records.values():
            if not record.gone and not record.missed:
                record.proposed = record.decided = False
            elif is_believed and record.gone and not record.decided and self._is_loaded(record):
                record.proposed = True
        due: list[Applied] = []
        for number, record in self.records.items():
            self._resume(record)
            due += self._due(number)
        for document in in_order_of_upload(due):
            self._process(document)
        self.contexts.build()
        for record in self.records.values():
            self._judge(record)
            if record.documents:
                self._roll_up(record)

    def withdraw(self, number: int) -> bool:
        """A person has what an archive brought withdrawn, if nothing builds on it: `dcc data undo`."""
        if number in self.records:
            self._withdraw(number)
        return number in self.records

    def _withdraw(self, number: int) -> bool:
        """Withdraw what an archive brought; whether nothing stands in the way."""
        mine = self.versions.of_archive(number)
        record = self.records[number]
        if self.versions.are_built_on(mine) or not (mine or record.held):
            return not mine
        for thing in self.versions.take_back(mine):
            self._touch(thing)
        names = {one.name for one in mine} | record.held | {*record.in_state(PENDING)}
        names |= {name for name, step in record.left_out.items() if step == "upload"}
        record.held = set()
        self.duplicates -= names
        record.left_out = {name: step for name, step in record.left_out.items() if name not in names}
        record.documents |= dict.fromkeys(names, UNDONE)
        record.proposed, record.decided = False, record.decided or record.proposed
        self._roll_up(record)
        return True

    def confirm(self, oldest: bool) -> bool:
        """A person confirms what is held of the oldest archive that has any, or of the youngest: `dcc data confirm`.

        It stays held while the archive is on hold, or something older is held.
        """
        held = sorted(number for number, record in self.records.items() if record.held)
        if held:
            self._confirm(self.records[held[0 if oldest else -1]])
        return bool(held)

    def _confirm(self, record: Record) -> None:
        first = self._document(record, record.submission.place_of(min(record.held)))
        if record.on_hold or self._older(first) not in (None, record):
            return
        for name in sorted(record.held):
            record.left_out.pop(name, None)
            document = self._document(record, record.submission.place_of(name))
            state = self._apply(document, is_confirmed=True)
            record.documents[name], record.applied[name] = REFUSED if state == REFUSED else UPLOADED, state
        record.held = set()
        self._roll_up(record)

    def decide(self, accepts: bool) -> None:
        """A person accepts all that is proposed, or turns it down: `dcc data proposals`.

        What others build on stays proposed. So does what is listed in another archive, from which it was not taken.
        """
        copied = {one.original for one in self.versions.applied if not self.records[one.number].gone}
        proposed = [number for number, record in sorted(self.records.items()) if record.proposed]
        if not accepts:
            for number in proposed:
                self.records[number].proposed, self.records[number].decided = False, True
            return
        proposed = [number for number in proposed if number not in copied]
        while left := [number for number in reversed(proposed) if not self._accept(number)]:
            if left == list(reversed(proposed)):
                return
            proposed = list(reversed(left))

    def _accept(self, number: int) -> bool:
        if not self._withdraw(number):
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
        records = self.records.values()
        names = [name for record in records for name in record.documents]
        return Standing(
            {record.submission.file_name: record.state for record in records},
            {name: state for record in records for name, state in record.documents.items()},
            frozenset(self.duplicates),
            {thing: variant for thing in THINGS if (variant := self.versions.variant(thing)) is not None},
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
            {name: MICE * len(counted) for name in names if (counted := self.contexts.counted(name))},
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
        if not self._is_loaded(record) and not withdrawn and record.state != CANCELLED:
            record.submission = submission
            self._open_again(record)

    def _is_loaded(self, record: Record) -> bool:
        """Whether anything of an archive was uploaded and stands."""
        return bool(self.versions.of_archive(record.submission.number))

    def _open_again(self, record: Record) -> None:
        """Have an archive wait for its download, and nothing of former ones count."""
        self.duplicates -= record.documents.keys()
        record.open_again()

    def fulfil(self, wish: Wish, number: int) -> bool:
        """A person wants something of an archive; whether it is possible. A retry is a session for it alone."""
        if number not in self.records:
            return False
        record = self.records[number]
        match wish:
            case Wish.HOLD:
                is_possible = not record.on_hold and not record.state.startswith("qc")
                record.on_hold |= is_possible
            case Wish.RELEASE:
                is_possible, record.on_hold = record.on_hold, False
            case Wish.CANCEL:
                is_possible = not self._is_loaded(record) and not record.state.endswith("cancelled")
                if is_possible:
                    self._open_again(record)
                    record.state = CANCELLED
            case Wish.ACKNOWLEDGE:
                is_possible = not record.acknowledged and record.state.endswith("failed")
                record.acknowledged |= is_possible
            case Wish.REVOKE:
                is_possible, record.acknowledged = record.acknowledged, False
            case Wish.RETRY:
                return self._retry(number)
        return is_possible

    def _retry(self, number: int) -> bool:
        record = self.records[number]
        there = self.lying.get(number)
        if there is not None:
            record.gone = record.missed = False
        listed = record.time if there is None else there[1]
        # What would be left out of what is loaded is another story.
        if self._is_loaded(record) and self.left_out == "upload":
            return False
        if record.on_hold or not record.is_there or (self._is_loaded(record) and listed != record.fetched):
            return True
        if there is not None:
            record.submission, record.time = there
        self._open_again(record)
        self._take(number)
        return True

    def _take(self, number: int) -> None:
        record = self.records[number]
        for document in in_order_of_upload(self._due(number)):
            self._process(document)
        self.contexts.build()
        self._judge(record)
        if record.documents:
            self._roll_up(record)

    def _due(self, number: int) -> Iterator[Applied]:
        """The documents of an archive that wait for the upload; those beyond go on."""
        record = self.records[number]
        if not record.on_hold:
            if record.state == WAITING and record.is_there:
                yield from self._opened(record)
            for name in record.in_state(PENDING):
                yield self._document(record, record.submission.place_of(name))
        for name in record.in_state(UPLOADED):
            self._go_on(record, name, "data")

    def _opened(self, record: Record) -> Iterator[Applied]:
        """The documents of an archive, unless it is refused."""
        submission = record.submission
        record.state, record.fetched = NOT_OPENED, record.time
        if submission.listing not in RIGHT:
            return
        record.state = DONE
        # The first document lies at the top, where the others are too deep.
        for place in range(1 if submission.packing is Packing.DEEP else len(submission.documents)):
            yield self._document(record, place)

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

    def _process(self, document: Applied) -> None:
        record, name = self.records[document.number], document.name
        if self.left_out == "upload":
            record.documents[name], record.left_out[name] = UNDONE, "upload"
            return
        is_there = any(self.versions.owner(thing) is not None for thing, _ in document.things)
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
        things = submission.documents[place].things
        return Applied(submission.document_name(place), submission.number, submission.action, things)

    def _former(self, document: Applied) -> Applied | None:
        return next((one for one in self.versions.applied if one.name == document.name), None)

    def _older(self, document: Applied) -> Record | None:
        """The oldest archive before it that has held documents, is on hold or, if it changes data, is on its way."""
        is_new = document.action is Action.ADD
        for number, record in sorted(self.records.items()):
            is_on_its_way = record.state == WAITING and record.is_there
            is_unfinished = is_on_its_way or bool(record.in_state(PENDING))
            waits = record.held or (record.on_hold and is_unfinished) or (is_on_its_way and not is_new)
            if number < document.number and waits:
                return record
            if number == document.number and record.held - {document.name}:
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
                if record.documents[name] in {DONE, OPEN, IN_PART}:
                    accepted = OPEN if self.contexts.has_unfinished(name) else DONE
                    record.documents[name] = IN_PART if self._fails(record, name) else accepted

    def _fails(self, record: Record, name: str) -> bool:
        """Whether a document breaks a rule that is not waived, by what is there of it or was refused of it."""
        refused = record.refused[name]
        broken = self.versions.broken(self.versions.owned_by(name)) | {rule for _, _, rule in refused}
        if record.submission.action is not Action.DELETE:
            broken |= self.versions.broken((thing, variant) for thing, variant, _ in refused)
        return not broken <= set(self.waivers)

    def _apply(self, document: Applied, *, is_confirmed: bool = False) -> str:
        """What becomes of a document."""
        record, versions = self.records[document.number], self.versions
        former = self._former(document)
        if former is not None and former.original is None:
            return record.applied[document.name]
        versions.forget(document.name)
        self.duplicates.discard(document.name)
        document.original = versions.original(document)
        if document.original is not None:
            self.duplicates.add(document.name)
            versions.applied.append(document)
            record.refused[document.name] = []
            return DONE
        judged = [(thing, variant, versions.refusal(document, thing)) for thing, variant in document.things]
        taken = [(thing, variant) for thing, variant, rule in judged if rule is None]
        refused = [(thing, variant, rule) for thing, variant, rule in judged if rule is not None]
        if document.action is not Action.ADD and not is_confirmed and MICE * len(taken) > HOLD_ABOVE:
            return PENDING
        for thing, variant in taken:
            self._touch(thing)
            versions.logs[thing].append((document, None if document.action is Action.DELETE else variant))
        record.refused[document.name] = refused
        if not taken:
            return REFUSED
        versions.applied.append(document)
        return IN_PART if refused else DONE

    def _touch(self, thing: Thing) -> None:
        """Note the documents of which another one changes what they brought, or its animals, or brings it back."""
        for each in {thing, thing.experiments}:
            last = self.versions.last(each)
            if last is not None:
                self.touched.add((last.number, last.name))

    @staticmethod
    def _roll_up(record: Record) -> None:
        """An archive shows the earliest failure, else what is least advanced."""
        states = {*record.documents.values(), *([NO_NAME] if record.submission.packing is Packing.DEEP else [])}
        failed = [state for state in _ORDER if state in states]
        record.state = [*failed, *(state for state in _LEAST_ADVANCED if state in states)][0]
