"""Messages as facts: counted things, and what of them is stored."""

import pytest

from dcc.messages import (
    Message,
    byte_size,
    count_of,
    from_json,
    message,
    message_from_json,
    message_to_json,
    size_detail,
    to_json,
)
from dcc.reports.languages import load_catalogue
from dcc.settings import Settings


@pytest.mark.parametrize(
    ("number", "noun", "counted"),
    [
        (1, "zip", "1 zip"),
        (1.0, "hour", "1 hour"),
        (0.5, "second", "0.5 seconds"),
        (0, "zip", "0 zips"),
        (2_000, "day", "2,000 days"),
        (2, "copy", "2 copies"),
    ],
)
def test_things_are_counted_in_english(number: float, noun: str, counted: str) -> None:
    assert count_of(number, noun) == counted


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (None, "-"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (10**16, "10000.0 TB"),
    ],
)
def test_bytes_are_told_in_the_unit_that_fits(size: int | None, shown: str) -> None:
    assert byte_size(size) == shown


@pytest.mark.parametrize(
    ("size", "english", "german"),
    [
        (999, "999 B", "999 B"),
        (1_000, "1 kB", "1 kB"),
        (13_958_643_712, "14 GB", "14 GB"),
        (1_449_999, "1.4 MB", "1,4 MB"),
    ],
)
def test_a_size_in_a_message_is_told_in_the_unit_that_fits_in_each_language(
    size: int, english: str, german: str
) -> None:
    told = message("{size} are free.", size=size_detail(size))
    for one in (told, message_from_json(message_to_json(told), "")):
        assert str(one) == f"{english} are free."
        assert load_catalogue("de", Settings()).tell(one) == f"{german} are free."


def test_a_stored_message_comes_back_with_those_within_it() -> None:
    plain = Message("{in braces}")
    inner = message("{number} of {names}", number=2_000, names=["a", "b"])
    stored = message_to_json(message("{problem}, {nothing}{plain}", problem=inner, nothing=None, plain=plain))
    found = message_from_json(stored, "recorded")
    assert str(found) == "2,000 of a, b, {in braces}"
    assert str(found.problem) == "2,000 of a, b"
    assert message_to_json(plain) is None
    for unknown in (None, "", "{", "[]", "{}"):
        assert message_from_json(unknown, "recorded") == "recorded"


def test_a_long_detail_is_stored_in_part_and_too_many_are_not() -> None:
    for length, kept in ((2_000, "x" * 2_000), (2_001, "x" * 1_999 + "…")):
        assert from_json(to_json({"detail": "x" * length})) == {"detail": kept}
    fitting = {f"{number:02}": "x" * 1_992 for number in range(30)}
    assert len(to_json(fitting) or "") < 60_000
    assert to_json(fitting | {"one more": "x" * 2_000}) is None
