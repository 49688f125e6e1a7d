"""DistillMOS: windows, scores beside the package's, limits, and weights that are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import corpus
from tests.helpers.fetched import CORPUS
from uttermill.flows import checks
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.filters import distillmos
from uttermill.tasks.filters.distillmos import WINDOW, windows
from uttermill.tasks.models import model_files
from uttermill.tasks.plugins.rules import judge

#: What the package distillmos 0.9.1 says of recordings at 16 and 8 kHz (PyTorch 2.2.2).
PACKAGE = {
    "en/librispeech/1688-142285-0000.flac": 3.9594,
    "es/asterisk/vm-torerecord.wav": 3.5849,
    "zh/aishell/BAC009S0150W0229.wav": 3.7588,
    "de/kerstin/de_rhasspy-0220.flac": 3.9847,
}


def score(samples: Any, rate: int = RATE, **chosen: Any) -> float | None:
    clip = Clip.from_samples(samples, rate)
    return distillmos.measure(clip, distillmos.Settings(**chosen))["distillmos"]


def signal(count: int) -> Any:
    return np.arange(1, count + 1, dtype=np.float32)


def starts(count: int, hop: float, block: int = 5000) -> list[int]:
    samples = signal(count)
    blocks = [samples[first : first + block] for first in range(0, count, block)]
    chosen = [*windows(blocks, count / RATE, hop)]
    for window in chosen:
        assert np.array_equal(window, window[0] + np.arange(WINDOW))
    return [int(window[0]) - 1 for window in chosen]


@pytest.mark.parametrize("block", [WINDOW // 7, WINDOW, 10 * WINDOW])
def test_windows_are_spread_from_start_to_end(block: int) -> None:
    assert starts(WINDOW, 4.0, block) == [0]
    assert starts(WINDOW + 1, 4.0, block) == [0, 1]
    assert starts(WINDOW + 64_000, 4.0, block) == [0, 64_000]
    assert starts(WINDOW + 64_001, 4.0, block) == [0, 32_000, 64_001]
    assert starts(WINDOW + 40_000, 1.0, block) == [0, 13_333, 26_666, 40_000]
    assert len(starts(40 * RATE, 7.68, block)) == 6


def test_a_short_clip_is_repeated_or_filled_up() -> None:
    short = signal(50_000)
    [repeated] = windows([short[:9], short[9:]], 3.125, 4.0)
    assert np.array_equal(repeated, np.r_[short, short, short[: WINDOW - 100_000]])
    [filled] = windows([short], 3.125, 1.0, repeated=False)
    assert np.array_equal(filled[:50_000], short)
    assert not filled[50_000:].any()
    assert [*windows([], 0.0, 4.0)] == []
    assert [*windows([short[:0]], 0.0, 4.0)] == []


def test_samples_that_resampling_did_not_give_lose_no_window() -> None:
    samples = signal(WINDOW + 64_000 - 3)
    first, last = windows([samples], (WINDOW + 64_000) / RATE, 4.0)
    assert first[0] == 1
    assert np.array_equal(last[: WINDOW - 3], samples[64_000:])


def test_a_window_and_a_quieter_one_look_alike() -> None:
    samples = corpus.speech(0, 7.68, RATE)[:, 0].astype(np.float32)
    loud, soft = distillmos.spectrum(samples), distillmos.spectrum(samples / np.float32(64))
    assert loud.shape == (2, 161, 768)
    assert np.allclose(loud, soft, atol=1e-5)
    assert np.isfinite(distillmos.spectrum(np.zeros(WINDOW, np.float32))).all()


@pytest.mark.needs("corpus", "distillmos")
@pytest.mark.parametrize("name", PACKAGE)
@pytest.mark.nightly
def test_scores_are_the_packages(name: str) -> None:
    from tests.helpers.corpus_speech import read

    samples = read(CORPUS / name)
    assert score(samples, compat="package") == pytest.approx(PACKAGE[name], abs=2e-3)
    assert score(samples) == pytest.approx(PACKAGE[name], abs=0.6), "as it is, only near"
    noisy = samples + np.random.default_rng(0).normal(0, 0.05, len(samples)).astype(np.float32)
    low = score(noisy)
    assert low is not None
    assert low < PACKAGE[name] - 1
    strict = plugins.FILTERS.load("distillmos").verdict(distillmos.Settings(min=3.0))
    rejection = judge({"distillmos": low}, strict)
    assert rejection is not None
    assert rejection.reason == "low_distillmos"


@pytest.mark.needs("distillmos")
def test_what_has_no_score() -> None:
    assert score(np.zeros(0, np.float32)) is None
    spoilt = corpus.speech(0, 9.0, RATE)[:, 0].astype(np.float32)
    spoilt[140_000] = np.nan
    assert score(spoilt) is None
    assert score(np.zeros(RATE, np.float32)) is not None


@pytest.mark.parametrize(
    ("use", "remedy"),
    [("distillmos", "run `uttermill models fetch distillmos"),
     ("pitch", r"run `pip install 'uttermill\[pitch\]'")],
)  # fmt: skip
def test_missing_weights_are_refused_before_any_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, remedy: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(model_files, "package_folder", lambda name: None)
    corpus.make(tmp_path / "in", 1)
    given = {
        "sources": [{"kind": "folder", "path": str(tmp_path / "in")}],
        "out": str(tmp_path / "out"),
        "filter": {"filters": [{"use": use}]},
        "transcribe": {"backend": {"use": "none"}},
    }
    with pytest.raises(ConfigError, match=remedy):
        checks.check(PrepareSettings.model_validate(given))
