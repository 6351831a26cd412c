"""How values are read: the whole text, by its type."""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcc.reference.impress import ValueType
from dcc.rules.values import (
    UnreadableValueError,
    Value,
    day_of,
    read_date,
    read_date_time,
    read_float,
    read_integer,
    read_time,
    read_value,
)

STRICT = [ValueType.INT, ValueType.FLOAT, ValueType.BOOL, ValueType.DATE, ValueType.TIME, ValueType.DATETIME]
WRITTEN = st.one_of(
    st.integers().map(str),
    st.floats().map(repr),
    st.dates().map(date.isoformat),
    st.times().map(time.isoformat),
    st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    st.sampled_from(["true", "1", "-0", "1,234", "0x1F", "١٢", "1_000", "NaN", "Infinity", "1e400"]),
)


@pytest.mark.parametrize(
    ("read", "values", "written"),
    [
        (read_integer, st.integers(-(2**63) + 1, 2**63 - 1), (str, "{:,}".format)),
        (read_float, st.floats(allow_nan=False, allow_infinity=False), (repr, lambda number: repr(number).upper())),
        (read_date, st.dates(), (date.isoformat,)),
        (read_time, st.times().map(lambda when: when.replace(microsecond=0)), (time.isoformat,)),
    ],
)
@given(data=st.data())
def test_every_value_of_a_type_is_read(
    read: Callable[[str], Value], values: st.SearchStrategy[Any], written: tuple[Callable[[Any], str], ...], data: Any
) -> None:
    value = data.draw(values)
    assert [read(write(value)) for write in written] == [value] * len(written)


_OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=_OFFSETS))
def test_every_day_and_time_with_an_offset_is_read_and_none_without(when: datetime) -> None:
    assert read_date_time(when.isoformat()) == when
    assert read_date_time(when.isoformat()).utcoffset() == when.utcoffset()
    with pytest.raises(UnreadableValueError):
        read_date_time(when.replace(tzinfo=None).isoformat())


@given(st.sampled_from(STRICT), WRITTEN, st.sampled_from([" ", "\n", "\u00a0", "x", "½"]), st.booleans())
def test_nothing_may_stand_around_a_value(kind: ValueType, text: str, more: str, after: bool) -> None:
    with pytest.raises(UnreadableValueError):
        read_value(kind, text + more if after else more + text)


@given(st.sampled_from(STRICT), st.text())
def test_any_text_is_an_ascii_value_or_refused(kind: ValueType, text: str) -> None:
    try:
        value = read_value(kind, text)
    except UnreadableValueError:
        return
    assert text.isascii()
    assert not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("INT", "+5", 5),
        ("INT", "2,643", 2643),
        ("FLOAT", "2,643.85", 2643.85),
        ("FLOAT", ".5", 0.5),
        ("FLOAT", "5.", 5.0),
        ("FLOAT", "1E5", 100_000.0),
        ("FLOAT", "1e5", 100_000.0),
        ("BOOL", "true", True),
        ("BOOL", "0", False),
        ("DATETIME", "2013-02-28T09:33:20+0000", datetime(2013, 2, 28, 9, 33, 20, tzinfo=UTC)),
        ("DATETIME", "2013-02-28T09:33:20.5+01", datetime(2013, 2, 28, 8, 33, 20, 500_000, tzinfo=UTC)),
        ("DATETIME", "2013-02-28T09:33:20.1234567Z", datetime(2013, 2, 28, 9, 33, 20, 123_456, tzinfo=UTC)),
    ],
)
def test_what_the_table_of_conversions_accepts(kind: str, text: str, value: Value) -> None:
    assert read_value(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("INT", "12abc", "no whole number"),
        ("INT", "3.7", "no whole number"),
        ("INT", "1e5", "no whole number"),
        ("INT", "-", "no whole number"),
        ("INT", "1,2", "decimal point"),
        ("INT", "99999999999999999999", "range"),
        ("INT", "9" * 5_000, "range"),
        ("INT", " 12", "blanks"),
        ("FLOAT", "12 mg", "not a number"),
        ("FLOAT", "1,2", "decimal point"),
        ("FLOAT", "1,23,456", "not a number"),
        ("FLOAT", "0,123", "decimal point"),
        ("FLOAT", "-00,123", "decimal point"),
        ("INT", "0,123", "decimal point"),
        ("FLOAT", "NaN", "not a number"),
        ("FLOAT", "INF", "not a number"),
        ("FLOAT", "1e400", "range of numbers"),
        ("FLOAT", "-" + "9" * 400, "range of numbers"),
        ("FLOAT", "9" * 5_000, "range of numbers"),
        ("FLOAT", "١٢", "not a number"),
        ("FLOAT", "", "not a number"),
        ("BOOL", "yes", "true, false"),
        ("BOOL", "True", "true, false"),
        ("DATE", "2013-1-2", "yyyy-mm-dd"),
        ("DATE", "02013-01-02", "yyyy-mm-dd"),
        ("DATE", "2013-01-02Z", "yyyy-mm-dd"),
        ("DATE", "2013-02-30", "calendar"),
        ("TIME", "9:5:0", "hh:mm:ss"),
        ("TIME", "09:05", "hh:mm:ss"),
        ("TIME", "25:00:00", "time of day"),
        ("DATETIME", "2013-02-28T09:33:20", "offset"),
        ("DATETIME", "2013-02-28 09:33:20Z", "offset"),
        ("DATETIME", "2013-02-30T09:33:20Z", "calendar"),
        ("DATETIME", "2013-02-28T09:33:20+14:01", "14 hours"),
    ],
)
def test_what_the_table_of_conversions_refuses(kind: str, text: str, reason: str) -> None:
    with pytest.raises(UnreadableValueError, match=reason):
        read_value(kind, text)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2013-01-02", date(2013, 1, 2)),
        ("2013-01-02+13:00", date(2013, 1, 2)),
        ("12013-01-02", date.max),
        ("-0044-03-15", date.min),
        ("0000-01-01", date.min),
    ],
)
def test_a_day_beyond_the_calendar_is_its_first_or_last(text: str, day: date) -> None:
    assert day_of(text) == day
