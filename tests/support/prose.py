"""What is hard to read in a document in Markdown, and what to write instead.

`python -m tests.support.prose [PAGE]...` prints it, and the figures of each page.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from proselint.checks import __register__
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
MADE: Final = [ROOT / "docs" / f"{name}.md" for name in ("errors", "rules", "settings")]
"""Pages that are made from the code."""
NOT_COUNTED: Final = {ROOT / "CONTRIBUTING.md", *MADE}
"""Pages that are no part of `MAX_WORDS`."""

MAX_WORDS: Final = 15_910
"""The most words of all pages together."""
MAX_WORDS_OF_PAGE: Final = 2_000
MAX_WORDS_OF_SENTENCE: Final = 30
MAX_MEAN_WORDS_OF_SENTENCE: Final = 14
MAX_PASSIVE_SENTENCES: Final = 0.2

INSTEAD: Final = {
    r"there (is|are|was|were|will be|may be)": "name the subject: 'the centre has', 'DCC lists'",
    r"(is|are|was|were) to be": "'must be', or say who does it",
    r"that of which|of which the|such as are|may be had|as to whether": "two sentences",
    r"nobody need|nothing need|need not be": "'you need not', 'DCC does not'",
    r"what (came|waits|waited|is held|was held|is new|failed before|is asked|is in order|is at fault)": "a noun",
    r"all that (is|was|it|they|can)": "a noun",
    r"(it|they|that) (is|are|was|were) (told|said) of": "'DCC tells', 'the page says'",
    r"(is|are|was|were) told": "'DCC tells', 'gets a message'",
    r"amiss|put right|at fault|for good|at hand|to the letter": "'wrong', 'corrected', 'exactly'",
    r"all the same": "'anyway'",
    r"anew": "'again'",
    r"thereof|whereof|thereby|wherein|hereby|henceforth|whilst|albeit|beforehand": "a short word",
    r"in passing|in its place|by and by|at once with": "say when, or leave it out",
    r"comes? right|goes wrong for|falls? back to": "'succeeds', 'fails', 'returns'",
    r"holds? nothing|stands? above all": "say what",
    r"utili[sz]e|facilitate|leverage|in order to|prior to|due to the fact": "'use', 'help', 'to'",
    r"simply|just|easily|obviously|of course|very|basically|actually|note that": "leave it out",
    r"zip actions?": "'submission'",
}
"""Patterns of whole words that no page has outside code, and what to write."""

_PASSIVE: Final = re.compile(
    r"\b(?:is|are|was|were|be|been|being)\s+(?:\w+ly\s+|not\s+|never\s+)?"
    r"(?:(?!registered)\w{2,}ed|taken|given|made|kept|found|sent|shown|written|read|held|left|seen|lost|told|put|set|begun)\b",
    re.IGNORECASE,
)
_END: Final = re.compile(r"(?<=[.?!])[\"')]*\s+(?=[\"'(]*[A-Z0-9`])")
_SPOKEN: Final = re.compile(r"\S*\w\S*")
_CHECKED: Final = DEFAULT["checks"] | {"typography": False, "dates_times": False}
CheckRegistry().register_many(__register__)
_CHECKS: Final = CheckRegistry().get_all_enabled(_CHECKED)
_UNWANTED: Final = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Passage:
    """Text of a page without code, from a line; `is_prose` of paragraphs and lists, not of tables and headings."""

    line: int
    text: str
    is_prose: bool


@dataclass(frozen=True)
class Figures:
    """How long a page and its sentences are, in words; a word has a letter or digit, code counts too."""

    words: int
    sentences: int
    mean: float
    longest: int
    passive: float
    """Share of sentences, from 0 to 1."""


def words(text: str) -> int:
    return len(_SPOKEN.findall(text))


def passages(page: str) -> list[Passage]:
    """The texts of a page in Markdown; a piece of code in them is one word."""
    found: list[Passage] = []
    opened: list[str] = []
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        if token.nesting == 1:
            opened.append(token.type)
        elif token.nesting == -1:
            opened.pop()
        elif token.type == "inline" and token.map:
            text = "".join(_texts(token.children or []))
            if words(text):
                found.append(Passage(token.map[0] + 1, text, opened[-1] == "paragraph_open"))
    return found


def _texts(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in {"softbreak", "hardbreak"}:
            yield " "
        elif token.type == "code_inline":
            yield "CODE"
        elif token.type == "text":
            yield token.content


def sentences(page: str) -> list[tuple[int, str]]:
    """Each sentence of paragraphs and lists, with the line at which its paragraph begins."""
    return [
        (passage.line, sentence)
        for passage in passages(page)
        if passage.is_prose
        for sentence in _END.split(passage.text)
        if words(sentence)
    ]


def figures(page: str) -> Figures:
    found = [sentence for _, sentence in sentences(page)]
    lengths = [words(sentence) for sentence in found] or [0]
    passive = sum(bool(_PASSIVE.search(sentence)) for sentence in found)
    return Figures(words(page), len(found), sum(lengths) / len(lengths), max(lengths), passive / max(1, len(found)))


def wordings(text: str) -> list[str]:
    """The words of a text that none has, each with what to write instead."""
    if not _UNWANTED.search(text):
        return []
    return [
        f"'{match[0]}', better {instead}: {text}"
        for pattern, instead in INSTEAD.items()
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE)
    ]


def long_sentences(text: str) -> list[str]:
    """The sentences of a text without Markdown that are too long."""
    return [
        f"{words(sentence)} words in a sentence, make it two: {sentence}"
        for sentence in _END.split(text)
        if words(sentence) > MAX_WORDS_OF_SENTENCE
    ]


def faults_of_text(text: str) -> list[str]:
    """What is hard to read in a text without Markdown, with what to write instead."""
    return [*wordings(text), *long_sentences(text), *(f"{message} {text}" for message in _linted(text))]


def _linted(text: str) -> Iterator[str]:
    """What proselint finds, which by itself would look up its checks for each text."""
    file = LintFile("text", text)
    for check in _CHECKS if text else ():
        for found in check.check_with_flags(file.content):
            if check.flags.allow_quotes or not file.is_quoted_pos(found.span[0]):
                yield found.message


def faults(page: str) -> list[str]:
    """What is hard to read, each with its line and what to write instead."""
    said = []
    for passage in passages(page):
        found_in = faults_of_text if passage.is_prose else wordings
        said += [f"{passage.line}: {one}" for one in found_in(passage.text)]
    found = figures(page)
    if found.words > MAX_WORDS_OF_PAGE:
        said.append(f"{found.words:,} words in a page of at most {MAX_WORDS_OF_PAGE:,}: make it two")
    if found.mean > MAX_MEAN_WORDS_OF_SENTENCE:
        said.append(f"{found.mean:.1f} words in a sentence on average, at most {MAX_MEAN_WORDS_OF_SENTENCE}")
    if found.passive > MAX_PASSIVE_SENTENCES:
        passive = [f"{line}: {sentence}" for line, sentence in sentences(page) if _PASSIVE.search(sentence)]
        most = f"{found.passive:.1%} of sentences are passive, at most {MAX_PASSIVE_SENTENCES:.0%}; say who does it:"
        said.append("\n  ".join([most, *passive]))
    return said


def main(names: list[str]) -> None:
    """Print what is hard to read in pages, of all unless some are named, and their figures."""
    pages = {path: path.read_text("utf-8") for path in ([Path(name).resolve() for name in names] or PAGES)}
    for path, page in pages.items():
        for fault in faults(page):
            print(f"{path.relative_to(ROOT)}:{fault}")
    print(f"{'page':30} {'words':>6} {'sentences':>9} {'mean':>5} {'longest':>7} {'passive':>7}")
    for path, page in pages.items():
        f = figures(page)
        name = str(path.relative_to(ROOT))
        print(f"{name:30} {f.words:6,} {f.sentences:9} {f.mean:5.1f} {f.longest:7} {f.passive:7.0%}")
    if not names:
        counted = sum(words(page) for path, page in pages.items() if path not in NOT_COUNTED)
        print(f"{'together':30} {counted:6,} of {MAX_WORDS:,}, without CONTRIBUTING.md")


if __name__ == "__main__":
    main(sys.argv[1:])
