"""Batches of clips, and what happens when an engine refuses one; no model is loaded."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uttermill.tasks.asr import _pieces
from uttermill.tasks.asr._pieces import Limit, batches
from uttermill.tasks.asr._pieces import halved as shared

OOM = RuntimeError("CUDA failed with error out of memory")
LEFT_BEHIND = RuntimeError("parallel_for failed: cudaErrorInvalidDevice: invalid device ordinal")


@settings(max_examples=40)
@given(st.lists(st.floats(0, 60), max_size=12), st.integers(1, 8))
def test_every_clip_once(seconds: list[float], most: int) -> None:
    found = batches(range(len(seconds)), lambda i: seconds[i], most)
    assert sorted(i for batch in found for i in batch) == list(range(len(seconds)))
    assert all(0 < len(batch) <= most for batch in found)
    flat = [seconds[i] for batch in found for i in batch]
    assert flat == sorted(flat, reverse=True)


def test_batches() -> None:
    assert batches([3, 1, 2, 30, 4], float, 2) == [[30, 4], [3, 2], [1]]
    assert batches([], float, 9) == []


class Engine:
    """Takes at most `fits` items at once; some items are bad."""

    def __init__(self, fits: int, bad: dict[int, Exception] | None = None) -> None:
        self.fits, self.bad = fits, bad or {}
        self.calls: list[int] = []

    def __call__(self, items: list[int]) -> list[str]:
        self.calls.append(len(items))
        for item in items:
            if item in self.bad:
                raise self.bad[item]
        if len(items) > self.fits:
            raise OOM
        return [str(item) for item in items]


def run(engine: Engine, items: list[int], limit: Limit) -> list[str]:
    return shared(items, engine, lambda error: f"failed: {error}", limit)


def test_out_of_memory_halves_and_is_remembered(caplog: pytest.LogCaptureFixture) -> None:
    engine, limit = Engine(fits=5), Limit()
    with caplog.at_level(logging.WARNING, "uttermill"):
        assert run(engine, list(range(16)), limit) == [str(i) for i in range(16)]
        assert engine.calls == [16, 8, 4, 4, 4, 4]
        engine.calls.clear()
        assert run(engine, list(range(9)), limit) == [str(i) for i in range(9)]
    assert engine.calls == [4, 4, 1]
    assert [r.message for r in caplog.records] == [
        "the recogniser ran out of memory; batch size reduced to 4"
    ]


@pytest.mark.parametrize("error", [OOM, MemoryError("no"), ValueError("odd"), RuntimeError("no")])
def test_one_bad_clip_costs_itself_alone(error: Exception) -> None:
    engine, limit = Engine(fits=8, bad={5: error}), Limit()
    found = run(engine, list(range(8)), limit)
    assert found == [f"failed: {error}" if i == 5 else str(i) for i in range(8)]
    assert limit.most is None  # it was the clip, not the batch


def test_bad_clips_do_not_hide_a_small_memory() -> None:
    engine, limit = Engine(fits=2, bad={0: ValueError("odd")}), Limit()
    found = run(engine, list(range(8)), limit)
    assert found == ["failed: odd", *map(str, range(1, 8))]
    assert limit.most == 2


class Echoing(Engine):
    """As CTranslate2 on a GPU: the call after one that lacked memory fails once more."""

    def __init__(self, fits: int) -> None:
        super().__init__(fits)
        self.left = False

    def __call__(self, items: list[int]) -> list[str]:
        if self.left:
            self.left = False
            raise LEFT_BEHIND
        try:
            return super().__call__(items)
        except RuntimeError:
            self.left = True
            raise


def test_what_a_lack_of_memory_leaves_behind_is_no_lost_device() -> None:
    limit = Limit()
    assert run(Echoing(fits=5), list(range(16)), limit) == [str(i) for i in range(16)]
    assert limit.most == 4


def test_a_device_lost_without_a_lack_of_memory_before_it_is_raised() -> None:
    engine, limit = Engine(fits=2, bad={4: LEFT_BEHIND}), Limit()
    with pytest.raises(RuntimeError, match="InvalidDevice"):
        run(engine, list(range(8)), limit)


def test_nothing_fits() -> None:
    found = run(Engine(fits=0), [1, 2], Limit())
    assert found == [f"failed: {OOM}"] * 2


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("CUDA failed with error unspecified launch failure"), True),
        (RuntimeError("Library libcublas.so.12 is not found or cannot be loaded"), True),
        (RuntimeError("cuBLAS failed with status CUBLAS_STATUS_ALLOC_FAILED"), False),
        (OOM, False),
        (MemoryError("std::bad_alloc"), False),
        (ValueError("odd"), False),
    ],
)
def test_a_lost_device_is_loud(error: Exception, lost: bool) -> None:
    assert _pieces.device_lost(error) == lost
    engine = Engine(fits=8, bad={1: error})
    if lost:
        with pytest.raises(type(error)):
            run(engine, [0, 1], Limit())
    else:
        assert run(engine, [0, 1], Limit())[0] == "0"


def test_bugs_stay_loud() -> None:
    def broken(items: list[int]) -> list[Any]:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        shared([1, 2], broken, str, Limit())
