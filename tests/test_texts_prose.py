"""What people read beside the pages is plainly written: reports, mails, findings, help of commands, Dagster's pages."""

import ast
import inspect
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from io import BytesIO
from pathlib import Path

import click
from babel.messages.pofile import read_po
from dagster import Definitions

from dcc.cli.main import dcc as command
from dcc.reports.languages.loading import SHIPPED
from tests.support.prepared_processes import run_in_process
from tests.support.prose import faults_of_text, long_sentences, wordings

ROOT = Path(__file__).parent.parent


def test_what_reports_mails_and_errors_say_is_easy_to_read() -> None:
    catalogue = read_po(BytesIO((SHIPPED / "dcc.pot").read_bytes()))
    ids = [message.id for message in catalogue if message.id]
    texts = [text for one in ids for text in ((one,) if isinstance(one, str) else one)]
    assert len(texts) > 1_000
    assert [fault for text in texts for fault in faults_of_text(text)] == []


def test_the_help_of_commands_is_easy_to_read() -> None:
    helps = dict(_helps(command, "dcc"))
    assert len(helps) > 300
    assert [f"{name}: {fault}" for name, text in helps.items() for fault in _faults_of_help(text)] == []


def test_what_dagster_describes_is_easy_to_read(tmp_path: Path) -> None:
    """In a process of its own: the code location sets up the logging of the one that loads it."""
    told = tmp_path / "descriptions.json"
    assert run_in_process(describe, str(told), {"DCC_HOME": str(tmp_path / "home")}) == 0
    described = json.loads(told.read_text("utf-8"))
    assert len(described) > 30
    assert [name for name, text in described.items() if not text] == []
    assert [f"{name}: {fault}" for name, text in described.items() for fault in faults_of_text(text)] == []


def test_docstrings_are_easy_to_read() -> None:
    # The help of commands has a test of its own.
    helps = {inspect.cleandoc(text) for _, text in _helps(command, "dcc")}
    found = ((path, *one) for path in sorted(ROOT.glob("dcc*/**/*.py")) for one in _texts_of(path)[0])
    docstrings = [(path, line, text) for path, line, text in found if text not in helps]
    assert len(docstrings) > 5_000
    assert [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path, line, text in docstrings
        for fault in _faults_of_docstring(text)
    ] == []


def test_what_errors_say_is_easy_to_read() -> None:
    """Errors that no reader gets in a language of its own are in no catalogue."""
    found = [(path, *one) for path in sorted(ROOT.glob("dcc*/**/*.py")) for one in _texts_of(path)[1]]
    assert len(found) > 500
    assert [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path, line, text in found
        for fault in (*wordings(text), *long_sentences(text))
    ] == []


@cache
def _texts_of(module: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The docstrings of a module and what its errors say, with their lines."""
    nodes = list(ast.walk(ast.parse(module.read_text("utf-8"))))
    return list(_docstrings(nodes)), list(_messages_of_errors(nodes))


def _messages_of_errors(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The texts that a module makes errors with or raises, with their lines; code and values are CODE."""
    for node in nodes:
        made = node.exc if isinstance(node, ast.Raise) else node
        if isinstance(made, ast.Call) and (made is not node or ast.unparse(made.func).endswith("Error")):
            for argument in made.args:
                text = _text(argument)
                if text is not None and " " in text:
                    yield argument.lineno, re.sub(r"`[^`]*`", "CODE", text)


def _text(argument: ast.expr) -> str | None:
    """The text of an expression, with CODE for each value in it; None if it is no text."""
    if isinstance(argument, ast.Constant):
        return argument.value if isinstance(argument.value, str) else None
    if isinstance(argument, ast.JoinedStr):
        return "".join(_text(part) or "CODE" for part in argument.values)
    marked = isinstance(argument, ast.Call) and ast.unparse(argument.func) == "mark"
    return _text(argument.args[0]) if marked else None


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The docstrings of a module and of all in it, fields too, with the lines at which they begin."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, inspect.cleandoc(node.value.value)


def _faults_of_docstring(text: str) -> Iterator[str]:
    """The unwanted words and long sentences of a docstring, code aside; each entry of a list is a text of its own."""
    for part in re.split(r"\n\n|\n(?=\s*[-*] )", text):
        # Indented paragraphs are code.
        if not re.match(r" +(?![-*] )", part):
            prose = re.sub(r"`[^`]*`", "`CODE`", " ".join(part.split()))
            # "None if there is none" says of a function's answer what has no better subject.
            yield from wordings(re.sub(r"\bthere (is|are|was|were|will be|may be)\b", "", prose, flags=re.IGNORECASE))
            yield from long_sentences(prose)


def _helps(found: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command, of its options and of the commands below it, by their names."""
    yield name, found.help or ""
    for parameter in found.params:
        if isinstance(parameter, click.Option):
            yield f"{name} {parameter.opts[0]}", parameter.help or ""
    if isinstance(found, click.Group):
        context = click.Context(found, **found.context_settings)
        for below in found.list_commands(context):
            one = found.get_command(context, below)
            assert one is not None
            yield from _helps(one, f"{name} {below}")


def _faults_of_help(text: str) -> Iterator[str]:
    """What is hard to read in a help; of tables and of what it says of JSON, which are no sentences, only the words."""
    for paragraph in text.split("\n\n"):
        if "\b" in paragraph or paragraph.lstrip().startswith("JSON:"):
            yield from wordings(paragraph)
        else:
            # A sentence may begin with an option, and a placeholder follows its name: "the code CODE".
            text = re.sub(r"(?<!\S)--?(?=[a-z ])", "Option ", " ".join(paragraph.split()))
            yield from faults_of_text(re.sub(r"\b([a-z]+) (?=\1\b)", "", text, flags=re.IGNORECASE))


def _descriptions(defs: Definitions) -> Iterator[tuple[str, str]]:
    """The descriptions that Dagster shows, by what they describe."""
    repository = defs.get_repository_def()
    for key, assets in repository.assets_defs_by_key.items():
        yield f"asset {key.to_user_string()}", assets.descriptions_by_key.get(key) or ""
    for check, checks in repository.asset_checks_defs_by_key.items():
        yield f"check {check.to_user_string()}", checks.get_spec_for_check_key(check).description or ""
    for job in repository.get_all_jobs():
        # Dagster makes this one itself, of all assets.
        if job.name != "__ASSET_JOB":
            yield f"job {job.name}", job.description or ""
    for tick in (*repository.sensor_defs, *repository.schedule_defs):
        yield f"starts {tick.name}", tick.description or ""
    for name, resource in repository.get_top_level_resources().items():
        yield f"resource {name}", resource.description or ""


def describe(told: str) -> None:
    """Write what Dagster shows to the file `told`."""
    from dcc_definitions import defs

    Path(told).write_text(json.dumps(dict(_descriptions(defs))), "utf-8")
