"""What the Whisper backend does around its engine: batches, languages, faults; no weights."""

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.helpers.stub_whisper import CODES, LOOP, WORDS, StubWhisper, clip
from uttermill.tasks.asr import SharedWindow, SpeechClip, Transcript, Word, faster_whisper
from uttermill.tasks.asr._whisper import loading, results, whole_clips, windows
from uttermill.tasks.asr._whisper.results import Context
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins import gpu

RATE = 16000


def backend(engine: Any, **options: Any) -> faster_whisper.Backend:
    return faster_whisper.Backend(faster_whisper.Settings(**options), engine)


def texts(engine: StubWhisper, clips: list[SpeechClip], **options: Any) -> list[str | None]:
    return [heard.text for heard in backend(engine, **options).transcribe(clips)]


def test_texts_come_in_order_whatever_the_batch() -> None:
    clips = [clip(n, seconds) for n, seconds in ((3, 2), (1, 5), (0, 1.5), (6, 30), (2, 4))]
    wanted = ["three", "one", "", "six", "two"]
    for size in (1, 2, 8):
        engine = StubWhisper()
        assert texts(engine, clips, batch_size=size) == wanted
        assert max(engine.searches) == min(size, 4)  # the one of 30 s has a longer window
        assert engine.encoded == [1] * 5  # on a CPU, one by one


def test_a_clip_is_heard_in_the_shortest_window_with_room_behind_it() -> None:
    for seconds, window in ((1.3, 10), (5, 10), (5.1, 15), (6.5, 15), (6.6, 20), (16.5, 25),
                            (16.6, 30), (29.9, 30), (30, 30)):  # fmt: skip
        engine = StubWhisper()
        assert texts(engine, [clip(1, seconds)]) == ["one"]
        assert engine.frames == [100 * window]
        assert texts(engine, [clip(1, seconds)], short_windows=False) == ["one"]
        assert engine.frames == [100 * window, 3000]


def test_windows_of_one_length_share_a_batch() -> None:
    clips = [clip(n % 6 + 1, 1.5 + 4 * n) for n in range(8)]  # to 29.5 s
    engine = StubWhisper()
    assert texts(engine, clips, batch_size=8) == [WORDS[n % 6 + 1] for n in range(8)]
    assert sorted(engine.searches) == sorted(map(engine.frames.count, set(engine.frames)))
    # What is heard again comes in any length.
    made = backend(engine, batch_size=8)
    windows = made._windows.hear([(one, None) for one in clips], detect=False)
    assert [w.heard.text for w in windows] == [WORDS[n % 6 + 1] for n in range(8)]


def test_what_was_said_before_precedes_the_prompt_in_its_language_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = StubWhisper()
    prompts: list[list[int]] = []
    search = engine.model.generate

    def generate(encoded: Any, asked: list[list[int]], **options: Any) -> Any:
        prompts.extend(asked)
        return search(encoded, asked, **options)

    monkeypatch.setattr(engine.model, "generate", generate)
    windows = backend(engine, prompt="in short")._windows
    told = [Context("en", (7, 8)), Context("de", (7, 8)), None]
    windows.hear([(clip(1), None)] * 3, before=told)
    assert sorted(map(tuple, (prompt[:4] for prompt in prompts)))[-1][:4] == (5, 5, 7, 8)
    assert sum(7 in prompt for prompt in prompts) == 1
    # A loop is heard again without it: it may be what is repeated.
    prompts.clear()
    windows.hear([(clip(LOOP), None)], before=told[:1])
    assert [7 in prompt for prompt in prompts] == [True, False]


