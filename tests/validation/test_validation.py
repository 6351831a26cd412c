"""The check before upload: the verdicts of the platform, for archives, documents and directories."""

import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from dcc.cli.demo.submissions import specimen_document
from dcc.documents.schema_set import SchemaSet
from dcc.errors import NotFoundError
from dcc.reference.loading import load_shipped
from dcc.runtime.clock import utc_today
from dcc.settings import load_settings
from dcc.validation.path_checks import check_paths
from dcc.validation.verdicts import PathVerdict
from tests.documents.test_validation import MINIMAL
from tests.hostile.compounds import zipped
from tests.support.data_installations import experiments, specimens
from tests.support.memory import little_memory

SCHEMAS = SchemaSet.load(None)
SETTINGS = load_settings()
SPECIMEN = "J.2013-10-31.1.specimen.impc.xml"
EXPERIMENT = "J.2013-10-31.2.experiment.impc.xml"
INVALID = MINIMAL.replace('pipeline="p" ', "")


def check(path: Path, centres: set[str] | None = None) -> list[PathVerdict]:
    return list(check_paths([path], SETTINGS, centres, SCHEMAS))


def kinds(verdict: PathVerdict) -> tuple[list[str], list[str]]:
    return [problem.kind for problem in verdict.errors], [problem.kind for problem in verdict.warnings]


def make_zip(path: Path, members: dict[str, str]) -> Path:
    path.write_bytes(zipped({name: content.encode() for name, content in members.items()}))
    return path


def test_every_document_of_an_archive_gets_its_verdict(tmp_path: Path) -> None:
    path = make_zip(
        tmp_path / "J.2013-10-31.1.impc.zip",
        {EXPERIMENT: INVALID, SPECIMEN: MINIMAL, "other.xml": MINIMAL, "README": "x"},
    )
    whole, specimen, experiment, other = check(path)
    assert not whole.valid
    assert "3 of 3" in whole.errors[0].message
    assert kinds(whole)[1] == ["MemberIgnoredError"]
    assert kinds(specimen) == (["WrongDocumentKindError"], [])
    assert kinds(experiment) == (["SchemaViolationError"], [])
    assert (experiment.errors[0].line, experiment.errors[0].column) == (3, 1)
    assert kinds(other) == (["BadFileNameError"], [])


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (f"{'0' * 32}  J.2013-10-31.1.impc.zip\n", "ChecksumMismatchError", f"its .md5 says {'0' * 32}. Correct"),
        ("soon", "BadChecksumFileError", "J.2013-10-31.1.impc.zip.md5 holds no MD5 checksum. Write it with md5sum"),
    ],
)
def test_one_that_is_not_is_refused_and_its_documents_are_looked_at_all_the_same(
    tmp_path: Path, content: str, kind: str, said: str
) -> None:
    path = make_zip(tmp_path / "J.2013-10-31.1.impc.zip", {EXPERIMENT: MINIMAL})
    path.with_name(f"{path.name}.md5").write_text(content)
    whole, document = check(path)
    assert (whole.valid, kinds(whole)) == (False, ([kind], []))
    message = whole.errors[0].message
    # The centre itself reads it, and knows which file it is about.
    assert message.startswith((path.name, str(path)))
    assert said in message
    assert "the centre" not in message
    assert document.valid


def test_what_a_refused_archive_has_is_there_for_no_other(tmp_path: Path) -> None:
    animals, runs = ({name: text.decode() for name, text in some.items()} for some in (specimens(), experiments()))
    path = make_zip(tmp_path / "H.2013-10-31.1.impc.zip", animals)
    other = make_zip(tmp_path / "H.2013-10-31.2.impc.zip", runs)
    for checksum, missing in ((None, False), ("0" * 32, True)):
        if checksum:
            path.with_name(f"{path.name}.md5").write_text(checksum)
        *_, judged = check_paths([path, other], SETTINGS, None, SCHEMAS, load_shipped())
        assert ("E4" in {one.kind for one in judged.missing}) is missing


def test_a_date_in_the_future_is_warned_of_as_a_session_does(tmp_path: Path) -> None:
    for day, warnings in ((utc_today() + timedelta(days=1), []), (date(2099, 10, 31), ["BadFileNameError"])):
        whole, _ = check(make_zip(tmp_path / f"J.{day}.1.impc.zip", {EXPERIMENT: MINIMAL}))
        assert whole.valid
        assert kinds(whole)[1] == warnings
    assert "names the date 2099-10-31, which is in the future. Name archives after" in whole.warnings[0].message


@pytest.mark.parametrize(("centres", "valid"), [(None, True), ({"J"}, True), ({"H"}, False)])
def test_centres_are_those_registered_or_those_of_the_convention(
    tmp_path: Path, centres: set[str] | None, valid: bool
) -> None:
    path = make_zip(tmp_path / "J.2013-10-31.1.impc.zip", {EXPERIMENT: MINIMAL})
    assert [verdict.valid for verdict in check(path, centres)] == [valid, valid]


