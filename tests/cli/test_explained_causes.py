"""What `dcc explain` says agrees with what `dcc data causes` says of the same id."""

from dcc.cli.shell.explanations import cause_explained, explain, rule_explained
from dcc.messages import names_in
from dcc.reports.causes.errors import ERROR_KINDS
from dcc.rules.catalogue import CATALOGUE


def test_every_id_that_causes_have_is_explained() -> None:
    for kind in (*CATALOGUE, *ERROR_KINDS):
        entry = explain(kind) or rule_explained(kind) or cause_explained(kind)
        assert entry is not None, kind
        assert entry.id == kind
        assert all((entry.meaning, entry.advice, entry.who)), kind
        assert not names_in(entry.meaning + entry.advice), kind