def test_silence_follows_several_utterances_to_the_end_of_their_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After zeros of the spectrogram the last one would be left out."""
    engine = StubWhisper()
    taken: list[float] = []

    def spectrogram(samples: Any) -> Any:
        taken.append(len(samples) / RATE)
        return np.zeros((2, 3000), np.float32)

    monkeypatch.setattr(engine, "feature_extractor", spectrogram)
    alone, both = (
        clip(1, 20),
        SharedWindow(clip(1, 20).samples, ((0, 9 * RATE), (10 * RATE, 20 * RATE))),
    )
    windows = backend(engine)._windows
    windows.encode([alone])
    windows.encode([replace(alone, window=both)])
    assert taken == [20.5, 30.0]


def test_short_windows_are_for_the_model_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever name it goes by: equal weights have equal recipes, and so must have equal texts."""

    def short(model: str, sha256: str, **options: Any) -> bool:
        monkeypatch.setattr(loading, "weights", lambda _: sha256)
        settings = faster_whisper.Settings(model=model, **options)
        return loading.short_windows(settings)

    assert short("base", loading.BASE_SHA256)
    assert short("/models/base", loading.BASE_SHA256)
    assert not short("/models/large-v3", "0" * 64)
    assert short("/models/large-v3", "0" * 64, short_windows=True)
    assert not short("base", loading.BASE_SHA256, short_windows=False)


def test_a_gpu_encodes_the_batch() -> None:
    engine = StubWhisper(device="cuda")
    assert len(texts(engine, [clip(1)] * 20)) == 20
    assert engine.encoded == [16, 4]


def test_a_size_for_each_forced_language() -> None:
    clips = [clip(1, language="zh-CN") for _ in range(4)] + [clip(2, language="de")] * 3
    for sizes, wanted in (
        ({"zh": 1, "default": 3}, [1, 1, 1, 1, 3]),
        ({"cmn": 2}, [2, 2, 3]),  # the rest by auto
        ({"de": 2, "default": 4}, [4, 2, 1]),
    ):
        engine = StubWhisper()
        texts(engine, clips, batch_size=sizes)
        assert engine.searches == wanted
    engine = StubWhisper()
    texts(engine, [clip(1)] * 4, batch_size={"en": 1, "default": 4})
    assert engine.searches == [4]  # English, but nobody knew it before


def test_out_of_memory_is_learnt_once(caplog: pytest.LogCaptureFixture) -> None:
    engine = StubWhisper(fits=3)
    made = backend(engine, batch_size=8)
    with caplog.at_level(logging.WARNING, "uttermill"):
        for _ in range(2):
            heard = list(made.transcribe([clip(n % 6 + 1) for n in range(8)]))
            assert [t.text for t in heard] == [WORDS[n % 6 + 1] for n in range(8)]
            assert not any(t.error for t in heard)
    assert engine.searches == [8, 4, 2, 2, 2, 2, 2, 2, 2, 2]
    assert len(caplog.records) == 1


def test_bad_clips_cost_only_themselves() -> None:
    engine = StubWhisper()
    nan = SpeechClip(np.full(RATE, np.nan, np.float32))
    empty = SpeechClip(np.zeros(0, np.float32))
    given = [clip(1), nan, clip(2, language="tlh"), empty, clip(3, language="zh")]
    one, bad, klingon, nothing, three = backend(engine).transcribe(given)
    assert (one.text, three.text, three.language) == ("one", "three", "zh")
    assert bad.error == "samples are NaN or infinite"
    assert "tlh" in str(klingon.error)
    assert (nothing.text, nothing.error) == ("", None)
    assert engine.searches == [2]


@pytest.mark.parametrize(
    "options", [{"language": "klingon"}, {"prompt": {"tlh": "nuqneH"}}, {"batch_size": {"tlh": 2}}]
)
def test_a_language_that_nobody_knows_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="does not know the language"):
        loading.weights(faster_whisper.Settings(**options))  # before any worker starts
    with pytest.raises(ConfigError, match="does not know the language"):
        backend(StubWhisper(), **options)


def test_an_english_model_hears_english() -> None:
    heard = list(backend(StubWhisper(multilingual=False)).transcribe([clip(1, language="zh")]))
    assert [(t.language, t.text, t.language_probability) for t in heard] == [("en", "one", None)]


