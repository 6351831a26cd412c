"""Documents that are held because they would change much, and people who let them go on (issue 3, item 2)."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, select, update

from dcc_resources.databases.transactions import run_writing
from dcc_resources.errors import NotFoundError
from dcc_resources.naming import Action
from dcc_resources.qc_database.applying import PATIENCE_SECONDS
from dcc_resources.qc_database.models import Document
from dcc_resources.qc_database.signatures import check_signature
from dcc_resources.qc_database.upload_lock import take_upload_lock
from dcc_resources.qc_database.vocabulary import DocumentState


def confirm_held(
    engine: Engine,
    action: Action,
    zip_file: str,
    *,
    author: str,
    reason: str,
    patience_seconds: float = PATIENCE_SECONDS,
) -> tuple[int, ...]:
    """Let the held documents of an archive take effect when they are applied next; their ids.

    It holds for these documents as they are: one that comes with other contents is held anew. Who confirmed and why
    are kept with each. Raises NotFoundError when none is held, ConfigurationError for an author or a reason that is
    empty or too long, and as `run_writing`.
    """
    check_signature(author, reason)
    document = Document.__table__
    held = (document.c.zip_file == zip_file) & (document.c.zip_action == action.value)
    held &= document.c.state == DocumentState.HELD.value

    def work(connection: Connection) -> tuple[int, ...]:
        take_upload_lock(connection)
        ids = connection.scalars(select(document.c.id).where(held).order_by(document.c.id)).all()
        if not ids:
            raise NotFoundError(
                f"No document of {action.value}/{zip_file} is held. Check the action and the name; what was applied "
                "or refused need not be confirmed."
            )
        connection.execute(update(document).where(held).values(author=author, reason=reason))
        return tuple(ids)

    return run_writing(engine, work, patience_seconds=patience_seconds)
