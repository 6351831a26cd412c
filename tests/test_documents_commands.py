"""The commands that README.md and docs/ show are run, or at least exist.

Every block of commands in a document is opened with one of two lines:

    ```console run              its commands are run, in order, and their output compared
    ```console run exit=1       the same, and the last command ends with 1
    ```console run asked        the same at a terminal: what a line has after a question of the command is typed
    ```console shown            its commands are only looked up: each `dcc` command and option, each `make` target

In a block, `$ ` starts a command and the other lines are what it prints: each must be found in the output, in that
order, where `...` stands for anything. All blocks of a document run in one temporary directory with a DCC_HOME of its
own, so that a document tells one story; `.venv/bin/` before a command may be left out or not.

What needs a shell or a terminal is run by one. `dcc` alone is run in a process that is forked from one that imported
it: to import it takes longer than most commands. That process says nothing to Dagster, which would take half of the
time; the session of README.md does, as a process of its own.
"""

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

import click
import pytest

from dcc.cli.main import dcc
from tests.support.environments import clean
from tests.support.prepared_processes import run_dcc

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.md")])
BLOCK = re.compile(
    r"^(?P<indent> *)```console(?P<marks>[^\n]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
COMMAND_SECONDS = 120
Way = Callable[["Command", Path], tuple[int | None, str]]
ALONE = re.compile(r"(\w+=[\w./$]+ )*(\.venv/bin/)?dcc( [\w./:=@-]+| \"[\w $/]+\")+")
"""A command in which a shell has nothing to do but to set variables for it, and to put in the values of others."""


@dataclass
class Command:
    """A command of a block, with the lines that it is said to print."""

    text: str
    printed: list[str] = field(default_factory=list)
    exit_code: int = 0


@dataclass
class Block:
    """A block of commands; `marks` are the words after `console`."""

    marks: list[str]
    commands: list[Command]


def blocks(document: str) -> list[Block]:
    """The blocks of commands of a document in Markdown."""
    found = []
    for match in BLOCK.finditer(document):
        commands: list[Command] = []
        for line in textwrap.dedent(match["body"]).splitlines():
            if line.startswith("$ "):
                commands.append(Command(line[2:]))
            elif commands and commands[-1].text.endswith("\\"):
                commands[-1].text = f"{commands[-1].text[:-1]}{line.strip()}"
            elif line.strip():
                assert commands, f"The block prints {line!r} before any command"
                commands[-1].printed.append(line.strip())
        marks = match["marks"].split()
        for mark in marks:
            if mark.startswith("exit="):
                commands[-1].exit_code = int(mark.removeprefix("exit="))
        found.append(Block(marks, commands))
    return found


def missing_line(output: str, printed: list[str]) -> str | None:
    """The first of `printed` that the output does not hold, after those before it; None if it holds all."""
    lines = iter(re.sub(r"\s+", " ", line).strip() for line in output.splitlines())
    for expected in printed:
        words = re.sub(r"\s+", " ", expected)
        pattern = ".*".join(re.escape(part) for part in words.split("..."))
        if not any(re.fullmatch(pattern, line) for line in lines):
            return expected
    return None


def environment_in(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # The usual DCC_HOME of a user, whose home is nobody's.
    home = {"HOME": str(folder), "DCC_HOME": str(folder / ".dcc")}
    return {**clean(), **home, "PATH": path, "DCC_QUIET_SECONDS": "0", "COLUMNS": "120"}


def fork(command: Command, folder: Path) -> tuple[int | None, str]:
    """Run `dcc` without a shell; its exit code and what it prints."""
    output = folder.with_name(f"{folder.name}-printed")
    output.unlink(missing_ok=True)
    environment = {**environment_in(folder), "DCC_DAGSTER_EVENTS": "false", "PWD": str(folder)}
    words = [Template(word).substitute(environment) for word in shlex.split(command.text)]
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    code = run_dcc(words[1:], folder, environment, output, output, seconds=COMMAND_SECONDS)
    return code, output.read_text("utf-8")


def execute(command: Command, folder: Path) -> tuple[int, str]:
    """Run a command of a shell; its exit code and what it prints."""
    ended = subprocess.run(
        ["bash", "-c", command.text.replace(".venv/bin/", "")],
        cwd=folder,
        env=environment_in(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    return ended.returncode, ended.stdout


def converse(command: Command, folder: Path, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a command at a terminal and type the answers that are said to be given; its exit code and what is seen."""
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", command.text],
        cwd=folder,
        env=environment or environment_in(folder),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    answers = iter(command.printed)
    try:
        while True:
            assert select.select([terminal], [], [], COMMAND_SECONDS)[0], f"$ {command.text}\nwaits after\n{seen!r}"
            try:
                part = os.read(terminal, 4096)
            except OSError:  # Linux's word for the end of a terminal
                break
            seen += part
            question = seen.decode().rpartition("\n")[2]
            if question.endswith((": ", "? ")):
                line = next((line for line in answers if line.startswith(question.strip())), None)
                assert line is not None, f"$ {command.text}\nasks unexpectedly, after\n{seen!r}"
                os.write(terminal, f"{line.removeprefix(question.strip()).strip()}\n".encode())
    finally:
        os.close(terminal)
        code = process.wait(COMMAND_SECONDS)
    return code, re.sub(r"\x1b\[\d*m", "", seen.decode())


def run(command: Command, folder: Path, way: Way = execute) -> None:
    code, output = way(command, folder)
    assert code == command.exit_code, f"$ {command.text}\n{output}"
    missing = missing_line(output, command.printed)
    assert missing is None, f"$ {command.text}\ndoes not print {missing!r} but\n{output}"


def look_up_dcc(words: list[str]) -> None:
    """Check that the command and the options of `dcc WORDS` exist."""
    command: click.Command = dcc
    # With its settings: click keeps the first help option that it makes of a command for the life of the process.
    context = click.Context(command, info_name="dcc", **command.context_settings)
    for word in words:
        options = {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}
        if word.startswith("--"):
            assert word.split("=")[0] in options, f"`{context.command_path}` has no option {word}"
        elif isinstance(command, click.Group):
            found = command.get_command(context, word)
            assert found is not None, f"`{context.command_path}` has no command {word}"
            command = found
            context = click.Context(command, info_name=word, parent=context)


def look_up(command: Command) -> None:
    """Check that the `dcc` commands and `make` targets of a shell command exist."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for part in re.split(r"&&|\|\||[|;]", command.text):
        words = shlex.split(part, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words[:1] == ["make"]:
            assert [word for word in words[1:] if "=" not in word and word not in targets] == [], command.text
        if words and words[0].removeprefix(".venv/bin/") == "dcc":
            look_up_dcc(words[1:])


def way(document: Path, block: Block, command: Command) -> Way:
    """In which way a command is run."""
    if "asked" in block.marks:
        return converse
    tells_dagster = document.name == "README.md" and command.text == "dcc crawl"
    return fork if ALONE.fullmatch(command.text) and not tells_dagster else execute


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_document_do_what_it_says(document: Path, tmp_path: Path) -> None:
    found = blocks(document.read_text("utf-8"))
    for block in found:
        assert block.marks[:1] in (["run"], ["shown"]), f"Mark the block {block.commands} run or shown"
        for command in block.commands:
            if block.marks[0] == "run":
                run(command, tmp_path, way(document, block, command))
            else:
                look_up(command)


def test_a_command_that_prints_something_else_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="does not print 'two'"):
        run(Command("echo one", ["one", "two"]), tmp_path)
    with pytest.raises(AssertionError, match="false"):
        run(Command("false"), tmp_path)
    run(Command("echo one; echo some three; exit 3", ["one", "some ..."], exit_code=3), tmp_path)


def test_the_commands_in_the_texts_of_documents_exist() -> None:
    for document in DOCUMENTS:
        text = re.sub(r"^```.*?^```$", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for command in re.findall(r"`((?:\.venv/bin/)?dcc [^`]+|make [^`]+)`", text):
            look_up(Command(command.replace("...", "")))


def test_the_commands_of_the_wranglers_table_take_json_except_the_one_it_names() -> None:
    page = (ROOT / "docs" / "wranglers-reference.md").read_text("utf-8")
    table, _, below = page.partition("\nEach takes `--json`, except `dcc data document`.")
    commands = re.findall(r"`(dcc [^`]+)`", table.partition("| question | command |")[2])
    assert below
    assert len(commands) > 15
    for command in commands:
        words = shlex.split(command)[1:]
        if words[:2] == ["data", "document"]:
            with pytest.raises(AssertionError, match="no option --json"):
                look_up_dcc([*words, "--json"])
        else:
            look_up_dcc([*words, "--json"])


def test_texts_of_the_platform_name_commands_that_exist() -> None:
    context = click.Context(dcc)
    groups = "|".join(name for name in dcc.commands if isinstance(dcc.get_command(context, name), click.Group))
    named = {
        (group, name)
        for path in ROOT.glob("dcc*/**/*.py")
        for group, name in re.findall(rf"\bdcc ({groups}) ([a-z-]+)", path.read_text("utf-8"))
    }
    assert len(named) > 40
    for words in named:
        look_up_dcc([*words])
