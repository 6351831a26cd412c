"""Makes believable submissions: specimen and experiment documents and their archives.

Documents follow the exchange format with the identifiers of IMPReSS and MGI. The same arguments always give the same
bytes; values come from a seeded generator and mean nothing.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count
from xml.sax.saxutils import quoteattr

_BASE = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/"
_DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
DEFAULT_CREATED = date(2013, 10, 31)


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure of IMPReSS, as far as the documents need it.

    `measured` are simple parameters as (number, unit, mean); `series` are (number, unit, increments, mean); `metadata`
    are (number, value).
    """

    identifier: str
    measured: tuple[tuple[str, str, float], ...]
    metadata: tuple[tuple[str, str], ...]
    series: tuple[tuple[str, str, tuple[str, ...], float], ...] = ()

    def parameter(self, number: str) -> str:
        """The identifier of the procedure's parameter `number`: IMPC_CBC_004_001 for 004."""
        return f"{self.identifier.removesuffix('_001')}_{number}_001"


PROCEDURES = {
    procedure.identifier: procedure
    for procedure in (
        Procedure("IMPC_BWT_001", (("001", "g", 25.8),), (("002", "Sartorius"), ("003", "TE2101"))),
        Procedure(
            "IMPC_CBC_001",
            (
                ("001", "mmol/L", 152.4),
                ("002", "mmol/L", 4.2),
                ("003", "mmol/L", 110.1),
                ("004", "mg/dl", 19.2),
                ("006", "g/l", 52.8),
                ("007", "g/l", 28.7),
                ("008", "mg/dl", 0.2),
                ("009", "mg/dl", 9.1),
                ("010", "mg/dl", 6.4),
                ("012", "U/l", 61.3),
                ("013", "U/l", 34.9),
                ("014", "U/l", 88.0),
                ("015", "mg/dl", 101.6),
                ("016", "mg/dl", 77.3),
                ("017", "mg/dl", 84.5),
                ("018", "mg/dl", 204.7),
            ),
            (
                ("033", "Machine_1"),
                ("034", "Roche"),
                ("035", "AU 480"),
                ("036", "Injection narcosis with Sodium Pentobarbital"),
                ("037", "Retro-orbital puncture"),
                ("038", "No"),
                ("043", "Fresh"),
                ("049", "Experimenter_1"),
            ),
        ),
        Procedure(
            "IMPC_GRS_001",
            (("003", "g", 27.1), ("008", "g", 98.4), ("009", "g", 189.6)),
            (("005", "Machine_1"), ("006", "Chatillon"), ("012", "Experimenter_1")),
            (("001", "g", ("1", "2", "3"), 96.4), ("002", "g", ("1", "2", "3"), 171.6)),
        ),
        Procedure(
            "IMPC_HEM_001",
            (
                ("001", "10^3/ul", 6.3),
                ("002", "10^6/ul", 9.9),
                ("003", "g/dl", 15.2),
                ("004", "%", 47.5),
                ("005", "fl", 48.1),
                ("006", "pg", 15.3),
                ("007", "g/dl", 31.9),
                ("008", "10^3/ul", 1187.0),
            ),
            (
                ("009", "Machine_1"),
                ("010", "Scil animal care company"),
                ("012", "Gas anaesthesia with Isoflurane"),
                ("013", "Cardiac puncture"),
                ("014", "EDTA"),
            ),
        ),
        Procedure(
            "IMPC_IPG_001",
            (("001", "g", 26.9),),
            (("003", "Machine_1"), ("004", "ARKRAY"), ("006", "yes"), ("007", "Plasma")),
            (("002", "mmol/L", ("0", "15", "30", "60", "120"), 14.8),),
        ),
    )
}

_GENES = (
    ("Akt2", "MGI:104874"),
    ("Brd7", "MGI:1349766"),
    ("Cib2", "MGI:1929293"),
    ("Fto", "MGI:1347093"),
    ("Mc4r", "MGI:99457"),
    ("Nf1", "MGI:97306"),
)
PROJECTS = {"H": "BaSH", "J": "JAX", "Tcp": "NorCOMM2", "Wtsi": "MGP"}
_WILD_TYPE_EVERY = 4
_LITTER = 6


def specimen_identifier(centre: str, number: int) -> str:
    """The centre's identifier of animal `number`, the same in both kinds of document."""
    return f"{centre}-M{number:06d}"


def specimen_document(
    centre: str, *, mice: int = 8, first: int = 1, created: date = DEFAULT_CREATED, at_least: int = 0
) -> bytes:
    """A valid specimen document in UTF-8 of `mice` animals numbered from `first`, or more until `at_least` bytes."""
    attributes = f' centreID="{centre}"'
    animals = _until(at_least, mice, (_mouse(centre, number, created) for number in count(first)))
    return _document("centreSpecimenSet", "specimen", attributes, animals)


