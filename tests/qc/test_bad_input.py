"""What is hard to store is stored exactly or refused with a reason, on SQLite and on MariaDB."""

from collections.abc import Iterator

from sqlalchemy import Engine, select

from dcc.documents.contents import Content, Entity, Experiment, SimpleParameter
from dcc.naming import Action, DocumentKind
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.apply.upload_findings import FINDINGS_KEPT
from dcc.qc.models import FINDING, MEASUREMENT, SPECIMEN
from dcc.qc.rows.stored_content import load_document
from dcc.vocabulary import DocumentState
from tests.support.asking import count_in, in_reading, rows_in
from tests.support.databases import only_sqlite
from tests.support.qc_documents import apply, apply_document, block, contents, experiment, housing, specimen, to_apply

ADD, EDIT, DELETE = Action.ADD, Action.EDIT, Action.DELETE
NUMBERS = {
    "NaN": None,
    "1e400": None,
    "1e308": 1e308,
    "5e-324": 5e-324,
    "١٢": None,
    "12": 12.0,
    "2,643": 2643.0,
    "": None,
}
DATES = ["0001-01-01", "9999-12-31", "12013-01-01", "-0044-03-15", "2013-02-28Z", "2013-02-28+14:00"]
TEXTS = ["𝒮🐁", "e\u0301 é", "\u200f\u202e", "a\tb\\N\r\n'\"%s\\", " both ends ", "𐍈" * 255]


def whole(engine: Engine, *entities: Entity) -> AppliedDocument:
    """Apply entities, of which nothing may be refused, and find all that they say in the database."""
    applied = apply(engine, ADD, *entities)
    assert (applied.refused, applied.findings) == (0, ())
    assert list(in_reading(engine, load_document, applied.document_id)) == contents(*entities)
    return applied


def test_numbers_are_kept_as_texts_and_as_numbers_only_where_they_are(qc_database: Engine) -> None:
    whole(qc_database, *(experiment(f"E{place}", value=value) for place, value in enumerate(NUMBERS)))
    rows = rows_in(qc_database, select(MEASUREMENT.c.value, MEASUREMENT.c.number).order_by(MEASUREMENT.c.id))
    assert [tuple(row) for row in rows] == list(NUMBERS.items())


def test_dates_that_no_column_holds_are_kept_as_they_are_written(qc_database: Engine) -> None:
    whole(qc_database, *(specimen(f"S{day}", dob=day) for day in DATES))
    # The last is the same day as the one before.
    whole(qc_database, *(housing(last_updated=day) for day in DATES[:-1]))
    whole(qc_database, *(experiment(f"E{day}")._replace(date=day) for day in DATES))


def test_texts_of_any_script_are_kept_to_the_letter(qc_database: Engine) -> None:
    for text in TEXTS:
        whole(qc_database, specimen(text, text, strain_id=text[:128], colony_id=text[:128]))
        whole(qc_database, experiment(text, (text,), text, sequence_id=text))


def test_a_value_of_ten_megabytes_is_kept(qc_database: Engine) -> None:
    whole(qc_database, experiment("E1", value="𝒮" * 2_500_000))


def test_fifty_thousand_parameters_in_one_procedure_are_kept(qc_database: Engine) -> None:
    one = experiment("E1")
    assert one.procedure is not None
    many = tuple(
        SimpleParameter(9 + number, f"IMPC_CBC_{number:05}_001", None, "g", f"{number}", None)
        for number in range(50_000)
    )
    applied = whole(qc_database, one._replace(procedure=one.procedure._replace(simple=many)))
    assert applied.said["measurements"] == 50_000
    assert list(applied.procedures.values()) == [50_000]


@only_sqlite
def test_texts_too_long_for_their_columns_are_refused_and_the_rest_of_the_document_is_kept(qc_database: Engine) -> None:
    limits = {
        "experimentID": (255, experiment("x" * 256)),
        "sequenceID": (255, experiment("E1", sequence_id="1" * 256)),
        "specimenID": (255, experiment("E1", ("S1", "𝒮" * 256))),
        "procedureID": (64, experiment("E1", procedure_id="P" * 65)),
        # A year may have any number of digits.
        "dateOfExperiment": (16_000, experiment("E1")._replace(date=f"{'1' * 16_000}-01-01")),
    }
    applied = apply(qc_database, ADD, experiment("E0"), *(bad for _, bad in limits.values()), experiment("E2"))
    assert len(applied.findings) == len(limits)
    for finding, (attribute, (limit, bad)) in zip(applied.findings, limits.items(), strict=True):
        assert (finding.rule, finding.entity_kind, finding.line) == ("Q1", "experiment", bad.line)
        assert f" characters and {attribute} holds {limit:,}: nothing of the experiment" in finding.message
        assert finding.value == bad.experiment_id[:255]
    kept = list(in_reading(qc_database, load_document, applied.document_id))
    assert [one.experiment_id for one in kept if isinstance(one, Experiment)] == ["E0", "E2"]


@only_sqlite
def test_a_text_too_long_for_the_centre_element_refuses_all_in_it(qc_database: Engine) -> None:
    def read() -> list[Content]:
        return [block(DocumentKind.SPECIMEN, "H" * 33), specimen("S1"), specimen("S2", position=2)]

    applied = apply_document(qc_database, to_apply(ADD, DocumentKind.SPECIMEN), read, patience_seconds=5)
    assert (applied.state, applied.refused, [one.rule for one in applied.findings]) == (
        DocumentState.REFUSED,
        2,
        ["Q1"],
    )
    assert count_in(qc_database, SPECIMEN) == 0


@only_sqlite
def test_findings_are_bounded_in_the_database_and_all_that_was_refused_is_counted(qc_database: Engine) -> None:
    number = 10_000

    def read() -> Iterator[Content]:
        yield block(DocumentKind.SPECIMEN)
        for position in range(1, number + 1):
            yield specimen(f"S{position}", position=position)

    applied = apply_document(qc_database, to_apply(DELETE, DocumentKind.SPECIMEN), read, patience_seconds=5)
    told = (applied.state, applied.refused, len(applied.findings))
    assert told == (DocumentState.REFUSED, number, FINDINGS_KEPT + 1)
    assert count_in(qc_database, FINDING) == FINDINGS_KEPT + 1