def test_a_loop_is_tried_once_more() -> None:
    engine = StubWhisper()
    assert texts(engine, [clip(LOOP), clip(1)]) == ["loop", "one"]
    assert engine.searches == [2, 1]
    assert engine.encoded == [1, 1]  # not again
    engine._said = lambda number, options: StubWhisper._said(engine, number, {})  # type: ignore[method-assign]
    heard = next(backend(engine).transcribe([clip(LOOP)]))
    # What still loops is given as it was, so that a verdict can drop it.
    assert heard.text == " ".join(["loop"] * 40)
    assert (heard.compression_ratio or 0) > windows.LOOP_RATIO


@pytest.mark.parametrize(
    ("seem", "logprobs", "heard"),
    [
        ([("zh", 0.8), ("en", 0.1), ("de", 0.01)], {"zh": -9.0, "en": -0.2}, ("en", 0.9, 2)),
        ([("zh", 0.4), ("en", 0.3), ("de", 0.2)], {"zh": -1.2, "en": -3.0}, ("zh", 0.4, 3)),
        ([("zh", 0.4), ("en", 0.3), ("de", 0.2)], {"zh": -0.9, "en": -0.1}, ("zh", 0.4, 1)),
        ([("zh", 0.8), ("en", 0.2), ("de", 0.0)], {"zh": -0.5, "en": -0.1}, ("zh", 0.8, 1)),
        ([("zh", 0.96), ("en", 0.04), ("de", 0)], {"zh": -9.0, "en": -0.2}, ("zh", 0.96, 1)),
    ],
)
def test_the_likeliest_text_says_which_of_several_doubtful_languages_it_is(
    seem: list[tuple[str, float]], logprobs: dict[str, float], heard: tuple[str, float, int]
) -> None:
    engine = StubWhisper()
    engine.model.detect_language = lambda _: [[(f"<|{code}|>", p) for code, p in seem]]
    generate = engine.model.generate

    def scored(encoded: Any, prompts: list[list[int]], **options: Any) -> list[Any]:
        (result,) = generate(encoded, prompts, **options)
        (code,) = (CODES[token - 10] for token in prompts[0] if token in (10, 11, 12))
        result.scores = [logprobs.get(code, -3.0)]
        return [result]

    engine.model.generate = scored
    (found,) = backend(engine).transcribe([clip(1, 2.0)])
    code, probability, searches = heard
    assert (found.language, found.detected_language, len(engine.searches)) == (code, code, searches)
    assert found.language_probability == pytest.approx(probability, abs=0.01)
    assert engine.encoded == [1]


@pytest.mark.parametrize(("scores", "taken"), [((-0.9, -0.3), -0.3), ((-0.9, -1.2), -0.9)])
def test_a_doubtful_window_is_searched_again_without_the_text_before_it(
    scores: tuple[float, float], taken: float
) -> None:
    engine = StubWhisper()
    answers = iter(scores)
    said = engine._said

    def scored(number: int, options: dict[str, Any]) -> Any:
        result = said(number, options)
        result.scores = [next(answers) * 2]  # of one token, and its end
        return result

    engine._said = scored  # type: ignore[method-assign]
    (window,) = backend(engine)._windows.hear([(clip(1), "en")], before=[Context("en", (7,))])
    assert window.heard.avg_logprob == pytest.approx(taken)
    assert engine.encoded == [1]  # not again
    assert engine.searches == [1, 1]


def test_prompts_of_different_lengths_share_a_batch() -> None:
    engine = StubWhisper()
    prompt = {"de": "Guten Morgen zusammen.", "zh-TW": "一"}
    clips = [clip(1, language="de"), clip(2), clip(3, language="zh")]
    assert texts(engine, clips, prompt=prompt) == ["one", "two", "three"]
    assert sorted(engine.searches) == [1, 1, 1]


