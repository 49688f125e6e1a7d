"""The step enhance: models on clips of every kind, and runs with it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray
from onnx import TensorProto

from flows import settings
from tasks import pipeline, plugins
from tasks.audio import Clip
from tasks.callers import Here
from tasks.checkpoints import enhanced
from tasks.dataset import datacard
from tasks.enhance import Enhancer, deepfilter, gtcrn, separator_onnx
from tasks.errors import ConfigError, ItemError
from tasks.estimating import planning
from tasks.job import Job
from tasks.settings import Plugin, ResampleSettings
from tasks.stages import enhancing, pcm, stage
from tasks.upkeep.needed import KeptSettings, unneeded
from tests import corpus, tiny_onnx
from tests.fetched import needs_gtcrn

Floats = NDArray[np.float32]
CORPUS = Path(os.environ.get("UTTERMILL_CORPUS", ""))
needs_corpus = pytest.mark.skipif(
    "UTTERMILL_CORPUS" not in os.environ, reason="UTTERMILL_CORPUS is not set"
)
QUIETER = "tests.plugins.quieter"
DIM_F, DIM_T, N_FFT, HOP = 65, 8, 128, 32


def separator(home: Path, gain: float = 0.5) -> separator_onnx.Settings:
    """Settings of a separator whose graph gives `gain` of what it hears."""
    shape = (1, 4, DIM_F, DIM_T)
    tiny_onnx.save(
        home / "half.onnx",
        [tiny_onnx.node("Mul", ["input", "gain"], ["output"])],
        {"input": (TensorProto.FLOAT, shape)},
        {"output": (TensorProto.FLOAT, shape)},
        {"gain": np.float32(gain).reshape(1)},
    )
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
    pytest.param("gtcrn", marks=needs_gtcrn),
    "separator_onnx",
]


def begin(name: str, home: Path) -> Enhancer:
    if name == "separator_onnx":
        return separator_onnx.start(separator(home))
    module = plugins.load("enhance", name)
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


@needs_corpus
@pytest.mark.parametrize("name", ENHANCERS[:2])
def test_noise_goes_and_speech_stays_in_its_place(name: str, tmp_path: Path) -> None:
    rate = plugins.load("enhance", name).RATE
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


@needs_corpus
def test_chunks_of_deepfilter_are_near_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.enhance._deepfilter.CHUNK", 800)
    clean = spoken(48_000, 14.0)
    clean = clean + 0.2 * noise(4, len(clean))
    made = run(deepfilter.start(deepfilter.Settings()), clean, [])
    monkeypatch.setattr("tasks.enhance._deepfilter.CHUNK", 10**6)
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
    shape = (1, 4, DIM_F, DIM_T)
    tiny_onnx.save(  # it is not odd: turning the sign shows that
        tmp_path / "relu.onnx",
        [tiny_onnx.node("Relu", ["input"], ["output"])],
        {"input": (TensorProto.FLOAT, shape)},
        {"output": (TensorProto.FLOAT, shape)},
        {},
    )
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


def test_what_is_no_separator(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no graph")
    chosen = separator_onnx.Settings(path=str(tmp_path))
    with pytest.raises(ConfigError, match="no ONNX graph"):
        separator_onnx.check_weights(chosen)
    model = tmp_path / "other" / "wide.onnx"
    shape = (1, 16)
    tiny_onnx.save(
        model,
        [tiny_onnx.node("Relu", ["x"], ["y"])],
        {"x": (TensorProto.FLOAT, shape)},
        {"y": (TensorProto.FLOAT, shape)},
        {},
    )
    with pytest.raises(ConfigError, match="no UVR-MDX graph"):
        separator_onnx.check_weights(separator_onnx.Settings(path=str(model)))


@pytest.mark.parametrize("module", [deepfilter, gtcrn])
def test_weights_that_are_missing_or_others(module: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="type `"):
        module.check_weights(module.Settings(path=str(tmp_path)))
    [model] = module.known_models(module.Settings())
    (tmp_path / model.files[0].name).write_bytes(b"other")
    with pytest.raises(ConfigError, match="sha256 is another one"):
        module.check_weights(module.Settings(path=str(tmp_path)))


# --- clips ----------------------------------------------------------------------------------------


def job_of(tmp: Path, use: str = QUIETER, **options: Any) -> Job:
    changes = {"enhance": Plugin.model_validate({"use": use, **options})}
    return corpus.job(tmp, **changes)


def of_clip(samples: Any, rate: int, job: Job) -> tuple[NDArray[np.int16], dict[str, float | None]]:
    made, scores = enhancing.of_clip(Clip.of(samples, rate), job)
    return made, dict(scores)


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 44_100, 48_000, 192_000])
def test_any_rate_gives_the_right_length_and_place(rate: int, tmp_path: Path) -> None:
    """Halved at 16 kHz: half of what the original gives, sample by sample."""
    at = np.arange(round(1.3 * rate)) / rate
    samples = (0.4 * np.sin(2 * np.pi * 440 * at) * np.hanning(len(at))).astype(np.float32)
    job = job_of(tmp_path)
    made, _ = of_clip(samples, rate, job)
    plain = pcm.of_clip(Clip.of(samples, rate), job.resample)
    assert len(made) == len(plain)
    assert np.abs(made - 0.5 * plain).max() < 4


def test_the_channel_that_resample_takes(tmp_path: Path) -> None:
    samples = np.zeros((4000, 8), np.float32)
    samples[:, 3] = noise(7, 4000)
    job = corpus.job(
        tmp_path, resample={"mono": 3}, enhance=Plugin.model_validate({"use": QUIETER, "gain": 1.0})
    )
    made, _ = of_clip(samples, 16_000, job)
    np.testing.assert_array_equal(made, pcm.of_clip(Clip.of(samples, 16_000), job.resample))
    with pytest.raises(ItemError, match="channel 9"):
        of_clip(samples, 16_000, corpus.job(tmp_path, resample={"mono": 9}, enhance=job.enhance))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_no_numbers(value: float, tmp_path: Path) -> None:
    samples = noise(8, 3000)
    samples[1234] = value
    with pytest.raises(ItemError) as caught:
        of_clip(samples, 22_050, job_of(tmp_path))
    assert caught.value.code == "non_finite"


@pytest.mark.parametrize("count", [1, 2, 161, 480])
def test_clips_shorter_than_a_window(count: int, tmp_path: Path) -> None:
    for rate in (8000, 48_000):
        made, _ = of_clip(noise(count, count), rate, job_of(tmp_path))
        assert len(made) == pcm.resampled_length(count, rate, 16_000)


def test_the_limit_leaves_some_of_the_original(tmp_path: Path) -> None:
    samples = noise(9, 8000)
    made, _ = of_clip(samples, 16_000, job_of(tmp_path, gain=0.0, limit_db=20.0))
    np.testing.assert_allclose(made, np.rint(3276.8 * samples), atol=1)
    assert not of_clip(samples, 16_000, job_of(tmp_path, gain=0.0))[0].any()


def test_a_long_clip_lies_in_a_file_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, job = noise(10, 40_000), job_of(tmp_path)
    short = of_clip(samples, 16_000, job)
    monkeypatch.setattr(enhancing, "HELD_SECONDS", 1.0)
    long = of_clip(samples, 16_000, job)
    np.testing.assert_array_equal(long[0], short[0])
    assert long[1] == short[1]


def test_scores_before_and_after(tmp_path: Path) -> None:
    samples = noise(11, 20_000)
    _, scores = of_clip(samples, 16_000, job_of(tmp_path, gain=0.1))
    dnsmos = plugins.load("filters", "dnsmos")
    clips = [Clip.of(samples * gain, 16_000) for gain in (1, np.float32(0.1))]
    before, after = (dnsmos.measure(clip, dnsmos.Settings()) for clip in clips)
    assert scores == {**before, **{f"{name}_enhanced": value for name, value in after.items()}}
    known = tuple(dict.fromkeys(before, 1.0).items())
    _, again = enhancing.of_clip(Clip.of(samples, 16_000), job_of(tmp_path, gain=0.1), known)
    assert dict(again) == {**scores, **dict(known)}


# --- runs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four recordings, and a version of them that nothing was enhanced in."""
    tmp = tmp_path_factory.mktemp("enhance")
    corpus.make(tmp / "in", 4)
    corpus.run(corpus.job(tmp))
    return tmp


