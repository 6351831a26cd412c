"""Texts that are translated elsewhere than where they are written."""

from __future__ import annotations


def mark(text: str) -> str:
    """The text itself: having it here puts it into the catalogues, and `Catalogue.text` translates it when it is used.

    For tables of texts: `TITLES = {"xsd": mark("Checked against the schema")}`, then `catalogue.text(TITLES[phase])`.
    """
    return text


def mark_plural(one: str, many: str) -> tuple[str, str]:
    """The two texts themselves, for tables of what is counted: `catalogue.plural(*THINGS["document"], number)`."""
    return one, many
