"""How `dcc` prints and logs, also where what it is given or prints to is not as it should be."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import date, datetime
from io import StringIO
from pathlib import Path

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from dcc.cli.shell.output import echo_json, echo_table, printable
from dcc.cli.shell.parameter_types import LARGEST_NUMBER
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase
from dcc.runtime.legible_text import UNSEEN
from dcc.runtime.logging_setup import log_plan
from tests.cli.conftest import PROGRAM, Dcc
from tests.cli.test_main import ALL
from tests.support.databases import only_sqlite
from tests.support.several_commands import OBEYING, run_commands
from tests.support.terminals import seen_on_a_terminal, shown_on

KEY = SubmissionKey(Action.ADD, "H.2013-10-31.1.impc.zip")
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


@only_sqlite
def test_a_crawl_that_is_watched_by_a_program_says_everything_as_json(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip")
    (folder.path / "edit").write_text("no folder")
    dcc.environment |= {"DCC_LOG_FORMAT": "json", "DCC_UNTIL": "qc", "DCC_DAGSTER_EVENTS": "true"}
    ended = dcc.forked("crawl", "--json")
    assert json.loads(ended.stdout)["session"] == 1
    entries = [json.loads(line) for line in ended.stderr.splitlines()]
    said = {entry["logger"]: entry for entry in entries}
    assert {"dcc.sessions", "dcc.source_crawls", "dcc.coordination", "dcc.document_phases"} <= set(said)
    assert {entry["session"] for entry in entries if entry["logger"].startswith("dcc.")} == {1}
    documents = {(entry["zip_action"], entry["document"], entry["phase"]) for entry in entries if "document" in entry}
    zip_action, document = "add/H.2013-10-31.1.impc.zip", "H.2013-10-31.1.specimen.impc.xml"
    names = [phase.short_name for phase in Phase if phase >= Phase.UPLOAD]
    assert documents == {(zip_action, document, phase) for phase in names}
    (warned,) = [entry for entry in entries if entry["level"] == "warning" and "source" in entry]
    assert warned["source"] == folder.source_id
    # As it was said, without what Dagster puts before it.
    assert warned["message"].startswith("file source 1 (H, ")


@only_sqlite
def test_an_error_is_an_entry_where_a_program_reads(dcc: Dcc) -> None:
    dcc.environment["DCC_LOG_FORMAT"] = "json"
    result = dcc("show", "add/nothing.zip", exit_code=2)
    (entry,) = [json.loads(line) for line in result.stderr.splitlines()]
    assert (entry["level"], entry["logger"]) == ("error", "dcc.command")
    assert "NotFoundError: " in entry["exception"]
    assert entry["message"].startswith("(not-found) ")
    assert result.stdout == ""
    assert log_plan() is None


@only_sqlite
@pytest.mark.parametrize("form", ["text", "json"])
def test_with_a_file_people_read_what_they_always_do(dcc: Dcc, tmp_path: Path, form: str) -> None:
    path = tmp_path / "dcc.log"
    dcc.environment |= {"DCC_LOG_FORMAT": form, "DCC_LOG_FILE": str(path)}
    error = dcc.error("show", "add/nothing.zip", exit_code=2)
    logged = path.read_text()
    told = json.loads(logged)["message"] if form == "json" else logged
    assert error in told
    assert "Traceback (most recent call last)" in logged


@only_sqlite
def test_a_wrong_level_and_a_log_that_cannot_be_written_to_are_refused(dcc: Dcc, tmp_path: Path) -> None:
    for name, wanted in (("DCC_LOG_FORMAT", "text or json"), ("DCC_LOG_LEVEL", "one of debug, info, warning, error")):
        dcc.environment[name] = "loud"
        assert f"{name} is 'loud'. Set it to {wanted}." in dcc.error("status", exit_code=2)
        del dcc.environment[name]
    dcc.environment |= {"DCC_LOG_LEVEL": "info", "DCC_LOG_FILE": str(tmp_path / "missing" / "dcc.log")}
    said = dcc.error("status", exit_code=2)
    assert "missing/dcc.log cannot be written to (No such file or directory)" in said
    assert "DCC_LOG_FILE" in said


TOO_LARGE = "99999999999999999999"
NO_TEXT = "caf\udce9"


def test_no_command_takes_a_number_without_a_bound() -> None:
    unbounded = [
        f"{' '.join(path)} {parameter.name}"
        for path, command in ALL.items()
        for parameter in command.params
        if isinstance(parameter.type, click.types.IntParamType) and getattr(parameter.type, "max", None) is None
        if type(parameter.type).__module__ != "dcc.cli.shell.parameter_types"
    ]
    assert unbounded == []


@only_sqlite
def test_a_number_larger_than_any_is_refused_and_the_largest_of_all_taken(dcc: Dcc) -> None:
    for command in ("source why", "source test", "crawl --source", "report --session", "sessions --limit"):
        assert TOO_LARGE in dcc.error(*command.split(), TOO_LARGE, exit_code=2)
    assert TOO_LARGE in dcc.error("rules", "revoke", TOO_LARGE, "--reason", "x", exit_code=2)
    for number in (TOO_LARGE, "9" * 5_000):
        assert number[:20] in dcc.error("data", "export", "out", "--as-of", number, exit_code=2)
        assert "has no document" in dcc.error("data", "document", number, exit_code=2)
    assert dcc.json("session", "list", "--limit", LARGEST_NUMBER) == []
    assert "No file source" in dcc.error("source", "why", LARGEST_NUMBER, exit_code=2)


@only_sqlite
def test_an_argument_that_is_no_text_is_refused_by_name(dcc: Dcc) -> None:
    for command in (
        f"show add/{NO_TEXT}.zip",
        f"zips --centre {NO_TEXT}",
        f"centre add X --name {NO_TEXT}",
        f"data undo add/{NO_TEXT}.zip --reason x",
        f"qc contexts --parameter {NO_TEXT}",
        f"rules waive S4 --reason {NO_TEXT}",
        f"report add/{NO_TEXT}.zip",
    ):
        error = dcc.error(*command.split(), exit_code=2)
        assert r"caf\udce9" in error
        assert "is not in UTF-8" in error


@only_sqlite
@pytest.mark.parametrize(("arguments", "unbuffered"), [("status --json", ""), ("--help", "1")])
def test_a_full_disk_behind_standard_output_is_said(dcc: Dcc, arguments: str, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [PROGRAM, *arguments.split()],
            env=dcc.process_environment() | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("Error (export): Standard output cannot be written: No space left on device.")


_CLOSED_FIRST = 'cd "$1" && chmod 0 . && shift && exec "$@"'


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[tuple[object, ...]]:
    """What starts a command in a new directory that it may neither list nor enter, even as root."""
    directory = tmp_path / "closed"
    directory.mkdir()
    yield (*OBEYING, "sh", "-c", _CLOSED_FIRST, "sh", directory)
    directory.chmod(0o700)


@only_sqlite
def test_a_closed_current_directory_is_no_fault_of_the_platform(dcc: Dcc, closed: tuple[object, ...]) -> None:
    named = {
        "settings --write x.toml": "{}/x.toml",
        "data export weights.csv": "{}/weights.csv",
        "backup backups --verify": "{}/backups/manifest.json",
        "restore backups": "{}/backups/manifest.json",
        "replay --xsd proposed": "{}/proposed",
        "replay --reference colonies=n.csv": "{}/n.csv",
        "qc expected --csv e.csv": "e.csv",
        "data causes --spreadsheet x.xlsx": "x.xlsx",
    }
    for ended in run_commands(*named, environment=dcc.process_environment(), by=closed):
        assert ended.returncode == 2, ended
        assert f"{named[ended.args].format(closed[-1])} cannot be " in ended.stderr
        assert "Permission denied" in ended.stderr
        assert "Errno" not in ended.stderr


@only_sqlite
def test_the_doctor_finds_an_archive_store_that_may_only_be_read(dcc: Dcc) -> None:
    stores = [dcc.root / name for name in ("open", "closed", "closed-below")]
    for store in stores:
        (store / "ab").mkdir(parents=True)
    for folder in (stores[1], stores[2] / "ab"):
        folder.chmod(0o500)
    replicas = f"{dcc.root / 'home' / 'archive'}, {', '.join(map(str, stores))}"
    environment = {**dcc.process_environment(), "DCC_ARCHIVE_REPLICAS": replicas}
    (ended,) = run_commands("doctor --no-sources --json", environment=environment, by=OBEYING)
    told = {one["subject"]: one for one in json.loads(ended.stdout)["findings"]}
    found = [told[f"archive store {store}"] for store in stores]
    assert [one["verdict"] for one in found] == ["ok", "failed", "failed"]
    for store, one in zip(stores[1:], found[1:], strict=True):
        assert f"The store {store} refused to write into it: " in one["message"]
        assert "Permission denied" in one["message"]


def test_processes_work_in_a_current_directory_that_one_may_not_use(closed: tuple[object, ...]) -> None:
    code = (
        "from dcc.runtime.worker_processes import WorkerProcesses\n"
        "processes = WorkerProcesses(1, int)\n"
        "print(processes.submit('a number', max, 7).result(timeout=60))\n"
        "processes.stop()"
    )
    run = [*map(str, closed), sys.executable, "-c", code]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout == "7\n", ended.stderr
