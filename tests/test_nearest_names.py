"""Names that are most like a text."""

from hypothesis import given
from hypothesis import strategies as st

from dcc.nearest_names import nearest_names, nearest_sentence


def test_the_nearest_come_first_and_of_equals_the_first() -> None:
    assert nearest_names("Fto-A", ["J-Fto-A", "H-Fto-A", "Fto-B", "Abc"], 2) == ["J-Fto-A", "H-Fto-A"]
    assert nearest_names("fto-a", ["H-Fto-A", "J-Fto-A", "FTO-A"]) == ["FTO-A", "H-Fto-A", "J-Fto-A"]
    assert (nearest_names("xyz", ["Fto-A"]), nearest_sentence("xyz", ["Fto-A"])) == ([], "")
    assert nearest_sentence("Fto", ["Fto-A", "Fto-B"]) == " The nearest: Fto-A, Fto-B."


@given(st.lists(st.text(max_size=6), max_size=8), st.integers(1, 4))
def test_a_name_is_nearest_to_itself(names: list[str], most: int) -> None:
    for name in names:
        found = nearest_names(name, names, most)
        assert len(found) <= most
        assert found[0].casefold() == name.casefold()
