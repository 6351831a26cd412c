"""Which submissions causes are about, as conditions for either database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, not_, or_, select, true

from dcc.databases.list_parameters import sorted_chunks, these_texts
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.qc.models import DOCUMENT
from dcc.tracker.decisions import needs_nobody
from dcc.tracker.models import Centre, ZipAction, ZipFile
from dcc.tracker.submission_rows import is_on_source_of


@dataclass(frozen=True, slots=True)
class Scope:
    """The submissions of a centre, or some submissions, or all.

    A centre's are the archives named for it, and those on its file sources that are named for no registered centre.
    Without `zips`, those on which nobody has to act are left out, such as `acknowledged` ones. `za_ids` is a query of
    the ids of many `zips`. `codes` are those of the registered centres.
    """

    centre: str | None = None
    zips: Sequence[SubmissionKey] | None = None
    za_ids: Select[Any] | None = None
    acknowledged: Sequence[SubmissionKey] = ()
    codes: Sequence[str] = ()

    @property
    def centre_of_document(self) -> ColumnElement[str]:
        """The centre of a document's archive, which has to correct it; the document may be named for another."""
        first = func.substr(DOCUMENT.c.zip_file, 1, func.instr(DOCUMENT.c.zip_file, ".") - 1)
        return case((first.in_(self.codes), first), else_=DOCUMENT.c.centre)


def submission_conditions(scope: Scope) -> Iterator[ColumnElement[bool]]:
    """Conditions on `zip_action` joined with `zip_file`; together they select each submission of the scope once."""
    if scope.za_ids is not None:
        yield ZipAction.id.in_(scope.za_ids)
    elif scope.zips is not None:
        for action, names in _names_by_action(scope.zips):
            yield and_(ZipAction.todo_id == action, ZipFile.file_name.in_(names))
    else:
        of_centre = true() if scope.centre is None else _of_centre(scope.centre)
        yield and_(of_centre, ~needs_nobody())


def document_conditions(scope: Scope) -> Iterator[ColumnElement[bool]]:
    """Conditions on `document`; together they select each document of the scope once."""
    if scope.zips is not None:
        for action, names in _names_by_action(scope.zips):
            yield and_(DOCUMENT.c.zip_action == action.value, DOCUMENT.c.zip_file.in_(names))
    else:
        of_centre = true() if scope.centre is None else _documents_of(scope, scope.centre)
        others = []
        for action in Action:
            if names := [key.file_name for key in scope.acknowledged if key.action is action]:
                listed = DOCUMENT.c.zip_file.in_(these_texts(names))
                others.append(not_(and_(DOCUMENT.c.zip_action == action.value, listed)))
        yield and_(of_centre, *others)


def _names_by_action(zips: Sequence[SubmissionKey]) -> Iterator[tuple[Action, list[str]]]:
    for action in Action:
        for names in sorted_chunks(sorted({key.file_name for key in zips if key.action is action})):
            yield action, names


def _of_centre(centre: str) -> ColumnElement[bool]:
    own = select(Centre.id).where(Centre.short_name == centre).scalar_subquery()
    return or_(ZipFile.centre_id == own, and_(ZipFile.centre_id.is_(None), is_on_source_of([centre])))


def _documents_of(scope: Scope, centre: str) -> ColumnElement[bool]:
    names = DOCUMENT.c.zip_file
    # The first condition is for the indexes.
    return and_(
        or_(DOCUMENT.c.centre == centre, and_(names >= f"{centre}.", names < f"{centre}/")),
        scope.centre_of_document == centre,
    )
