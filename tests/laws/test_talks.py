"""The laws hold for windows of dialogues with turns, annotations and times of a text's words."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, killed_runs, talks, tiers
from tests.plugins import doubting_asr
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.storage import versions

COUNT = 2


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Talks and a version of them; never changed."""
    made = tmp_path_factory.mktemp("talks")
    for number in range(COUNT):
        talks.add(made, number)
    corpus.run(talks.job(made))
    return made


@pytest.mark.parametrize("kills", [5, tiers.nightly(20)])
@pytest.mark.nightly
def test_killed_anywhere(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, kills: int
) -> None:
    killed_runs.lose_nothing(home, tmp_path, caplog, kills, 7, lambda out: talks.job(home, out=out))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    for number in range(COUNT):
        talks.add(tmp_path, number)
    corpus.run(talks.job(tmp_path))
    return tmp_path


def rows(version: Path) -> dict[str, dict[str, Any]]:
    table = corpus.utterances(version)
    return {row["id"]: row for row in table}


@pytest.mark.nightly
def test_a_night_computes_what_is_new_and_limits_are_free(own: Path) -> None:
    before, texts = rows(own / "out/datasets/v0001"), len(doubting_asr.ALIGNED)
    talks.add(own, COUNT)
    two, counts = corpus.run(talks.job(own))
    assert {stage: computed for stage, (computed, _) in counts.items() if stage != "package"} == {
        **{"shard": 1, "filter": 1, "resample": 1, "transcribe": 1}
    }
    assert len(doubting_asr.ALIGNED) == texts + 1
    after = rows(two.path)
    places = ("shard", "offset", "generation")
    for name, row in before.items():
        same = {key: value for key, value in row.items() if key not in places}
        assert same == {key: value for key, value in after[name].items() if key not in places}
    assert len(after) == COUNT + 1
    assert verify(two.path) == []
    doubts = {row["reference_confidence"] for row in after.values()}
    assert all(0.8 < doubt < 0.9 for doubt in doubts), "each text has one doubtful word"
    for limits in ({"min_sure": 0.8}, {"mood": ("even", "odd")}, {"loud": 1.0}):
        _, counts = corpus.run(talks.job(own, **limits))
        assert not any(computed for computed, _ in counts.values()), limits


def test_a_text_that_bursts_the_aligner_is_loud_and_costs_nothing_else(own: Path) -> None:
    """A plug-in's own error ends the run, which says it; what is computed stays."""
    lines = (own / talks.LIST).read_text()
    changed = lines.replace(talks.text_of(1, 0), "a burst text")
    (own / talks.LIST).write_text(changed)
    with pytest.raises(ValueError, match="this text bursts"):
        corpus.run(talks.job(own))
    assert [path.name for path in versions.all_of(own / "out")] == ["v0001"]
    (own / talks.LIST).write_text(lines)
    _, counts = corpus.run(talks.job(own))
    assert counts["transcribe"][0] == 0
