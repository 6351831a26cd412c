"""Which languages there are, and their catalogues: those that come with the platform and a DCC's own.

A catalogue is a file `<code>.po` in DCC_LANGUAGES_DIRECTORY or in this package; what a DCC's own says goes before what
ours says, entry by entry, and what neither says is said in English. Adding a language takes such a file and no code.
An entry with names in braces that ours has not is a pattern of what a DCC's own rules record (`Catalogue.recorded`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

from babel import Locale, UnknownLocaleError

from dcc.errors import ConfigurationError
from dcc.reports.languages.catalogue import Catalogue, own_name
from dcc.reports.languages.po_file import PoFile, fields_of, read_po_file
from dcc.settings import LANGUAGE_CODE, Settings

SHIPPED: Final = Path(__file__).parent / "catalogues"
SOURCE_LANGUAGE: Final = "en"
"""The language of the texts in the code, which are the keys of all catalogues."""

_PLAIN_ENGLISH: Final = "en_GB"
"""The locale of dates and numbers for `en`, and for languages that the Unicode CLDR does not know."""


def load_catalogue(code: str | None, settings: Settings) -> Catalogue:
    """The catalogue of a language such as `de` or `de_AT`; None: that of DCC_LANGUAGE.

    `de_AT` takes what de_AT.po does not say from de.po. Raises ConfigurationError when there is no such language, or
    when a catalogue file is wrong.
    """
    wanted = _normal(settings.language if code is None else code)
    directories = [SHIPPED] if settings.languages_directory is None else [settings.languages_directory, SHIPPED]
    parts = wanted.split("_")
    names = ["_".join(parts[:length]) for length in range(len(parts), 0, -1)]
    files = [
        read_po_file(path) for name in names for directory in directories if (path := directory / f"{name}.po").exists()
    ]
    if not files:
        known = ", ".join(known_languages(settings))
        raise ConfigurationError(
            f"There is no catalogue of the language {wanted}. Name one that there is ({known}), or put {wanted}.po "
            "into the directory DCC_LANGUAGES_DIRECTORY."
        )
    return _catalogue(wanted, tuple(files))


def known_languages(settings: Settings) -> dict[str, str]:
    """Every language that there is a catalogue of, by its code, with its own name for itself: `{"de": "Deutsch"}`.

    Raises ConfigurationError when DCC_LANGUAGES_DIRECTORY cannot be read.
    """
    codes = set(_codes(SHIPPED.iterdir()))
    own = settings.languages_directory
    if own is not None:
        try:
            codes |= set(_codes(own.iterdir()))
        except OSError as error:
            raise ConfigurationError(
                f"The directory {own} cannot be read: {error.strerror}. Correct DCC_LANGUAGES_DIRECTORY or make it."
            ) from error
    return {code: own_name(code) for code in sorted(codes)}


def locale_of(code: str) -> Locale:
    """The locale of a language, for dates and numbers; that of British English where the CLDR knows none."""
    parts = _PLAIN_ENGLISH if code == SOURCE_LANGUAGE else code
    while parts:
        try:
            return Locale.parse(parts)
        except (UnknownLocaleError, ValueError):
            parts = parts.rpartition("_")[0]
    return Locale.parse(_PLAIN_ENGLISH)


def _codes(paths: Iterable[Path]) -> list[str]:
    return [path.stem for path in paths if path.suffix == ".po" and re.fullmatch(LANGUAGE_CODE, path.stem)]


def _normal(code: str) -> str:
    code = code.strip().replace("-", "_")
    if re.fullmatch(LANGUAGE_CODE, code) is None:
        raise ConfigurationError(f"{code[:40]!r} is no code of a language. Give one such as en, de or pt_BR.")
    return code


@lru_cache(maxsize=32)
def _catalogue(code: str, files: tuple[PoFile, ...]) -> Catalogue:
    ours = read_po_file(SHIPPED / f"{SOURCE_LANGUAGE}.po").texts
    own = [text for file in files for text in file.texts if text not in ours and fields_of(text)]
    return Catalogue(code, locale_of(code), files, own)
