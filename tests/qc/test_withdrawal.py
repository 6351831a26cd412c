"""Withdrawing documents, on SQLite and on MariaDB."""

import pytest
from sqlalchemy import Engine, select

from dcc.errors import NotFoundError
from dcc.naming import Action
from dcc.qc.apply.withdrawal import WithdrawalResult, undo_submission
from dcc.qc.models import DOCUMENT
from dcc.qc.stored_records import find_document
from tests.qc.test_applying import all_rows, litters, values
from tests.support.qc_documents import apply, experiment, specimen, undo_documents

ADD, EDIT, DELETE = Action.ADD, Action.EDIT, Action.DELETE


def undo(engine: Engine, *document_ids: int) -> WithdrawalResult:
    return undo_documents(engine, document_ids, author="wrangler", reason="a test", patience_seconds=5)


def test_what_later_documents_changed_is_not_withdrawn_and_they_are_said(qc_database: Engine) -> None:
    added = apply(qc_database, ADD, specimen("S1", "added"), specimen("S2")).document_id
    edited = apply(qc_database, EDIT, specimen("S1", "edited")).document_id
    deleted = apply(qc_database, DELETE, specimen("S2")).document_id
    before = all_rows(qc_database)
    undone = undo(qc_database, added)
    assert (undone.withdrawn, [builder.document_id for builder in undone.builders]) == ((), [edited, deleted])
    assert all_rows(qc_database) == before
    assert undo(qc_database, added, edited, deleted).withdrawn == (deleted, edited, added)
    assert litters(qc_database) == {}


def test_experiments_build_on_the_document_that_added_their_specimens(qc_database: Engine) -> None:
    specimens = apply(qc_database, ADD, specimen("S1")).document_id
    apply(qc_database, ADD, experiment("E0"), centre="J")
    experiments = apply(qc_database, ADD, experiment("E1")).document_id
    (builder,) = undo(qc_database, specimens).builders
    assert (builder.document_id, builder.why) == (experiments, "brought experiments about its specimens")
    undo(qc_database, experiments)
    assert undo(qc_database, specimens).withdrawn == (specimens,)


def test_experiments_whose_specimens_were_deleted_since_do_not_come_back(qc_database: Engine) -> None:
    apply(qc_database, ADD, specimen("S1"), specimen("S2"))
    apply(qc_database, ADD, experiment("E1", ("S1",)))
    changed = apply(qc_database, EDIT, experiment("E1", ("S2",))).document_id
    gone = apply(qc_database, DELETE, specimen("S1")).document_id
    (builder,) = undo(qc_database, changed).builders
    assert (builder.document_id, builder.why) == (gone, "deleted specimens of experiments that would come back")
    undo(qc_database, gone)
    assert undo(qc_database, changed).builders == ()


def test_a_submission_is_withdrawn_wholly_or_not_at_all(qc_database: Engine) -> None:
    zip_file = "H.2013-10-31.9.impc.zip"
    signature = {"author": "wrangler", "reason": "a test"}
    apply(qc_database, ADD, specimen("S1"), zip_file=zip_file)
    apply(qc_database, ADD, experiment("E1"), zip_file=zip_file)
    of_animals = apply(qc_database, EDIT, specimen("S1", "edited")).document_id
    of_runs = apply(qc_database, EDIT, experiment("E1", value="9")).document_id
    before = all_rows(qc_database)
    undone = undo_submission(qc_database, ADD, zip_file, **signature)
    # All are told at once, but not the experiments of the submission itself.
    assert [builder.document_id for builder in undone.builders] == [of_animals, of_runs]
    assert all_rows(qc_database) == before
    undo(qc_database, of_animals, of_runs)
    assert len(undo_submission(qc_database, ADD, zip_file, **signature).withdrawn) == 2
    assert (litters(qc_database), values(qc_database)) == ({}, [])
    with pytest.raises(NotFoundError, match=r"No document of add/H\.2013-10-31\.9\.impc\.zip stands"):
        undo_submission(qc_database, ADD, zip_file, **signature)


def test_a_withdrawal_is_kept_with_who_and_why_and_is_no_document_that_can_be_had(qc_database: Engine) -> None:
    zip_file = "H.2013-10-31.9.impc.zip"
    added = apply(qc_database, ADD, specimen("S1"), zip_file=zip_file).document_id
    (undone_by,) = undo(qc_database, added).undone_by
    with qc_database.connect() as connection:
        row = connection.execute(select(DOCUMENT).where(DOCUMENT.c.id == undone_by)).one()
        state = connection.scalar(select(DOCUMENT.c.state).where(DOCUMENT.c.id == added))
        with pytest.raises(NotFoundError, match=f"Document {undone_by} withdrew document {added}, and has no XML"):
            find_document(connection, str(undone_by))
        assert find_document(connection, row.file_name).id == added
    assert (row.action, row.undoes, row.author, row.reason, state) == ("undo", added, "wrangler", "a test", "undone")


@pytest.mark.both_databases
def test_an_animal_whose_id_differs_in_trailing_blanks_does_not_stand_in_for_one_that_is_gone(
    qc_database: Engine,
) -> None:
    there, missing = specimen("S1"), specimen("S1 ")
    apply(qc_database, Action.ADD, there, missing)
    on_both = (experiment("E1", ("S1",)), experiment("E2", ("S1 ",)))
    apply(qc_database, Action.ADD, *on_both)
    deleted = apply(qc_database, Action.DELETE, *on_both)
    gone = apply(qc_database, Action.DELETE, there, missing)
    apply(qc_database, Action.ADD, there)
    found = undo_documents(qc_database, [deleted.document_id])
    assert [builder.document_id for builder in found.builders] == [gone.document_id]
