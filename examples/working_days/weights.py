"""A converter of `weights*.txt`, as a balance writes them: lines such as `H-M000001 2013-10-31 24.5`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from dcc.converters.base import ConversionFault, SubmittedFile, element
from dcc.documents.contents import Content
from dcc.messages import mark, message
from dcc.naming import DocumentKind

_PROCEDURE = "experiment/procedure"
_WORDS = 3


class Weights:
    """Weights in grams; see `dcc.converters.base.Converter`."""

    name: str = "weights"
    columns: Mapping[str, str] = {"specimenID": "animal", "IMPC_BWT_001_001": "weight"}

    def kinds(self, name: str) -> Collection[DocumentKind]:
        """What a file of that name becomes."""
        return [DocumentKind.EXPERIMENT] if name.startswith("weights") and name.endswith(".txt") else []

    def convert(self, file: SubmittedFile, kind: DocumentKind) -> Iterator[Content | ConversionFault]:
        """An experiment for each line."""
        yield element(kind, "", 1, {"centreID": file.centre, "pipeline": "IMPC_001", "project": "BaSH"})
        with file.path.open(encoding="utf-8") as lines:
            for row, line in enumerate(lines, 1):
                words = line.split()
                if len(words) != _WORDS:
                    said = mark("'{line}' is no animal, day and weight. Write these three, with blanks between them.")
                    yield ConversionFault(row, message(said, line=line.strip()))
                    continue
                animal, day, grams = words
                values = {"parameterID": "IMPC_BWT_001_001", "unit": "g"}
                weight = element(kind, f"{_PROCEDURE}/simpleParameter", row, values, value=grams)
                done = element(kind, _PROCEDURE, row, {"procedureID": "IMPC_BWT_001"}, simple=(weight,))
                named = {"experimentID": f"{animal}_{day}", "dateOfExperiment": day}
                yield element(kind, "experiment", row, named, specimen_ids=(animal,), procedure=done)
