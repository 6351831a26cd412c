"""Whether a document that is built whole fits its columns is told as it is of each entity."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import pytest

from dcc.documents import contents as said
from dcc.naming import DocumentKind
from dcc.qc.apply.building_process import Order
from dcc.qc.apply.entity_rows import LIMITS
from dcc.qc.apply.whole_documents import Read, WholeDocument, build_whole, read_whole
from dcc.qc.rows.building import NUMBERED, RowBuilder
from dcc.qc.rows.types import Limits, TooLong
from tests.support.strategies_documents import full_document

FIRST = dict.fromkeys(NUMBERED, 1)
COLUMNS = [(table, place, name) for table, texts in LIMITS.items() for place, _, name in texts]


def read(kind: DocumentKind, folder: Path) -> Read:
    content = full_document(kind).render()[0]
    path = folder / "document.xml"
    path.write_bytes(content)
    found = read_whole(path, kind, hashlib.md5(content, usedforsecurity=False).hexdigest())
    assert found is not None
    return found


def with_limit(table: str, place: int, limit: int) -> Limits:
    """What columns hold, but for one, which holds so many characters."""
    changed = tuple((at, limit if at == place else most, name) for at, most, name in LIMITS[table])
    return {**LIMITS, table: changed}


def is_too_long(one: Read, limits: Limits) -> bool:
    """Whether a block or an entity, looked at by itself, has a text that is too long."""
    ids = {name: itertools.count(1).__next__ for name in NUMBERED}
    builder = RowBuilder(1, ids, {name: [] for name in limits}, limits)
    for content in one.contents:
        made = builder.add_block(content) if isinstance(content, said.Block) else builder.add_entity(content)
        if isinstance(made, TooLong):
            return True
    return False


def whole(one: Read, limits: Limits, *, as_lines: bool) -> WholeDocument:
    return build_whole(one, Order(1, FIRST, limits, as_lines))


@pytest.mark.parametrize("as_lines", [True, False], ids=["as lines", "as rows"])
def test_a_text_too_long_for_any_column_is_found(tmp_path: Path, as_lines: bool) -> None:
    found = set()
    for kind in DocumentKind:
        one = read(kind, tmp_path)
        assert whole(one, LIMITS, as_lines=as_lines).plain
        for table, place, name in COLUMNS:
            limits = with_limit(table, place, 0)
            too_long = is_too_long(one, limits)
            assert whole(one, limits, as_lines=as_lines).plain is not too_long, f"{table}.{name}"
            if too_long:
                found.add(table)
    assert found == {
        "centre_block", "specimen", "experiment", "line", "housing", "related_specimen", "genotype", "parental_strain",
        "chromosome", "experiment_specimen", "status_code", "procedure_run", "measurement", "media",
        "media_association", "dimension", "metadata",
    }  # fmt: skip


def test_the_last_text_is_looked_at_and_one_that_just_fits_does(tmp_path: Path) -> None:
    one = read(DocumentKind.SPECIMEN, tmp_path)
    animals = [content for content in one.contents if isinstance(content, said.Specimen)]
    place = next(place for table, place, name in COLUMNS if (table, name) == ("specimen", "specimen_id"))
    longest = max(len(animal.specimen_id) for animal in animals)
    last = animals[-1]._replace(specimen_id="x" * (longest + 1))
    longer = Read([*one.contents[: one.contents.index(animals[-1])], last])
    assert whole(one, with_limit("specimen", place, longest), as_lines=True).plain
    assert not whole(longer, with_limit("specimen", place, longest), as_lines=True).plain
    assert whole(longer, with_limit("specimen", place, longest + 1), as_lines=True).plain
