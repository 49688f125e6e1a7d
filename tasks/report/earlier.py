"""Clips of an earlier report, reused instead of being decoded and encoded again.

Each player in the page has a key, a hash of everything its bytes depend on: the packaged samples,
or the file and span of a rejected clip.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from tasks import storage
from tasks.recording.guard import file_state
from tasks.report import clips
from tasks.report.clips import Media
from tasks.report.samples import Sample

FORM = 1  # rises when `clips.media` makes other bytes of the same samples
CLIP = re.compile(
    rb'<td data-clip="([0-9a-f]{32})" data-seconds="([0-9.]+)">'
    rb'<img src="(data:image/png;base64,[A-Za-z0-9+/=]+)"[^>]*>'
    rb'<audio [^>]*src="(data:audio/mpeg;base64,[A-Za-z0-9+/=]+)"'
)


def key(sample: Sample, rate: int) -> str:
    """32 hex digits; empty if it has no audio. `rate`: of packaged samples, Hz."""
    if sample.pcm is not None:
        played = [sample.pcm["sha256"], rate]
    elif sample.locator is not None:
        state = file_state(sample.locator.path)
        played = [sample.locator.dumps(), state.size, state.guard, *clips.span(sample)]
    else:
        return ""
    told = json.dumps([FORM, clips.RATE, clips.BIT_RATE, *played])
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def of(page: Path | None) -> dict[str, Media]:
    """The clips of a page by their keys; none if it cannot be read."""
    try:
        data = storage.of(page).read(page) if page else b""
    except OSError:
        return {}
    return {
        found[1].decode(): Media(found[4].decode(), found[3].decode(), float(found[2]))
        for found in CLIP.finditer(data)
    }
