"""A process of the platform's own that reads documents and checks them against the rules, for `checking_ahead`.

It has no database and knows no secret: what the rules must know of what was uploaded it asks whoever started it. Of
small documents it reads some at once and asks for all of them; while the answer comes it reads the next ones. What it
cannot say anything of, for whatever reason, is judged by whoever asked.
"""

from __future__ import annotations

import gc
import logging
import pickle
import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from dcc.declarations import WORDS
from dcc.documents.contents import Block, Content
from dcc.documents.reading import read_document
from dcc.errors import DocumentError
from dcc.messages import from_json, shown, to_json
from dcc.naming import Action, DocumentKind
from dcc.reference.loading import ReferenceData
from dcc.rules.accepted_elements import Sound
from dcc.rules.checking import JUDGED_AT_UPLOAD, check_contents
from dcc.rules.context import DocumentContext, ExperimentKey, KnownSpecimen, Where
from dcc.rules.elements import specimens_asked_for
from dcc.rules.findings import Finding, Severity
from dcc.runtime.checksums import md5_of_open_file
from dcc.runtime.helper_process import Out, read_message, serve, write_message
from dcc.runtime.log_context import logging_about
from dcc.vocabulary import EntityKind

log = logging.getLogger(__name__)

MOST_FINDINGS: Final = 2_000
"""How many findings are told of documents that are read at once; a document with more is left to whoever asked."""
LARGE: Final = 1_000_000
"""Bytes of a document from which on it is not held as a whole."""

_COLLECT_EVERY: Final = 100

Known = Mapping[str, Mapping[str, tuple[KnownSpecimen, ...]]]
"""By centres, the specimens that were asked for and are there, by their ids."""


class ToCheck(NamedTuple):
    """A document as it waits in staging, where it has the MD5 `md5`; `zip_action` and `of` (a centre) are for the log.

    `action`, `centre` and `kind` are those of the document in the QC database.
    """

    document_id: int
    action: str
    centre: str
    kind: str
    path: str
    md5: str | None
    size_bytes: int
    zip_action: str
    of: str | None


def is_large(documents: Sequence[ToCheck]) -> bool:
    """Whether documents that are to be checked together are one that is not held as a whole."""
    return len(documents) == 1 and documents[0].size_bytes >= LARGE


def main() -> None:
    """Check the documents that standard input names, and write what was found to standard output."""
    serve(_serve)


def _serve(given: IO[bytes], out: Out) -> None:
    reference, today = pickle.loads(read_message(given))  # noqa: S301 - of the process that started this one
    work = _Work(given, out, reference, today)
    write_message(out, ("ready", None))
    number = 0
    while True:
        work.go_on()
        number += 1
        if number % _COLLECT_EVERY == 0:
            gc.collect()


class _Work:
    """Documents that were read and wait for what was asked about them."""

    def __init__(self, given: IO[bytes], out: Out, reference: ReferenceData, today: date) -> None:
        self._given, self._out = given, out
        self._reference, self._today = reference, today
        self._sound = Sound()
        self._come: deque[tuple[str, Any]] = deque()
        self._read: deque[list[tuple[ToCheck, list[Content] | None]]] = deque()

    def go_on(self) -> None:
        """Do what the next message says. Raises EOFError when there is none any more."""
        kind, message = self._come.popleft() if self._come else read_message(self._given)
        if kind == "answer":
            self._tell(self._read.popleft(), Answered(_unpacked_known(message)))
            return
        documents = [ToCheck(*one) for one in message]
        if is_large(documents):
            # The next answer is to be its own.
            while self._read:
                self._tell(self._read.popleft(), Answered(self.answer()))
            self._tell([(documents[0], None)], _Asked(self))
            return
        read = [(one, _contents(one)) for one in documents]
        self._read.append(read)
        asked: dict[str, set[str]] = defaultdict(set)
        for _, contents in read:
            _gather(contents or (), asked)
        self.ask(asked)

    def ask(self, asked: Mapping[str, Collection[str]]) -> None:
        """Ask for specimens by centre and id."""
        write_message(self._out, ("question", {centre: list(ids) for centre, ids in asked.items()}))

    def answer(self) -> Known:
        """The answer to what was asked last; what else comes is kept for later."""
        while (message := read_message(self._given))[0] != "answer":
            self._come.append(message)
        return _unpacked_known(message[1])

    def _tell(self, documents: list[tuple[ToCheck, list[Content] | None]], lookups: Answered | _Asked) -> None:
        told: list[tuple[list[tuple[Any, ...]] | None, float]] = []
        left = MOST_FINDINGS
        for document, contents in documents:
            began = time.perf_counter()
            with logging_about(zip_action=document.zip_action, centre=document.of, document=Path(document.path).name):
                found = self._check(document, contents, lookups, left)
            left -= len(found or ())
            told.append((found, time.perf_counter() - began))
        write_message(self._out, ("found", told))

    def _check(
        self, document: ToCheck, contents: list[Content] | None, lookups: Answered | _Asked, most: int
    ) -> list[tuple[Any, ...]] | None:
        """What is found in a document; None where that cannot be told here, or is more than `most`."""
        action = Action(document.action)
        if action is Action.DELETE:
            return []
        context = DocumentContext(document.document_id, action, document.centre, self._today, self._reference, lookups)
        try:
            said: Iterable[Content] | None = contents
            if isinstance(lookups, _Asked) and _is_as_validated(document):
                said = read_document(Path(document.path), DocumentKind(document.kind))
            if said is None:
                return None
            found = list(islice(check_contents(said, context, JUDGED_AT_UPLOAD, self._sound), most + 1))
        except MemoryError:
            raise
        except Exception as error:
            # Whoever asked meets it again, and says whose it is.
            log.info("%s could not be checked here: %s", document.path, error)
            return None
        return [packed(one) for one in found] if len(found) <= most else None


