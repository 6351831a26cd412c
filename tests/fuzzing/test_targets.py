"""Every fuzz target with its corpus and with what Hypothesis makes of it; `make fuzz` goes on from there."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing.__main__ import main
from tests.fuzzing.targets import CORPUS, TARGETS, forget_files, seeds
from tests.support.trials import trials

EXAMPLES = {"archive": 100, "document": 60}


@pytest.fixture(autouse=True, scope="module")
def no_files_left() -> Iterator[None]:
    yield
    forget_files()


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_corpus_meets_no_fault(name: str) -> None:
    found = list(seeds(name))
    assert found
    for _, content in found:
        TARGETS[name](content)


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """An input of the corpus with bytes changed, cut, repeated or put in from another one."""
    inputs = [content for _, content in seeds(name)]
    content = bytearray(draw(st.sampled_from(inputs)))
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 40))
        change = draw(st.sampled_from(["set", "cut", "repeat", "other", "any"]))
        if change == "set" and place < len(content):
            content[place] = draw(st.sampled_from(b"\0\x01\x7f\x80\xff<>&\"'=;/\\.-[]%\r\n 09AZ"))
        elif change == "cut":
            del content[place : place + length]
        elif change == "repeat":
            content[place:place] = content[place : place + length] * draw(st.integers(1, 20))
        elif change == "other":
            other = draw(st.sampled_from(inputs))
            start = draw(st.integers(0, len(other)))
            content[place:place] = other[start : start + length]
        else:
            content[place:place] = draw(st.binary(max_size=20))
    return bytes(content)


@pytest.mark.parametrize("name", sorted(TARGETS))
@pytest.mark.parametrize("kind", ["damaged corpus", "any bytes"])
def test_input_that_is_made_meets_no_fault(name: str, kind: str) -> None:
    most, inputs = {
        "damaged corpus": (trials(EXAMPLES.get(name, 200)), damaged(name)),
        "any bytes": (30, st.binary(max_size=300)),
    }[kind]

    @settings(max_examples=most, suppress_health_check=list(HealthCheck), database=None)
    @given(inputs)
    def holds(content: bytes) -> None:
        TARGETS[name](content)

    holds()


def test_one_input_can_be_run_again_alone(capsys: pytest.CaptureFixture[str]) -> None:
    path = next(iter(sorted((CORPUS / "names").iterdir())))
    assert main(["--again", "names", str(path)]) == 0
    assert capsys.readouterr().out == "No fault.\n"
