"""Documents judged together by what was found in them: they come to what each comes to by itself, in few statements."""

from typing import Any

import pytest
from sqlalchemy import Engine, update

from dcc.databases.transactions import writing
from dcc.documents.contents import Content
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.judging.documents import ContentFindings, Judgement, judge_together
from dcc.qc.judging.rejudging import mark_for_judging
from dcc.qc.models import DOCUMENT, EXPERIMENT
from dcc.vocabulary import Validity
from tests.support.asking import execute_in, in_writing
from tests.support.integrity_cases import experiment, experiments, mutant, procedure, simple, specimens
from tests.support.judging_cases import BASIS, document_row, findings, judge, upload, validity


def weights(name: str, *values: str) -> list[Content]:
    """Experiments on the mouse M1, each with a value and a day; `x` is no value."""
    done = [
        experiment(procedure(simple("RANGED", value)), experiment_id=f"{name}{n}", date=f"2014-01-1{n}")
        for n, value in enumerate(values)
    ]
    return experiments(*done)


@pytest.fixture
def mouse(qc_database: Engine) -> Engine:
    """A QC database that has the mouse M1."""
    judge(qc_database, upload(qc_database, specimens(mutant())))
    return qc_database


def judge_all(qc: Engine, *documents: AppliedDocument) -> list[Any]:
    """Judge documents together in which nothing is found."""
    return in_writing(qc, judge_together, [ContentFindings(one.document_id, ()) for one in documents], BASIS)


def built(qc: Engine, document: AppliedDocument) -> AppliedDocument:
    """A document that was judged well and that the data contexts take account of; it is to be judged anew."""
    judge(qc, document)
    with writing(qc) as connection:
        connection.execute(update(DOCUMENT).where(DOCUMENT.c.id == document.document_id).values(contexts_built=True))
        mark_for_judging(connection, [document.document_id])
    assert document_row(qc, document).judged_at is None
    return document


def test_a_document_that_was_judged_well_stays_in_its_contexts_when_nothing_is_found_again(mouse: Engine) -> None:
    document = built(mouse, upload(mouse, weights("E", "5")))
    other = upload(mouse, weights("F", "5"))
    judge_all(mouse, document, other)
    row = document_row(mouse, document)
    assert (row.judged_at is not None, row.contexts_built) == (True, True)
    assert document_row(mouse, other).judged_at is not None
    assert validity(mouse) == [True, True]


@pytest.mark.parametrize("said", [Validity.UNJUDGED, Validity.INVALID], ids=["not judged", "known to be invalid"])
def test_what_was_not_valid_becomes_so_when_nothing_is_found_and_its_contexts_are_built(
    mouse: Engine, said: int
) -> None:
    document = built(mouse, upload(mouse, weights("E", "5", "6")))
    execute_in(mouse, update(EXPERIMENT).where(EXPERIMENT.c.experiment_id == "E1").values(validity=said))
    judge_all(mouse, document)
    assert validity(mouse) == [True, True]
    assert not document_row(mouse, document).contexts_built


def test_findings_that_hold_no_more_are_closed_beside_documents_that_were_never_judged(mouse: Engine) -> None:
    faulty = upload(mouse, weights("E", "5", "x"))
    judge(mouse, faulty)
    assert validity(mouse) == [True, False]
    sound = upload(mouse, weights("F", "5"))
    judged: list[Judgement] = judge_all(mouse, faulty, sound)
    assert [len(one.cleared) for one in judged] == [1, 0]
    assert [row.closed is not None for row in findings(mouse)] == [True]
    assert validity(mouse) == [True] * 3
