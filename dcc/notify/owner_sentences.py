"""What centres are told, in words, of others' archives with their data or name, and of their own with others' names."""

from __future__ import annotations

from typing import Final

from dcc.naming import Action
from dcc.reports.languages import Catalogue
from dcc.reports.languages.marking import mark, mark_plural
from dcc.tracker.hostings.owner_notices import Notice, Outcome

_OF_ARCHIVE: Final = {
    Outcome.HELD: mark(
        "{archive} is named for your centre, and lies on the server of another one. It was not taken. If it is meant, "
        "tell the Data Coordination Centre."
    ),
    Outcome.DONE: mark("{archive} is taken from the server of another centre, since your centre has delegated to it."),
    Outcome.WITHDRAWN: mark("{archive} of centre {centre}, which has data of your centre, was withdrawn."),
    Outcome.DECLINED: mark(
        "{archive} is named for your centre, and lies on the server of another one. The Data Coordination Centre "
        "turned it down: {reason}"
    ),
}
_OF_HOSTED: Final = {
    Outcome.HELD: mark(
        "{archive} on your server is named for centre {centre}, and was not taken. It is taken when centre {centre} "
        "has it on its own server, or lets your centre act for it. If it is your own, rename it."
    ),
    Outcome.DECLINED: mark(
        "{archive} on your server is named for centre {centre}. The Data Coordination Centre turned it down: {reason}"
    ),
}
"""Of archives named for another centre than that which is told, on whose server they lie."""

_ADDED: Final = {
    Outcome.DONE: mark("Centre {centre} added data of your centre, which has delegated to it: {what}."),
    Outcome.CONFIRMED: mark(
        "Centre {centre} added data of your centre, and the Data Coordination Centre confirmed that: {what}."
    ),
    Outcome.HELD: mark(
        "Centre {centre} wants to add data of your centre: {what}. Nothing was added yet. Tell the Data Coordination "
        "Centre whether you agree."
    ),
    Outcome.REFUSED: mark("Centre {centre} tried to add data of your centre: {what}. Nothing of that was taken in."),
    Outcome.DECLINED: mark(
        "Centre {centre} wanted to add data of your centre: {what}. Nothing was added: the Data Coordination Centre "
        "turned it down."
    ),
}
_CHANGED_FOR_OWNER: Final = mark("Centre {centre} changed data of your centre, which has delegated to it: {what}.")
_DELETED_FOR_OWNER: Final = mark("Centre {centre} deleted data of your centre, which has delegated to it: {what}.")
_CHANGED: Final = {
    Outcome.DONE: _CHANGED_FOR_OWNER,
    Outcome.CONFIRMED: _CHANGED_FOR_OWNER,
    Outcome.HELD: mark(
        "Centre {centre} wants to change data of your centre: {what}. Nothing was changed yet. Tell the Data "
        "Coordination Centre whether you agree."
    ),
    Outcome.REFUSED: mark("Centre {centre} tried to change data of your centre: {what}. Nothing of that was taken in."),
    Outcome.DECLINED: mark(
        "Centre {centre} wanted to change data of your centre: {what}. Nothing was changed: the Data Coordination "
        "Centre turned it down."
    ),
}
_DELETED: Final = {
    Outcome.DONE: _DELETED_FOR_OWNER,
    Outcome.CONFIRMED: _DELETED_FOR_OWNER,
    Outcome.HELD: mark(
        "Centre {centre} wants to delete data of your centre: {what}. Nothing was deleted yet. Tell the Data "
        "Coordination Centre whether you agree."
    ),
    Outcome.REFUSED: mark("Centre {centre} tried to delete data of your centre: {what}. Nothing of that was deleted."),
    Outcome.DECLINED: mark(
        "Centre {centre} wanted to delete data of your centre: {what}. Nothing was deleted: the Data Coordination "
        "Centre turned it down."
    ),
}
_OF_DOCUMENT: Final = {Action.ADD: _ADDED, Action.EDIT: _CHANGED, Action.DELETE: _DELETED}


_KINDS: Final = {
    "specimen": mark_plural("{number} animal", "{number} animals"),
    "experiment": mark_plural("{number} experiment", "{number} experiments"),
    "line": mark_plural("{number} line", "{number} lines"),
    "housing": mark_plural("{number} housing", "{number} housings"),
}


def is_of_host(notice: Notice) -> bool:
    """Whether it is for the centre on whose server an archive lies that is named for another one."""
    return not notice.file_name and notice.outcome in _OF_HOSTED and notice.owner != notice.centre


def owner_sentence(catalogue: Catalogue, notice: Notice) -> str:
    """What an owner of data, or the centre on whose server an archive lies, is told by a notice."""
    archive, centre = str(notice.key), notice.centre or "?"
    if not notice.file_name:
        texts = _OF_HOSTED if is_of_host(notice) else _OF_ARCHIVE
        return catalogue.text(texts[notice.outcome], archive=archive, centre=centre, reason=notice.reason or "")
    counted = catalogue.list(
        [catalogue.plural(*words, notice.counts[kind]) for kind, words in _KINDS.items() if notice.counts.get(kind)]
    )
    what = catalogue.text("{document} in {archive}", document=notice.file_name, archive=archive)
    if counted:
        what = catalogue.text("{counted} by {what}", counted=counted, what=what)
    return catalogue.text(_OF_DOCUMENT[notice.key.action][notice.outcome], centre=centre, what=what)