def test_without_a_name_that_has_the_centre_the_centre_in_a_document_is_not_doubted(tmp_path: Path) -> None:
    odd, named = tmp_path / "odd.xml", tmp_path / SPECIMEN
    for first, path in enumerate((odd, named), 1):
        path.write_bytes(specimen_document("H", mice=1, first=first))
    verdicts = check_paths([odd, named], SETTINGS, None, SCHEMAS, load_shipped())
    assert [kinds(verdict) for verdict in verdicts] == [([], ["BadFileNameError"]), ([], ["X5"])]


def test_what_an_edit_names_is_presumed_to_be_there(tmp_path: Path) -> None:
    ((animals, of_animals),) = specimens("2013-11-01.1", mice=2).items()
    ((edited, of_edited),) = experiments("2013-11-02.1", animals=2).items()
    ((added, of_added),) = experiments("2013-11-03.1", animals=2, first=2).items()
    born = re.sub(rb'DOB="[^"]*"', b'DOB="2013-10-30"', of_animals, count=1)
    files = {f"edit/{animals}": born, f"edit/{edited}": of_edited, f"add/{added}": of_added}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
    verdicts = check_paths([tmp_path], SETTINGS, None, SCHEMAS, load_shipped())
    found = {
        Path(one.path).name: [[each.code for each in some] for some in (one.errors, one.missing)] for one in verdicts
    }
    assert found == {animals: [[], []], edited: [["E8.before_birth"], []], added: [[], ["E4", "E4"]]}


def test_beyond_the_listed_findings_the_number_of_those_that_stand_is_told(tmp_path: Path) -> None:
    brief = SETTINGS.model_copy(update={"max_document_errors": 2})
    ((name, animals),) = specimens("2013-11-01.1", mice=5).items()
    faulty = animals.replace(b'colonyID="', b'colonyID="No')
    (tmp_path / name).write_bytes(faulty)

    def told() -> list[str]:
        verdicts = check_paths([tmp_path], brief, None, SCHEMAS, load_shipped())
        return [str(problem.fact) for one in verdicts if name in one.path for problem in one.errors]

    first, second, more = told()
    assert more.startswith("The document has more findings (2) than those recorded (2): S4 2 (error).")
    (tmp_path / "edit").mkdir()
    for mice, left in ((1, 2), (2, 2), (3, 1), (5, 0)):
        ((edit, corrected),) = specimens("2013-11-02.1", mice=mice).items()
        (tmp_path / "edit" / edit).write_bytes(corrected)
        listed = [first, second][mice:]
        more = f"The document has more findings ({left}) than those recorded ({len(listed)}): S4 {left} (error)."
        assert [problem[: len(more)] for problem in told()] == [*(one[: len(more)] for one in listed), more][: 2 * left]


def test_a_directory_with_nothing_to_check_is_an_error_of_use(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="holds no archive"):
        check(tmp_path)


def test_an_unreadable_archive_gets_one_verdict_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    check(make_zip(tmp_path / "J.2013-10-31.1.impc.zip", {EXPERIMENT: MINIMAL}))
    (tmp_path / "bad.zip").write_bytes(b"not a zip")
    (verdict,) = check(tmp_path / "bad.zip")
    assert kinds(verdict) == (["BadFileNameError", "CorruptArchiveError"], [])
    assert {path.name for path in tmp_path.iterdir()} == {"J.2013-10-31.1.impc.zip", "bad.zip"}


def test_files_of_a_directory_are_told_of_in_the_order_of_their_names_however_long_each_takes(tmp_path: Path) -> None:
    names = [f"J.2013-10-31.{number}.experiment.impc.xml" for number in range(1, 30)]
    for number, name in enumerate(names):
        (tmp_path / name).write_text(INVALID * (number % 3) + MINIMAL)
    verdicts = check(tmp_path)
    assert [Path(verdict.path).name for verdict in verdicts] == sorted(names)
    assert [verdict.path for verdict in verdicts if verdict.valid] == [
        str(tmp_path / name) for name in sorted(names) if names.index(name) % 3 == 0
    ]


def test_a_full_disk_ends_the_check_of_a_directory(tmp_path: Path) -> None:
    for number in range(1, 30):
        (tmp_path / f"J.2013-10-31.{number}.experiment.impc.xml").write_text(MINIMAL)

    class OnFullDisk:
        def __contains__(self, centre: object) -> bool:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        check_paths([tmp_path], SETTINGS, OnFullDisk(), SCHEMAS)


def test_what_is_missing_takes_little_memory_however_much_it_is(tmp_path: Path) -> None:
    runs, reference = 2_000, load_shipped()
    ((name, document),) = experiments(animals=runs).items()
    (tmp_path / name).write_bytes(document)
    # What is loaded and compiled once stays.
    list(check_paths([tmp_path], SETTINGS, None, SCHEMAS, reference))
    with little_memory(1_600 * runs / 1_000_000):
        (verdict,) = check_paths([tmp_path], SETTINGS, None, SCHEMAS, reference)
    assert len(verdict.missing) == runs
