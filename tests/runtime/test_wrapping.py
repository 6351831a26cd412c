"""Texts in the lines of a terminal."""

import time

import pytest

from dcc.runtime.legible_text import wrapped


@pytest.mark.parametrize("character", ["x", "测"])
def test_a_value_of_a_hundred_thousand_characters_is_broken_at_once(character: str) -> None:
    began = time.process_time()
    lines = wrapped(f"It is {character * 100_000} now.", 80, "    ")
    assert time.process_time() - began < 10
    assert sum(line.count(character) for line in lines) == 100_000
    assert lines[0] == "It is"
    assert lines[-1].endswith(f"{character} now.")
