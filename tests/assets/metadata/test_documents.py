"""What Dagster is shown of a submission's documents, for every way in which the phases after validation may end."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from dcc.data_outcomes import DocumentData, FindingEntry, ZipData
from dcc.naming import Action, DocumentKind
from dcc.outcomes import ZipKey
from dcc.phases import Phase, Status
from dcc.rules.catalogue import GROUPS
from dcc.vocabulary import Severity
from dcc_assets.metadata.archives import ERRORS_SHOWN
from dcc_assets.metadata.documents import data_report
from dcc_dagster.partition_events import Report

KEY = ZipKey(Action.ADD, "H.2013-10-31.1.impc.zip")
EVERY_GROUP = {group.name for group in GROUPS}


def document(phase: Phase, status: Status, *findings: FindingEntry, **changes: Any) -> DocumentData:
    counts: dict[tuple[str, Severity], int] = {}
    for finding in findings:
        counts[finding.rule, finding.severity] = counts.get((finding.rule, finding.severity), 0) + 1
    facts: dict[str, Any] = {"finding_counts": counts} | changes
    name = "H.2013-10-31.1.experiment.impc.xml"
    return DocumentData(name, DocumentKind.EXPERIMENT, "H", phase, status, findings=findings, **facts)


def finding(rule: str, severity: Severity, line: int = 7) -> FindingEntry:
    return FindingEntry(rule, severity, {"words": f"What {rule} found."}, line, snapshot="impress 3")


def report(reached: Phase, phase: Phase, status: Status, *documents: DocumentData) -> Report:
    made = data_report(ZipData(KEY, "H", reached, phase, status, documents, 1.0, datetime(2026, 11, 21)))
    assert made is not None
    return made


def shown(made: Report) -> tuple[list[str], dict[str, str], set[str]]:
    """The assets materialised, the failed checks with their severity, and those passed where they failed before."""
    failed = {v.check.name: v.severity.value for v in made.verdicts if not v.passed}
    assert all(v.always is not v.passed for v in made.verdicts)
    return (
        [m.asset.to_user_string() for m in made.materialised],
        failed,
        {v.check.name for v in made.verdicts if v.passed},
    )


UPLOADED = document(Phase.UPLOAD, Status.DONE)
JUDGED = document(Phase.DATA, Status.DONE)


@pytest.mark.parametrize(
    ("made", "assets", "failed", "passed"),
    [
        (report(Phase.UPLOAD, Phase.UPLOAD, Status.DONE, UPLOADED), ["uploaded_data"], {}, {"upload"}),
        (report(Phase.UPLOAD, Phase.XSD, Status.FAILED, UPLOADED), [], {}, set()),
        (
            report(Phase.UPLOAD, Phase.UPLOAD, Status.FAILED, UPLOADED, document(Phase.UPLOAD, Status.FAILED)),
            [],
            {"upload": "ERROR"},
            set(),
        ),
        (
            report(Phase.UPLOAD, Phase.UPLOAD, Status.PENDING, document(Phase.UPLOAD, Status.PENDING, held=True)),
            [],
            {"upload": "WARN"},
            set(),
        ),
        (
            report(Phase.UPLOAD, Phase.UPLOAD, Status.CANCELLED, document(Phase.UPLOAD, Status.CANCELLED)),
            [],
            {"upload": "WARN"},
            set(),
        ),
        (report(Phase.DATA, Phase.DATA, Status.DONE, JUDGED), ["data_integrity"], {}, EVERY_GROUP),
        (
            report(
                Phase.DATA,
                Phase.DATA,
                Status.DONE,
                document(Phase.DATA, Status.DONE, finding("X2", Severity.WARNING)),
            ),
            ["data_integrity"],
            {},
            EVERY_GROUP,
        ),
        (
            report(
                Phase.DATA,
                Phase.DATA,
                Status.DONE,
                document(Phase.DATA, Status.DONE, finding("reference", Severity.UNCHECKED)),
            ),
            ["data_integrity"],
            {"completeness": "WARN"},
            EVERY_GROUP - {"completeness"},
        ),
        (
            report(
                Phase.DATA,
                Phase.DATA,
                Status.FAILED,
                JUDGED,
                document(Phase.DATA, Status.FAILED, finding("E4", Severity.ERROR), finding("P3", Severity.FATAL)),
            ),
            [],
            {"experiments": "ERROR", "procedures": "ERROR"},
            EVERY_GROUP - {"experiments", "procedures"},
        ),
        (
            report(Phase.DATA, Phase.UPLOAD, Status.FAILED, JUDGED, document(Phase.UPLOAD, Status.FAILED)),
            [],
            {},
            set(),
        ),
        (report(Phase.QC, Phase.QC, Status.PENDING, document(Phase.QC, Status.PENDING)), ["qc"], {}, set()),
        (report(Phase.QC, Phase.DATA, Status.FAILED, document(Phase.QC, Status.DONE)), [], {}, set()),
    ],
)
def test_every_ending_is_shown(made: Report, assets: list[str], failed: dict[str, str], passed: set[str]) -> None:
    assert made.partition == str(KEY)
    assert shown(made) == (assets, failed, passed)


def test_the_worst_findings_come_first_and_those_left_out_are_counted() -> None:
    warnings = [finding("E2", Severity.WARNING, line) for line in range(ERRORS_SHOWN)]
    made = report(
        Phase.DATA,
        Phase.DATA,
        Status.FAILED,
        document(Phase.DATA, Status.FAILED, *warnings, finding("E4", Severity.ERROR, 99)),
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


def test_what_could_not_be_checked_is_counted_and_an_example_without_a_line_given() -> None:
    found = replace(finding("reference", Severity.UNCHECKED), line=None)
    made = report(Phase.DATA, Phase.DATA, Status.DONE, document(Phase.DATA, Status.DONE, found))
    (verdict,) = [v for v in made.verdicts if not v.passed]
    assert verdict.description == (
        "1 check could not be made. The centre need not act. First: H.2013-10-31.1.experiment.impc.xml: What reference "
        "found. (reference)"
    )
    made = report(
        Phase.DATA, Phase.DATA, Status.FAILED, document(Phase.DATA, Status.FAILED, finding("E4", Severity.ERROR))
    )
    (verdict,) = [v for v in made.verdicts if not v.passed]
    assert "First: H.2013-10-31.1.experiment.impc.xml, line 7: What E4 found." in verdict.description


def test_a_failed_upload_gives_its_reason() -> None:
    made = report(
        Phase.UPLOAD,
        Phase.UPLOAD,
        Status.FAILED,
        document(Phase.UPLOAD, Status.FAILED, reason="The element <x> is too deep."),
    )
    assert "1 of 1 documents could not be uploaded. First: The element <x> is too deep." in made.verdicts[0].description