@pytest.mark.parametrize(
    ("no_speech", "logprob", "text"),
    [(0.61, -1.01, ""), (0.61, -0.99, "Hm."), (0.59, -1.01, "Hm.")],
)
def test_whispers_rule_of_silence(no_speech: float, logprob: float, text: str) -> None:
    heard = results.BeamResult("Hm.", logprob, no_speech)
    window = results.Window(heard, results.Language("en", 0.5), None)
    given = whole_clips.begun(clip(1), window).transcript(with_words=False)
    assert (given.text, given.no_speech_probability, given.avg_logprob) == (
        text, no_speech, logprob,
    )  # fmt: skip


# --- long clips


def segment(text: str, start: float, end: float, *, seek: float = 0, **rest: Any) -> Any:
    values = {"avg_logprob": -0.2, "no_speech_prob": 0.0, "compression_ratio": 1.0, "tokens": [0]}
    given = {"text": text, "start": start, "end": end, "seek": round(seek * 100), "words": None}
    return SimpleNamespace(**{**values, **given, **rest})


def test_long_transcript() -> None:
    one = segment(" Hello there.", 0, 10, tokens=[0] * 4)
    two = segment(
        " Good  bye.", 10, 40, avg_logprob=-0.4, no_speech_prob=0.4, compression_ratio=1.5,
        tokens=[0] * 14,
    )  # fmt: skip
    heard = whole_clips.joined([one, two])
    assert heard.text == "Hello there. Good bye."
    assert heard.avg_logprob == pytest.approx(-0.35)
    assert heard.no_speech == pytest.approx(0.3)
    assert heard.ratio == 1.5
    assert len(heard.tokens) == 18
    assert whole_clips.joined([]).text == ""


def test_a_piece_ends_where_a_window_would_reach_beyond() -> None:
    within = [segment("a", 0, 28), segment("b", 240, 268, seek=240)]
    beyond = segment("c", 275, 299, seek=271.5)
    size = 300 * RATE
    assert whole_clips.whole_windows([*within, beyond], size) == (within, int(271.5 * RATE))
    assert whole_clips.whole_windows(within, size) == (within, 270 * RATE)
    assert whole_clips.whole_windows([], size) == ([], 270 * RATE)
    late = [segment("d", 269, 299.5, seek=269.7)]
    assert whole_clips.whole_windows(late, size) == (late, int(299.5 * RATE))


class LongEngine:
    """Windows of 29 s, one segment each; counts what it is given at once."""

    def __init__(self) -> None:
        self.most = 0

    def transcribe(self, samples: Any, **options: Any) -> Any:
        self.most = max(self.most, len(samples))
        seconds = len(samples) / RATE
        starts = np.arange(0, seconds, 29.0)
        return [
            segment(
                f" {samples[int(s * RATE)]:.0f}", s, min(s + 29, seconds), seek=s,
                words=[SimpleNamespace(word=" x", start=s, end=s + 1, probability=0.5)],
            )
            for s in starts
        ], None  # fmt: skip


def test_a_long_clip_is_heard_in_pieces_of_five_minutes() -> None:
    """The windows are those of one pass: each 29 s after the one before, over all pieces."""
    engine = LongEngine()
    samples = np.repeat(np.arange(900, dtype=np.float32), RATE)
    settings = faster_whisper.Settings(word_timestamps=True)
    long = SpeechClip(samples)
    long.__dict__["speech"] = ((31.0, 34.0),)  # after the second word
    hearing = whole_clips.Long(engine, settings).hear(long, results.Language("en"))
    assert hearing.missed() == [(30.8, 58.0)]
    heard = hearing.transcript(with_words=True)
    assert engine.most == 300 * RATE
    assert [int(n) for n in (heard.text or "").split()] == list(range(0, 900, 29))
    assert heard.text_end == 900
    assert heard.hole == pytest.approx((30.8, 3.0))
    assert heard.words is not None
    assert [w.start for w in heard.words] == pytest.approx(list(range(0, 900, 29)))


