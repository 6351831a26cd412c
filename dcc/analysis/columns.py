"""The columns of measurements for analysts: names, types, units and meanings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa


class Column(NamedTuple):
    """A column: its type in Arrow and Parquet, and its meaning, with the unit if it has one."""

    name: str
    type: pa.DataType
    meaning: str


_TEXT: Final = pa.string()
_WHOLE: Final = pa.int64()

COLUMNS: Final = (
    Column("id", _WHOLE, "the measurement's id, in the order of application at its centre; never given twice"),
    Column("centre", _TEXT, "phenotyping centre, as ILAR code"),
    Column("pipeline", _TEXT, "IMPReSS key of the pipeline"),
    Column("project", _TEXT, "project on whose behalf it was measured"),
    Column("colony_id", _TEXT, "colony of the animal, or that a line is about; missing for most baseline animals"),
    Column("strain_id", _TEXT, "MGI id of the animal's background strain, as the centre gave it"),
    Column("genotype", _TEXT, "`baseline` for a baseline animal, else the colony"),
    Column("is_baseline", pa.bool_(), "whether the animal is a baseline one; missing while no specimen is known"),
    Column("gender", _TEXT, "of the animal: male, female, intersex, no data"),
    Column("zygosity", _TEXT, "of the animal: homozygous, heterozygous, hemizygous, wild type"),
    Column("dob", pa.date32(), "day of birth of a mouse; missing for embryos"),
    Column("specimen_id", _TEXT, "the centre's id of the animal; missing where it is about several, a line or housing"),
    Column("experiment_id", _TEXT, "the centre's id of the experiment; missing for lines and housings"),
    Column("experiment_sequence_id", _TEXT, "sequenceID of the experiment, as text"),
    Column("date", pa.date32(), "day of the experiment; missing for lines and housings"),
    Column("procedure_id", _TEXT, "IMPReSS key of the procedure"),
    Column("parameter_id", _TEXT, "IMPReSS key of the parameter"),
    Column("type", _TEXT, "simpleParameter, ontologyParameter or seriesParameter"),
    Column("sequence_id", _TEXT, "sequenceID of the parameter, as text"),
    Column("position", _WHOLE, "place of the parameter in its procedure, from 1"),
    Column("item", _WHOLE, "place of the value in its parameter, from 1; missing where it has no value"),
    Column("increment", _TEXT, "incrementValue of a value of a series, as text"),
    Column("increment_status", _TEXT, "incrementStatus of a value of a series"),
    Column("value", _TEXT, "the exact value; missing where the parameter has none, empty where an increment has none"),
    Column("number", pa.float64(), "the value as a number in `unit`, where all of it is one"),
    Column("unit", _TEXT, "unit of the value, as the centre gave it"),
    Column("status", _TEXT, "parameterStatus: a code that says why the value is missing, or what is special about it"),
    Column(
        "is_valid",
        pa.bool_(),
        "whether the integrity rules found no error in its experiment, line or housing, nor in an animal of it",
    ),
    Column(
        "metadata_group",
        _TEXT,
        "checksum of the circumstances, empty without any; comparable where equal; missing for the past, housings and "
        "what is not valid",
    ),
    Column("owner_kind", _TEXT, "experiment, line or housing: what it is a measurement of"),
    Column("procedure_run_id", _WHOLE, "id of the procedure element; the measurements of one run have the same"),
    Column("document_id", _WHOLE, "id of the document that said it"),
    Column("zip_action", _TEXT, "folder of the archive: add, edit or delete"),
    Column("zip_file", _TEXT, "name of the archive"),
    Column("file_name", _TEXT, "name of the document in the archive"),
    Column("line", _WHOLE, "line of the document, from 1"),
)
"""All columns, in their order."""

SCHEMA: Final = pa.schema([(column.name, column.type) for column in COLUMNS])
"""The columns in Arrow's types; Parquet files have the same types."""

_NEVER_MISSING: Final = frozenset({"id", "position", "procedure_run_id", "document_id", "line"})


def _pandas_type(name: str, kind: pa.DataType) -> pd.api.extensions.ExtensionDtype | np.dtype[np.generic]:
    if kind == _TEXT:
        return pd.StringDtype("pyarrow", na_value=np.nan)
    if kind == _WHOLE:
        return np.dtype("int64") if name in _NEVER_MISSING else pd.Int64Dtype()
    if kind == pa.bool_():
        return pd.BooleanDtype()
    return np.dtype("datetime64[us]") if kind == pa.date32() else np.dtype("float64")


PANDAS_TYPES: Final[Mapping[str, pd.api.extensions.ExtensionDtype | np.dtype[np.generic]]] = {
    column.name: _pandas_type(column.name, column.type) for column in COLUMNS
}
"""The dtypes of DataFrames.

Texts are pandas' own `str` (on Arrow; missing: NaN), whole numbers `int64`, or `Int64` where one may be missing. Truth
values are `boolean`, days `datetime64[us]` (missing: NaT), `number` is `float64` (missing: NaN).
"""


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The rows of an Arrow table with columns of `SCHEMA` as a DataFrame, with the dtypes of `PANDAS_TYPES`."""
    arrays = {}
    for name in table.column_names:
        column, kind = table.column(name), PANDAS_TYPES[name]
        if isinstance(kind, pd.api.extensions.ExtensionDtype):
            arrays[name] = kind.__from_arrow__(column)  # type: ignore[attr-defined]
        else:
            arrays[name] = pd.Series(column.to_pandas(date_as_object=False), dtype=kind)
    return pd.DataFrame(arrays, columns=table.column_names)
