"""How `dcc` prints: values on one line, tables, JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import date, datetime
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from dcc.cli.shell.output import echo_json, echo_table, json_object, printable
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.phases import Phase, Status
from dcc.runtime.legible_text import UNSEEN
from tests.support.terminals import seen_on_a_terminal, shown_on

KEY = ZipKey(Action.ADD, "H.2013-10-31.1.impc.zip")
HOSTILE = ["<script>alert(1)</script>", "[x](javascript:alert(1))", "=cmd()", "two\nlines", "\x1b[2J", "\x9b2J"]


@dataclass
class Sample:
    phase: Phase
    action: Action
    when: datetime


def test_a_value_is_printed_on_one_line_without_control_characters() -> None:
    for value, text in (
        (None, ""),
        ("two\nlines", "two lines"),
        ("bell\x07 and \x1b[31mred\x9b", "bell\\x07 and \\x1b[31mred\\x9b"),
        ("piz\N{RIGHT-TO-LEFT OVERRIDE}.cod", "piz\\u202e.cod"),
        ("zero\N{ZERO WIDTH SPACE}width \ufeff\ud800\U000e0041", "zero\\u200bwidth \\ufeff\\ud800\\U000e0041"),
        ("naïve é Ж 語 \N{NO-BREAK SPACE}x", "naïve é Ж 語 \N{NO-BREAK SPACE}x"),
        (datetime(2026, 11, 21, 7, 28, 31), "2026-11-21 07:28"),
        (Phase.ZIP_NAME, "zip_name"),
        (Action.ADD, "add"),
        (KEY, "add/H.2013-10-31.1.impc.zip"),
        (Path("/data"), "/data"),
        (12, "12"),
    ):
        assert printable(value) == text


def test_json_holds_names_and_times_in_utc(capsys: pytest.CaptureFixture[str]) -> None:
    echo_json([Sample(Phase.XSD, Action.EDIT, datetime(2026, 11, 21, 7, 28, 31)), {"day": date(2026, 1, 2), "é": None}])
    assert json.loads(capsys.readouterr().out) == [
        {"phase": "xsd", "action": "edit", "when": "2026-11-21T07:28:31Z"},
        {"day": "2026-01-02", "é": None},
    ]
    with pytest.raises(TypeError, match="Status"):
        json_object(Status.DONE)


@given(
    st.recursive(
        st.text() | st.sampled_from(HOSTILE), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
@example("\x9b31m\x1b]0;title\x07\N{RIGHT-TO-LEFT OVERRIDE}\ud800\U000e0041\x7f")
def test_json_is_valid_and_steers_no_terminal(value: object) -> None:
    printed = StringIO()
    with redirect_stdout(printed):
        echo_json(value)
    shown = printed.getvalue()
    assert json.loads(shown) == value
    assert shown.encode("utf-8")
    assert UNSEEN.sub("", shown) == shown.replace("\n", "")


NAME = "add/H.2013-11-04.3.impc.zip"
REASON = "It was taken before, on 2013-11-05 at 10:00, and what lies there now is the same to the byte."
HEADERS = ("source", "entry", "why", "who acts")


def shown_on_a_terminal(
    columns: int, *names_and_reasons: tuple[str, str], flexible: Sequence[str] = ("why",)
) -> list[str]:
    """The lines of a table on a terminal of so many columns."""
    rows = [(3, name, reason, "nobody") for name, reason in names_and_reasons or [(NAME, REASON)]]
    rows.append((12, "b.zip", "new", "the centre"))

    def tell(terminal: int) -> None:
        with shown_on(terminal):
            echo_table(HEADERS, rows, flexible=flexible)

    return seen_on_a_terminal(columns, tell)


def test_on_a_narrow_terminal_texts_are_broken_between_words_and_names_are_whole() -> None:
    lines = shown_on_a_terminal(80)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["source", "entry", "why", "who", "acts"]
    assert lines[1].startswith(f"     3  {NAME}  It was taken before,")
    assert lines[1].endswith("nobody")
    assert {line[: lines[0].index("why")].strip() for line in lines[2:-1]} == {""}
    why = slice(lines[0].index("why"), lines[0].index("who acts"))
    assert " ".join(line[why].strip() for line in lines[1:-1]) == REASON
    assert lines[-1].split() == ["12", "b.zip", "new", "the", "centre"]


def test_a_long_word_of_a_text_is_broken_and_a_name_is_not() -> None:
    lines = shown_on_a_terminal(80, (NAME, f"It is in {'x' * 60} now."), (NAME, f"{'测' * 40}"))
    assert max(map(cell_len, lines)) <= 80
    assert sum(line.count("x") for line in lines) == 60
    assert sum(line.count("测") for line in lines) == 40
    assert sum(NAME in line for line in lines) == 2


def test_a_column_that_does_not_fit_stands_whole_below_its_row_the_first_one_first() -> None:
    flexible = ("why", "who acts", "source")
    assert shown_on_a_terminal(80, flexible=flexible) == shown_on_a_terminal(80)
    assert shown_on_a_terminal(60, flexible=flexible) == [
        f"source  {'entry':<{len(NAME)}}  who acts",
        f"     3  {NAME}  nobody",
        "  why: It was taken before, on 2013-11-05 at 10:00, and what",
        "    lies there now is the same to the byte.",
        f"    12  {'b.zip':<{len(NAME)}}  the centre",
        "  why: new",
    ]
    assert shown_on_a_terminal(30, flexible=flexible)[:3] == [
        "entry",
        NAME,
        "  source: 3; why: It was taken",
    ]


def test_a_text_of_many_lines_stands_below_its_row_also_where_its_column_would_fit() -> None:
    lines = shown_on_a_terminal(80, (NAME, f"{REASON} {REASON}"))
    assert lines[0].split() == ["source", "entry", "who", "acts"]
    assert " ".join(line.strip() for line in lines[2:5]) == f"why: {REASON} {REASON}"


def test_where_the_columns_do_not_fit_each_field_has_a_line_and_names_are_whole() -> None:
    for columns in (45, 40):
        lines = shown_on_a_terminal(columns)
        assert max(map(len, lines)) <= columns
        assert lines[0] == "source    3"
        assert f"entry     {NAME}" in lines
        assert lines[-5:] == ["", "source    12", "entry     b.zip", "why       new", "who acts  the centre"]
        assert " ".join(line.strip() for line in lines[2:-6]) == f"why       {REASON}"
    assert f"    {NAME}" in shown_on_a_terminal(34)


def test_a_table_fits_and_lines_up_where_characters_take_two_cells_or_none() -> None:
    wide = "add/测试提交.zip"
    reason = "它以前 已经 被接收过了 现在 放在那里 的 文件 完全 相同 没有 任何 变化 一个 字节 也 没有"
    decomposed = "add/re\N{COMBINING ACUTE ACCENT}sultats.zip"
    lines = shown_on_a_terminal(80, (wide, reason), (decomposed, "new"))
    assert max(map(cell_len, lines)) <= 80
    ends = [cell_len(line[: line.index("nobody")]) for line in lines if "nobody" in line]
    assert ends == [cell_len(lines[0][: lines[0].index("who acts")])] * 2