# --- words and scripts


def test_words_are_in_order_and_within_the_clip() -> None:
    given = [Word("a", -0.1, 0.4, 1), Word("b", 0.38, 0.37, 1), Word("c", 0.5, 2.0, 1)]
    found = results.ordered(given, 1.5)
    assert [(w.start, w.end) for w in found] == [(0.0, 0.4), (0.4, 0.4), (0.5, 1.5)]


def test_words_that_the_engine_cannot_align() -> None:
    def broken(*args: Any, **options: Any) -> None:
        raise IndexError("index 3 is out of bounds")

    engine = SimpleNamespace(add_word_timestamps=broken)
    assert results.aligned(engine, None, None, [1], RATE) is None


def test_one_script_for_chinese() -> None:
    words = (Word(" 我們", 0.0, 0.5, 0.9), Word("聽見", 0.5, 1.0, 0.9))
    heard = Transcript("我們聽見", "zh", words=words)
    simple = results.in_script(heard, "simplified")
    assert simple.text == "我们听见"
    assert [w.word for w in simple.words or ()] == [" 我们", "听见"]
    assert results.in_script(simple, "traditional").text == "我們聽見"
    assert results.in_script(heard, "as_heard") is heard
    other = Transcript("我們聽見", "ja")
    assert results.in_script(other, "simplified") is other
    said = [clip(8, language="zh"), clip(8, language="de")]
    assert texts(StubWhisper(), said) == ["我们听见", "我們聽見"]
    assert texts(StubWhisper(), said, chinese="as_heard") == ["我們聽見", "我們聽見"]


def test_cantonese_stays_as_it_is_heard() -> None:
    heard = Transcript("我哋聽見", "yue")
    assert results.in_script(heard, "simplified") is heard
    assert results.in_script(heard, "traditional") is heard


# --- devices


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "ctranslate2_fault", lambda: "CTranslate2 has no CUDA")
    with pytest.raises(ConfigError, match=r"device is cuda, but CTranslate2 has no CUDA"):
        loading.device_of("cuda")
    assert faster_whisper.gpu_fault(faster_whisper.Settings()) == "CTranslate2 has no CUDA"
    assert not faster_whisper.wants_gpu(faster_whisper.Settings(device="cpu"))
    assert faster_whisper.wants_gpu(faster_whisper.Settings())


@pytest.mark.parametrize(
    ("visible", "there", "said"),
    [(None, True, 1), ("", True, 0), ("-1", True, 0), (None, False, 0)],
)
def test_a_gpu_is_not_passed_over_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path,
    visible: str | None, there: bool, said: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(gpu, "ctranslate2_fault", lambda: "CTranslate2 has no CUDA")
    monkeypatch.setattr(gpu, "DRIVER", tmp_path / "gpus")
    if there:
        (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with caplog.at_level(logging.WARNING, "uttermill"):
        assert loading.device_of("auto") == "cpu"
    assert ["CTranslate2 has no CUDA" in r.message for r in caplog.records] == [True] * said


def test_a_gpu_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "ctranslate2_fault", lambda: None)
    assert loading.device_of("auto") == loading.device_of("cuda") == "cuda"
    assert loading.device_of("cpu") == "cpu"


def test_a_gpu_that_fails_when_it_is_warmed() -> None:
    def broken(mels: Any) -> None:
        raise RuntimeError("Library libcublas.so.12 is not found or cannot be loaded")

    engine = StubWhisper(device="cuda")
    engine.feature_extractor = SimpleNamespace(mel_filters=np.zeros((80, 201)))  # type: ignore[assignment,method-assign]
    engine.encode = broken  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="libcublas"):
        backend(engine).warm()
    backend(StubWhisper()).warm()  # a CPU needs nothing
