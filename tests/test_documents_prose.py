"""Documents are short, plainly written, and lead somewhere: `python -m tests.support.prose` prints what is not."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.support.prose import MAX_WORDS, NOT_COUNTED, PAGES, ROOT, faults, words

MAX_WORDS_OF_OPERATIONS = 4_000
MADE_BY_OPERATORS = "deploy/secrets"
TEXTS = {path: path.read_text("utf-8") for path in PAGES}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_is_easy_to_read(path: Path) -> None:
    found = faults(TEXTS[path])
    assert not found, "\n".join(found)


def test_all_pages_together_are_short() -> None:
    total = sum(words(text) for path, text in TEXTS.items() if path not in NOT_COUNTED)
    assert total <= MAX_WORDS, f"Shorten sentences by {total - MAX_WORDS} words, in any page that is counted."


def test_the_pages_for_operators_together_are_short() -> None:
    total = sum(
        words(text) for path, text in TEXTS.items() if path.stem == "operations" or path.parent.name == "operations"
    )
    excess = total - MAX_WORDS_OF_OPERATIONS
    assert excess <= 0, f"Shorten sentences by {excess} words, in docs/operations.md or a page of docs/operations."


def test_what_the_guide_to_changes_names_exists() -> None:
    """A function or table that is renamed is renamed there."""
    folders = [*ROOT.glob("dcc*/"), ROOT / "tests", ROOT / "deploy", ROOT / "docs"]
    files = [*ROOT.glob("*.*"), *(path for folder in folders for path in folder.rglob("*.*") if path.is_file())]
    known = {path.name for path in files}
    sources = " ".join(path.read_text("utf-8") for path in files if path.suffix in (".py", ".html"))
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    cells = " ".join(re.findall(r"^ *\|.*\|$", guide, re.MULTILINE))
    named = set(re.findall(r"`(\w+(?:\.(?:py|md|html|txt|yaml|json))?)`", cells))
    assert len(named) > 100
    assert [name for name in named if name not in known and name not in sources] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("What waits is taken up.", "a noun"),
        ("There is a file.", "name the subject"),
        ("It was applied all the same.", "anyway"),
        ("A very unique thing.", "not comparable"),
        ("word " * 40 + ".", "make it two"),
        ("a " * 2_001, "a page of at most"),
        ("It is removed. It was kept.", "passive"),
    ],
)
def test_what_is_hard_to_read_is_found(text: str, said: str) -> None:
    assert any(said in fault for fault in faults(text))


def test_code_is_not_read_as_prose() -> None:
    assert faults("Run `there is a zip action`.\n\n```sh\nthere is what waits\n```\n") == []


def test_links_lead_to_pages_headings_and_files() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {target}"
        for path, text in TEXTS.items()
        for target in _links(text)
        if not _leads_somewhere(path, target)
    ]
    assert missing == []


def test_every_page_is_linked() -> None:
    linked = {
        (path.parent / target.partition("#")[0]).resolve()
        for path, text in TEXTS.items()
        for target in _links(text)
        if target.partition("#")[0].endswith(".md")
    }
    assert {path for path in PAGES if path.name != "README.md"} <= linked


def test_no_table_or_heading_of_the_changes_became_text() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    assert [line for line in lines if re.search(r"\S \| \||\S #{2,} ", line)] == []


def test_files_that_pages_name_exist() -> None:
    named = {
        (str(path.relative_to(ROOT)), name)
        for path, text in TEXTS.items()
        for name in re.findall(r"`((?:dcc|dcc_[a-z]+|tests|deploy|examples|docs)/[\w./-]*)`", text)
    }
    assert len(named) > 30
    assert [one for one in sorted(named) if not (ROOT / one[1]).exists() and one[1] != MADE_BY_OPERATORS] == []


def test_pages_that_code_names_exist() -> None:
    places = [*ROOT.glob("dcc*/**/*.py"), *(ROOT / "tests").glob("**/*.py"), *(ROOT / "deploy").glob("**/*.*")]
    named = {
        (str(path.relative_to(ROOT)), page)
        for path in places
        for page in re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8", "replace"))
    }
    assert len(named) > 5
    assert [one for one in sorted(named) if not (ROOT / one[1]).is_file()] == []


def _links(text: str) -> Iterator[str]:
    """The targets of links and pictures, but for those on the web."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        for child in token.children or []:
            target = str(child.attrGet("href") or child.attrGet("src") or "")
            if target and "://" not in target:
                yield target


def _leads_somewhere(path: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    page = (path.parent / name).resolve() if name else path
    if not page.is_file():
        return False
    return not anchor or anchor in _anchors(page.read_text("utf-8"))


def _anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    parsed = MarkdownIt("commonmark").parse(text)
    titles = [parsed[at + 1].content for at, token in enumerate(parsed) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
