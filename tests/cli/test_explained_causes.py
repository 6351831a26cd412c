"""What `dcc explain` says agrees with what `dcc data causes` says of the same id."""

from __future__ import annotations

import pytest

from dcc.cli.shell import error_advice
from dcc.cli.submissions.explain import cause_explained, rule_explained
from dcc.messages import names_in
from dcc.reports.causes.errors import ERROR_KINDS
from dcc.rules.catalogue import CATALOGUE


@pytest.mark.parametrize(
    ("rule", "who", "advice"),
    [
        ("reference", "DCC", "dcc reference refresh"),
        ("E4", "nobody", "This clears when the animals arrive"),
        ("Q5", "DCC", "check what they edit or delete"),
        ("more", "centre", "Correct those that are recorded"),
    ],
)
def test_who_acts_on_a_rule_is_who_its_causes_name(rule: str, who: str, advice: str) -> None:
    entry = rule_explained(rule)
    assert entry is not None
    assert entry.who == who
    assert advice in entry.advice
    assert ("waive" in entry.advice) == (who != "DCC" and rule != "more")


def test_every_id_that_causes_have_is_explained() -> None:
    for kind in (*CATALOGUE, *ERROR_KINDS):
        entry = error_advice.explain(kind) or rule_explained(kind) or cause_explained(kind)
        assert entry is not None, kind
        assert entry.id == kind
        assert all((entry.meaning, entry.advice, entry.who)), kind
        assert not names_in(entry.meaning + entry.advice), kind
