"""Words of a given text by a CTC model's emissions: exact ones, texts that are not said, long
clips, bad input."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from tests.helpers import corpus
from tests.segmenters import test_ctc
from tests.segmenters.test_ctc import RATE, backend, model
from uttermill.tasks.asr import SpeechClip, Transcript, _words

STEP = 0.01  # s of a frame, so that pieces of a clip are whole frames
SAID = "--" + "aab-b-|--c-d-|---d-a-|--b-a-d--"  # abb cd da bad
TEXT = "Abb, cd – da bad!"


def samples(said: str) -> NDArray[np.float32]:
    return test_ctc.samples(said).reshape(-1, 2)[:, 0]  # frames of half the length


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return model(tmp_path / "model", frames=RATE // 100)


def align(home: Path, said: str, text: str, **options: Any) -> Transcript:
    clip = SpeechClip(samples(said), "en")
    (transcript,) = backend(home, **options).align([clip], [text])
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


def test_words_are_where_their_tokens_are(home: Path) -> None:
    transcript = align(home, SAID, TEXT)
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
    home: Path, text: str, said: dict[int, str]
) -> None:
    words = align(home, SAID, text).words or ()
    assert [word.word.strip() for word in words] == text.split()
    spans = frames(SAID, [*said.values()])
    assert all(near(words[place], span) for place, span in zip(said, spans, strict=True))
    assert [n for n, word in enumerate(words) if word.probability == 0] == [
        n for n in range(len(words)) if n not in said
    ]
    assert all(0 <= word.start <= word.end <= len(SAID) * STEP for word in words)


@pytest.mark.parametrize("text", ["cbc dcb ccc", "d " * 400, "abcd" * 300])
def test_another_text_is_not_sure(home: Path, text: str) -> None:
    transcript = align(home, SAID, text)
    sure = [word.probability for word in transcript.words or ()]
    assert transcript.error is None
    assert len(sure) == len(text.split())
    assert np.mean([one for one in sure if one is not None]) < 0.2


def test_words_without_a_token_have_no_probability(home: Path) -> None:
    words = align(home, SAID, "abb zzz cd да bad").words or ()
    assert [word.probability is None for word in words] == [False, True, False, True, False]
    assert words[0].end <= words[1].start <= words[1].end <= words[2].start
    odd = align(home, SAID, "да нет")
    assert odd.error == "no character of the text is a token of the model"
    assert align(home, SAID, "…").words == ()


@pytest.mark.parametrize("longest", [1.2, 3.0, 30.0])
def test_a_clip_may_be_longer_than_the_model_hears_at_once(home: Path, longest: float) -> None:
    count = 80
    said = ("-" * 12).join([SAID] * count)
    transcript = align(home, said, " ".join([TEXT] * count), max_seconds=longest)
    words = transcript.words or ()
    assert len(words) == 4 * count  # the dash belongs to the word before it
    spans = frames(said, ["abb", "cd", "da", "bad"] * count)
    assert sum(map(near, words, spans)) == 4 * count
    assert all(a.end <= b.start for a, b in pairwise(words))


def test_odd_clips_cost_themselves(home: Path) -> None:
    clips = [
        SpeechClip(np.array([0.1, np.nan], np.float32), "en"),
        SpeechClip(np.zeros(0, np.float32), "en"),
        SpeechClip(samples("a")[:100], None),
        SpeechClip(samples(SAID), "en"),
    ]
    told = [*backend(home).align(clips, [TEXT] * len(clips))]
    assert told[0].error == "samples are NaN or infinite"
    assert told[1].words == ()
    assert len(told[2].words or ()) == 4
    assert all(near(w, s) for w, s in zip(told[3].words or (), frames(SAID, ["abb"]), strict=False))


def test_a_model_that_refuses_a_clip_leaves_it_without_words(home: Path) -> None:
    (home / "tokens.txt").write_text("<blk> 0\n| 1\na 2\n")
    told = align(home, SAID, "a")
    assert "which do not fit the 3 tokens" in str(told.error)


def test_a_run_aligns_by_ctc(home: Path, tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    corpus.listed(tmp_path / "in", 3, tmp_path / "list.jsonl", r00="cd", r01="да", r02="dad bad")
    source = {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c", "language": "en"}
    verdicts = [{"use": "reference_confidence", "min": 0.0}]
    recogniser = {"use": "ctc", "model": str(home)}
    transcribe = {"backend": recogniser, "reference_words": True, "verdicts": verdicts}
    published, _ = corpus.run(corpus.job(tmp_path, sources=[source], transcribe=transcribe))
    rows = pq.read_table(published.path / "utterances.parquet").sort_by("source_id").to_pylist()
    assert [row["reference_words"] is None for row in rows] == [False, True, False]
    assert rows[0]["reference_confidence"] < 0.5
    assert rows[1]["reference_confidence"] is None
