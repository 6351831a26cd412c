"""Pictures as they are put into pages: safe, the same each time, apart from each other, and made without a display."""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dcc import documents
from dcc.outcomes import SubmissionKey
from dcc.qc.expected_procedures import DueProcedure, ProcedureDeliveries
from dcc.reports.languages import Catalogue, load_catalogue
from dcc.reports.plots import distributions, series
from dcc.reports.plots.bars import Week, Weeks, picture_of_expected, picture_of_weeks
from dcc.reports.plots.picture import KNOWN_WORDS, Picture, use_font_cache
from dcc.reports.plots.values import Parameter, ParameterValues, Value
from dcc.settings import Settings
from tests.support.plot_data import FIRST_DAY, NEW
from tests.support.prepared_processes import run_in_process

HOSTILE = '$x^2$ \\frac{1}{2} <script>alert(1)</script> & "quoted" --> ]]> {braces} \u202e\x07 日本 %s'
PICTURES = ("distribution", "series", "weeks", "expected")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue("en", Settings())


def taken_of(
    name: str = "Body weight", unit: str = "g", specimen: str = "A1", key: SubmissionKey | None = NEW
) -> ParameterValues:
    earlier = [
        Value(
            i, 20 + i % 10, unit, ("female", "male")[i % 2], "homozygous", f"E{i}", i // 3, str(i % 3 * 15), i % 3, "H"
        )
        for i in range(60)
    ]
    new = [
        Value(100 + i, 21 + i, unit, "female", "wild type", specimen, 100, str(i * 15), i, "H", True) for i in range(2)
    ]
    new += [Value(110, 900, unit, "female", "wild type", specimen, 100, "30", 3, "H", True)] if key else []
    parameter = Parameter("IMPC_BWT_001_001", name, "simpleParameter")
    others = [value._replace(centre=name) for value in earlier]
    return ParameterValues(parameter, "H", key, unit, [*earlier, *new, *others], {unit + "x": 3}, 9_912)


def made(kind: str, catalogue: Catalogue, **changes: str) -> Picture:
    if kind == "weeks":
        week = Week(FIRST_DAY, 4, 2)
        return picture_of_weeks(Weeks(changes.get("name", "H"), NEW, (week,), 1), catalogue)
    if kind == "expected":
        due = DueProcedure("IMPC_001", "IMPC_BWT_001", "Weight", "experiment", 16, None)
        return picture_of_expected([ProcedureDeliveries(changes.get("name", "H"), due, 1, 0, 0, 2)], catalogue)
    taken = taken_of(**changes)
    if kind == "series":
        return series.picture_of(series.in_panels(taken), catalogue)
    return distributions.picture_of(distributions.groups_of(taken), catalogue)


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_is_an_svg_element_for_any_page(kind: str, catalogue: Catalogue) -> None:
    picture = made(kind, catalogue)
    root = ET.fromstring(picture.svg)
    assert picture.svg.startswith("<svg ")
    assert root.attrib["role"] == "img"
    title, description = (root.find(f"{{http://www.w3.org/2000/svg}}{tag}") for tag in ("title", "desc"))
    assert (title.text, description.text) == (picture.title, picture.alt)
    assert root.attrib["aria-labelledby"] == f"{title.attrib['id']} {description.attrib['id']}"
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "defs", "g", "path", "use", "text", "tspan", "clipPath", "rect", "pattern"}
    assert not {name for element in root.iter() for name in element.attrib if name == "style" or name.startswith("on")}
    ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    used = re.findall(r'(?:url\(|href=")#([^")]+)', picture.svg)
    assert used
    assert set(used) <= set(ids)
    assert len(ids) == len(set(ids))
    assert not re.search(r"20\d\d-\d\d-\d\dT|matplotlib\.org", picture.svg)


@pytest.mark.parametrize("kind", PICTURES)
def test_names_from_outside_are_texts_and_nothing_else(
    kind: str, catalogue: Catalogue, recwarn: pytest.WarningsRecorder
) -> None:
    picture = made(kind, catalogue, name=HOSTILE, unit=HOSTILE, specimen=HOSTILE)
    root = ET.fromstring(picture.svg)
    texts = "".join(root.itertext())
    assert "script" not in {element.tag.rpartition("}")[2] for element in root.iter()}
    assert "$x^2$ \\frac{1}{2} <script>" in texts
    assert not set("\u202e\x07") & set(texts + picture.caption)
    assert picture.png.startswith(b"\x89PNG")
    assert re.fullmatch(r"[A-Za-z0-9._-]+", picture.name)
    assert [str(warning.message) for warning in recwarn] == []


