"""Tars of equal duration, each with a mixture of speakers and datasets, for so many readers."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.test_show import said
from tests.helpers import fuzz
from tests.helpers.published import laid_out
from uttermill.flows.cli.show import runs
from uttermill.tasks.accounting.summary import seconds_of
from uttermill.tasks.publish.output_shards import layout
from uttermill.tasks.settings import PackageSettings
from uttermill.tasks.storage import sorted_keys

LENGTHS = st.lists(st.integers(1, 3000), min_size=1, max_size=40)


def rows_of(lengths: list[int], splits: list[str] | None = None) -> pa.Table:
    return pa.table(
        {
            "id": [f"u{i:05d}" for i in range(len(lengths))],
            "split": pa.array(splits or ["train"] * len(lengths), pa.string()),
            "num_samples": pa.array(lengths, pa.int64()),
            "sample_rate": pa.array([100] * len(lengths), pa.int32()),
        }
    )


def ids_of(rows: pa.Table, groups: list[layout.ShardClips]) -> list[tuple[str, int, list[str]]]:
    return [(g.split, g.number, rows["id"].take(g.rows).to_pylist()) for g in groups]


@fuzz.cases(25)
@given(LENGTHS, st.integers(1, 8), st.randoms(use_true_random=False))
def test_tars_are_even_and_the_same_in_any_order(
    lengths: list[int], readers: int, random: Any
) -> None:
    settings = PackageSettings(tar_hours=30 / 3600, readers=readers)
    rows = rows_of(lengths, [("train", "dev")[n % 3 == 0] for n in range(len(lengths))])
    groups = laid_out(rows, settings, 1)
    seconds = seconds_of(rows)
    for split, loads in layout.loads_of(groups, seconds).items():
        mine = seconds[np.array(rows["split"].to_pylist()) == split]
        assert max(loads) - min(loads) <= mine.max() + 1e-6
        assert len(loads) % readers == 0 or len(loads) == len(mine)
        assert min(loads) > 0
    mixed = rows.take(random.sample(range(len(lengths)), len(lengths)))
    assert ids_of(mixed, laid_out(mixed, settings, 1)) == ids_of(rows, groups)


def test_a_split_that_became_uneven_does_not_move_the_others() -> None:
    """Two clips more in dev, for four readers: dev is dealt anew, train's tars stay."""
    settings = PackageSettings(tar_hours=100 / 3600, readers=4)
    then = rows_of([1000] * 200, ["dev"] * 20 + ["train"] * 180)
    first = laid_out(then, settings, 1)
    order = np.concatenate([group.rows for group in first])
    before = (
        then.take(order)
        .append_column("shard", pa.array([f"{g.split}/{g.number}" for g in first for _ in g.rows]))
        .append_column("generation", pa.array([1] * 200, pa.int32()))
    )
    now = rows_of([1000] * 210, ["dev"] * 20 + ["train"] * 180 + ["dev"] * 10)
    groups = laid_out(now, settings, 2, before, settings.model_dump())
    assert {g.generation for g in groups if g.split == "dev"} == {2}
    assert all(g.whole and g.generation == 1 for g in groups if g.split == "train")
    assert sorted(np.concatenate([g.rows for g in groups]).tolist()) == list(range(210))
    assert layout.skew(layout.loads_of(groups, seconds_of(now))["dev"], 4)[1] < 0.2


@fuzz.cases(40)
@given(LENGTHS, st.integers(1, 12))
def test_a_deal_holds_every_clip_once(lengths: list[int], tars: int) -> None:
    keys = sorted_keys.draws("0", map(str, range(len(lengths))))
    groups = layout.distribute(np.array(lengths, np.float64), keys, tars)
    assert len(groups) == tars
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    for group in groups:
        assert (np.diff(keys[group].astype(object)) > 0).all(), "not in the order of the shuffle"


def test_many_clips_are_even_within_two_percent() -> None:
    chance = np.random.default_rng(0)
    seconds = chance.gamma(3.0, 3.0, 20_000)
    groups = layout.distribute(seconds, sorted_keys.draws("0", map(str, range(20_000))), 64)
    loads = np.array([seconds[group].sum() for group in groups])
    assert np.ptp(loads) / loads.mean() < 0.002


def test_speakers_and_datasets_are_spread_over_tars_and_within() -> None:
    """Clips come sorted by speaker: each tar gets its share of each, in no runs."""
    count, speakers, tars = 12_000, 20, 16
    speaker = np.arange(count) * speakers // count
    dataset = speaker // 10
    keys = sorted_keys.draws("0", (f"s{s}-{n:05d}" for n, s in enumerate(speaker)))
    seconds = np.random.default_rng(0).gamma(3.0, 3.0, count) * (1 + dataset)
    groups = layout.distribute(seconds, keys, tars)
    shares = np.array([np.bincount(speaker[group], minlength=speakers) for group in groups])
    expected = count / speakers / tars
    # As spread as a random deal: a standard deviation is 6 of 37.5.
    assert (np.abs(shares - expected) < 5 * np.sqrt(expected)).all()
    same = [np.mean(speaker[group][1:] == speaker[group][:-1]) for group in groups]
    assert np.mean(same) == pytest.approx(1 / speakers, abs=0.01)
    both = [np.mean(dataset[group]) for group in groups]
    assert both == pytest.approx([0.5] * tars, abs=0.1)


def test_draws_are_sha256_and_depend_on_nothing_else() -> None:
    # sha256(b"0:a") begins with these bytes.
    import hashlib

    first = hashlib.sha256(b"0:a").digest()[:8]
    assert sorted_keys.draws("0", ["a"]).tolist() == [int.from_bytes(first, "big")]
    assert sorted_keys.draws("0", []).tolist() == []


@fuzz.cases(40)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40), st.integers(1, 9))
def test_skew_is_what_the_worst_reader_has_more(loads: list[float], readers: int) -> None:
    shares = np.zeros(readers)
    for tar, load in enumerate(loads):
        shares[tar % readers] += load
    extra = shares.max() - shares.mean()
    assert layout.skew(loads, readers) == pytest.approx((extra, extra / shares.mean()))


def test_a_run_always_says_what_the_worst_reader_gets() -> None:
    result: dict[str, Any] = {
        "recordings": {"in": 0}, "utterances": {"packaged": 0}, "reasons": {}, "scored": 0,
        "seconds": {"in": 0.0, "packaged": 0.0}, "stages": {},
        "new": {"recordings": 0}, "new_version": True,
        "deaths": {},
        "dataset": "d", "wall_seconds": 1.0,
        "tars": {"tars": 3, "written": 3, "linked": 0, "readers": 2,
                 "worst_reader_extra_hours": 0.5},
        "splits": {"dev": {"utterances": 1, "hours": 0.5}, "train": {"utterances": 9, "hours": 4}},
        "leaks": {"dev": {"text": 2, "speaker": None}},
    }  # fmt: skip
    told = said(runs.run, result)
    assert "Of 2 readers (package.readers), the one with most audio gets 30.0 min more" in told
    assert "Splits: dev 0.500 h, train 4.000 h." in told
    assert "Clips of dev that share something with train: text 2, speaker unknown." in told