def experiment_document(
    centre: str,
    *,
    procedure: str = "IMPC_CBC_001",
    animals: int = 8,
    first: int = 1,
    created: date = DEFAULT_CREATED,
    at_least: int = 0,
) -> bytes:
    """A valid experiment document in UTF-8: `procedure` on `animals` animals, or more until `at_least` bytes."""
    done = PROCEDURES[procedure]
    attributes = f' centreID="{centre}" pipeline="IMPC_001" project="{PROJECTS.get(centre, "IMPC")}"'
    experiments = _until(at_least, animals, (_experiment(centre, number, done, created) for number in count(first)))
    return _document("centreProcedureSet", "procedure", attributes, experiments)


def damaged(document: bytes, was: str, becomes: str) -> bytes:
    """The document with the first `was` replaced by `becomes`. Raises ValueError if it does not contain `was`."""
    before, found, after = document.partition(was.encode())
    if not found:
        raise ValueError(f"The document holds no {was!r}: choose a text that it has.")
    return before + becomes.encode() + after


def archive(members: Mapping[str, bytes], created: date = DEFAULT_CREATED) -> bytes:
    """A zip archive, deflated, of `members` in their order, each dated `created`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, (created.year, created.month, created.day, 12, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            opened.writestr(entry, content)
    return buffer.getvalue()


def _until(at_least: int, least_number: int, blocks: Iterator[str]) -> Iterator[str]:
    length = 0
    for number, block in enumerate(blocks):
        if number >= least_number and length >= at_least:
            return
        length += len(block)
        yield block


def _document(root: str, namespace: str, centre_attributes: str, blocks: Iterator[str]) -> bytes:
    uri = _BASE + namespace
    opening = f'{_DECLARATION}<{root} xmlns="{uri}">\n  <centre{centre_attributes}>\n'
    return "".join((opening, *blocks, f"  </centre>\n</{root}>\n")).encode()


def _mouse(centre: str, number: int, created: date) -> str:
    chance = random.Random(f"{centre} {number}")
    symbol, gene = _GENES[number // 10 % len(_GENES)]
    baseline = number % _WILD_TYPE_EVERY == 0
    litter = number // _LITTER
    born = created - timedelta(days=random.Random(f"{centre} litter {litter}").randint(90, 120))
    attributes = {
        "specimenID": specimen_identifier(centre, number),
        "DOB": born.isoformat(),
        "gender": chance.choice(("male", "female")),
        "zygosity": "wild type" if baseline else chance.choice(("homozygous", "heterozygous")),
        "isBaseline": "true" if baseline else "false",
        "litterId": f"{centre}-L{litter:05d}",
        "pipeline": "IMPC_001",
        "phenotypingCentre": centre,
        "productionCentre": centre,
        "project": PROJECTS.get(centre, "IMPC"),
        "strainID": "MGI:2159965",
    }
    if baseline:
        return f"    <mouse{_attributes(attributes)}/>\n"
    attributes["colonyID"] = f"{centre}-{symbol}-A"
    genotype = {"MGIGeneId": gene, "geneSymbol": symbol, "MGIAlleleId": f"MGI:{4_300_000 + number // 10 % 99_999}"}
    return (
        f"    <mouse{_attributes(attributes)}>\n"
        f"{_littermate(centre, number)}"
        f"      <genotype{_attributes(genotype)}/>\n"
        "    </mouse>\n"
    )


def _littermate(centre: str, number: int) -> str:
    """The animal before, if it is of the same litter."""
    before = number - 1
    if before == 0 or before // _LITTER != number // _LITTER:
        return ""
    return f'      <relatedSpecimen specimenID="{specimen_identifier(centre, before)}" relationship="littermate"/>\n'


def _experiment(centre: str, number: int, procedure: Procedure, created: date) -> str:
    chance = random.Random(f"{centre} {number} {procedure.identifier}")
    done = created - timedelta(days=chance.randint(3, 20))
    identifier = f"{centre}_{procedure.identifier}_{number:06d}"
    lines = [
        f'    <experiment experimentID="{identifier}" dateOfExperiment="{done.isoformat()}">',
        f"      <specimenID>{specimen_identifier(centre, number)}</specimenID>",
        f'      <procedure procedureID="{procedure.identifier}">',
    ]
    for parameter, unit, mean in procedure.measured:
        lines.append(f'        <simpleParameter parameterID="{procedure.parameter(parameter)}" unit={quoteattr(unit)}>')
        lines.append(f"          <value>{chance.gauss(mean, mean / 12):.2f}</value>")
        lines.append("        </simpleParameter>")
    for parameter, unit, increments, mean in procedure.series:
        lines.append(f'        <seriesParameter parameterID="{procedure.parameter(parameter)}" unit={quoteattr(unit)}>')
        lines.extend(
            f'          <value incrementValue="{increment}">{chance.gauss(mean, mean / 8):.2f}</value>'
            for increment in increments
        )
        lines.append("        </seriesParameter>")
    for parameter, value in procedure.metadata:
        lines.append(f'        <procedureMetadata parameterID="{procedure.parameter(parameter)}">')
        lines.append(f"          <value>{value}</value>")
        lines.append("        </procedureMetadata>")
    lines.append("      </procedure>\n    </experiment>\n")
    return "\n".join(lines)


def _attributes(attributes: Mapping[str, str]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
