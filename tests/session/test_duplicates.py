"""What a centre sends again under another name is done without being applied again, and is no error."""

import re

import pytest

from dcc.phases import Phase
from dcc.qc import models
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_centre, collect_submission
from dcc.reports.submissions.model import Outcome
from dcc.reports.submissions.plain_text import render_text
from dcc.rights import Delegations
from dcc.session.data.document_queries import load_due
from dcc.session.data.prepared_archives import prepared_temporarily
from dcc.session.data.upload_phase import Uploader
from dcc.store.staging import Staging
from tests.support.asking import in_both, in_reading
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.databases import only_sqlite
from tests.support.rewritten_documents import rewritten

FIRST = "add/H.2013-10-31.1.impc.zip"
AGAIN = "add/H.2013-11-01.1.impc.zip"
WHO = {"author": "someone", "reason": "sent by mistake"}


def versions(data: DataInstallation) -> list[tuple[object, ...]]:
    """What stands of animals and experiments, and by which documents."""
    return [
        *data.rows(models.SPECIMEN, "specimen_id", "document_id", "litter_id"),
        *data.rows(models.EXPERIMENT, "experiment_id", "document_id"),
        *data.rows(models.LIFETIME, "opened_by", "ended_by"),
    ]


def opened_by(data: DataInstallation) -> set[object]:
    """The documents that opened versions."""
    return {document_id for (document_id,) in data.rows(models.LIFETIME, "opened_by")}


@pytest.mark.both_databases
def test_an_archive_of_the_same_bytes_is_a_duplicate_and_done(data: DataInstallation) -> None:
    """Its report says what became of the first."""
    outcomes = []

    def told() -> tuple[list[tuple[bool, int]], str]:
        report = in_both(data, collect_submission, key_of(AGAIN), data.settings)
        outcomes.append(report.outcome)
        said = " ".join(render_text(report, load_catalogue("en", data.settings)).split())
        return [(one.repeated, one.errors) for one in report.documents], said

    data.run(FIRST, specimens(), experiments())
    before = versions(data)
    data.run(AGAIN, specimens(), experiments())
    assert versions(data) == before
    assert data.states() == {FIRST: "qc pending", AGAIN: "qc done"}
    documents, said = told()
    assert documents == [(True, 0), (True, 0)]
    assert "2 documents had been taken before, and were not taken twice" in said
    assert f"is the same as H.2013-10-31.1.specimen.impc.xml of {FIRST}. It is not taken again" in said
    assert "Documents are the same as earlier ones: 2 documents" in said
    assert data.take_up().zips == []
    withdrawn = "2 of its documents are the same as some that were withdrawn since: nothing of them counts."
    assert withdrawn not in said
    headline = "Nothing of the archive counts: it is a copy of data that were withdrawn"
    assert headline not in said
    data.withdraw(FIRST, **WHO)
    said = told()[1]
    assert withdrawn in said
    assert headline in said
    assert "is through all checks" not in said
    assert not re.search("which counts|stands?[: ]|submission counts", said)
    of_centre = in_both(data, collect_centre, "H", data.settings)
    assert of_centre.outcomes == {Outcome.WITHDRAWN: 1, Outcome.COPY_OF_WITHDRAWN: 1}
    data.retry(AGAIN)
    assert withdrawn not in told()[1]
    # What an archive has once been taken with is no copy when it is processed again.
    data.retry(AGAIN)
    documents, said = told()
    assert documents == [(False, 0), (False, 0)]
    assert "taken before" not in said
    assert outcomes == [Outcome.DONE, Outcome.COPY_OF_WITHDRAWN, Outcome.TO_BE_LOOKED_AT, Outcome.TO_BE_LOOKED_AT]


