"""The data coordination platform. For analysts: `dcc.measurements` and `dcc.parameters` give pandas DataFrames.

Importing it is cheap, and needs the light installation only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from dcc.settings import Settings


def measurements(*, settings: Settings | None = None, url: str | None = None, **filters: Any) -> pd.DataFrame:
    """The selected measurements, by default all current, valid ones, in the order of their ids.

    `filters` are the fields of `dcc.analysis.filters.MeasurementFilter`; each text may be a list: centre, pipeline,
    project, colony, genotype, specimen, procedure, parameter, status, date_from, date_until, only_valid,
    latest_valid, as_of_document, as_of_date. The columns are those of `dcc.analysis.columns.COLUMNS`, and
    `parameter_name` after `parameter_id`. The QC database is that of `url` (`mysql://...`, `sqlite:///...`), or of the
    settings, by default those of the environment.

    Raises NotFoundError for a value that the QC database does not know, ConfigurationError for a wrong filter or
    without the packages of `dcc[platform]`, QcDatabaseUnreachableError.
    """
    _require_platform("measurements")
    from dcc.analysis.frames import measurements_frame

    return measurements_frame(settings, url, filters)


def parameters(text: str = "", *, settings: Settings | None = None, url: str | None = None) -> pd.DataFrame:
    """The parameters whose key, name or procedure has all words of a text, ignoring case, by their keys.

    The columns are those of `dcc.analysis.parameters.ParameterEntry`. The QC database is that of `measurements`. Raises
    ConfigurationError without the packages of `dcc[platform]`, QcDatabaseUnreachableError.
    """
    _require_platform("parameters")
    from dcc.analysis.frames import parameters_frame

    return parameters_frame(settings, url, text)


def _require_platform(function: str) -> None:
    from importlib.util import find_spec

    from dcc.errors import ConfigurationError

    for package in ("pandas", "pyarrow"):
        if find_spec(package) is None:
            raise ConfigurationError(
                f"dcc.{function} needs {package}, which is not installed. Run: pip install 'dcc[platform]'"
            )
