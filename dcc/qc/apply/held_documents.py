"""Held documents, which would change many data or other centres' data, and their confirmation by people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, Engine, select, update

from dcc.databases.columns import require_text
from dcc.databases.list_parameters import rows_with
from dcc.databases.transactions import run_writing
from dcc.errors import NotFoundError
from dcc.naming import Action
from dcc.qc.apply.upload_lock import lock_centres_of
from dcc.qc.apply.versions import current_versions
from dcc.qc.models import DOCUMENT, FINDING
from dcc.qc.rows.documents import DocumentToApply, former_applications
from dcc.qc.rows.entity_keys import Key
from dcc.qc.rows.prepared_file import PreparedDocument
from dcc.rules.upload import OWNERSHIP
from dcc.vocabulary import DocumentState, EntityKind


def owners_of_held_documents(connection: Connection, document_ids: Sequence[int]) -> dict[int, set[str]]:
    """The centres because of whose data documents are held, by the documents' ids."""
    query = select(FINDING.c.document_id, FINDING.c.value).where(FINDING.c.rule == OWNERSHIP, FINDING.c.is_active)
    found: dict[int, set[str]] = {}
    for document_id, centre in rows_with(connection, query, FINDING.c.document_id, document_ids):
        found.setdefault(document_id, set()).add(centre)
    return found


def additions_of_existing_entities(
    connection: Connection, additions: Sequence[tuple[DocumentToApply, PreparedDocument, bool]]
) -> list[bool]:
    """Whether each of some additions may wait and names entities that are there already, or by one before it.

    Each comes with whether it may wait. One that was applied before does not.
    """
    added: dict[EntityKind, set[Key]] = defaultdict(set)
    former = former_applications(connection, [document for document, _, _ in additions])
    waits = []
    for (_, prepared, may_wait), rows in zip(additions, former, strict=True):
        named = [(some.kind, some.keys) for some in prepared.entries() if some.kind is not None]
        waits.append(
            may_wait
            and any(current_versions(connection, kind, keys) or added[kind] & set(keys) for kind, keys in named)
            and all(row.state != DocumentState.APPLIED.value for row in rows)
        )
        if not waits[-1]:
            for kind, keys in named:
                added[kind].update(keys)
    return waits


def confirm_held(engine: Engine, action: Action, zip_file: str, *, author: str, reason: str) -> tuple[int, ...]:
    """Confirm the held documents of an archive, so that the next application takes effect; returns their ids.

    It counts for these documents as they are: one with other contents is held again. The author and the reason are
    recorded with each. Raises NotFoundError if none is held, ConfigurationError for an author or a reason that is empty
    or too long, and as `run_writing`.
    """
    check_signature(author, reason)
    of_zip = (DOCUMENT.c.zip_file == zip_file) & (DOCUMENT.c.zip_action == action.value)
    held = of_zip & (DOCUMENT.c.state == DocumentState.HELD.value)

    def work(connection: Connection) -> tuple[int, ...]:
        lock_centres_of(connection, connection.scalars(select(DOCUMENT.c.id).where(of_zip)).all())
        ids = connection.scalars(select(DOCUMENT.c.id).where(held).order_by(DOCUMENT.c.id)).all()
        if not ids:
            raise NotFoundError(
                f"No document of {action.value}/{zip_file} is held. Check the action and the name; what was applied "
                "or refused needs no confirmation."
            )
        connection.execute(update(DOCUMENT).where(held).values(author=author, reason=reason))
        return tuple(ids)

    return run_writing(engine, work)


def check_signature(author: str, reason: str) -> None:
    """Raise ConfigurationError for an author or a reason that is blank or longer than its column."""
    for name, text in (("author", author), ("reason", reason)):
        require_text(name, text, DOCUMENT.c[name])