@pytest.mark.both_databases(first_only=True)
@pytest.mark.parametrize("again", ["delete/H.2013-11-01.1.impc.zip", "edit/H.2013-11-01.1.impc.zip", AGAIN])
def test_a_duplicate_is_known_again_when_the_session_was_killed_before_it_was_recorded(
    data: DataInstallation, again: str
) -> None:
    for key in (FIRST, again.replace("11-01", "10-31")) if again.startswith("delete") else (FIRST,):
        data.run(key, specimens())
    data.validate(again, specimens())
    due = in_reading(data.tracker, load_due, Phase.UPLOAD, data.settings.naming)
    with prepared_temporarily(Staging(data.settings.staging_directory), due, data.qc) as prepared:
        Uploader(data.qc, data.settings, Delegations()).upload(due, [prepared(document) for document in due])
    before = data.rows(models.DOCUMENT, "id", "state")
    assert len(before) > len(due)
    assert data.take_up().document("H.2013-10-31.1.specimen.impc.xml", Phase.UPLOAD).repeated
    assert data.rows(models.DOCUMENT, "id", "state") == before
    assert data.states()[again] == "qc done"
    assert data.log("H.2013-10-31.1.specimen.impc.xml") == ["Q7"]


def test_what_is_wrong_in_a_duplicate_is_told_of_the_document_that_stands_alone(data: DataInstallation) -> None:
    """Its correction would not clear it elsewhere: a duplicate has no animals."""
    faulty = {name: document.replace(b'colonyID="', b'colonyID="No') for name, document in specimens().items()}
    data.run(FIRST, faulty)
    data.run(AGAIN, faulty)
    assert data.states() == {FIRST: "data failed", AGAIN: "qc done"}
    edit = "edit/H.2013-11-02.1.impc.zip"
    data.run(edit, specimens("2013-11-02.1"))
    assert data.states() == dict.fromkeys((FIRST, AGAIN, edit), "qc done")


def test_what_was_changed_or_withdrawn_since_is_no_duplicate(data: DataInstallation) -> None:
    """After an edit the first document does not stand as it was; after its withdrawal its copy is taken when asked."""
    data.put(FIRST, specimens())
    data.run(AGAIN, specimens())
    data.withdraw(FIRST, **WHO)
    data.retry(AGAIN)
    assert data.states() == {FIRST: "upload cancelled", AGAIN: "qc done"}
    assert opened_by(data) == {1, 4}
    data.run("edit/H.2013-11-02.1.impc.zip", specimens("2013-11-02.1"))
    data.run("add/H.2013-11-03.1.impc.zip", specimens())
    assert data.states()["add/H.2013-11-03.1.impc.zip"] == "upload failed"
    data.run("edit/H.2013-11-04.1.impc.zip", specimens())
    assert data.states()["edit/H.2013-11-04.1.impc.zip"] == "qc done"
    assert len(data.rows(models.SPECIMEN, "id")) == 15


@only_sqlite
def test_what_is_written_otherwise_and_says_the_same_is_a_duplicate(data: DataInstallation) -> None:
    """White space between elements, the order of attributes, prefixes and comments say nothing."""
    edits = {day: f"edit/H.2013-11-{day}.1.impc.zip" for day in ("02", "03")}
    deletes = {day: f"delete/H.2013-11-{day}.1.impc.zip" for day in ("04", "05")}
    data.run(FIRST, specimens(), experiments())
    data.run(AGAIN, rewritten(specimens()), experiments("2013-11-01.1", first=2, animals=1, procedure="IMPC_CBC_001"))
    assert data.states() == {FIRST: "qc pending", AGAIN: "qc pending"}
    assert data.log("H.2013-10-31.1.specimen.impc.xml") == ["Q7"]
    assert len(data.rows(models.SPECIMEN, "id")) == 3
    assert len(data.rows(models.EXPERIMENT, "id")) == 4
    once, twice = specimens("2013-11-02.1", first=7), specimens("2013-11-02.2", first=7)
    data.run("add/H.2013-11-02.1.impc.zip", once)
    for first, again in (edits.values(), deletes.values()):
        data.run(first, once)
        before = versions(data)
        data.run(again, rewritten(once))
        assert versions(data) == before
        assert data.states()[again] == "qc done"
    (content,) = once.values()
    data.run("add/H.2013-11-06.1.impc.zip", once, rewritten(dict.fromkeys(twice, content)))
    assert data.states()["add/H.2013-11-06.1.impc.zip"] == "qc done"
    assert data.log("H.2013-11-02.2.specimen.impc.xml") == ["Q7"]