def enhancing_job(base: Path, out: Path, hear: str = "original", **options: Any) -> Job:
    package = {name: options.pop(name) for name in ("audio", "formats") if name in options}
    enhance = Plugin.model_validate({"use": QUIETER, **options})
    return corpus.job(base, out=out, enhance=enhance, transcribe={"hear": hear}, package=package)


def table(version: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(version / "utterances.parquet").to_pylist()
    return rows


def test_a_run_with_it_and_back(base: Path, tmp_path: Path) -> None:
    """Only what follows from it is computed; without it, the bytes are those of before."""
    plain, _ = corpus.run(corpus.job(base, out=tmp_path / "out"))
    with_it = enhancing_job(base, tmp_path / "out")
    done, counts = corpus.run(with_it)
    assert counts["filter"] == (0, 4)
    assert counts["resample"] == (4, 4)
    assert counts["transcribe"] == (0, 4)  # the original is heard
    old, new = ({r["id"]: r for r in table(v.path)} for v in (plain, done))
    assert {k: r["sha256"] for k, r in old.items()} != {k: r["sha256"] for k, r in new.items()}
    for key, row in new.items():
        assert row["num_samples"] == old[key]["num_samples"]
        assert row["text"] == old[key]["text"]
        assert row["dnsmos_ovrl_enhanced"] is not None
        assert row["dnsmos_ovrl"] is not None
    told = json.loads((done.path / "dataset.json").read_text())
    assert told["settings"]["enhance"]["use"] == QUIETER
    card = (done.path / "README.md").read_text()
    assert f"Enhanced: `{QUIETER}`; enhanced audio is packaged." in card
    assert corpus.run(with_it)[1]["resample"] == (0, 8)
    back, counts = corpus.run(corpus.job(base, out=tmp_path / "out"))
    assert all(computed == 0 for name, (computed, _) in counts.items() if name != "package")
    for name, data in corpus.content(plain.path).items():
        if name.startswith("wenet/") or name == "ledger.parquet":
            assert corpus.content(back.path)[name] == data, name


def test_what_changes_cost(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    corpus.run(enhancing_job(base, out))

    def cost(**options: Any) -> dict[str, int]:
        counts = corpus.run(enhancing_job(base, out, **options))[1]
        return {n: counts[n][0] for n in ("shard", "filter", "resample", "transcribe")}

    nothing = {"shard": 0, "filter": 0, "resample": 0, "transcribe": 0}
    assert cost(keep_if_better=True) == nothing
    assert cost(min_ovrl=0.1) == nothing
    assert cost(audio="original") == nothing
    assert cost(hear="enhanced") == {**nothing, "transcribe": 4}
    assert cost(gain=0.25) == {**nothing, "resample": 4}
    assert cost(gain=0.25, hear="enhanced") == {**nothing, "transcribe": 4}


def test_the_better_clip_is_taken(base: Path, tmp_path: Path) -> None:
    always, _ = corpus.run(enhancing_job(base, tmp_path / "out"))
    better, _ = corpus.run(enhancing_job(base, tmp_path / "out", keep_if_better=True))
    original, _ = corpus.run(enhancing_job(base, tmp_path / "out", audio="original"))
    rows = [{r["id"]: r for r in table(v.path)} for v in (always, better, original)]
    assert len(rows[0]) == 4
    for key, row in rows[1].items():
        won = row["dnsmos_ovrl_enhanced"] > row["dnsmos_ovrl"]
        assert row["sha256"] == rows[0 if won else 2][key]["sha256"]
        assert rows[0][key]["sha256"] != rows[2][key]["sha256"]


def test_min_ovrl_drops_what_neither_clip_reaches(base: Path, tmp_path: Path) -> None:
    rows = table(corpus.run(enhancing_job(base, tmp_path / "out"))[0].path)
    limit = float(np.median([row["dnsmos_ovrl_enhanced"] for row in rows]))
    strict = enhancing_job(base, tmp_path / "out", min_ovrl=limit)
    kept = {row["id"] for row in table(corpus.run(strict)[0].path)}
    assert kept == {row["id"] for row in rows if row["dnsmos_ovrl_enhanced"] >= limit}
    assert 0 < len(kept) < 4
    [ledger] = [pq.read_table(tmp_path / "out/datasets/latest/ledger.parquet").to_pylist()]
    gone = [row for row in ledger if row["outcome"] == "dropped"]
    assert {(r["stage"], r["reason"], r["threshold"]) for r in gone} == {
        ("enhance", "low_dnsmos_ovrl", limit)
    }
    assert sum(row["samples"] for row in ledger) == sum(
        round(corpus.seconds_of(n) * corpus.RATES[n]) for n in range(4)
    )
    either = enhancing_job(base, tmp_path / "out", min_ovrl=limit, keep_if_better=True)
    best = {r["id"]: max(r["dnsmos_ovrl"], r["dnsmos_ovrl_enhanced"]) for r in rows}
    kept = {row["id"] for row in table(corpus.run(either)[0].path)}
    assert kept == {name for name, score in best.items() if score >= limit}


@pytest.mark.parametrize("use", ["hf_parquet", "webdataset"])
def test_both_clips_in_one_row(base: Path, tmp_path: Path, use: str) -> None:
    out = tmp_path / "out"
    ways = {
        audio: table(corpus.run(enhancing_job(base, out, audio=audio, formats=[use]))[0].path)
        for audio in ("original", "enhanced", "both")
    }
    shas = {audio: {r["id"]: r["sha256"] for r in rows} for audio, rows in ways.items()}
    assert shas["both"] == shas["original"]
    assert {r["id"]: r["sha256_enhanced"] for r in ways["both"]} == shas["enhanced"]
    assert "sha256_enhanced" not in ways["enhanced"][0]


def test_growth_costs_what_is_new(base: Path, tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    heard = tmp_path / "heard"
    job = enhancing_job(tmp_path, tmp_path / "out", heard=str(heard))
    corpus.run(job)
    corpus.add(tmp_path / "in", 3)
    _, counts = corpus.run(job)
    assert counts["resample"] == (2, 6)
    assert len(heard.read_text().splitlines()) == 4


def test_two_outs_are_equal(base: Path, tmp_path: Path) -> None:
    first, second = (
        corpus.run(enhancing_job(base, tmp_path / name, keep_if_better=True))[0].path
        for name in ("a", "b")
    )
    assert corpus.content(first) == corpus.content(second)


def test_a_clip_that_kills_the_enhancer_falls_alone(base: Path, tmp_path: Path) -> None:
    job = enhancing_job(base, tmp_path / "out", how="segv", seconds=corpus.seconds_of(2))
    pipeline.run_shard_stage(job, Here(), job.out / "scratch")
    stage.run("filter", job, "shard-000000")
    stage.run("resample", job, "shard-000000", isolate=True)
    stage.run("transcribe", job, "shard-000000")
    found = {
        u.recording["path"]: (u.outcome.outcome, u.outcome.stage, u.outcome.reason)
        for u in stage.view_of(job, "shard-000000").decided()
    }
    assert found.pop("r02.wav") == ("failed", "enhance", "crashed")
    assert set(found.values()) == {("packaged", "package", "packaged")}


def odd(folder: Path) -> Path:
    """What recordings may hold that models do not like."""
    folder.mkdir(parents=True)
    broken = 0.1 * np.random.default_rng(1).standard_normal(20_000).astype(np.float32)
    broken[777] = np.nan
    sounds = {
        "nan": (broken, 16_000),
        "short": (noise(2, 320), 8000),  # 40 ms: one frame of DeepFilterNet
        "wide": (np.stack([noise(n, 30_000) for n in range(8)], axis=1), 44_100),
        "silent": (np.zeros(48_000, np.float32), 48_000),
        "plain": (noise(3, 32_000), 16_000),
    }
    for name, (samples, rate) in sounds.items():
        sf.write(folder / f"{name}.wav", samples, rate, "FLOAT")
    return folder


@pytest.mark.parametrize("use", ["deepfilter", pytest.param("gtcrn", marks=needs_gtcrn)])
def test_odd_recordings_fall_alone(tmp_path: Path, use: str) -> None:
    odd(tmp_path / "in")
    job = corpus.job(
        tmp_path,
        enhance=Plugin(use=use),
        filter={"filters": [{"use": "duration", "min": 0.01}]},
        transcribe={"verdicts": []},
        package={"max_failed_fraction": 1.0, "formats": ["hf_parquet"], "audio": "both"},
    )
    published, _ = corpus.run(job)
    ledger = pq.read_table(published.path / "ledger.parquet").to_pylist()
    found = {row["source_path"].rpartition("/")[2]: row for row in ledger}
    assert {name: row["outcome"] for name, row in found.items()} == {
        "nan.wav": "failed", "short.wav": "packaged", "wide.wav": "packaged",
        "silent.wav": "packaged", "plain.wav": "packaged",
    }  # fmt: skip
    assert found["nan.wav"]["reason"] == "non_finite"
    assert sum(row["samples"] for row in ledger) == 20_000 + 320 + 30_000 + 48_000 + 32_000
    again = corpus.run(job)[1]
    assert all(computed == 0 for computed, _ in again.values())
    [silent] = [row for row in table(published.path) if "silent" in row["id"]]
    assert silent["dnsmos_ovrl_enhanced"] is not None


def test_a_plan_counts_what_a_run_computes(base: Path, tmp_path: Path) -> None:
    before = corpus.job(base, out=tmp_path / "out")
    corpus.run(before)
    limit = None
    for options in ({}, {"gain": 0.2}, {"gain": 0.2, "hear": "enhanced"}, {"gain": 0.2}):
        least = limit if options == {"gain": 0.2} and before.transcribe.hear == "enhanced" else None
        job = enhancing_job(base, tmp_path / "out", min_ovrl=least, **options)
        told = planning.plan(job, before)
        published, counts = corpus.run(job)
        limit = float(np.median([r["dnsmos_ovrl_enhanced"] for r in table(published.path)]))
        for name in ("filter", "resample", "transcribe"):
            amount = told.stages[name]
            assert (amount.compute, amount.reuse) == counts[name], (options, name)
        before = job


def test_prune_keeps_what_the_settings_need(base: Path, tmp_path: Path) -> None:
    """The enhanced clips of settings of now stay, those of former ones go."""
    out = tmp_path / "out"
    corpus.run(corpus.job(base, out=out))
    plain = {part.name for part in corpus.parts(out, "manifests/resample")}
    first, second = (enhancing_job(base, out, gain=gain) for gain in (0.3, 0.5))
    corpus.run(first)
    former = {part.name for part in corpus.parts(out, "manifests/resample")} - plain
    corpus.run(second)
    kept = [KeptSettings(job, stage.weights_of(job)) for job in (second, first)]
    assert {p.name for p in unneeded(out, "shard-000000", kept[:1], None).manifests} == former
    assert not unneeded(out, "shard-000000", kept, None).manifests


# --- settings -------------------------------------------------------------------------------------


def read(base: Path, *sets: str) -> Job:
    found = settings.read(None, [str(base / "in")], str(base / "out"), list(sets))
    return settings.check_wishes(found)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["transcribe.hear=enhanced"], "transcribe.hear=enhanced needs enhanced clips"),
        (["package.audio=both"], "package.audio=both: the format wenet has one field of audio"),
        (["package.audio=both", "package.formats=[webdataset]"], "choose an enhancer"),
        (["enhance.use=separator_onnx"], "--set enhance.path=FILE"),
        (["enhance.use=deepfilter", "enhance.path=/nowhere"], "pip install"),
        (["enhance.use=gtcrn", "enhance.path=/nowhere"], "uttermill models fetch gtcrn"),
        (["enhance.use=denoise"], "on the shelf enhance"),
        (["enhance.use=deepfilter", "enhance.limit=3"], "limit_db"),
    ],
)
def test_what_is_refused_before_a_worker_starts(base: Path, sets: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(base, "transcribe.backend.use=fake", *sets)


def test_the_data_card_names_the_model(tmp_path: Path) -> None:
    chosen = separator(tmp_path).model_copy(update={"licence": "CC-BY-NC-4.0"})
    options = chosen.model_dump(exclude_defaults=True)
    job = corpus.job(tmp_path, enhance=Plugin.model_validate({"use": "separator_onnx", **options}))
    told = {m["name"]: m for m in datacard._models(job)["models"]}
    assert told["half"]["licence"] == "CC-BY-NC-4.0"
    assert not told["half"]["commercial"]
    assert "dnsmos-p835" in told
    job = corpus.job(tmp_path, enhance=Plugin(use="deepfilter"))
    names = [m["name"] for m in datacard._models(job)["models"]]
    assert names == ["dnsmos-p835", "deepfilternet-3"]
    assert enhanced.columns(corpus.job(tmp_path)) == {}
    assert ResampleSettings().mono == "mean"
