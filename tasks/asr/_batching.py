"""Batches of clips for an engine, halved when it refuses them.

Clips of similar length share a batch: an engine pads a batch to its longest clip, and beam search
ends with the longest text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..base.errors import shortened
from ..base.logs import log

Item = TypeVar("Item")
Result = TypeVar("Result")
#: What engines raise for a batch; anything else is a bug and stays loud.
REFUSALS = (RuntimeError, ValueError, MemoryError)
_NO_MEMORY = re.compile(r"out of memory|bad_alloc|alloc_failed|(failed to|cannot) allocate", re.I)
_DEVICE = re.compile("cuda|cublas|cudnn", re.I)


def batches(seconds: Sequence[float], budget: float, most: int) -> list[list[int]]:
    """Indices of clips, longest first, each once. Longest × count is at most `budget` seconds and
    count at most `most`; a clip longer than the budget is a batch by itself."""
    plan: list[list[int]] = []
    for index in sorted(range(len(seconds)), key=lambda i: (-seconds[i], i)):
        last = plan[-1] if plan else []
        if last and len(last) < most and seconds[last[0]] * (len(last) + 1) <= budget:
            last.append(index)
        else:
            plan.append([index])
    return plan


class Limit:
    """The largest batch that has fitted into this process's memory."""

    def __init__(self) -> None:
        self.most: int | None = None
        #: Whether the engine has just refused a batch for lack of memory. On a GPU the call after
        #: that one may fail with the error that it left behind (CTranslate2 4.8 on an H100:
        #: "cudaErrorInvalidDevice"), and the one after works again.
        self.echoes = False

    def lower(self, most: int) -> None:
        """Lower the limit for good: what ran out of memory once would do so again."""
        if self.most is None or most < self.most:
            self.most = most
            log.warning("the recogniser ran out of memory; batch size reduced to %d", most)


def shared(
    items: Sequence[Item],
    compute: Callable[[list[Item]], list[Result]],
    failed: Callable[[Exception], Result],
    limit: Limit,
) -> list[Result]:
    """Results of a batch, in order. A batch that the engine refuses is halved until it accepts the
    parts; `failed` makes the result of an item that is refused alone. A lost device raises, because
    it would fail for every later clip; an error left behind by a lack of memory does not count as
    one."""
    return _shared(items, compute, failed, limit)[0]


def _shared(
    items: Sequence[Item],
    compute: Callable[[list[Item]], list[Result]],
    failed: Callable[[Exception], Result],
    limit: Limit,
) -> tuple[list[Result], bool]:
    """Results, and whether the engine accepted every part at once."""
    results: list[Result] = []
    smooth = True
    while len(results) < len(items):
        part = list(items[len(results) :][: limit.most])
        try:
            results += compute(part)
            limit.echoes = False
            continue
        except REFUSALS as error:
            if device_lost(error):
                if not limit.echoes:
                    raise
                limit.echoes = False
                continue
            smooth = False
            short = limit.echoes = out_of_memory(error)
            if len(part) == 1:
                results.append(failed(error))
                continue
        half = (len(part) + 1) // 2
        first, one = _shared(part[:half], compute, failed, limit)
        second, two = _shared(part[half:], compute, failed, limit)
        if short and one and two:  # else one clip is to blame, or a half has lowered it
            limit.lower(half)
        results += [*first, *second]
    return results, smooth


def said(error: Exception) -> str:
    """An engine's error, as a transcript reports it."""
    return shortened(f"{type(error).__name__}: {error}")


def out_of_memory(error: Exception) -> bool:
    """Whether an engine ran out of memory, on the machine or on a GPU."""
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


def device_lost(error: Exception) -> bool:
    """Whether a GPU failed for another reason than lack of memory."""
    return bool(_DEVICE.search(str(error))) and not out_of_memory(error)
