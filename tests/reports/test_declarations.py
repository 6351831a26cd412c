"""What is declared of each thing that can be wrong: whole, and in step with what rules and errors yield."""

import pytest

from dcc import errors
from dcc.declarations import all_declared, declaration_of, declared
from dcc.error_declarations import ERROR_KINDS, LISTING
from dcc.messages import Message, mark, message, message_from_json, message_to_json, names_in
from dcc.rules.catalogue import CATALOGUE
from dcc.tracker.listings.findings import CONFIRMED_GONE

OF_SUBMISSIONS = (errors.FaultyDataError, errors.SourceError)


def test_every_rule_says_all_that_there_is_to_say() -> None:
    for rule_id in CATALOGUE:
        own = declared(rule_id)
        assert rule_id in own
        for code, declaration in own.items():
            assert declaration.message, f"{code} has no message. Give @rule a message."
            assert declaration.cause, f"{code} has no cause. Give @rule a title for the causes of its findings."
            assert declaration.remedy, f"{code} has no remedy. Say in @rule what to do."


@pytest.mark.parametrize("rule_id", ["Q3", "Q6"])
def test_an_edit_and_a_deletion_of_the_same_data_are_causes_with_titles_of_their_own(rule_id: str) -> None:
    titles = [declaration.cause for declaration in declared(rule_id).values()]
    assert len(set(titles)) == len(titles)


def test_causes_and_remedies_name_only_what_findings_of_one_cause_share() -> None:
    for code, declaration in all_declared().items():
        shared = set(declaration.cause_by)
        # What follows from a detail that is shared may be named too.
        follows = {"status_code": {"meant"}}
        shared |= {name for one in shared for name in follows.get(one, ())}
        for text in (declaration.cause, declaration.remedy, declaration.for_centre):
            assert names_in(text) <= shared, code


@pytest.mark.parametrize(
    "code", ["Q1", "Q2", "Q3", "Q3.deleted", "Q4", "Q4.many", "Q6", "Q6.deleted", "S13.there", "E9.twice"]
)
def test_what_no_later_archive_clears_says_who_ends_it(code: str) -> None:
    declaration = declaration_of(code)
    assert declaration.what_to_do(at_centre=False)[-1].endswith("until you acknowledge it: `dcc acknowledge`.")
    assert declaration.what_to_do(at_centre=True)[-1].endswith("until the Data Coordination Centre acknowledges it.")
    assert not any("dcc " in text for text in declaration.what_to_do(at_centre=True))


def test_every_error_of_submissions_and_sources_is_declared() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OF_SUBMISSIONS)]
    assert {kind.error_id() for kind in kinds} <= set(ERROR_KINDS)


def test_what_crawls_notice_is_declared() -> None:
    for kind in ("changed", "taken_anew", "uploading", "future_date", "size_differs", "foreign", CONFIRMED_GONE):
        assert declaration_of(LISTING + kind) is not None


@pytest.mark.parametrize("words", ['550 {"error": "quota", "free": 0}', "{{not}} {a:>5} {b!r}", "a { alone", ""])
def test_the_words_of_others_in_a_message_are_the_same_when_it_was_stored(words: str) -> None:
    said = message(mark("{problem} See {origin}."), problem=Message(words), origin="row 2")
    assert str(said) == f"{words} See row 2."
    assert str(message_from_json(message_to_json(said), "")) == str(said)
