"""Waivers as they are recorded, shown and revoked, on SQLite and on MariaDB."""

from datetime import date
from typing import Any

import pytest
from sqlalchemy import Engine

from dcc.errors import ConfigurationError
from dcc.qc.judging.rejudgements import documents_of_lapsed_waivers
from dcc.qc.judging.waiver_store import WaiverState, list_waivers, revoke_waiver, waivers_in_force
from dcc.rules.waivers import Waiver
from dcc.vocabulary import WaiverEffect
from tests.support.asking import in_reading, in_writing
from tests.support.integrity_cases import TODAY, experiment, experiments, mutant, procedure, simple, specimens
from tests.support.judging_cases import basis, findings, judge, upload, waive, waiver
from tests.support.qc_documents import undo_documents


def in_force(qc: Engine, day: date = TODAY) -> tuple[Waiver, ...]:
    return in_reading(qc, waivers_in_force, day)


def states(qc: Engine, day: date = TODAY, *, include_ended: bool = True) -> list[tuple[int, WaiverState]]:
    return [(entry.id, entry.state) for entry in in_reading(qc, list_waivers, day, include_ended=include_ended)]


def test_waivers_are_in_force_as_they_were_given_in_their_order_until_they_are_revoked(qc_database: Engine) -> None:
    """Also those of rules of the upload, and of warnings."""
    until = date(2026, 12, 31)
    given = [waiver("P9", centre="H", procedure="PROC_001", valid_until=until, effect=WaiverEffect.WARN)]
    given += [waiver(rule, valid_until=TODAY) for rule in ("S13", "Q4", "S14", "E1", "X10")]
    expected = tuple(waive(qc_database, one) for one in given)
    assert in_force(qc_database) == expected
    assert in_writing(qc_database, revoke_waiver, expected[0].id, author="another", reason="mended") == expected[0]
    assert in_force(qc_database) == expected[1:]


def test_waivers_hold_from_their_first_day_to_their_last(qc_database: Engine) -> None:
    given = waive(qc_database, waiver("P9", valid_from=date(2026, 12, 1), valid_until=date(2026, 12, 31)))
    days = [date(2026, 11, 30), date(2026, 12, 1), date(2026, 12, 31), date(2027, 1, 1)]
    assert [len(in_force(qc_database, day)) for day in days] == [0, 1, 1, 0]
    found = [states(qc_database, day)[0][1] for day in days]
    assert found == [WaiverState.TO_COME, WaiverState.IN_FORCE, WaiverState.IN_FORCE, WaiverState.EXPIRED]
    assert states(qc_database, days[-1], include_ended=False) == []
    assert states(qc_database, days[0], include_ended=False) == [(given.id, WaiverState.TO_COME)]


def test_findings_of_withdrawn_documents_count_for_no_waiver(qc_database: Engine) -> None:
    """Nor does a waiver that ends bring them back."""
    given = waive(qc_database, waiver("P9"))
    content = experiments(experiment(procedure(simple("RANGED", "x"))))
    documents = [upload(qc_database, contents) for contents in (specimens(mutant()), content)]
    for document in documents:
        judge(qc_database, document, basis(given))
    assert [entry.findings for entry in in_reading(qc_database, list_waivers, TODAY)] == [1]
    undo_documents(qc_database, [documents[1].document_id])
    assert [entry.findings for entry in in_reading(qc_database, list_waivers, TODAY)] == [0]
    in_writing(qc_database, revoke_waiver, given.id, author="another", reason="mended")
    assert in_reading(qc_database, documents_of_lapsed_waivers, TODAY) == []
    assert [(row.is_active, row.closed is None) for row in findings(qc_database)] == [(False, False)]


def test_a_waiver_that_makes_no_sense_is_refused(qc_database: Engine) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"rule": "P99"}, "No rule 'P99'"),
        ({"rule": "p9"}, "No rule 'p9'"),
        ({"rule": "reference"}, "cannot be waived"),
        ({"rule": "more"}, "cannot be waived"),
        ({"rule": "Q6"}, "cannot be waived.*dcc centre delegate"),
        *(({"rule": rule, "procedure": "PROC_001"}, f"{rule} are of no procedure") for rule in ("S4", "S13", "X16")),
        ({"rule": "S14", "effect": WaiverEffect.WARN}, "only ever warns"),
        ({"valid_from": date(2027, 1, 2), "valid_until": date(2027, 1, 1)}, "before it begins"),
        ({"valid_until": date(2026, 11, 20)}, "ended on 2026-11-20 already"),
        ({"reason": " "}, "reason of a waiver is empty"),
        ({"reason": "x" * 257}, "257 characters; 256 fit"),
        ({"author": ""}, "author of a waiver is empty"),
        ({"centre": ""}, "centre of a waiver is empty"),
        ({"centre": "x" * 33}, "32 fit"),
        ({"procedure": "x" * 65}, "procedure of a waiver has 65"),
    ]
    for changes, said in cases:
        with pytest.raises(ConfigurationError, match=said):
            waive(qc_database, waiver(**{"rule": "P9"} | changes))
    assert in_force(qc_database) == ()
