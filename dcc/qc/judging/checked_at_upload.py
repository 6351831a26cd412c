"""What was found in documents while they were read for the upload, as the session keeps it until they are judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection

from dcc.qc.judging.checking_ahead import Checked
from dcc.qc.judging.checking_process import unpacked
from dcc.qc.judging.documents import Basis
from dcc.qc.judging.many_documents import newest_document
from dcc.qc.judging.other_specimens import questionable
from dcc.rules.context import latest_day

MOST_FINDINGS: Final = 20_000
"""How many findings are held of documents that were checked while they were read."""


@dataclass
class CheckedAtUpload:
    """What was found in documents while they were read, by their ids in the QC database, going by a basis.

    It is known to this session alone: a later one checks documents that were not judged yet anew.
    """

    basis: Basis
    _found: dict[int, Sequence[tuple[Any, ...]]] = field(default_factory=dict)
    _held: int = 0
    _newest: int = 0

    def add(self, document_id: int, noted: Any) -> None:
        """Take what was noted of a document; None where nothing was."""
        if noted is not None and self._held + len(noted) <= MOST_FINDINGS:
            self._held += len(noted)
            # Nearly always nothing is found, for which one empty tuple does.
            self._found[document_id] = tuple(noted)

    def goes_by(self, basis: Basis) -> bool:
        """Whether documents were checked by the same reference data, and on the same day, as `basis` has."""
        return (self.basis.signature, self.basis.today) == (basis.signature, basis.today)

    def known(self, connection: Connection, document_ids: Iterable[int]) -> set[int]:
        """Those of the documents in which it is known what all rules find."""
        self._newest = newest_document(connection)
        checked = {document_id for document_id in document_ids if document_id in self._found}
        return checked - self._doubtful(connection, checked)

    def checked(self, connection: Connection, document_ids: Collection[int]) -> dict[int, Checked]:
        """What was found in documents that were `known`, but for those that are no more."""
        newest = newest_document(connection)
        # What is current changes only with a newer document.
        doubtful = set() if newest == self._newest else self._doubtful(connection, document_ids)
        return {
            document_id: Checked([unpacked(one) for one in self._found[document_id]], newest)
            for document_id in document_ids
            if document_id not in doubtful
        }

    def _doubtful(self, connection: Connection, document_ids: Collection[int]) -> set[int]:
        return questionable(connection, document_ids, latest_day(self.basis.today))
