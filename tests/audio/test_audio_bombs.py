"""Recordings that cost far more than their size end soon, in bounded memory, with one reason."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf

from tests.helpers import bombs, corpus, fuzz, mutated, tiers
from uttermill.tasks.audio import decoders, stream
from uttermill.tasks.base.schema import RECORDINGS
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings import FilterSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.stages import filter as stage

pytestmark = pytest.mark.full

MEMORY = 420 << 20  # bytes, imports of 30 MB included, files not
LIKE_ITSELF = {"id3"}  # FFmpeg holds a picture of 255 MB twice
CPU = 60.0  # s; most take less than one
EXPECTED = {
    "flac": "too_long", "flac_unstated": "too_long", "flac_channels": "expands",
    "wav_claims": None, "wav_slow": "bad_sample_rate", "wav_fast": "unreadable",
    "wav_1_khz": "too_long", "wav_255": None, "wav_10000": "unreadable",
    "wav_65535": "unreadable", "rf64": "truncated", "au_10000": "unreadable",
    "au_2_31": "unreadable", "caf_10000": "unreadable", "caf_rate": "bad_sample_rate",
    "amr": "unreadable", "amr_late": "decode_error", "mp3": "too_long", "adts": "too_long",
    "opus": "too_long", "opus_times": "decode_error", "opus_early": "decode_error",
    "ogg_chain": None, "flac_chain": "too_long", "m4a_plain": None, "m4a_times": None,
    "m4a_many_times": "unreadable", "m4a_sizes": "unreadable", "m4a_equal_sizes": None,
    "m4a_edits": None, "m4a_long_edits": "empty", "m4a_repeats": "too_long",
    "m4a_tracks": "unreadable", "m4a_fragments": None, "webm": "too_long", "wavpack": None,
    "ape": "too_long", "alac": None, "id3": None, "flac_pictures": None,
}  # fmt: skip


#: They take two thirds of the time of all.
SLOW = ("ogg_chain", "amr_late", "amr", "id3", "m4a_times")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param([name for name in EXPECTED if name not in SLOW], id="by day"),
        tiers.nightly(SLOW, id="slow"),
    ],
)
def ended(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What became of each, by name, with a limit of 3.6 minutes, in one process of its own."""
    command = [sys.executable, "-m", "tests.helpers.bombs", str(tmp_path_factory.mktemp("bombs"))]
    done = subprocess.run(
        [*command, json.dumps({"max_hours": 0.06}), *request.param], capture_output=True, text=True,
        timeout=1100, cwd=Path(__file__).parents[2], check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_each_bomb_ends_with_its_reason(ended: dict[str, dict[str, Any]]) -> None:
    assert {name: row["code"] for name, row in ended.items()} == {
        name: EXPECTED[name] for name in ended
    }
    assert EXPECTED.keys() == bombs.ALL.keys()


def test_none_takes_more_memory_than_a_worker_has(ended: dict[str, dict[str, Any]]) -> None:
    for name, row in ended.items():
        most = MEMORY + (2 * row["bytes"] if name in LIKE_ITSELF else 0)
        assert row["peak"] < most, name


def test_none_takes_long(ended: dict[str, dict[str, Any]]) -> None:
    assert {name: row["cpu"] for name, row in ended.items() if row["cpu"] > CPU} == {}


def test_decoding_stops_at_the_limit(ended: dict[str, dict[str, Any]]) -> None:
    if "ogg_chain" in ended:  # of endless joined files the rest is told
        assert (ended["ogg_chain"]["audio"], ended["ogg_chain"]["faults"]) == (200.0, 1)
        return
    for name in ("flac_unstated", "mp3", "adts", "opus", "flac_chain", "webm"):
        assert 216.0 < ended[name]["audio"] < 216.001, name
    assert ended["flac"]["audio"] == 0.0  # its header said so
    assert 600.0 < ended["flac_channels"]["audio"] < 600.001


def test_short_blocks_hold_no_memory_of_whole_ones(tmp_path: Path) -> None:
    """Each link of a joined file gives a block of 960 samples, which was a view of 65,536."""
    path = tmp_path / "a.opus"
    path.write_bytes(bombs.chained_opus(3))
    with stream.open_stream(Locator(str(path))) as opened:
        assert [block.base is None for block in opened.blocks()] == [True] * 3


def unit(path: Path) -> stage.Unit:
    from uttermill.tasks.storage import urls

    row: Any = dict.fromkeys(RECORDINGS.names) | {
        "recording": "c/a", "locator": Locator(str(path)).dumps(), "content": "x",
        "guard": urls.guard(str(path)), "size": path.stat().st_size, "header_channels": 1,
    }  # fmt: skip
    return stage.Unit(row, "cut", None)


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(1 << 20))


def replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(b"something else" * 1000)
    other.replace(path)


@pytest.mark.parametrize("change", [truncated, grown, replaced])
@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_a_file_that_changes_while_it_is_decoded_waits_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, kind: str
) -> None:
    path = tmp_path / f"a.{kind.lower()}"
    samples = corpus.speech(1, 20.0, 16_000).astype(np.float32)
    with sf.SoundFile(path, "w", 16_000, 1, format=kind) as file:
        for at in range(0, len(samples), 16_000):
            file.write(samples[at : at + 16_000])
    chosen = unit(path)
    whole = decoders.opened

    def disturbed(*args: Any) -> Any:
        """The decoder of a file that another thread changes after its first block."""
        result = whole(*args)
        read = result.decoder.read

        def blocks(frames: int) -> Iterator[Any]:
            for number, block in enumerate(read(min(frames, 4096))):
                if number == 1:
                    other = threading.Thread(target=change, args=(path,))
                    other.start()
                    other.join()
                yield block

        monkeypatch.setattr(result.decoder, "read", blocks)
        return result

    monkeypatch.setattr(stream, "opened", disturbed)
    job = Job(tmp_path, filter=FilterSettings.model_validate({"segmenter": {"use": "whole"}}))
    assert [*stage.compute([chosen], job)] == [[]]


# Damaged sound files of every kind: an ItemError or samples, in bounded memory and time. They are
# decoded in processes of their own: what kills one is a finding, not the end of pytest.

ROOT = Path(__file__).parents[2]
CASES = 1500
SEED = 20
GROWTH = 600 << 20  # bytes of peak memory that all cases of a batch may add


def batch(seed: int, first: int, count: int, folder: Path) -> dict[str, Any]:
    """Outcomes of a range of cases; a dead process is a finding that names its case."""
    command = [
        sys.executable,
        "-m",
        "tests.helpers.mutated",
        *map(str, (seed, first, count, folder)),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=600 + count, check=False)
    if done.returncode:
        at = (folder / "at").read_text() if (folder / "at").exists() else "none"
        words = done.stderr.decode(errors="replace")[-2000:]
        what = f"its process ended with {done.returncode}: {words}"
        return {"findings": [{"case": at, "what": what}], "outcomes": {}, "grown": 0}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("part", range(2))
@pytest.mark.nightly
def test_damaged_files_cost_one_item_each(part: int, tmp_path: Path) -> None:
    count = fuzz.count(CASES // 2)
    found = batch(SEED, part * count, count, tmp_path)
    assert found["findings"] == []
    assert sum(found["outcomes"].values()) == count
    assert found["grown"] < GROWTH
    # The damage is neither so light that all of it is overlooked, nor so heavy that none decodes.
    assert count * 0.1 < found["outcomes"]["good"] < count * 0.9


def test_control_a_dead_process_is_a_finding(tmp_path: Path) -> None:
    found = batch(SEED, 0, -1, tmp_path / "no such folder")
    assert found["findings"][0]["case"] == "none"
    assert "ended with 1" in found["findings"][0]["what"]


def test_cases_are_the_same_each_time() -> None:
    assert mutated.damaged(3, 41) == mutated.damaged(3, 41)
    assert mutated.damaged(3, 41) != mutated.damaged(4, 41)
    kinds = {mutated.damaged(1, number)[0] for number in range(len(mutated.KINDS))}
    assert kinds == set(mutated.KINDS)
