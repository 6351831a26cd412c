"""Texts as a terminal shows them: in lines, and without what is invisible."""

import time

import pytest

from dcc.runtime.legible_text import legible, legible_json, wrapped


@pytest.mark.parametrize("character", ["x", "测"])
def test_a_value_of_a_hundred_thousand_characters_is_broken_at_once(character: str) -> None:
    began = time.process_time()
    lines = wrapped(f"It is {character * 100_000} now.", 80, "    ")
    assert time.process_time() - began < 10
    assert sum(line.count(character) for line in lines) == 100_000
    assert lines[0] == "It is"
    assert lines[-1].endswith(f"{character} now.")


@pytest.mark.parametrize(
    ("text", "width", "indent", "lines"),
    [
        ("aa bb ", 6, "", ["aa bb"]),
        ("aa bb cc", 5, "  ", ["aa bb", "  cc"]),
        ("  aa bb", 4, "", ["  aa", "bb"]),
        ("abcdefgh", 3, " ", ["abc", " de", " fg", " h"]),
        ("abc def", 3, "   ", ["abc", "   def"]),
        ("测测测", 4, "", ["测测", "测"]),
        ("e\u0301e\u0301 e", 2, "", ["e\u0301e\u0301", "e"]),
        ("\x1b[1mabc\x1b[0m d", 3, "", ["\x1b[1mabc\x1b[0m", "d"]),
    ],
)
def test_lines_take_at_most_so_many_cells(text: str, width: int, indent: str, lines: list[str]) -> None:
    assert wrapped(text, width, indent) == lines


def test_words_stay_whole_where_that_is_wanted() -> None:
    assert wrapped("aaaa bb", 3, break_words=False) == ["aaaa", "bb"]


def test_what_is_invisible_is_escaped_as_python_or_json_does() -> None:
    assert legible("\x07 \xff \u202e \U000e0001") == "\\x07 \xff \\u202e \\U000e0001"
    assert legible_json('["\u202e", \t"\U000e0001"]\n') == '["\\u202e", \t"\\udb40\\udc01"]\n'
