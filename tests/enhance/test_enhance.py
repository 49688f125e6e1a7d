"""The step enhance: its models, and clips of every kind; `test_enhance_runs.py` has the runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray

from tests.helpers import corpus, tiny_onnx
from tests.helpers.fetched import CORPUS
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError, ItemError
from uttermill.tasks.enhance import Enhancer, deepfilter, separator_onnx
from uttermill.tasks.models import onnx_session
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.stages import pcm, resample

Floats = NDArray[np.float32]
QUIETER = "tests.plugins.quieter"
SHAPE, N_FFT, HOP = (1, 4, 65, 8), 128, 32  # of a separator


def separator(home: Path, gain: float = 0.5) -> separator_onnx.Settings:
    """Settings of a separator whose graph gives `gain` of what it hears."""
    tiny_onnx.separator(home / "half.onnx", SHAPE, gain)
    return separator_onnx.Settings(path=str(home), n_fft=N_FFT, hop=HOP)


def run(enhancer: Enhancer, samples: Floats, blocks: Sequence[int]) -> Floats:
    made, at = [], 0
    for size in blocks:
        made.append(enhancer.push(samples[at : at + size]))
        at += size
    made += [enhancer.push(samples[at:]), enhancer.finish()]
    return np.concatenate(made)


def si_sdr(estimate: Floats, target: Floats) -> float:
    scaled = target * ((estimate @ target) / (target @ target))
    return float(10 * np.log10((scaled @ scaled) / np.sum((estimate - scaled) ** 2)))


def noise(seed: int, count: int) -> Floats:
    return (0.1 * np.random.default_rng(seed).standard_normal(count)).astype(np.float32)


# --- enhancers ------------------------------------------------------------------------------------

ENHANCERS = [
    "deepfilter",
    pytest.param("gtcrn", marks=pytest.mark.needs("gtcrn")),
    "separator_onnx",
]


def begin(name: str, home: Path) -> Enhancer:
    if name == "separator_onnx":
        return separator_onnx.start(separator(home))
    module = plugins.ENHANCE.load(name)
    return module.start(module.Settings())


@pytest.mark.parametrize("name", ENHANCERS)
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 479, 480, 481, 1000, 5000])
def test_as_many_samples_as_there_were(name: str, count: int, tmp_path: Path) -> None:
    samples = noise(count, count)
    assert len(run(begin(name, tmp_path), samples, [])) == count


@pytest.mark.parametrize("name", ENHANCERS)
def test_blocks_of_any_size_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    samples = noise(1, 20_000)
    sizes = np.random.default_rng(2).integers(1, 1500, 40).tolist()
    whole = run(begin(name, tmp_path), samples, [])
    np.testing.assert_array_equal(run(begin(name, tmp_path), samples, sizes), whole)
    np.testing.assert_array_equal(run(begin(name, tmp_path), samples, [1, 0, 7]), whole)


@pytest.mark.parametrize("name", ENHANCERS)
def test_silence_stays_silent(name: str, tmp_path: Path) -> None:
    made = run(begin(name, tmp_path), np.zeros(9000, np.float32), [4000])
    assert np.abs(made).max() < 1e-4


def spoken(rate: int, seconds: float = 8.0) -> Floats:
    path = sorted((CORPUS / "en/librispeech").glob("*.flac"))[0]
    samples, native = sf.read(path, dtype="float32", frames=round(16_000 * seconds))
    found: Floats = soxr.resample(samples, native, rate)
    return found


@pytest.mark.needs("corpus")
@pytest.mark.parametrize("name", ENHANCERS[:2])
def test_noise_goes_and_speech_stays_in_its_place(name: str, tmp_path: Path) -> None:
    rate = plugins.ENHANCE.load(name).RATE
    clean = spoken(rate)
    white = np.random.default_rng(3).standard_normal(len(clean)).astype(np.float32)
    if rate == 48_000:  # as wide as the speech
        white = soxr.resample(soxr.resample(white, 48_000, 16_000), 16_000, 48_000)[: len(clean)]
        white = np.pad(white, (0, len(clean) - len(white)))
    noisy = clean + white * np.sqrt(np.mean(clean**2) / np.mean(white**2)) * 10 ** (-5 / 20)
    made = run(begin(name, tmp_path), noisy, [])
    assert si_sdr(made, clean) > si_sdr(noisy, clean) + 3
    for lag in (-2, 2):
        assert si_sdr(np.roll(made, lag), clean) < si_sdr(made, clean)


@pytest.mark.needs("corpus")
def test_chunks_of_deepfilter_are_near_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uttermill.tasks.enhance.deepfilter.CHUNK", 800)
    clean = spoken(48_000, 14.0)
    clean = clean + 0.2 * noise(4, len(clean))
    made = run(deepfilter.start(deepfilter.Settings()), clean, [])
    monkeypatch.setattr("uttermill.tasks.enhance.deepfilter.CHUNK", 10**6)
    once = run(deepfilter.start(deepfilter.Settings()), clean, [])
    assert not np.array_equal(made, once)
    assert 10 * np.log10(np.sum(once**2) / np.sum((once - made) ** 2)) > 30


def test_separator_takes_away_what_the_graph_gives(tmp_path: Path) -> None:
    samples = noise(5, 3000)
    music = run(separator_onnx.start(separator(tmp_path, 0.25)), samples, [900])
    np.testing.assert_allclose(music, 0.75 * samples, atol=1e-5)
    voice = separator(tmp_path, 0.25).model_copy(update={"gives": "voice", "denoise": False})
    made = run(separator_onnx.start(voice), samples, [900])
    np.testing.assert_allclose(made, 0.25 * samples, atol=1e-5)


def test_denoise_hears_each_window_twice(tmp_path: Path) -> None:
    kind = tiny_onnx.of_shape(SHAPE)  # it is not odd: turning the sign shows that
    graph = f"relu ({kind} input) => ({kind} output) {{ output = Relu(input) }}"
    tiny_onnx.save(tmp_path / "relu.onnx", graph)
    chosen = separator_onnx.Settings(path=str(tmp_path), n_fft=N_FFT, hop=HOP, gives="voice")
    samples = noise(6, 1000)
    twice = run(separator_onnx.start(chosen), samples, [])
    np.testing.assert_allclose(twice, 0.5 * samples, atol=1e-5)
    once = chosen.model_copy(update={"denoise": False})
    assert np.abs(run(separator_onnx.start(once), samples, []) - twice).max() > 1e-3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": ""}, "--set enhance.path=FILE"),
        ({"path": "/nowhere"}, "--set enhance.path=FILE"),
        ({"n_fft": 64}, "do not fit"),
        ({"hop": 16}, "do not fit"),
    ],
)
def test_a_graph_that_is_missing_or_does_not_fit(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    chosen = separator(tmp_path).model_copy(update=change)
    with pytest.raises(ConfigError, match=words):
        separator_onnx.check_weights(chosen)


def test_a_bug_is_no_fault_of_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = separator(tmp_path)
    monkeypatch.setattr(onnx_session, "session", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        separator_onnx.check_weights(chosen)


def test_what_is_no_separator(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no graph")
    chosen = separator_onnx.Settings(path=str(tmp_path))
    with pytest.raises(ConfigError, match="not an ONNX graph"):
        separator_onnx.check_weights(chosen)
    model = tmp_path / "other" / "wide.onnx"
    tiny_onnx.save(model, "relu (float[1,16] x) => (float[1,16] y) { y = Relu(x) }")
    with pytest.raises(ConfigError, match="not a UVR-MDX graph"):
        separator_onnx.check_weights(separator_onnx.Settings(path=str(model)))


@pytest.mark.parametrize("use", ["deepfilter", "gtcrn"])
def test_weights_that_are_missing_or_others(use: str, tmp_path: Path) -> None:
    plugin, settings = plugins.ENHANCE.resolve(
        Plugin.model_validate({"use": use, "path": str(tmp_path)})
    )
    with pytest.raises(ConfigError, match="run `"):
        plugin.check_weights(settings)
    [model] = plugin.USED_MODELS
    (tmp_path / model.files[0].name).write_bytes(b"other")
    with pytest.raises(ConfigError, match="sha256 differs"):
        plugin.check_weights(settings)


# --- clips ----------------------------------------------------------------------------------------


def job_of(tmp: Path, use: str = QUIETER, **options: Any) -> Job:
    changes = {"enhance": Plugin.model_validate({"use": use, **options})}
    return corpus.job(tmp, **changes)


def of_clip(samples: Any, rate: int, job: Job) -> tuple[NDArray[np.int16], dict[str, float | None]]:
    made, scores = resample.enhanced_clip(Clip.from_samples(samples, rate), job)
    return made, dict(scores)


@pytest.mark.usefixtures("quick_scores")
@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 44_100, 48_000, 192_000])
def test_any_rate_gives_the_right_length_and_place(rate: int, tmp_path: Path) -> None:
    """Halved at 16 kHz: half of what the original gives, sample by sample."""
    at = np.arange(round(1.3 * rate)) / rate
    samples = (0.4 * np.sin(2 * np.pi * 440 * at) * np.hanning(len(at))).astype(np.float32)
    job = job_of(tmp_path)
    made, _ = of_clip(samples, rate, job)
    plain = pcm.of_clip(Clip.from_samples(samples, rate), job.resample)
    assert len(made) == len(plain)
    assert np.abs(made - 0.5 * plain).max() < 4


@pytest.mark.usefixtures("quick_scores")
def test_the_channel_that_resample_takes(tmp_path: Path) -> None:
    samples = np.zeros((4000, 8), np.float32)
    samples[:, 3] = noise(7, 4000)
    job = corpus.job(
        tmp_path, resample={"mono": 3}, enhance=Plugin.model_validate({"use": QUIETER, "gain": 1.0})
    )
    made, _ = of_clip(samples, 16_000, job)
    np.testing.assert_array_equal(
        made, pcm.of_clip(Clip.from_samples(samples, 16_000), job.resample)
    )
    with pytest.raises(ItemError, match="channel 9"):
        of_clip(samples, 16_000, corpus.job(tmp_path, resample={"mono": 9}, enhance=job.enhance))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_no_numbers(value: float, tmp_path: Path) -> None:
    samples = noise(8, 3000)
    samples[1234] = value
    with pytest.raises(ItemError) as caught:
        of_clip(samples, 22_050, job_of(tmp_path))
    assert caught.value.code == "non_finite"


@pytest.mark.full
@pytest.mark.parametrize("count", [1, 2, 161, 480])
def test_clips_shorter_than_a_window(
    count: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if count > 1:  # the shortest is scored, too
        request.getfixturevalue("quick_scores")
    for rate in (8000, 48_000):
        made, _ = of_clip(noise(count, count), rate, job_of(tmp_path))
        assert len(made) == pcm.resampled_length(count, rate, 16_000)


@pytest.mark.usefixtures("quick_scores")
def test_the_limit_leaves_some_of_the_original(tmp_path: Path) -> None:
    samples = noise(9, 8000)
    made, _ = of_clip(samples, 16_000, job_of(tmp_path, gain=0.0, limit_db=20.0))
    np.testing.assert_allclose(made, np.rint(3276.8 * samples), atol=1)
    assert not of_clip(samples, 16_000, job_of(tmp_path, gain=0.0))[0].any()


@pytest.mark.nightly
def test_a_long_clip_lies_in_a_file_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, job = noise(10, 40_000), job_of(tmp_path)
    short = of_clip(samples, 16_000, job)
    monkeypatch.setattr(resample, "HELD_SECONDS", 1.0)
    long = of_clip(samples, 16_000, job)
    np.testing.assert_array_equal(long[0], short[0])
    assert long[1] == short[1]


@pytest.mark.nightly
def test_scores_before_and_after(tmp_path: Path) -> None:
    samples = noise(11, 20_000)
    _, scores = of_clip(samples, 16_000, job_of(tmp_path, gain=0.1))
    dnsmos = plugins.FILTERS.load("dnsmos")
    clips = [Clip.from_samples(samples * gain, 16_000) for gain in (1, np.float32(0.1))]
    before, after = (dnsmos.measure(clip, dnsmos.Settings()) for clip in clips)
    assert scores == {**before, **{f"{name}_enhanced": value for name, value in after.items()}}
    known = tuple(dict.fromkeys(before, 1.0).items())
    _, again = resample.enhanced_clip(
        Clip.from_samples(samples, 16_000), job_of(tmp_path, gain=0.1), known
    )
    assert dict(again) == {**scores, **dict(known)}
