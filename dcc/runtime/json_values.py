"""Values as JSON: what commands, reports and pages write for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

from dcc.messages import Message
from dcc.runtime.legible_text import legible_json


def json_ready(value: object) -> Any:
    """A value in JSON's types: classes of data as objects, times in ISO 8601 and UTC, phases and statuses by name.

    Messages are in English.
    """
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds") + "Z"
    if isinstance(value, date | Path | Message):
        return str(value)
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Enum):
        return json_ready(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if hasattr(value, "as_json"):
            return json_ready(value.as_json())
        return {field.name: json_ready(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return json_ready(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_ready(item) for item in value]
    return value


def fields_of(value: object, *names: str, **renamed: str) -> dict[str, object]:
    """Some attributes of a value as an object: `names` are keys and attributes, `renamed` maps keys to attributes."""
    attributes = {name: name for name in names} | renamed
    return {key: getattr(value, attribute) for key, attribute in attributes.items()}


def json_text(value: object) -> str:
    """A value as JSON in several lines, its invisible characters escaped."""
    return legible_json(json.dumps(json_ready(value), indent=2, ensure_ascii=False))
