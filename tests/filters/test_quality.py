"""Costly measures: against the formulas written out plainly, against known noise, and on odd audio.

With UTTERMILL_CORPUS set, on real speech too; `-s` shows the largest differences.
"""

import tracemalloc
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import soundfile as sf
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import numpy_helper
from pydantic import ValidationError

from tests.helpers import plain_quality, tiers
from tests.helpers.corpus import speech as syllables
from tests.helpers.fetched import CORPUS
from uttermill.flows.demo.corpus import ENGLISH, Line, speak
from uttermill.flows.demo.corpus import RATE as VOICE_RATE
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.filters import _derived as derived
from uttermill.tasks.filters import _dnsmos, dnsmos, nmf_snr, snr
from uttermill.tasks.models import model_files, onnx_graph, registry
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import recipe

RATE = 16_000
Floats = NDArray[np.float32]


def value(module: Any, samples: NDArray[Any], rate: int = RATE, column: str = "", **kw: Any) -> Any:
    clip = Clip.from_samples(samples, rate)
    return module.measure(clip, module.Settings(**kw))[column or next(iter(module.COLUMNS))]


@pytest.fixture(scope="module")
def voices() -> list[Floats]:
    """Twelve utterances of espeak-ng at 16 kHz, a fifth of full scale, without noise."""
    pytest.importorskip("espeakng_loader")
    kinds = ("en-us+f2", "en-us+m3", "en-us", "en-us+f4")
    lines = [
        Line(f"{ENGLISH[2 * i]} {ENGLISH[2 * i + 1]}", kinds[i % 4], 140 + 5 * i, 40 + 3 * i)
        for i in range(12)
    ]
    said = [soxr.resample(v, VOICE_RATE, RATE, "HQ") for v in speak(lines)]
    return [(0.2 * v / np.abs(v).max()).astype(np.float32) for v in said]


@pytest.fixture(scope="module")
def reference() -> Any:
    """Without its second model: we have no P.808 to hold against its own."""
    pytest.importorskip("speechmos.dnsmos")
    scorer = plain_quality.single_threaded()
    scorer.audio_melspec = lambda audio: [[0.0]]
    scorer.p808_onnx_sess = SimpleNamespace(run=lambda *_: [[[0.0]]])
    return scorer


