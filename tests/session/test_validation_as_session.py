"""`dcc validate` gives the verdict of a session: the same findings, code by code and line by line."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from pathlib import Path

from sqlalchemy import select

from dcc.declarations import rule_of
from dcc.documents.schema_set import SchemaSet
from dcc.qc.models import DOCUMENT, FINDING
from dcc.reference.loading import load_shipped
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.checking import NEEDING_OTHERS
from dcc.rules.upload import UPLOAD_RULES
from dcc.session.validation import check_paths
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_sqlite

DOCUMENTS = 1_000
IN_ARCHIVE = 50
LEFT_TO_SESSIONS = {*UPLOAD_RULES} - {"S13", "E9", "Q1"}
"""The rules that only the QC database can tell of; those of `NEEDING_OTHERS` are judged among the files given."""

FAULTS = {
    r'colonyID="[^"]*"': ('colonyID="NoSuch"', 'colonyID=""', ""),
    r'strainID="[^"]*"': ('strainID="MGI:0"', ""),
    r'isBaseline="[^"]*"': ('isBaseline="true"', 'isBaseline="1"'),
    r'zygosity="[^"]*"': ('zygosity="wild type"', 'zygosity="homozygous"'),
    r'DOB="[^"]*"': ('DOB="2050-01-01"', 'DOB="1970-01-01"', 'DOB="2001-02-03"'),
    r'litterId="[^"]*"': (f'litterId="{"L" * 300}"',),
    r' pipeline="[^"]*"': (' pipeline="NOPE_001"', ' pipeline="impc_001"', f' pipeline="{"P" * 300}"'),
    r'project="[^"]*"': ('project="NoProject"', 'project="bash"'),
    r'productionCentre="[^"]*"': ('productionCentre="J"', ""),
    r'phenotypingCentre="[^"]*"': ('phenotypingCentre="J"',),
    r'dateOfExperiment="[^"]*"': ('dateOfExperiment="2050-01-01"', 'dateOfExperiment="x"'),
    r'procedureID="[^"]*"': ('procedureID="IMPC_XXX_001"', 'procedureID="IMPC_BWT_001 "'),
    r'parameterID="[^"]*"': ('parameterID="IMPC_BWT_001_999"', 'parameterID=" IMPC_BWT_001_001"'),
    r' unit="[^"]*"': (' unit="kg"', ' unit=""', ""),
    r'specimenID="[^"]*"': ('specimenID="H-M000001"', 'specimenID="H-M000011"'),
    r"<specimenID>[^<]*<": ("<specimenID>H-M000001<", "<specimenID>NoSuch<"),
    r'experimentID="[^"]*"': ('experimentID="H_IMPC_BWT_001_000001"', f'experimentID="{"E" * 300}"'),
    r"(?=<genotype)": (
        '<relatedSpecimen specimenID="H-M000001" relationship="mother"/>',
        '<relatedSpecimen specimenID="H-M000002" relationship="father"/>',
        '<relatedSpecimen specimenID="NoSuch" relationship="littermate"/>',
    ),
    r"<value>[^<]*</value>": ("<value>approx. 3</value>", "<value></value>", "<value>99999</value>"),
    r"<simpleParameter .*?</simpleParameter>": (
        '<simpleParameter parameterID="IMPC_BWT_001_001" parameterStatus="IMPC_PARAMSC_999"/>',
        '<simpleParameter parameterID="IMPC_BWT_001_001" parameterStatus="IMPC_PSC_001"/>',
        '<simpleParameter parameterID="IMPC_BWT_001_001" parameterStatus="IMPC_PARAMSC_005"/>',
    ),
    r"<procedureMetadata .*?</procedureMetadata>": ("", '<procedureMetadata parameterID="IMPC_BWT_002_001"/>'),
}


def faulty(document: bytes, chance: random.Random) -> bytes:
    """The document with up to four faults."""
    text = document.decode()
    for _ in range(chance.randrange(5)):
        pattern = chance.choice(list(FAULTS))
        places = list(re.finditer(pattern, text, re.S))
        if places:
            place = chance.choice(places)
            text = text[: place.start()] + chance.choice(FAULTS[pattern]) + text[place.end() :]
    return text.encode()


def generated() -> dict[str, dict[str, bytes]]:
    """Archives of documents with faults, by their names."""
    chance = random.Random(4)
    archives: dict[str, dict[str, bytes]] = defaultdict(dict)
    for number in range(DOCUMENTS):
        make = specimens if number % 2 else experiments
        of_animals = {"mice": 2} if number % 2 else {"animals": 2}
        ((name, document),) = make(f"2013-10-31.{number}", first=number // 2 * 2 + 1, **of_animals).items()
        archives[f"add/H.2013-10-31.{number // IN_ARCHIVE}.impc.zip"][name] = faulty(document, chance)
    return archives


@only_sqlite
def test_validation_finds_what_a_session_finds(data: DataInstallation) -> None:
    archives = generated()
    for key, documents in archives.items():
        data.folder.put(key, documents)
    data.run()
    query = select(DOCUMENT.c.file_name, FINDING.c.code, FINDING.c.severity, FINDING.c.line).join(
        DOCUMENT, DOCUMENT.c.id == FINDING.c.document_id
    )
    found: dict[str, Counter[tuple[str, str, int]]] = defaultdict(Counter)
    with data.qc.connect() as connection:
        for name, code, severity, line in connection.execute(query.where(FINDING.c.is_active.is_(True))):
            if rule_of(code) not in LEFT_TO_SESSIONS:
                found[name][code, severity, line] += 1
        uploaded = set(connection.scalars(select(DOCUMENT.c.file_name)))
    said: dict[str, Counter[tuple[str, str, int | None]]] = defaultdict(Counter)
    schemas = SchemaSet.load(data.settings.xsd_dir)
    paths = [data.folder.path / key for key in archives]
    for verdict in check_paths(paths, data.settings, None, schemas, load_shipped()):
        name = Path(verdict.path).name
        problems = [one for one in (*verdict.errors, *verdict.warnings, *verdict.missing) if one.kind in CATALOGUE]
        assert not problems or name in uploaded
        said[name].update((one.code, one.severity.value, one.line) for one in problems)
    assert {name: count for name, count in said.items() if count} == dict(found)
    rules = {rule_of(code) for counts in found.values() for code, _, _ in counts}
    assert len(rules) > 15, rules
    assert rules >= {*NEEDING_OTHERS, "Q1"}, NEEDING_OTHERS - rules


def test_the_page_of_rules_lists_what_other_documents_matter_to() -> None:
    page = (Path(__file__).parents[2] / "docs/rules.md").read_text("utf-8")
    (told,) = re.findall(r"rules need other documents:\s+([^.]*)\.", page)
    assert {*re.findall(r"[A-Z]+\d+", told)} == NEEDING_OTHERS
    (told,) = re.findall(r"Only a session judges\s+([^.]*)\.", page)
    assert {*re.findall(r"[A-Z]+\d+", told)} == LEFT_TO_SESSIONS
