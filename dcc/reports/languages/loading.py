"""Which languages there are, and their catalogues, by gettext.

The platform's are `catalogues/<code>/LC_MESSAGES/dcc.mo`, which `make languages` makes. A DCC's own are files
`<code>.po` in DCC_LANGUAGES_DIRECTORY. Theirs go before ours, entry by entry; the rest is in English.
"""

from __future__ import annotations

import gettext
from copy import copy
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Final

from babel import Locale, UnknownLocaleError
from babel.messages.catalog import Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import PoFileError, read_po

from dcc.errors import ConfigurationError
from dcc.messages import names_in
from dcc.reports.languages.catalogue import Catalogue
from dcc.reports.own_directories import LANGUAGES, own_files
from dcc.settings import Settings, language_code

SHIPPED: Final = Path(__file__).parent / "catalogues"
SOURCE_LANGUAGE: Final = "en"
"""The language of the texts in the code, which are the keys of all catalogues."""

_COMPILED: Final = Path("LC_MESSAGES", "dcc.mo")
_PLAIN_ENGLISH: Final = "en_GB"
"""The locale of dates and numbers for `en`, and for languages that the Unicode CLDR does not know."""


def load_catalogue(code: str | None, settings: Settings) -> Catalogue:
    """The catalogue of a language such as `de` or `de_AT`; None: that of DCC_LANGUAGE.

    `de_AT` takes what its catalogue does not say from that of `de`. Raises ConfigurationError when there is no such
    language, or when a catalogue is wrong.
    """
    try:
        wanted = language_code(settings.language if code is None else code)
    except ValueError as error:
        raise ConfigurationError(f"{error}.") from None
    parts = wanted.split("_")
    names = ["_".join(parts[:length]) for length in range(len(parts), 0, -1)]
    # What was read is kept, and is not to be given the fallbacks of one language for good.
    found = [copy(each) for name in names for each in _translations(name, settings.languages_directory)]
    if not found and SOURCE_LANGUAGE not in names:
        known = ", ".join(known_languages(settings))
        raise ConfigurationError(
            f"The language {wanted} has no catalogue. Name another one ({known}), or put {wanted}.po "
            "into the directory DCC_LANGUAGES_DIRECTORY."
        )
    together = gettext.NullTranslations()
    for translations in found:
        together.add_fallback(translations)
    return Catalogue(wanted, locale_of(wanted), together)


def plain_english() -> Catalogue:
    """The texts as they are in the code, where no settings say which language to use."""
    return Catalogue(SOURCE_LANGUAGE, locale_of(SOURCE_LANGUAGE), gettext.NullTranslations())


def known_languages(settings: Settings) -> dict[str, str]:
    """Every language that has a catalogue, by its code, with its own name for itself: `{"de": "Deutsch"}`.

    Raises ConfigurationError when DCC_LANGUAGES_DIRECTORY cannot be read.
    """
    codes = {SOURCE_LANGUAGE, *(path.name for path in SHIPPED.iterdir() if (path / _COMPILED).exists())}
    own = settings.languages_directory
    files = own_files(own, LANGUAGES) if own else []
    codes |= {path.stem for path in files if path.suffix == ".po" and _is_code(path.stem)}
    locales = {code: _parsed(code) for code in sorted(codes)}
    return {code: (locale and locale.get_display_name()) or code for code, locale in locales.items()}


def locale_of(code: str) -> Locale:
    """The locale of a language, for dates and numbers; that of British English where the CLDR knows none."""
    parts = [] if code == SOURCE_LANGUAGE else code.split("_")
    known = (_parsed("_".join(parts[:length])) for length in range(len(parts), 0, -1))
    return next(filter(None, known), Locale.parse(_PLAIN_ENGLISH))


def _parsed(code: str) -> Locale | None:
    try:
        return Locale.parse(code)
    except (UnknownLocaleError, ValueError):
        return None


def _translations(name: str, own: Path | None) -> list[gettext.GNUTranslations]:
    """The translations of one language: a DCC's own, and the platform's."""
    paths = [SHIPPED / name / _COMPILED] if own is None else [own / f"{name}.po", SHIPPED / name / _COMPILED]
    found = []
    for path in paths:
        try:
            status = path.stat()
            found.append(_read(path, status.st_mtime_ns, status.st_size))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigurationError(
                f"The catalogue {path} cannot be read: {error.strerror}. Correct its permissions, or remove it."
            ) from error
    return found


@lru_cache(maxsize=32)
def _read(path: Path, _modified: int, _size: int) -> gettext.GNUTranslations:
    if path.suffix == ".mo":
        with path.open("rb") as compiled:
            return gettext.GNUTranslations(compiled)
    try:
        with path.open("rb") as file:
            catalog = read_po(file, abort_invalid=True)
        for message in catalog:
            if message.id and not message.fuzzy:
                _refuse_other_names(path, message)
        written = BytesIO()
        write_mo(written, catalog)
        written.seek(0)
        translations = gettext.GNUTranslations(written)
        # Babel leaves it out of what it compiles for a language that the CLDR does not know.
        translations.plural = gettext.c2py(catalog.plural_expr)  # type: ignore[attr-defined]
        # One that asks for more forms than there are would else fail in a report.
        if {translations.plural(number) for number in range(1_000)} - set(range(catalog.num_plurals)):  # type: ignore[attr-defined]
            raise ValueError("its plural expression gives more forms than nplurals says")
    except (PoFileError, ValueError, LookupError, ArithmeticError) as error:
        raise ConfigurationError(
            f"The catalogue {path} is no .po file as gettext makes them: {error}. Correct it, or remove it."
        ) from error
    return translations


def _refuse_other_names(path: Path, message: Message) -> None:
    """Raise ConfigurationError where a translation has names in braces that its English text has not."""
    originals, texts = ([each] if isinstance(each, str) else list(each or ()) for each in (message.id, message.string))
    try:
        permitted = {name for text in originals for name in names_in(text)} | ({"number"} if originals[1:] else set())
        unknown = sorted({name for text in texts for name in names_in(text)} - permitted)
        wrong = f"has {{{'}, {'.join(unknown)}}}, which the English text has not" if unknown else ""
    except ValueError as error:
        wrong = f"cannot be used: {error}"
    if wrong:
        place = f", line {message.lineno}" if message.lineno else ""
        raise ConfigurationError(
            f"The catalogue {path}{place}: the translation of {originals[0][:80]!r} {wrong}. Correct the translation."
        )


def _is_code(text: str) -> bool:
    try:
        return language_code(text) == text
    except ValueError:
        return False