class Answered:
    """The `Lookups` of documents about which all has been asked."""

    def __init__(self, known: Known) -> None:
        self._known = known

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:  # noqa: ARG002
        """The current specimens of a centre that were asked for."""
        return self._known.get(centre, {})

    def known_experiments(
        self,
        centre: str,  # noqa: ARG002
        keys: Collection[ExperimentKey],  # noqa: ARG002
    ) -> Mapping[ExperimentKey, tuple[Where, ...]]:
        """None: the rule that asks for experiments was judged at the upload."""
        return {}


class _Asked(Answered):
    """The `Lookups` of a document that is not held as a whole: a batch is asked for when it comes."""

    def __init__(self, work: _Work) -> None:
        super().__init__({})
        self._work = work

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:
        """The current specimens of a centre that have one of the ids, by their id."""
        self._work.ask({centre: ids})
        return self._work.answer().get(centre, {})


def _contents(document: ToCheck) -> list[Content] | None:
    """What a small document says; None where it is not there any more as it was validated."""
    try:
        if Action(document.action) is Action.DELETE:
            return []
        if not _is_as_validated(document):
            return None
        return list(read_document(Path(document.path), DocumentKind(document.kind)))
    except (OSError, DocumentError) as error:
        log.info("%s could not be read here: %s", document.path, error)
        return None


def _is_as_validated(document: ToCheck) -> bool:
    with Path(document.path).open("rb") as file:
        return document.md5 is None or md5_of_open_file(file) == document.md5


def _gather(contents: Iterable[Content], asked: dict[str, set[str]]) -> None:
    centre = ""
    for content in contents:
        if isinstance(content, Block):
            centre = content.centre
        elif ids := specimens_asked_for(content, JUDGED_AT_UPLOAD):
            asked[centre].update(ids)


def packed(finding: Finding) -> tuple[Any, ...]:
    """A finding as it can be sent."""
    kind = finding.entity_kind
    value = None if finding.value is None else str(finding.value)
    return (
        finding.code,
        finding.severity.value,
        to_json(finding.details) or to_json({WORDS: shown(finding.message)}),
        finding.line,
        finding.path,
        value,
        finding.centre,
        finding.procedure,
        finding.references,
        finding.block,
        None if kind is None else kind.value,
        finding.entity,
    )


def unpacked(sent: tuple[Any, ...]) -> Finding:
    """A finding that was sent."""
    code, severity, details, line, path, value, centre, procedure, references, block, kind, entity = sent
    return Finding(
        code,
        Severity(severity),
        from_json(details) or {},
        line,
        path,
        value,
        centre,
        procedure,
        references,
        block,
        None if kind is None else EntityKind(kind),
        entity,
    )


def packed_known(known: Known) -> dict[str, dict[str, list[tuple[int, int, str, str | None]]]]:
    """An answer as it can be sent."""
    return {
        centre: {name: [(*one.where, one.gender, one.dob) for one in some] for name, some in by_name.items()}
        for centre, by_name in known.items()
    }


def _unpacked_known(sent: Mapping[str, Mapping[str, list[tuple[int, int, str, str | None]]]]) -> Known:
    return {
        centre: {
            name: tuple([KnownSpecimen(Where(*where), gender, dob) for *where, gender, dob in some])
            for name, some in by_name.items()
        }
        for centre, by_name in sent.items()
    }
