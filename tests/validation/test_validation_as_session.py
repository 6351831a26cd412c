"""`dcc validate` gives the verdict of a session: the same findings, code by code and line by line."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from sqlalchemy import select

from dcc.declarations import rule_of
from dcc.documents.contents import Block, Content, Experiment, Line, Specimen
from dcc.documents.schema_set import SchemaSet
from dcc.naming import Action, DocumentKind
from dcc.qc.models import DOCUMENT, FINDING
from dcc.reference.loading import ReferenceData, load_shipped
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.checking import JUDGED_TOGETHER, LEFT_TO_SESSIONS
from dcc.validation.path_checks import check_paths
from tests.rules.test_rules import EXAMPLES
from tests.support import data_installations
from tests.support.asking import column_in, rows_in
from tests.support.canonical_documents import write_document
from tests.support.data_installations import DataInstallation
from tests.support.databases import only_sqlite
from tests.support.integrity_cases import REFERENCE, TODAY, check, experiments, line, mutant, specimens
from tests.support.reference_files import write_reference
from tests.support.trials import trials

DOCUMENTS = trials(1_000)
IN_ARCHIVE = 50
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
        make = data_installations.specimens if number % 2 else data_installations.experiments
        of_animals = {"mice": 2} if number % 2 else {"animals": 2}
        ((name, document),) = make(f"2013-10-31.{number}", first=number // 2 * 2 + 1, **of_animals).items()
        archives[f"add/H.2013-10-31.{number // IN_ARCHIVE}.impc.zip"][name] = faulty(document, chance)
    return archives


Found = dict[str, Counter[tuple[str, str, int | None]]]
"""Codes, severities and lines of the findings of each document."""


def found_by_session(data: DataInstallation) -> Found:
    """What a session finds, but for what only it can tell."""
    query = select(DOCUMENT.c.file_name, FINDING.c.code, FINDING.c.severity, FINDING.c.line).join(
        DOCUMENT, DOCUMENT.c.id == FINDING.c.document_id
    )
    found: Found = defaultdict(Counter)
    for name, code, severity, at in rows_in(data.qc, query.where(FINDING.c.is_active.is_(True))):
        if rule_of(code) not in LEFT_TO_SESSIONS:
            found[name][code, severity, at] += 1
    return dict(found)


def found_by_validation(data: DataInstallation, paths: Iterable[Path], reference: ReferenceData) -> Found:
    """What validation finds by the rules, in documents that are uploaded."""
    uploaded = set(column_in(data.qc, select(DOCUMENT.c.file_name)))
    found: Found = defaultdict(Counter)
    for verdict in check_paths(paths, data.settings, None, SchemaSet.load(data.settings.xsd_dir), reference):
        name = Path(verdict.path).name
        problems = [one for one in (*verdict.errors, *verdict.warnings, *verdict.missing) if one.kind in CATALOGUE]
        assert not problems or name in uploaded
        found[name].update((one.code, one.severity.value, one.line) for one in problems)
    return {name: count for name, count in found.items() if count}


def judged_alike(data: DataInstallation) -> Found:
    """What a session finds in all that lies on the source: validation finds the same."""
    data.run()
    found = found_by_session(data)
    assert found_by_validation(data, [data.folder.path], load_shipped()) == found
    return found


def of_another_litter(animals: bytes) -> bytes:
    return animals.replace(b'litterId="', b'litterId="other ')


def codes_of(found: Found) -> dict[str, set[str]]:
    """The codes of the findings of each document."""
    return {name: {code for code, *_ in counts} for name, counts in found.items()}


def put_each_day(data: DataInstallation, *submitted: tuple[Action, dict[str, bytes]]) -> None:
    """Have the source host an archive of each day of November: with an action, and documents by their kinds."""
    for day, (action, documents) in enumerate(submitted, 1):
        stem = f"H.2013-11-{day:02}.1"
        named = {f"{stem}.{kind}.impc.xml": document for kind, document in documents.items()}
        data.folder.put(f"{action}/{stem}.impc.zip", named)


@only_sqlite
def test_validation_finds_what_a_session_finds(data: DataInstallation) -> None:
    archives = generated()
    for key, documents in archives.items():
        data.folder.put(key, documents)
    data.run()
    found = found_by_session(data)
    assert found_by_validation(data, [data.folder.path / key for key in archives], load_shipped()) == found
    rules = {rule_of(code) for counts in found.values() for code, _, _ in counts}
    assert len(rules) > 15, rules
    never_found = {*JUDGED_TOGETHER, "Q1"} - {"Q4", "Q7"} - rules
    assert not never_found, f"Add to FAULTS, in this module, what {sorted(never_found)} find."


@only_sqlite
def test_what_is_named_twice_on_one_line_is_found_by_both(data: DataInstallation) -> None:
    ((of_animals, animals),) = data_installations.specimens("2013-10-31.1", mice=2).items()
    ((of_runs, runs),) = data_installations.experiments("2013-10-31.2", animals=2).items()
    animals = animals.replace(b"H-M000002", b"H-M000001")
    runs = runs.replace(b"H_IMPC_BWT_001_000002", b"H_IMPC_BWT_001_000001")
    # In a centre element of its own, the second experiment has the position of the first.
    centre = re.search(rb"<centre [^>]*>", runs)
    assert centre is not None
    runs = runs.replace(b"</experiment>", b"</experiment></centre>" + centre[0], 1)
    documents = {name: text.replace(b"\n", b" ") for name, text in ((of_animals, animals), (of_runs, runs))}
    data.folder.put("add/H.2013-10-31.1.impc.zip", documents)
    found = judged_alike(data)
    assert set().union(*codes_of(found).values()) == {"S13.twice", "E9.twice", "E4"}


@only_sqlite
def test_an_animal_with_experiments_is_deleted_by_neither(data: DataInstallation) -> None:
    animals = data_installations.specimens("2013-10-31.1", mice=3)
    runs = data_installations.experiments("2013-10-31.2", animals=2)
    ((name, one_run),) = data_installations.experiments("2013-10-31.4", animals=1).items()
    data.folder.put("add/H.2013-10-31.1.impc.zip", animals)
    data.folder.put("add/H.2013-10-31.2.impc.zip", runs)
    # The third animal has no experiment; the first one has none any more when it is deleted once more.
    data.folder.put("delete/H.2013-10-31.3.impc.zip", data_installations.specimens("2013-10-31.3", mice=3))
    data.folder.put("delete/H.2013-10-31.4.impc.zip", {name: one_run})
    data.folder.put("delete/H.2013-10-31.5.impc.zip", data_installations.specimens("2013-10-31.5", mice=1))
    again = data_installations.specimens("2013-10-31.6", mice=3)
    data.folder.put("add/H.2013-10-31.6.impc.zip", again)
    found = judged_alike(data)
    rules = column_in(data.qc, select(FINDING.c.rule).where(FINDING.c.is_active.is_(True)))
    assert Counter(rules) == {"Q4": 2, "S13": 1}
    assert sorted(code for counts in found.values() for code, *_ in counts.elements()) == ["Q4", "Q4", "S13.there"]


@only_sqlite
def test_a_repeated_experiment_is_found_at_both_until_one_is_deleted(data: DataInstallation) -> None:
    ((name, runs),) = data_installations.experiments(animals=1).items()
    other = "H.2013-11-01.1.experiment.impc.xml"
    repeat = {other: runs.replace(b'experimentID="', b'experimentID="2_')}
    data.put("add/H.2013-10-31.1.impc.zip", data_installations.specimens(mice=1), {name: runs})
    assert judged_alike(data) == {}
    data.put("add/H.2013-11-01.1.impc.zip", repeat)
    found = judged_alike(data)
    assert {document: [code for code, *_ in codes] for document, codes in found.items()} == {
        document: ["X17"] for document in (name, other)
    }
    (first, second) = column_in(data.qc, select(FINDING.c.message).order_by(FINDING.c.document_id))
    assert other in first
    assert name in second
    data.put("delete/H.2013-11-02.1.impc.zip", {"H.2013-11-02.1.experiment.impc.xml": repeat[other]})
    assert judged_alike(data) == {}
    assert data.states()["add/H.2013-10-31.1.impc.zip"] == "qc pending"


@only_sqlite
def test_what_an_edit_or_a_deletion_ended_is_judged_by_neither(data: DataInstallation) -> None:
    (animals,) = data_installations.specimens(mice=3).values()
    (runs,) = data_installations.experiments(animals=3).values()
    (third,) = data_installations.specimens(mice=1, first=3).values()
    (third_run,) = data_installations.experiments(animals=1, first=3).values()
    related = b'<relatedSpecimen specimenID="NoSuch" relationship="littermate"/><genotype'
    faulty = animals.replace(b'colonyID="', b'colonyID="No').replace(b"<genotype", related)
    faulty_runs = re.sub(rb"<value>[^<]*<", rb"<value>approx. 3<", runs).replace(b"<specimenID>H-M", b"<specimenID>No")
    # What stands on one line is told apart, and what stands stays.
    on_one_line = faulty.replace(b"\n", b" ")
    first = {"specimen": on_one_line, "experiment": faulty_runs}
    put_each_day(data, (Action.ADD, first), (Action.EDIT, {"specimen": third, "experiment": third_run}))
    found = codes_of(judged_alike(data))
    assert found == {
        "H.2013-11-01.1.specimen.impc.xml": {"S4", "S14"},
        "H.2013-11-01.1.experiment.impc.xml": {"P9", "E4"},
    }
    put_each_day(
        data,
        (Action.ADD, first),
        (Action.EDIT, {"specimen": third, "experiment": third_run}),
        (Action.EDIT, {"specimen": animals, "experiment": runs}),
        (Action.DELETE, {"experiment": third_run}),
        (Action.DELETE, {"specimen": third}),
    )
    assert judged_alike(data) == {}
    # So it is with those beyond the ones that are listed.
    brief = data.with_settings(max_document_errors=1)
    assert found_by_validation(brief, [data.folder.path], load_shipped()) == {}


@only_sqlite
def test_an_animal_that_is_deleted_is_missed_by_an_experiment_that_was_refused(data: DataInstallation) -> None:
    (animals,) = data_installations.specimens(mice=2).values()
    (first,) = data_installations.specimens(mice=1).values()
    (runs,) = data_installations.experiments(animals=1).values()
    (both,) = data_installations.experiments(animals=2).values()
    again = re.sub(rb"<value>[^<]*<", rb"<value>21.5<", both)
    submitted = (
        (Action.ADD, {"specimen": animals, "experiment": runs}),
        (Action.ADD, {"experiment": again}),
        (Action.DELETE, {"experiment": runs}),
        (Action.DELETE, {"specimen": first}),
    )
    for day in range(1, 5):
        put_each_day(data, *submitted[:day])
        data.run()
    assert codes_of(judged_alike(data))["H.2013-11-02.1.experiment.impc.xml"] == {"E9.there", "E4"}


@only_sqlite
def test_a_copy_of_what_stands_is_refused_by_neither(data: DataInstallation) -> None:
    (animals,) = data_installations.specimens(mice=2).values()
    (runs,) = data_installations.experiments(animals=2).values()
    both = {"specimen": animals, "experiment": runs}
    put_each_day(
        data,
        (Action.ADD, both),
        (Action.ADD, both | {"specimen": animals.replace(b"\n", b"\n ")}),
        # Once it is edited, the first document does not stand any more; and other values are no copy.
        (Action.EDIT, both | {"specimen": of_another_litter(animals)}),
        (Action.ADD, both | {"experiment": re.sub(rb"<value>\d", rb"<value>1", runs)}),
        (Action.EDIT, both),
        (Action.ADD, both),
    )
    assert codes_of(judged_alike(data)) == {
        **{f"H.2013-11-0{day}.1.experiment.impc.xml": {"Q7"} for day in (2, 3, 5, 6)},
        **{f"H.2013-11-0{day}.1.specimen.impc.xml": {"Q7"} for day in (2, 6)},
        "H.2013-11-04.1.specimen.impc.xml": {"S13.there"},
        "H.2013-11-04.1.experiment.impc.xml": {"E9.there"},
    }


@only_sqlite
def test_nothing_in_a_copy_of_what_stands_is_judged_by_either(data: DataInstallation) -> None:
    (faulty,) = data_installations.specimens(mice=3).values()
    (pair,) = data_installations.specimens(mice=2, first=5).values()
    (second,) = data_installations.specimens(mice=1, first=6).values()
    (runs,) = data_installations.experiments(animals=2).values()
    faulty = faulty.replace(b'colonyID="', b'colonyID="No')
    faulty_runs = re.sub(rb"<value>[^<]*<", rb"<value>approx. 3<", runs)
    lines = write_document(DocumentKind.EXPERIMENT, experiments(line(), line(position=2, colony_id="NoSuch")))
    submitted: list[tuple[Action, bytes, bytes, bytes]] = [
        (Action.ADD, faulty, faulty_runs, lines),
        (Action.ADD, faulty, faulty_runs, lines),
        (Action.EDIT, faulty, faulty_runs, lines),
        (Action.ADD, pair, lines, lines),
        (Action.DELETE, second, lines, lines),
        (Action.DELETE, second, lines, lines),
        # Partly gone, it is no copy; and after that it stands in two parts.
        (Action.ADD, pair, lines, lines),
        (Action.ADD, pair, lines, lines),
    ]
    kinds = (DocumentKind.SPECIMEN, DocumentKind.EXPERIMENT, DocumentKind.EXPERIMENT)
    for day, (action, *texts) in enumerate(submitted, 1):
        documents = {
            f"H.2013-11-{day:02}.{number}.{kind}.impc.xml": text
            for number, (kind, text) in enumerate(zip(kinds, texts, strict=True), 1)
            if number == 1 or day < 4
        }
        data.folder.put(f"{action}/H.2013-11-{day:02}.1.impc.zip", documents)
    found = judged_alike(data)
    rules = defaultdict(list)
    for name, counts in sorted(found.items()):
        rules[name.split(".")[1][-2:]].append({rule_of(code) for code, *_ in counts})
    of_first = [{"S4"}, {"P9"}, {"E1"}]
    of_copy = [{"Q7"}] * 3
    assert rules == {
        "01": of_first,
        "02": of_copy,
        "03": of_copy,
        "06": [{"Q7"}],
        "04": [{"S14"}],
        "07": [{"S13", "S14"}],
        "08": [{"S13"}],
    }


@only_sqlite
def test_what_an_edit_alone_names_may_be_missing(data: DataInstallation) -> None:
    (animals,) = data_installations.specimens(mice=2).values()
    (runs,) = data_installations.experiments(animals=2).values()
    ((_, child),) = data_installations.specimens(mice=1, first=3).items()
    related = b'<relatedSpecimen specimenID="H-M000001" relationship="littermate"/><genotype'
    data.folder.put("edit/H.2013-11-01.1.impc.zip", {"H.2013-11-01.1.specimen.impc.xml": animals})
    documents = {
        "H.2013-11-02.1.specimen.impc.xml": child.replace(b"<genotype", related, 1),
        "H.2013-11-02.2.experiment.impc.xml": runs,
    }
    data.folder.put("add/H.2013-11-02.1.impc.zip", documents)
    found = judged_alike(data)
    assert set().union(*codes_of(found).values()) == {"E4", "S14"}
    # Added after that, they are new, as they are or otherwise.
    for number, text in ((3, animals), (4, of_another_litter(animals))):
        key = f"add/H.2013-11-03.{number}.impc.zip"
        data.folder.put(key, {f"H.2013-11-03.{number}.specimen.impc.xml": text})
        found = judged_alike(data)
    assert [code for counts in found.values() for code, *_ in counts] == ["S13.there", "S13.there"]


@only_sqlite
def test_what_an_edit_alone_names_keeps_no_animal_from_being_deleted(data: DataInstallation) -> None:
    (animals,) = data_installations.specimens(mice=2).values()
    (runs,) = data_installations.experiments(animals=2).values()
    put_each_day(
        data,
        (Action.EDIT, {"experiment": runs}),
        (Action.ADD, {"specimen": animals}),
        (Action.DELETE, {"specimen": animals}),
        (Action.ADD, {"specimen": of_another_litter(animals)}),
    )
    assert judged_alike(data) == {}


@only_sqlite
def test_documents_are_judged_in_the_order_of_their_names_whatever_their_archives(data: DataInstallation) -> None:
    (animals,) = data_installations.specimens(mice=2).values()
    (runs,) = data_installations.experiments(animals=2).values()
    submitted = [
        (Action.ADD, "specimen", animals),
        (Action.ADD, "experiment", runs),
        (Action.DELETE, "experiment", runs),
        (Action.DELETE, "specimen", animals),
        (Action.ADD, "experiment", re.sub(rb"<value>\d", rb"<value>1", runs)),
        (Action.ADD, "experiment", re.sub(rb"<value>\d", rb"<value>2", runs)),
        (Action.ADD, "specimen", animals.replace(b'litterId="', b'litterId="second ')),
        (Action.ADD, "specimen", animals.replace(b'litterId="', b'litterId="third ')),
    ]
    for number, (action, kind, document) in enumerate(submitted, 1):
        documents = {f"H.2013-10-31.{number}.{kind}.impc.xml": document}
        data.folder.put(f"{action}/H.2013-11-01.{len(submitted) - number}.impc.zip", documents)
    assert codes_of(judged_alike(data)) == {
        "H.2013-10-31.6.experiment.impc.xml": {"E9.there"},
        "H.2013-10-31.8.specimen.impc.xml": {"S13.there"},
    }


def own(content: Content, number: int) -> Content:
    """An element of an example, which no other one is about; dates are reckoned from today."""
    if isinstance(content, Specimen):
        related = [one._replace(specimen_id=f"{number}-{one.specimen_id}") for one in content.related_specimens]
        name = f"{number}-{content.specimen_id}" if content.specimen_id.strip() else " " * number
        return content._replace(specimen_id=name, related_specimens=tuple(related), dob=moved(content.dob))
    if isinstance(content, Experiment):
        animals = tuple(f"{number}-{animal}" for animal in content.specimen_ids)
        name, day = f"{number}-{content.experiment_id}", moved(content.date) or ""
        return content._replace(experiment_id=name, specimen_ids=animals, date=day)
    return content._replace(sequence_id=content.sequence_id or str(number)) if isinstance(content, Line) else content


def moved(day: str | None) -> str | None:
    if day is None or abs(date_of(day) - TODAY) > timedelta(days=9):
        return day
    return (datetime.now(UTC).date() + (date_of(day) - TODAY)).isoformat()


def date_of(day: str) -> date:
    return date.fromisoformat(day) if re.fullmatch(r"\d{4}-\d\d-\d\d", day) and day > "0001" else date.max


def documents_of(contents: Iterable[Content], stem: str, number: int) -> dict[str, dict[str, bytes]]:
    """The documents that say these contents, by name, of each centre."""
    parts: dict[tuple[str, DocumentKind], list[Content]] = defaultdict(list)
    for content in contents:
        if isinstance(content, Block):
            kind = DocumentKind.SPECIMEN if content.pipeline is None else DocumentKind.EXPERIMENT
            part = parts[content.centre, kind]
        part.append(own(content, number))
    documents: dict[str, dict[str, bytes]] = defaultdict(dict)
    for (centre, kind), said in parts.items():
        documents[centre][f"{centre}.{stem}.{number}.{kind}.impc.xml"] = write_document(kind, said)
    return documents


@only_sqlite
def test_an_example_of_a_rule_is_judged_alike_by_itself_by_validation_and_in_a_session(
    data: DataInstallation, tmp_path: Path
) -> None:
    data = data.with_settings(**write_reference(tmp_path / "reference", REFERENCE))
    folders = {"H": data.folder, "J": data.base.add_folder("J", "others")}
    archives: dict[tuple[str, str], dict[str, bytes]] = defaultdict(dict)
    expected: dict[str, Counter[tuple[str, str]]] = {}
    for number, example in enumerate(EXAMPLES, 1):
        if example.rule == "X5" or "reference" in example.options:
            # Its documents are named after another centre, or judged by other reference data than those of all others.
            continue
        is_about_mice = any(isinstance(content, Experiment) for content in example.document)
        before = example.options.get("uploaded", specimens(mutant()) if is_about_mice else [])
        for stem, contents in (("2014-01-01", before), ("2015-01-01", example.document)):
            for centre, documents in documents_of(contents, stem, number).items():
                archives[centre, f"add/{centre}.{stem}.{number // IN_ARCHIVE}.impc.zip"] |= documents
        found = Counter((one.code, one.severity.value) for one in check(example.document, **example.options))
        expected |= dict.fromkeys(documents, found) if found else {}
    for (centre, key), documents in archives.items():
        folders[centre].put(key, documents)
    data.run()
    in_session = found_by_session(data)
    of_examples = {name: found for name, found in in_session.items() if "2015-01-01" in name}
    assert {name: Counter(one[:2] for one in found.elements()) for name, found in of_examples.items()} == expected
    assert found_by_validation(data, [folder.path for folder in folders.values()], REFERENCE) == in_session


def test_the_page_of_rules_lists_what_other_documents_matter_to() -> None:
    page = (Path(__file__).parents[2] / "docs/rules.md").read_text("utf-8")
    (told,) = re.findall(r"rules need other documents:\s+([^.]*)\.", page)
    assert {*re.findall(r"[A-Z]+\d+", told)} == JUDGED_TOGETHER
    (told,) = re.findall(r"Only a session judges\s+([^.]*)\.", page)
    assert {*re.findall(r"[A-Z]+\d+", told)} == LEFT_TO_SESSIONS
