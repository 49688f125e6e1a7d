"""Utterance ids: what every reader of tars takes, and apart for whatever is apart."""

import re

from hypothesis import given
from hypothesis import strategies as st

from uttermill.tasks.recording.names import utterance_id


@given(st.text(), st.text(), st.floats(0, 3.6e5), st.floats(0, 3.6e5))
def test_any_name_gives_a_safe_id_that_ustar_holds(
    path: str, key: str, start: float, end: float
) -> None:
    made = utterance_id("d" * 40, path, start, end, key)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", made)
    assert len(f"{made}.wav") <= 100


def test_names_that_cleaning_makes_alike_stay_apart() -> None:
    made = {utterance_id("d", f"{chr(0x4E00 + n)}.wav", 0, 5) for n in range(20_000)}
    assert len(made) == 20_000
    # As many names of equal length as a large corpus has need more than 32 bits.
    assert {len(name.split("-")[1]) for name in made} == {16}
