"""A language: its texts, and how it writes dates, numbers, sizes and lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from gettext import NullTranslations
from typing import Any, Final

from babel import Locale
from babel.dates import format_date, format_time, get_datetime_format
from babel.lists import format_list
from babel.numbers import format_decimal, format_scientific

from dcc.messages import Message, filled, in_unit, rendered

_LARGE: Final = 1_000_000
_HUGE: Final = 10**18
_TINY: Final = Decimal("1e-9")


class Catalogue:
    """The texts of a language, by their English. Build with `load_catalogue`.

    `code` is the language's code, such as `de`. Values are put into texts as they are; whoever writes HTML, e-mail or a
    spreadsheet escapes them.
    """

    def __init__(self, code: str, locale: Locale, translations: NullTranslations) -> None:
        self.code: Final = code
        self._locale: Final = locale
        self._translations: Final = translations

    @property
    def tag(self) -> str:
        """The language for HTML's `lang` and for `Content-Language`, such as `pt-BR`."""
        return self.code.replace("_", "-")

    @property
    def direction(self) -> str:
        """`ltr` or `rtl`, for HTML's `dir`."""
        return self._locale.text_direction

    def say(self, text: str, /, **values: object) -> str:
        """A text in this language, or else in English, with values for its names in braces. Raises KeyError."""
        return self._translate(text).format_map({name: str(value) for name, value in values.items()})

    def _translate(self, text: str) -> str:
        # To gettext the text of nothing is the header of a catalogue.
        return self._translations.gettext(text) if text else ""

    def say_plural(self, one: str, many: str, number: int, /, **values: object) -> str:
        """A text on `number` things: `catalogue.say_plural("One document", "{number} documents", 3)`."""
        text = self._translations.ngettext(one, many, abs(number))
        return filled(text, {"number": self.number(number), **{name: str(value) for name, value in values.items()}})

    def tell(self, message: Message | str) -> str:
        """A message or text in this language, or else in English; its details as this language writes them."""
        message = message if isinstance(message, Message) else Message(message)
        return rendered(message, self._translate, self.number)

    def date(self, day: date) -> str:
        """A day, such as `31 Oct 2013`."""
        return format_date(day, "medium", self._locale)

    def moment(self, moment: datetime) -> str:
        """A moment in UTC, to the minute and saying so: `31 Oct 2013, 14:05 UTC`. Without a zone, it is in UTC."""
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        time = format_time(moment, "HH:mm", tzinfo=UTC, locale=self._locale)
        together = str(get_datetime_format("medium", self._locale)).replace("'", "")
        return f"{together.format(time, self.date(moment.date()))} UTC"

    def number(self, number: float | Decimal, decimals: int | None = None) -> str:
        """A number, rounded to so many decimals; without these, whole numbers are whole and others have six digits.

        One that is huge or tiny is written by its power of ten: `1.2E20`.
        """
        exact = Decimal(number)
        if not exact.is_finite():
            return str(float(exact)).lower()
        if abs(exact) >= _HUGE or (decimals is None and exact and abs(exact) < _TINY):
            return format_scientific(Decimal(f"{exact:.5e}"), "0.#####E0", locale=self._locale)
        if decimals is not None:
            pattern = f"#,##0.{'0' * decimals}" if decimals else "#,##0"
            return format_decimal(exact, pattern, locale=self._locale)
        if not isinstance(number, int):
            exact = Decimal(round(exact)) if abs(exact) >= _LARGE else Decimal(f"{exact:.6g}")
        return format_decimal(exact, locale=self._locale, decimal_quantization=False)

    def size(self, size: int) -> str:
        """A number of bytes as people read it, in powers of a thousand: `812 bytes`, `1.4 MB`."""
        if size < 1_000:
            return self.say_plural("One byte", "{number} bytes", size)
        text, number = in_unit(size)
        return self.say(text, number=self.number(number, 1))

    def list(self, parts: Sequence[str]) -> str:
        """All of several: `a, b and c`."""
        return format_list(list(parts), "standard", self._locale)

    @cached_property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """What templates call, by name."""
        names = ("say", "say_plural", "tell", "date", "moment", "number", "size")
        return {name: getattr(self, name) for name in names}
