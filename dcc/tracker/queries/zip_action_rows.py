"""Zip actions as rows: what whoever tells of them asks for, to be narrowed down by the caller."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, Select, select

from dcc.outcomes import ZipKey
from dcc.phases import ACTIONS_BY_ID
from dcc.tracker.models import Centre, ZipAction, ZipFile


def select_zip_actions() -> Select[*tuple[Any, ...]]:
    """Zip actions with id, todo_id, state, last_update, the archive's name, size and MD5, and its centre if known."""
    return (
        select(
            ZipAction.id,
            ZipAction.todo_id,
            ZipAction.phase_id,
            ZipAction.status_id,
            ZipAction.last_update,
            ZipFile.file_name,
            ZipFile.size_bytes,
            ZipFile.content_md5,
            Centre.short_name.label("centre"),
        )
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
    )


def key_of(row: Row[*tuple[Any, ...]]) -> ZipKey:
    """The key of a zip action in a row that has its `todo_id` and `file_name`."""
    return ZipKey(ACTIONS_BY_ID[row.todo_id], row.file_name)
