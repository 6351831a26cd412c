"""What `dcc explain` says agrees with what `dcc data causes` says of the same id."""

from __future__ import annotations

import pytest

from dcc.cli.shell import error_advice
from dcc.cli.submissions.explain import cause_explained, rule_explained
from dcc.reports.causes.rules import ALL_FACES
from dcc.reports.languages.po_file import fields_of


@pytest.mark.parametrize(
    ("rule", "who", "advice"),
    [
        ("reference", "DCC", "dcc reference refresh"),
        ("Q5", "DCC", "check what they edit or delete"),
        ("more", "centre", "Correct those that are recorded"),
    ],
)
def test_who_acts_on_a_rule_is_who_its_causes_name(rule: str, who: str, advice: str) -> None:
    entry = rule_explained(rule)
    assert entry is not None
    assert entry.who == who
    assert advice in entry.advice
    assert "waive" not in entry.advice


@pytest.mark.parametrize("kind", ALL_FACES)
def test_every_id_that_causes_have_is_explained(kind: str) -> None:
    entry = error_advice.explain(kind) or rule_explained(kind) or cause_explained(kind)
    assert entry is not None
    assert entry.id == kind
    assert all((entry.meaning, entry.advice, entry.who))
    assert not fields_of(entry.meaning + entry.advice)
