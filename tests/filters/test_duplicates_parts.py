"""Copies are told alike however the corpus is cut: into tables, and pairs into portions."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from tests.filters.test_duplicates import found_among
from tests.helpers import tiers
from uttermill.tasks.filters import _duplicate_pairs as candidates
from uttermill.tasks.filters import _fingerprints as fingerprinting
from uttermill.tasks.filters import duplicate
from uttermill.tasks.filters._copies import Copies

CLIPS = 600
#: What was found when all fingerprints were in one process, by seed; clips of one length last.
WHOLE = {
    (0, False): "c5d67e89f69d4ff1",
    (1, False): "e17524af2699aeac",
    (2, False): "1bfd3f8e8d1b748f",
    (3, True): "5f2094d12a95af79",
    (4, True): "b20190cc0acac842",
    (5, True): "7a59783b1cb2a996",
}
SOME = [case if number == 3 else tiers.nightly(*case) for number, case in enumerate(WHOLE)]


def prints(chance: np.random.Generator, same_length: bool) -> list[bytes]:
    """Fingerprints of few keys; half are copies of those before, of the same samples or changed,
    and so in chains."""
    found: list[bytes] = []
    sounds = chance.integers(1, 2**16, 4000).astype(np.uint16)
    keys = chance.integers(0, 2**21, 60)
    for _ in range(CLIPS):
        kind = chance.random()
        if found and kind < 0.15:
            found.append(found[chance.integers(len(found))])
            continue
        if found and kind < 0.5:
            words, anchors, milliseconds = changed(found[chance.integers(len(found))], chance)
        else:
            frames = int(200 if same_length else chance.integers(50, 140))
            milliseconds = 20 * frames
            words = sounds[chance.integers(0, len(sounds), frames)]
            words[chance.random(frames) < 0.1] = 0
            key = keys[chance.integers(0, len(keys), 24)]
            at = np.sort(chance.integers(0, frames, 24))
            anchors = np.column_stack([key & 65535, key >> 16, at]).astype(np.uint16)
            if chance.random() < 0.03:
                anchors = anchors[:0]
        digest = chance.bytes(16)
        head = fingerprinting.HEADER.pack(1, len(anchors), 0, len(words), milliseconds, digest)
        found.append(head + words.astype("<u2").tobytes() + anchors.astype("<u2").tobytes())
    return found


def changed(
    data: bytes, chance: np.random.Generator
) -> tuple[NDArray[np.uint16], NDArray[np.uint16], int]:
    """Some bits are wrong, some anchors gone; maybe the beginning is cut off."""
    _, count, _, frames, milliseconds, _ = fingerprinting.HEADER.unpack(data[:28])
    words = np.frombuffer(data, np.uint16, frames, 28).copy()
    anchors = np.frombuffer(data, np.uint16, 3 * count, 28 + 2 * frames).reshape(-1, 3).copy()
    wrong = chance.random((frames, 16)) < chance.choice([0.02, 0.08, 0.16])
    words ^= (wrong @ (1 << np.arange(16))).astype(np.uint16)
    cut = int(chance.integers(0, 14))
    if cut < frames - 30 and chance.random() < 0.5:
        words, anchors = words[cut:], anchors[anchors[:, 2] >= cut]
        anchors[:, 2] -= cut
        milliseconds -= 20 * cut
    return words, anchors[chance.random(len(anchors)) < 0.8], milliseconds


def digest(found: Copies) -> str:
    is_copy = found.original >= 0
    state = hashlib.sha256(found.original.astype(np.int64).tobytes())
    for values in (found.error, found.drift):
        state.update(np.where(is_copy, values, 0.0).tobytes())
    state.update(found.exact.tobytes())
    return state.hexdigest()[:16]


@pytest.mark.full
@pytest.mark.parametrize("tiny", [False, True], ids=["in one", "in tiny parts"])
@pytest.mark.parametrize(("seed", "same_length"), SOME)
def test_answers_are_those_of_one_process(
    seed: int, same_length: bool, tiny: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(seed)
    made = prints(chance, same_length)
    rows = [None if chance.random() < 0.03 else data for data in made]
    rank = chance.integers(0, 3, CLIPS).astype(float)
    published = chance.random(CLIPS) < 0.3
    ids = np.array([f"u{n:05d}" for n in chance.permutation(CLIPS)])
    order = np.lexsort((ids, -rank, ~published))
    whole = pa.array(rows, pa.large_binary())
    thresholds = duplicate.Settings().thresholds()
    if not tiny:
        assert digest(found_among([whole], order, thresholds)) == WHOLE[seed, same_length]
        return
    monkeypatch.setattr(candidates, "PAIRS_AT_ONCE", 50)
    monkeypatch.setattr(candidates, "IN_CACHE", 16)
    tables = [whole.slice(at, 70) for at in range(0, CLIPS, 70)]
    found = found_among(tables, order, thresholds)
    assert digest(found) == WHOLE[seed, same_length]