def real(
    least: float, most: float, count: int, *without: str
) -> Iterator[tuple[Path, Floats, int]]:
    """Mono clips of the corpus, spread over it: all rates and origins."""
    found = []
    skipped = {"broken", *without}
    for path in sorted(CORPUS.rglob("*")):
        if path.suffix in (".wav", ".flac", ".ogg") and not skipped & set(path.parts):
            try:
                info = sf.info(path)
            except sf.SoundFileError:
                continue
            if least <= info.duration <= most:
                found.append(path)
    for path in found[:: max(len(found) // count, 1)]:
        try:
            samples, rate = sf.read(path, dtype="float32", always_2d=True)
        except sf.SoundFileError:
            continue
        yield path, samples.mean(axis=1), rate


# nmf_snr


def plain(samples: Floats) -> float:
    with warnings.catch_warnings():  # librosa's about short clips, numpy's about an empty component
        warnings.simplefilter("ignore")
        return plain_quality.plain_nmf_snr(samples)


@pytest.mark.parametrize(
    "count",
    tiers.few(
        [512, 513, 1023, 1024, 1535, 1536, 2047, 2048, 2560, 9000, 70_000],
        512, 1535, 2560, 70_000,
    ),
)  # fmt: skip
@pytest.mark.nightly
def test_nmf_snr_is_data_juicers(count: int) -> None:
    samples = syllables(count, count / RATE, RATE)[:, 0].astype(np.float32)
    assert value(nmf_snr, samples) == pytest.approx(plain(samples), abs=0.01)


@pytest.mark.full
def test_nmf_snr_is_null_beyond_ten_minutes() -> None:
    assert value(nmf_snr, np.ones(601_000, np.float32), 1000) is None
    noise = np.random.default_rng(0).standard_normal(599_000).astype(np.float32)
    assert value(nmf_snr, noise, 1000) is not None


# snr


def noisy(samples: Floats, ratio: float, rate: int = RATE) -> Floats:
    """With white noise so many dB below the speech, whose place is told from the clean signal."""
    size = round(0.032 * rate)
    whole = len(samples) // size
    powers = np.square(samples[: whole * size].astype(np.float64)).reshape(whole, size).mean(axis=1)
    spoken = derived.speech_probabilities(Clip.from_samples(samples, rate))[:whole] >= 0.5
    level = np.sqrt(powers[spoken].mean() / 10 ** (ratio / 10))
    noise = np.random.default_rng(len(samples)).standard_normal(len(samples))
    mixed: Floats = (samples + level * noise).astype(np.float32)
    return mixed


RATIOS = (30, 20, 10, 0)


def check_snr(clips: list[tuple[Floats, int]]) -> str:
    errors: dict[int, list[float]] = {ratio: [] for ratio in RATIOS}
    for samples, rate in clips:
        found = {ratio: value(snr, noisy(samples, ratio, rate), rate) for ratio in RATIOS}
        row = [value(snr, samples, rate), *found.values()]
        assert all(above > below for above, below in pairwise(row)), row
        for ratio, one in found.items():
            errors[ratio].append(one - ratio)
    for one in errors.values():
        assert abs(np.mean(one)) < 3
    return ", ".join(
        f"{ratio} dB: {np.mean(one):+.2f} ({min(one):+.2f} to {max(one):+.2f})"
        for ratio, one in errors.items()
    )


@pytest.mark.full
def test_snr_is_that_of_added_noise(voices: list[Floats]) -> None:
    print(f"\nsnr, {len(voices)} clips: {check_snr([(voice, RATE) for voice in voices])}")


def test_snr_needs_no_pause(voices: list[Floats]) -> None:
    for voice in voices[:4]:
        found = derived.speech_probabilities(Clip.from_samples(voice, RATE))
        loud = np.repeat(found > 0.9, 512)[: len(voice)]
        tight = np.tile(voice[loud], 2)
        for ratio in (20, 10):
            assert value(snr, noisy(tight, ratio)) == pytest.approx(ratio, abs=3)


@pytest.mark.needs("corpus")
@pytest.mark.parametrize("count", [100, tiers.nightly(400)])
@pytest.mark.nightly
def test_snr_of_real_clips_is_that_of_added_noise(count: int) -> None:
    clean = []
    for _, samples, rate in real(1.5, 40, count, "degraded", "formats"):
        size = round(0.032 * rate)
        whole = len(samples) // size
        powers = np.square(samples[: whole * size]).reshape(whole, size).mean(axis=1)
        spoken = derived.speech_probabilities(Clip.from_samples(samples, rate))[:whole] >= 0.5
        if spoken.sum() < 20:
            continue
        if powers[spoken].mean() > 10**4.5 * np.quantile(powers, 0.05):
            clean.append((samples, rate))
    assert len(clean) >= 10
    print(f"\nsnr, {len(clean)} clips: {check_snr(clean)}")


@settings(max_examples=12, deadline=None)
@given(gain=st.floats(0.03, 4))
def test_snr_depends_neither_on_the_gain_nor_on_an_offset(
    voices: list[Floats], gain: float
) -> None:
    mixed = noisy(voices[0], 15)
    for other in (np.float32(gain) * mixed, mixed + np.float32(0.05)):
        assert value(snr, other) == pytest.approx(value(snr, mixed), abs=0.5)


def test_snr_is_null_without_speech_and_bounded_without_noise(voices: list[Floats]) -> None:
    noise = 0.1 * np.random.default_rng(0).standard_normal(5 * RATE).astype(np.float32)
    assert value(snr, noise) is None
    assert value(snr, voices[0]) <= 100
    padded = np.concatenate([np.zeros(20 * RATE, np.float32), noisy(voices[0], 10)])
    assert value(snr, padded) == pytest.approx(10, abs=3)  # digital silence is not the noise


# dnsmos


@pytest.mark.full
@pytest.mark.parametrize("seconds", tiers.few([0.7, 9.3, 12.2], 0.7))
def test_dnsmos_is_the_references(voices: list[Floats], reference: Any, seconds: float) -> None:
    samples = noisy(np.concatenate(voices)[: round(seconds * RATE)], 20)
    found = dnsmos.measure(Clip.from_samples(samples, RATE), dnsmos.Settings())
    assert found == pytest.approx(plain_quality.plain_dnsmos(reference, samples), abs=1e-3)


@pytest.mark.nightly
def test_dnsmos_counts_the_windows_that_the_reference_loses(
    voices: list[Floats], reference: Any
) -> None:
    """Of 17.2 s there are eight windows, of which the reference cuts the last a sample short."""
    clip = Clip.from_samples(np.concatenate(voices)[: round(17.2 * RATE)], RATE)
    samples = clip.samples()[:, 0]
    seven = plain_quality.plain_dnsmos(reference, samples)
    emilia = dnsmos.measure(clip, dnsmos.Settings(compat="emilia"))
    assert emilia == pytest.approx(seven, abs=1e-3)
    last = samples[None, 7 * RATE : 7 * RATE + 144_160]
    sig, bak, ovrl = reference.onnx_sess.run(None, {"input_1": last})[0][0].tolist()
    eighth = {
        "dnsmos_sig": -0.08397278 * sig**2 + 1.22083953 * sig + 0.0052439,
        "dnsmos_bak": -0.13166888 * bak**2 + 1.60915514 * bak - 0.39604546,
        "dnsmos_ovrl": -0.06766283 * ovrl**2 + 1.11546468 * ovrl + 0.04602535,
    }
    ours = dnsmos.measure(clip, dnsmos.Settings())
    assert ours == pytest.approx(
        {column: (7 * seven[column] + eighth[column]) / 8 for column in seven}, abs=1e-3
    )
    assert emilia != ours


@pytest.mark.nightly
def test_dnsmos_in_integers_is_nearly_the_same(voices: list[Floats]) -> None:
    pytest.importorskip("speechmos")
    exact, whole = dnsmos.Settings(), dnsmos.Settings(precision="int8")
    clips = [
        Clip.from_samples(noisy(voice, snr), RATE)
        for snr, voice in zip((0, 20, 60), voices, strict=False)
    ]
    scores = [(dnsmos.measure(c, exact), dnsmos.measure(c, whole)) for c in clips]
    apart = [abs((one[k] or 0) - (two[k] or 0)) for one, two in scores for k in dnsmos.COLUMNS]
    assert 0 < max(apart) < 0.1
    kinds = [{"use": "dnsmos"}, {"use": "dnsmos", "precision": "int8"}]
    recipes = {recipe.of_plugin("filters", Plugin.model_validate(kind)) for kind in kinds}
    assert len(recipes) == 2, "scores of one kind are not taken for the other's"
    with pytest.raises(ValidationError, match="precision int8 is for CPUs"):
        dnsmos.Settings(precision="int8", device="cuda")


def test_integers_of_dnsmos_saturate_on_no_cpu() -> None:
    """AVX2 without VNNI adds two products of a value and a weight in 16 bits."""
    pytest.importorskip("speechmos")
    model = _dnsmos.pruned(model_files.located(registry.DNSMOS, _dnsmos.ASKED_BY).read_bytes())
    graph = onnx.load_from_string(_dnsmos.quantised(model)).graph
    kernels = [
        numpy_helper.to_array(tensor).astype(int)
        for tensor in graph.initializer
        if len(tensor.dims) == 4
    ]
    assert [kernel.shape for kernel in kernels] == [
        (out, given, 3, 3) for _, out, given in _dnsmos.LAYERS
    ]
    assert max(2 * 255 * int(np.abs(kernel).max()) for kernel in kernels) < 2**15


def test_dnsmos_on_a_gpu_or_not_at_all(
    voices: list[Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime takes the CPU where a GPU cannot be used: seen, and refused."""
    import onnxruntime

    asked = []
    session = onnxruntime.InferenceSession

    def made(model: bytes, sess_options: Any, providers: list[str]) -> Any:
        asked.extend(providers)
        return session(model, sess_options=sess_options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "InferenceSession", made)
    on_gpu = dnsmos.Settings(device="cuda")
    assert dnsmos.wants_gpu(on_gpu)
    assert not dnsmos.wants_gpu(dnsmos.Settings())
    assert "onnxruntime-gpu" in (dnsmos.gpu_fault(on_gpu) or "")
    with pytest.raises(RunError, match="device: cuda, but ONNX Runtime cannot use it"):
        dnsmos.measure(Clip.from_samples(voices[0], RATE), on_gpu)
    assert set(asked) == {"CUDAExecutionProvider"}
    plugin = Plugin.model_validate({"use": "dnsmos", "device": "cuda"})
    assert recipe.of_plugin("filters", plugin) == recipe.of_plugin("filters", Plugin(use="dnsmos"))


@pytest.mark.parametrize(
    "spec", [None, SimpleNamespace(submodule_search_locations=["/nowhere/speechmos"])]
)
def test_dnsmos_without_its_package_is_refused_early(
    monkeypatch: pytest.MonkeyPatch, spec: Any
) -> None:
    monkeypatch.setattr(model_files, "find_spec", lambda _: spec)
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[dnsmos\]'"):
        plugins.FILTERS.load("dnsmos").check_weights(dnsmos.Settings())


def test_another_model_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "dnsmos_models").mkdir()
    (tmp_path / "dnsmos_models" / "sig_bak_ovr.onnx").write_bytes(b"\x08\x07")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(model_files, "find_spec", lambda _: spec)
    with pytest.raises(ConfigError, match="is not the model dnsmos"):
        plugins.FILTERS.load("dnsmos").check_weights(dnsmos.Settings())
    with pytest.raises(ValueError, match="not an ONNX model"):
        onnx_graph.part(b"\x0f", "a", "b")


# all of them


@pytest.mark.full
@pytest.mark.parametrize("module", [nmf_snr, snr])
def test_25_minutes_take_the_memory_of_a_part(module: Any) -> None:
    minute = syllables(1, 60.0, 8000).astype(np.float32)
    clip = Clip.of_pieces([minute] * 25, 8000)
    tracemalloc.start()
    found = module.measure(clip, module.Settings())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all(v is None or np.isfinite(v) for v in found.values())
    assert peak < 60e6


@pytest.mark.full
def test_snr_of_a_long_clip_is_that_of_its_parts(voices: list[Floats]) -> None:
    mixed = noisy(np.concatenate(voices), 12)
    long = Clip.of_pieces([mixed[:, None]] * 3, RATE)  # beyond the length that is kept in memory
    assert long.seconds > derived.KEPT_SECONDS
    assert snr.measure(long, snr.Settings())["snr"] == pytest.approx(12, abs=1.5)
