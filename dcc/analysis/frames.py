"""What `dcc.measurements` and `dcc.parameters` return."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Any

import pandas as pd
from sqlalchemy import Engine

from dcc.analysis.columns import PANDAS_TYPES
from dcc.analysis.filters import MeasurementFilter
from dcc.analysis.measurements import load_measurements
from dcc.analysis.parameters import ParameterEntry, list_parameters, parameter_names, require_known
from dcc.databases.engines import open_database
from dcc.databases.schema import current
from dcc.errors import ConfigurationError
from dcc.nearest_names import nearest_sentence
from dcc.qc.database import QC_DATABASE, open_qc_database
from dcc.settings import Settings, load_settings


def measurements_frame(settings: Settings | None, url: str | None, filters: Mapping[str, Any]) -> pd.DataFrame:
    """As `dcc.measurements`; `filters` are fields of `MeasurementFilter`."""
    names = [field.name for field in fields(MeasurementFilter)]
    for name in filters:
        if name not in names:
            raise ConfigurationError(
                f"{name!r} is no filter of measurements.{nearest_sentence(name, names)} Filters are {', '.join(names)}."
            )
    criteria = MeasurementFilter(**filters)
    with _opened(settings, url) as qc:
        with qc.connect() as connection:
            require_known(connection, criteria)
            named = parameter_names(connection)
        found = load_measurements(qc, criteria)
    names_found = found["parameter_id"].map(named).astype(PANDAS_TYPES["parameter_id"])
    found.insert(list(found).index("parameter_id") + 1, "parameter_name", names_found)
    return found


def parameters_frame(settings: Settings | None, url: str | None, text: str) -> pd.DataFrame:
    """As `dcc.parameters`."""
    if not isinstance(text, str):
        raise ConfigurationError(f"Parameters are looked up by a text, but not by {text!r}. Correct it.")
    with _opened(settings, url) as qc, qc.connect() as connection:
        found = list_parameters(connection, text)
    text_type = PANDAS_TYPES["parameter_id"]
    types = {name: "int64" if name == "measurements" else text_type for name in ParameterEntry._fields}
    return pd.DataFrame(found, columns=list(ParameterEntry._fields)).astype(types)


def _opened(settings: Settings | None, url: str | None) -> AbstractContextManager[Engine]:
    """The QC database of a URL, or else of the settings, which are those of the environment if not given."""
    if url is None:
        return current(open_qc_database(settings or load_settings()))
    if not isinstance(url, str):
        raise ConfigurationError(f"url takes the text of a database URL, but not {url!r}. Correct it.")
    # Messages name what the caller has given.
    return current(open_database(url, replace(QC_DATABASE, setting="url")))
