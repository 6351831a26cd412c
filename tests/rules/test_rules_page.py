"""The rules as people read them: the catalogue, the groups and the page of docs/."""

from collections import Counter
from pathlib import Path

from dcc.rules.catalogue import CATALOGUE, GROUPS, UNWAIVABLE
from dcc.rules.checking import all_rules
from dcc.rules.rules_page import rules_page
from dcc.rules.upload import UPLOAD_RULES

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_catalogue_has_every_rule_in_its_order() -> None:
    assert set(CATALOGUE) == set(all_rules()) | set(UPLOAD_RULES) | UNWAIVABLE
    assert [rule for rule in CATALOGUE if rule.startswith("S")] == [f"S{number}" for number in range(1, 15)]
    assert {entry.id for entry in CATALOGUE.values() if entry.at_upload} == set(UPLOAD_RULES)
    assert all(len(entry.id) <= 16 for entry in CATALOGUE.values()), "the column of findings holds no more"


def test_every_rule_is_in_exactly_one_group() -> None:
    assert Counter(rule for group in GROUPS for rule in group.rules) == Counter(list(CATALOGUE))
    forgotten = [group.rules for group in GROUPS if group.name == "added_rules"]
    assert not forgotten, f"Put {forgotten} into a group of dcc/rules/catalogue.py, the asset check that shows them."


def test_the_page_is_that_of_the_rules() -> None:
    assert PAGE.read_text("utf-8") == rules_page(), "Run: make pages"
