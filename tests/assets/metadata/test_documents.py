"""What Dagster is shown of a submission's documents, for every way in which the phases after validation may end."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from dcc.data_outcomes import DocumentData, FindingEntry, SubmissionData
from dcc.naming import Action, DocumentKind
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.rules.catalogue import GROUPS
from dcc.vocabulary import Severity
from dcc_assets.metadata.archives import ERRORS_SHOWN
from dcc_assets.metadata.documents import data_report
from dcc_dagster.partition_events import PartitionReport

KEY = SubmissionKey(Action.ADD, "H.2013-10-31.1.impc.zip")
EVERY_GROUP = {group.name for group in GROUPS}


def state_of(text: str) -> tuple[Phase, Status]:
    phase, status = text.upper().split()
    return Phase[phase], Status[status]


def document(state: str, *findings: FindingEntry, **changes: Any) -> DocumentData:
    counts: dict[tuple[str, Severity], int] = {}
    for finding in findings:
        counts[finding.rule, finding.severity] = counts.get((finding.rule, finding.severity), 0) + 1
    facts: dict[str, Any] = {"finding_counts": counts} | changes
    name = "H.2013-10-31.1.experiment.impc.xml"
    return DocumentData(name, DocumentKind.EXPERIMENT, "H", *state_of(state), findings=findings, **facts)


def finding(rule: str, severity: Severity, line: int = 7) -> FindingEntry:
    return FindingEntry(rule, severity, {"words": f"What {rule} found."}, line, snapshot="impress 3")


def report(reached: Phase, state: str, *documents: DocumentData) -> PartitionReport:
    made = data_report(SubmissionData(KEY, "H", reached, *state_of(state), documents, 1.0, datetime(2026, 11, 21)))
    assert made is not None
    return made


def shown(made: PartitionReport) -> tuple[list[str], dict[str, str], set[str]]:
    """The assets materialised, the failed checks with their severity, and those passed where they failed before."""
    failed = {v.check.name: v.severity.value for v in made.verdicts if not v.passed}
    assert all(v.always is not v.passed for v in made.verdicts)
    return (
        [m.asset.to_user_string() for m in made.materialised],
        failed,
        {v.check.name for v in made.verdicts if v.passed},
    )


UPLOADED, NOT_UPLOADED = document("upload done"), document("upload failed")
JUDGED = document("data done")
WARNED = document("data done", finding("X2", Severity.WARNING))
UNCHECKED = document("data done", finding("reference", Severity.UNCHECKED))
FAULTY = document("data failed", finding("E4", Severity.ERROR), finding("P3", Severity.FATAL))
HELD, WITHDRAWN = document("upload pending", held=True), document("upload cancelled")
CONFIRMED = document("upload pending", unapplied=True)
JUDGEMENT_LEFT_OUT = document("qc pending", left_out=(Phase.DATA,))
WITHOUT_CONTEXTS = document("context cancelled", left_out=(Phase.CONTEXT,))
IN_UPLOAD = [
    ("upload done", [UPLOADED], ["uploaded_data"], {}, {"upload"}),
    ("xsd failed", [UPLOADED], [], {}, set()),
    ("upload failed", [UPLOADED, NOT_UPLOADED], [], {"upload": "ERROR"}, set()),
    ("upload pending", [HELD], [], {"upload": "WARN"}, set()),
    ("upload cancelled", [WITHDRAWN], [], {"upload": "WARN"}, set()),
    ("upload cancelled", [UPLOADED], [], {}, set()),
    ("context cancelled", [WITHOUT_CONTEXTS], ["uploaded_data"], {}, {"upload"}),
    ("data failed", [UPLOADED, FAULTY], ["uploaded_data"], {}, {"upload"}),
]
IN_DATA = [
    ("data done", [JUDGED], ["data_integrity"], {}, EVERY_GROUP),
    ("data done", [WARNED], ["data_integrity"], {}, EVERY_GROUP),
    ("data done", [UNCHECKED], ["data_integrity"], {"completeness": "WARN"}, EVERY_GROUP - {"completeness"}),
    (
        "data failed",
        [JUDGED, FAULTY],
        [],
        {"experiments": "ERROR", "procedures": "ERROR"},
        EVERY_GROUP - {"experiments", "procedures"},
    ),
    ("upload failed", [JUDGED, NOT_UPLOADED], [], {}, set()),
    ("qc pending", [JUDGEMENT_LEFT_OUT], [], dict.fromkeys(EVERY_GROUP, "WARN"), set()),
    ("upload cancelled", [JUDGED, WITHDRAWN], [], {}, EVERY_GROUP),
    ("data running", [JUDGED, document("data running")], [], {}, set()),
    ("context cancelled", [WITHOUT_CONTEXTS], ["data_integrity"], {}, EVERY_GROUP),
]
IN_QC = [
    ("qc pending", [document("qc pending")], ["qc"], {}, set()),
    ("data failed", [document("qc done")], [], {}, set()),
]
IN_CONTEXT = [("context cancelled", [WITHOUT_CONTEXTS], ["qc"], {}, set())]


@pytest.mark.parametrize(
    ("reached", "state", "documents", "assets", "failed", "passed"),
    [
        (phase, *case)
        for phase, cases in (
            (Phase.UPLOAD, IN_UPLOAD),
            (Phase.DATA, IN_DATA),
            (Phase.CONTEXT, IN_CONTEXT),
            (Phase.QC, IN_QC),
        )
        for case in cases
    ],
)
def test_every_ending_is_shown(
    reached: Phase,
    state: str,
    documents: list[DocumentData],
    assets: list[str],
    failed: dict[str, str],
    passed: set[str],
) -> None:
    made = report(reached, state, *documents)
    assert made.partition == str(KEY)
    assert shown(made) == (assets, failed, passed)


def test_the_worst_findings_come_first_and_those_left_out_are_counted() -> None:
    warnings = [finding("E2", Severity.WARNING, line) for line in range(ERRORS_SHOWN)]
    made = report(
        Phase.DATA,
        "data failed",
        document("data failed", *warnings, finding("E4", Severity.ERROR, 99)),
    )
    (verdict,) = [v for v in made.verdicts if not v.passed]
    rows = [dict(row.data) for row in verdict.metadata["findings"].records]  # type: ignore[union-attr]
    assert rows[0] == {
        "severity": "error",
        "rule": "E4",
        "document": "H.2013-10-31.1.experiment.impc.xml",
        "line": 99,
        "value": "",
        "message": "What E4 found.",
        "judged by": "impress 3",
    }
    assert len(rows) == ERRORS_SHOWN
    assert verdict.metadata["findings not shown"] == 1
    counts = [dict(row.data) for row in verdict.metadata["rules"].records]  # type: ignore[union-attr]
    assert [(row["rule"], row["findings"]) for row in counts] == [("E4", 1), ("E2", ERRORS_SHOWN)]
    assert verdict.description.startswith("1 error in 1 of 1 document. First: ")


def test_what_could_not_be_checked_is_counted_with_an_example_also_beside_warnings() -> None:
    found = replace(finding("reference", Severity.UNCHECKED), line=None)
    made = report(Phase.DATA, "data done", document("data done", found))
    (verdict,) = [v for v in made.verdicts if not v.passed]
    assert verdict.description == (
        "1 check could not be made. The centre need not act. First: H.2013-10-31.1.experiment.impc.xml: What reference "
        "found. (reference)"
    )
    made = report(Phase.DATA, "data failed", document("data failed", finding("E4", Severity.ERROR)))
    (verdict,) = [v for v in made.verdicts if not v.passed]
    assert "First: H.2013-10-31.1.experiment.impc.xml, line 7: What E4 found." in verdict.description

    warned, unchecked = finding("P2", Severity.WARNING), finding("P3", Severity.UNCHECKED)
    made = report(Phase.DATA, "data done", document("data done", warned, unchecked))
    (verdict,) = [v for v in made.verdicts if not v.passed]
    assert (verdict.check.name, verdict.severity.value) == ("procedures", "WARN")
    assert verdict.description.startswith("1 check could not be made. The centre need not act. First: H.2013-10-31.1.")
    assert verdict.description.endswith("What P3 found. (P3)")
    assert [row.data["rule"] for row in verdict.metadata["rules"].records] == ["P2", "P3"]  # type: ignore[union-attr]

    other = document("data failed", finding("P3", Severity.FATAL), finding("P1", Severity.UNCHECKED))
    failed = {v.check.name: v for v in report(Phase.DATA, "data failed", FAULTY, other).verdicts if not v.passed}
    assert str(failed["experiments"].description).startswith("1 error in 1 of 2 documents.")
    assert failed["procedures"].metadata["Who acts"] == "centre"

    (said,) = {v.description for v in report(Phase.DATA, "data done", JUDGED).verdicts}
    assert said == "No findings."


def test_what_was_uploaded_and_waits_for_quality_control_is_counted() -> None:
    uploaded = document("upload done", said={"specimens": 2, "lines": 0}, late=True)
    shown = report(Phase.UPLOAD, "upload done", uploaded, UPLOADED).materialised[0].metadata
    assert (shown["documents"], shown["specimens"], "lines" in shown) == (2, 2, False)
    assert len(shown["late"].records) == 1  # type: ignore[union-attr]
    waiting = report(Phase.QC, "qc pending", document("qc pending"), document("qc done"), WITHDRAWN)
    assert waiting.materialised[0].metadata["documents waiting"] == 1


def test_contexts_are_shown_on_a_submission_only_where_they_are_left_out() -> None:
    built = SubmissionData(KEY, "H", Phase.CONTEXT, *state_of("context done"), (JUDGED,), 1.0, datetime(2026, 11, 21))
    assert data_report(built) is None


DEEP = document("upload failed", finding("E4", Severity.ERROR), reason="The element <x> is too deep.")
BY_A_RULE = document("upload failed", finding("E4", Severity.ERROR))
UPLOAD_LEFT_OUT = document("upload cancelled", left_out=(Phase.UPLOAD,))


@pytest.mark.parametrize(
    ("documents", "said", "who", "kinds"),
    [
        (
            [DEEP, HELD],
            "1 of 2 documents could not be uploaded. First: The element <x> is too deep. To be confirmed with "
            "`dcc data confirm`: 1 of 2 documents.",
            "centre",
            {"E4"},
        ),
        (
            [BY_A_RULE],
            "1 of 1 document could not be uploaded. First: H.2013-10-31.1.experiment.impc.xml, line 7: What E4 found. "
            "(E4)",
            "centre",
            {"E4"},
        ),
        (
            [CONFIRMED, WITHDRAWN],
            "Confirmed, for the next session to apply: 1 of 2 documents. Withdrawn with `dcc data undo`: 1 of 2 "
            "documents.",
            "nobody",
            set(),
        ),
        (
            [WITHDRAWN, UPLOAD_LEFT_OUT],
            "Withdrawn with `dcc data undo`: 1 of 2 documents. Cancelled for 1 document. The step upload is left out "
            "for this file source or group of centres (DCC_LEFT_OUT_STEPS).",
            "nobody",
            set(),
        ),
    ],
)
def test_what_was_not_uploaded_is_said_with_the_reason_and_who_acts(
    documents: list[DocumentData], said: str, who: str, kinds: set[str]
) -> None:
    (verdict,) = report(Phase.UPLOAD, "upload failed", *documents).verdicts
    assert (verdict.description, verdict.metadata["Who acts"]) == (said, who)
    assert verdict.kinds == kinds | {"InternalFaultError", "StagedDocumentLostError"}
