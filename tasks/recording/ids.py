"""Utterance ids: stable across runs, unique, and safe as tar member names in every reader."""

from __future__ import annotations

import hashlib
import re

import pyarrow as pa
import pyarrow.compute as pc

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_STEM = 28  # characters of the path kept for people; the hash makes ids unique


def utterance_id(
    dataset: str, path: str, start: float, end: float, source_id: str | None = None
) -> str:
    """`<dataset>-<end of the path>-<hash16>-<start ms>-<end ms>`, at most 100 characters.

    Matches `[A-Za-z0-9_-]+`: WeNet splits a member's name at the last dot, WebDataset at the first,
    and USTAR names hold 100 bytes. The hash covers dataset, path and the source's own key, because
    cleaning may make two paths equal, and is always present, so that an id never depends on other
    recordings. With 32 bits, ids would collide among a million clips of equal length whose names
    hold no ASCII.
    """
    unique = hashlib.sha256(f"{dataset}\0{path}\0{source_id or ''}".encode()).hexdigest()[:16]
    head, _, tail = path.rpartition(".")
    stem = _UNSAFE.sub("_", head if head and len(tail) <= 5 else path).strip("_")[-_STEM:]
    parts = (dataset[:30], stem, unique, f"{round(start * 1000):08d}", f"{round(end * 1000):08d}")
    return "-".join(filter(None, parts))


def head(utterance: str) -> str:
    """The part of an utterance's id that those of its recording or given segment share."""
    return utterance.rsplit("-", 2)[0]


#: The name of a speaker linked over all recordings; it has no dataset.
OVER_ALL = re.compile(r"spk_[0-9a-f]{16}")


def are_over_all(speakers: pa.ChunkedArray | pc.Expression) -> pa.ChunkedArray | pc.Expression:
    """Whether these speakers are linked over all recordings; null for no speaker."""
    return pc.match_substring_regex(speakers, f"^{OVER_ALL.pattern}$")


def speaker_over_all(digest: str) -> str:
    return f"spk_{digest[:16]}"
