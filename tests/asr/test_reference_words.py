"""When the words of a source's text are said: in a run, stored once, refused where it cannot be."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from tests.helpers import corpus
from tests.plugins import doubting_asr
from tests.segmenters import test_ctc
from tests.segmenters.test_ctc import RATE, backend, model
from uttermill.flows import checks
from uttermill.tasks.asr import SpeechClip, Transcript, _words
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.publish.upkeep.prune import KeptSettings
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import recipe
from uttermill.tasks.storage import versions

COUNT = 3


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", COUNT)
    corpus.listed(tmp_path / "in", COUNT, tmp_path / "list.jsonl", r02="the bank is closed")
    return tmp_path


def job(home: Path, aligned: bool = True, **changes: Any) -> Job:
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c"}
    transcribe = {"backend": {"use": "fake"}, "reference_words": aligned}
    chosen = {"package": {"formats": ["wenet"]}, **changes}
    return corpus.job(home, sources=[source], transcribe=transcribe, **chosen)


def newest(out: Path) -> Path:
    version = versions.newest(out)
    assert version is not None
    return version


def rows(out: Path) -> list[dict[str, Any]]:
    table = pq.read_table(newest(out) / "utterances.parquet")
    return sorted(table.to_pylist(), key=lambda row: row["source_id"])


def test_words_of_the_text_have_times(home: Path) -> None:
    corpus.run(job(home))
    published = rows(home / "out")
    texts = ["".join(w["word"] for w in row["reference_words"]).strip() for row in published]
    assert texts == ["reference number 0", "reference number 1", "the bank is closed"]
    for row in published:
        words, seconds = row["reference_words"], row["num_samples"] / row["sample_rate"]
        assert row["reference_confidence"] == 1
        assert words[0]["start"] == 0
        assert words[-1]["end"] == pytest.approx(seconds)


@pytest.mark.nightly
def test_alignments_are_stored_once(home: Path) -> None:
    corpus.run(job(home, aligned=False))
    assert "reference_words" not in rows(home / "out")[0]
    plan = planning.plan(job(home), job(home, aligned=False))
    assert plan.stages["transcribe"].compute == COUNT
    _, counts = corpus.run(job(home))
    assert counts["transcribe"] == (COUNT, COUNT), "texts are heard before; words are new"
    _, counts = corpus.run(job(home))
    assert counts["transcribe"][0] == 0
    corpus.listed(home / "in", COUNT, home / "list.jsonl", r02="the bank is open")
    _, counts = corpus.run(job(home))
    assert counts["transcribe"][0] == 1, "another text is aligned anew"
    assert rows(home / "out")[2]["reference_words"][3]["word"].strip() == "open"


def test_alignments_outlive_pruning(home: Path) -> None:
    corpus.run(job(home))
    chosen = job(home)
    current = [KeptSettings(chosen, recipe.weights(chosen.transcribe.recognisers))]
    prune.carry_out(prune.plan(chosen.out, prune.kept_versions(chosen.out, 1), current))
    _, counts = corpus.run(chosen)
    assert counts["transcribe"][0] == 0


def test_without_a_text_there_are_no_words(home: Path) -> None:
    source = [{"kind": "folder", "path": str(home / "in"), "name": "c"}]
    transcribe = {"backend": {"use": "fake"}, "reference_words": True}
    corpus.run(corpus.job(home, sources=source, transcribe=transcribe))
    table = pq.read_table(newest(home / "out") / "utterances.parquet")
    assert table["reference_words"].to_pylist() == [None] * COUNT


@pytest.mark.parametrize(
    ("transcribe", "words"),
    [
        ({"backend": {"use": "none"}, "reference_words": True},
         "reference_words needs a recogniser that aligns"),
        ({"backend": {"use": "fake"}, "verdicts": [{"use": "reference_confidence"}]},
         r"set transcribe\.reference_words=true"),
    ],
)  # fmt: skip
def test_what_needs_aligned_texts_is_refused(
    home: Path, transcribe: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        checks.check_wishes(corpus.wishes(home, transcribe=transcribe))


def test_ctm_and_textgrids_hold_the_words(home: Path) -> None:
    chosen = job(home, package={"formats": ["wenet", "ctm", "textgrid"]})
    published, _ = corpus.run(chosen)
    version = published.path
    lines = (version / "ctm/train/000000000.ctm").read_text().splitlines()
    assert len(lines) == 3 + 3 + 4
    last = lines[-1].split()
    assert last[1] == "1"
    assert last[4:] == ["closed", "1.000"]
    grids = (version / "textgrid/train/data.list").read_text().split()
    assert len(grids) == COUNT
    assert '"bank"' in "".join((version / grid).read_text() for grid in grids)
    assert verify(version) == []
    (version / grids[0]).write_text("x")
    assert verify(version) != []


DOUBTING = {"use": "tests.plugins.doubting_asr"}


def judged(home: Path, **limits: float | None) -> Job:
    verdicts = [{"use": "empty_text"}, {"use": "reference_confidence", **limits}]
    transcribe = {"backend": DOUBTING, "reference_words": True, "verdicts": verdicts}
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c"}
    return corpus.job(home, sources=[source], transcribe=transcribe)


def test_a_text_that_is_not_said_is_dropped_and_limits_are_free(home: Path) -> None:
    texts = {"r00": "a good text", "r01": "one unsaid word there", "r02": "unsaid untrue unknown"}
    corpus.listed(home / "in", COUNT, home / "list.jsonl", **texts)
    corpus.run(judged(home, min=0.0))
    before = len(doubting_asr.ALIGNED)
    cases: list[tuple[dict[str, float | None], int]] = [
        ({}, 2),
        ({"min": 0.02}, 3),
        ({"min": None, "min_word": 0.1}, 1),
        ({"min": None, "max_doubtful": 0.3}, 2),
        ({"min": 0.0}, COUNT),
    ]
    for limits, kept in cases:
        _, counts = corpus.run(judged(home, **limits))
        assert counts["transcribe"][0] == 0
        assert len(doubting_asr.ALIGNED) == before
        assert len(rows(home / "out")) == kept, limits
        ledger = corpus.ledger(newest(home / "out"))
        dropped = [row for row in ledger if row["reason"] == "reference_not_said"]
        assert len(dropped) == COUNT - kept
        assert all(row["stage"] == "transcribe" and row["value"] is not None for row in dropped)


def test_the_rule_changes_no_published_value(home: Path) -> None:
    corpus.run(job(home))
    plain = rows(home / "out")[0]
    limited = job(home)
    rule = Plugin.model_validate({"use": "reference_confidence"})
    verdicts = (*limited.transcribe.verdicts, rule)
    transcribe = limited.transcribe.model_copy(update={"verdicts": verdicts})
    _, counts = corpus.run(replace(limited, transcribe=transcribe))
    assert counts["transcribe"][0] == 0
    row = rows(home / "out")[0]
    assert {name: row[name] for name in plain} == plain
    assert row["reference_confidence_doubtful"] == 0


# Words of a given text by a CTC model's emissions: exact ones, texts that are not said, long
# clips, bad input.


STEP = 0.01  # s of a frame, so that pieces of a clip are whole frames
SAID = "--" + "aab-b-|--c-d-|---d-a-|--b-a-d--"  # abb cd da bad
TEXT = "Abb, cd – da bad!"


def samples(said: str) -> NDArray[np.float32]:
    return test_ctc.samples(said).reshape(-1, 2)[:, 0]  # frames of half the length


@pytest.fixture
def ctc_model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return model(tmp_path / "model", frames=RATE // 100)


def align(ctc_model: Path, said: str, text: str, **options: Any) -> Transcript:
    clip = SpeechClip(samples(said), "en")
    (transcript,) = backend(ctc_model, **options).align([clip], [text])
    return transcript


def frames(said: str, words: list[str]) -> list[tuple[float, float]]:
    """Where words are in what is said, s."""
    spans, place = [], 0
    for word in words:
        letters = []
        for letter in word:
            place = said.index(letter, place)
            letters.append(place)
            while place < len(said) and said[place] == letter:
                place += 1
        spans.append((letters[0] * STEP, place * STEP))
    return spans


def near(word: Any, span: tuple[float, float]) -> bool:
    """Within the frames, or wider by what is beside them."""
    beside = _words.BESIDE + STEP / 2
    return bool(
        -STEP / 2 <= span[0] - word.start <= beside and -STEP / 2 <= word.end - span[1] <= beside
    )


def test_words_are_where_their_tokens_are(ctc_model: Path) -> None:
    transcript = align(ctc_model, SAID, TEXT)
    words = transcript.words or ()
    assert "".join(word.word for word in words).strip() == TEXT
    assert all((word.probability or 0) > 0.99 for word in words)
    spans = frames(SAID, ["abb", "cd", "da", "bad"])
    assert all(map(near, words, spans))
    assert transcript.avg_logprob == pytest.approx(0, abs=0.01)
    assert all(a.end <= b.start for a, b in pairwise(words))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("abb cd bad", {0: "abb", 1: "cd", 2: "bad"}),  # one is said that it lacks
        ("abb cd ccc dcbc da bad", {0: "abb", 1: "cd", 4: "da", 5: "bad"}),
        ("ccc abb cd da bad dcdc", {1: "abb", 2: "cd", 3: "da", 4: "bad"}),
    ],
)
def test_words_that_are_not_said_cost_only_themselves(
    ctc_model: Path, text: str, said: dict[int, str]
) -> None:
    words = align(ctc_model, SAID, text).words or ()
    assert [word.word.strip() for word in words] == text.split()
    spans = frames(SAID, [*said.values()])
    assert all(near(words[place], span) for place, span in zip(said, spans, strict=True))
    assert [n for n, word in enumerate(words) if word.probability == 0] == [
        n for n in range(len(words)) if n not in said
    ]
    assert all(0 <= word.start <= word.end <= len(SAID) * STEP for word in words)


@pytest.mark.parametrize("text", ["cbc dcb ccc", "d " * 400, "abcd" * 300])
def test_another_text_is_not_sure(ctc_model: Path, text: str) -> None:
    transcript = align(ctc_model, SAID, text)
    sure = [word.probability for word in transcript.words or ()]
    assert transcript.error is None
    assert len(sure) == len(text.split())
    assert np.mean([one for one in sure if one is not None]) < 0.2


def test_words_without_a_token_have_no_probability(ctc_model: Path) -> None:
    words = align(ctc_model, SAID, "abb zzz cd да bad").words or ()
    assert [word.probability is None for word in words] == [False, True, False, True, False]
    assert words[0].end <= words[1].start <= words[1].end <= words[2].start
    odd = align(ctc_model, SAID, "да нет")
    assert odd.error == "no character of the text is a token of the model"
    assert align(ctc_model, SAID, "…").words == ()


@pytest.mark.parametrize("longest", [1.2, 3.0, 30.0])
def test_a_clip_may_be_longer_than_the_model_hears_at_once(ctc_model: Path, longest: float) -> None:
    count = 80
    said = ("-" * 12).join([SAID] * count)
    transcript = align(ctc_model, said, " ".join([TEXT] * count), max_seconds=longest)
    words = transcript.words or ()
    assert len(words) == 4 * count  # the dash belongs to the word before it
    spans = frames(said, ["abb", "cd", "da", "bad"] * count)
    assert sum(map(near, words, spans)) == 4 * count
    assert all(a.end <= b.start for a, b in pairwise(words))


def test_odd_clips_cost_themselves(ctc_model: Path) -> None:
    clips = [
        SpeechClip(np.array([0.1, np.nan], np.float32), "en"),
        SpeechClip(np.zeros(0, np.float32), "en"),
        SpeechClip(samples("a")[:100], None),
        SpeechClip(samples(SAID), "en"),
    ]
    told = [*backend(ctc_model).align(clips, [TEXT] * len(clips))]
    assert told[0].error == "samples are NaN or infinite"
    assert told[1].words == ()
    assert len(told[2].words or ()) == 4
    assert all(near(w, s) for w, s in zip(told[3].words or (), frames(SAID, ["abb"]), strict=False))


def test_a_model_that_refuses_a_clip_leaves_it_without_words(ctc_model: Path) -> None:
    (ctc_model / "tokens.txt").write_text("<blk> 0\n| 1\na 2\n")
    told = align(ctc_model, SAID, "a")
    assert "which do not fit the 3 tokens" in str(told.error)


def test_a_run_aligns_by_ctc(ctc_model: Path, tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    corpus.listed(tmp_path / "in", 3, tmp_path / "list.jsonl", r00="cd", r01="да", r02="dad bad")
    source = {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c", "language": "en"}
    verdicts = [{"use": "reference_confidence", "min": 0.0}]
    recogniser = {"use": "ctc", "model": str(ctc_model)}
    transcribe = {"backend": recogniser, "reference_words": True, "verdicts": verdicts}
    published, _ = corpus.run(corpus.job(tmp_path, sources=[source], transcribe=transcribe))
    rows = pq.read_table(published.path / "utterances.parquet").sort_by("source_id").to_pylist()
    assert [row["reference_words"] is None for row in rows] == [False, True, False]
    assert rows[0]["reference_confidence"] < 0.5
    assert rows[1]["reference_confidence"] is None