def test_a_picture_names_its_outliers_and_tells_its_rule(catalogue: Catalogue) -> None:
    picture = made("distribution", catalogue)
    assert picture.outliers == 1
    assert "3 interquartile ranges" in picture.rule
    assert "A sample of 123, of about 10,000 measurements." in picture.caption
    assert "gx: 3" in picture.caption
    assert "A1 900" in picture.alt
    texts = [element.text for element in ET.fromstring(picture.svg).iter("{http://www.w3.org/2000/svg}text")]
    assert any(text and text.startswith("outlier: over 3 interquartile ranges") for text in texts)
    assert "A1 → 900" in texts


def test_numbers_beyond_all_measure_are_drawn_and_told(catalogue: Catalogue) -> None:
    taken = taken_of()
    usual = [value for value in taken.own if not value.is_new]
    absurd = [value._replace(number=(-1) ** value.id * 1.7e308) for value in usual]
    tiny = [value._replace(number=5e-324) for value in taken.own if value.is_new]
    for earlier, new in ((absurd, tiny), (tiny, absurd), (usual, absurd)):
        values = [value._replace(is_new=some is new) for some in (earlier, new) for value in some]
        changed = ParameterValues(taken.parameter, "H", NEW, "g", values, {}, None)
        picture = distributions.picture_of(distributions.groups_of(changed), catalogue)
        assert "e+" in picture.alt
        assert picture.svg
        assert series.picture_of(series.in_panels(changed), catalogue).svg


@pytest.mark.parametrize("kind", ["distribution", "series"])
def test_a_number_without_a_unit_is_told_without_a_blank_for_it(kind: str, catalogue: Catalogue) -> None:
    assert " g," in made("distribution", catalogue).alt
    described = made(kind, catalogue, unit="").alt
    assert "edian" in described
    assert not re.search(r" [ ,.]", described)


def test_the_sexes_and_zygosities_of_documents_are_translated() -> None:
    schema = ET.fromstring((Path(documents.__file__).parent / "schemas/common_definition.xsd").read_bytes())
    words = {
        each.attrib["value"]
        for of in ("Gender", "Zygosity")
        for each in schema.findall(f".//{{*}}simpleType[@name='{of}']//{{*}}enumeration")
    }
    assert {"intersex", "wild type"} < words
    assert words == set(KNOWN_WORDS)


def draw(folder: str) -> None:
    """Draw for an installation in a folder."""
    settings = Settings(home=Path(folder))
    use_font_cache(settings)
    weeks = Weeks("H", None, (Week(FIRST_DAY, 4, 2),), 0)
    drawn = picture_of_weeks(weeks, load_catalogue("en", settings))
    assert "matplotlib" not in sys.modules, "imported before it is needed"
    assert drawn.svg
    assert drawn.png
    assert "matplotlib.pyplot" not in sys.modules


def test_drawing_needs_no_display_and_writes_where_it_was_told(tmp_path: Path) -> None:
    """Nothing goes into the home directory; a directory of the user's own is left to matplotlib."""
    home, fonts, own = (tmp_path / name for name in ("home", "matplotlib", "own"))
    home.mkdir()
    variables = dict.fromkeys(("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), "")
    variables["HOME"] = str(home)
    assert run_in_process(draw, str(tmp_path), {**variables, "MPLCONFIGDIR": ""}) == 0
    assert [path.name.split("-")[0] for path in fonts.iterdir()] == ["fontlist"]
    fonts.rename(own)
    assert run_in_process(draw, str(tmp_path), {**variables, "MPLCONFIGDIR": str(own)}) == 0
    assert not fonts.exists()
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(("number", "said"), [(60, False), (61, True)])
def test_a_picture_of_what_is_due_says_so_if_it_draws_a_part(catalogue: Catalogue, number: int, said: bool) -> None:
    due = [DueProcedure("IMPC_001", f"IMPC_{place}_001", "Weight", "experiment", 16, None) for place in range(number)]
    counted = [ProcedureDeliveries("H", procedure, 1, 0, 0, place) for place, procedure in enumerate(due)]
    caption = picture_of_expected(counted, catalogue).caption
    assert caption.endswith(" Of 61 bars, those 60 with most missing are drawn.") is said
