"""Lhotse's cuts that say more than a span of a file: which channel, at which speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.tasks import plugins
from uttermill.tasks.recording import Ignored, Recording
from uttermill.tasks.settings import Source

BOTH = [0, 1]


def cut(start: float, channel: int | list[int], **recording: Any) -> dict[str, Any]:
    source = {"type": "file", "channels": BOTH, "source": "call.wav"}
    return {
        "id": f"c{start}",
        "type": "MonoCut" if isinstance(channel, int) else "MultiCut",
        "start": start,
        "duration": 0.5,
        "channel": channel,
        "supervisions": [],
        "recording": {"id": "call", "sources": [source], "channel_ids": BOTH, **recording},
    }


def supervised(channel: int, others: int) -> dict[str, Any]:
    """A cut of both channels with a supervision of each of two channels."""
    told = {"start": 0.0, "duration": 0.2, "text": "hello"}
    both = [{**told, "channel": channel}, {**told, "start": 0.2, "channel": others}]
    return {**cut(0.0, BOTH), "supervisions": both}


def listed(folder: Path, *cuts: dict[str, Any]) -> list[Recording | Ignored]:
    corpus.add(folder, 7, name="call.wav")
    (folder / "cuts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in cuts))
    source = Source.model_validate({"kind": "lhotse", "path": str(folder / "cuts.jsonl")})
    module, chosen = plugins.resolve_source(source)
    return list(module.recordings(chosen))


@pytest.mark.parametrize(
    ("cuts", "channels"),
    [
        ([cut(0.0, 0), cut(0.5, 1)], {"call.wav#0": (0,), "call.wav#1": (1,)}),
        ([cut(0.0, 0), cut(0.0, 1)], {"call.wav#0": (0,), "call.wav#1": (1,)}),
        ([cut(0.0, BOTH), cut(0.5, 1)], {"call.wav": None, "call.wav#1": (1,)}),
        ([supervised(0, 1)], {"call.wav#0": (0,), "call.wav#1": (1,)}),
        ([cut(0.0, 1)], {"call.wav#1": (1,)}),
        ([cut(0.0, 0)], {"call.wav": (0,)}),
    ],
    ids=["in_turn", "at_once", "both_and_one", "supervisions", "second", "first"],
)
def test_channels_are_recordings_of_their_own(
    tmp_path: Path, cuts: list[dict[str, Any]], channels: dict[str, tuple[int, ...] | None]
) -> None:
    recordings = [each for each in listed(tmp_path, *cuts) if isinstance(each, Recording)]
    assert {each.path: each.locator.channels for each in recordings} == channels
    assert all(len(each.segments or ()) == 1 for each in recordings)


@pytest.mark.parametrize(
    "cuts",
    [[cut(0.0, 0), cut(0.5, 0)], [cut(0.0, BOTH), cut(0.5, [1, 0])], [supervised(0, 0)]],
    ids=["one", "both", "supervisions"],
)
def test_cuts_of_the_same_channels_are_read(tmp_path: Path, cuts: list[dict[str, Any]]) -> None:
    (found,) = listed(tmp_path, *cuts)
    assert isinstance(found, Recording)
    assert found.error is None
    assert len(found.segments or ()) == 2


def test_a_missing_file_is_told_first(tmp_path: Path) -> None:
    corpus.add(tmp_path, 7, name="call.wav")
    gone = [{**cut(n, n), "recording": {"sources": [_gone()]}} for n in BOTH]
    for found in listed(tmp_path, *gone):
        assert isinstance(found, Recording)
        assert found.error is not None
        assert found.error[0] == "missing"


def _gone() -> dict[str, str]:
    return {"type": "file", "source": "gone.wav"}


@pytest.mark.parametrize("name", ["Speed", "Tempo", "Volume"])
def test_a_changed_sound_is_not_that_of_the_file(tmp_path: Path, name: str) -> None:
    changed = {"transforms": [{"name": name, "kwargs": {"factor": 1.1}}]}
    (found,) = listed(tmp_path, cut(0.0, BOTH, **changed))
    assert isinstance(found, Recording)
    assert found.error is not None
    assert found.error[0] == "unsupported"
    same = {"transforms": [{"name": "Resample", "kwargs": {"target_sampling_rate": 8000}}]}
    (found,) = listed(tmp_path, cut(0.0, BOTH, **same))
    assert isinstance(found, Recording)
    assert found.error is None
