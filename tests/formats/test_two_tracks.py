"""Conversations on two tracks in formats of others, through their own readers."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf

from tests.formats.test_format_duplex import conversations, job, text_of
from tests.helpers import corpus
from tests.plugins import oracle_asr
from tests.speech import test_own_channels as calls
from tests.speech.test_own_channels import RATE, TALK
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.insight.estimating import sample
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin

READ_BY_OTHERS = ("webdataset", "lhotse_shar", "hf_parquet")
#: Lhotse leaves the files that it reads to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
SIDES = [side for *_, side, _ in TALK]


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    calls.call(tmp_path)
    oracle_asr.HEARD.clear()
    return tmp_path


def by_webdataset(version: Path) -> tuple[np.ndarray, list[dict[str, Any]]]:
    import webdataset

    [tar] = (version / "webdataset/train").glob("*.tar")
    [sample] = webdataset.WebDataset(str(tar), shardshuffle=False, empty_check=False)
    [audio] = (sample[name] for name in ("wav", "flac") if name in sample)
    samples, _ = sf.read(io.BytesIO(audio), dtype="int16")
    return samples, json.loads(sample["json"])["turns"]


def by_lhotse(version: Path) -> tuple[np.ndarray, list[dict[str, Any]]]:
    from lhotse import CutSet, MultiCut

    [cut] = CutSet.from_shar(in_dir=str(version / "lhotse_shar/train"))
    assert isinstance(cut, MultiCut)
    assert cut.channel == [0, 1]
    turns = [{"channel": s.channel, "text": s.text, "start": s.start} for s in cut.supervisions]
    for side, mono in enumerate(cut.to_mono(mono_downmix=False)):
        said = [supervision.text for supervision in mono.supervisions]
        assert said == [turn["text"] for turn in turns if turn["channel"] == side]
    return np.round(cut.load_audio().T * 32768).astype(np.int16), turns


def by_datasets(version: Path) -> tuple[np.ndarray, list[dict[str, Any]]]:
    import datasets

    path = str(next((version / "hf_parquet/train").glob("*.parquet")))
    rows = datasets.Dataset.from_parquet(path, cache_dir=str(version.parent / "cache"))
    assert rows.features["audio"] == datasets.Audio(sampling_rate=RATE, num_channels=2)
    [row] = rows.cast_column("audio", datasets.Audio(decode=False))
    samples, _ = sf.read(io.BytesIO(row["audio"]["bytes"]), dtype="int16")
    return samples, row["turns"]


@pytest.mark.full
@pytest.mark.parametrize("tracks", ["own", "by_turns"])
def test_each_reader_gets_two_tracks_and_the_side_of_each_turn(home: Path, tracks: str) -> None:
    own = tracks == "own"
    formats = [
        {"use": use, "tracks": tracks, **({"audio": "flac"} if own else {})}
        for use in (*READ_BY_OTHERS, "duplex")
    ]
    chosen = job(home, *formats, tells_channels=own)
    published, _ = corpus.run(chosen)
    [(samples, _, beside)] = conversations(published.path)
    for read in (by_webdataset, by_lhotse, by_datasets):
        theirs, turns = read(published.path)
        np.testing.assert_array_equal(theirs, samples)
        assert [turn["channel"] for turn in turns] == SIDES
        assert [turn["text"] for turn in turns] == [turn["text"] for turn in beside["turns"]]
        if own:
            left = [turn["text"] for turn in turns if turn["channel"] == 0]
            assert " ".join(left).split() == text_of(0)
    assert verify(published.path) == []
    ledger = corpus.ledger(published.path)
    assert sum(line["samples"] for line in ledger) == calls.SECONDS * RATE
    card = (published.path / "README.md").read_text()
    assert "two in webdataset, lhotse_shar, hf_parquet, duplex, else one channel" in card
    again, _ = corpus.run(chosen)
    assert not again.new


def test_two_tracks_beside_a_mix_leave_its_files_as_they_are(home: Path) -> None:
    """What is damaged in a track is a fault, and its PCM counts in an estimate."""
    mixed, _ = corpus.run(job(home, {"use": "webdataset", "tracks": "mix"}))
    chosen = job(
        home, {"use": "webdataset", "tracks": "mix"}, {"use": "lhotse_shar", "tracks": "own"}
    )
    published, _ = corpus.run(chosen)
    [old], [new] = ([*one.path.glob("webdataset/*/*.tar")] for one in (mixed, published))
    assert old.stat().st_ino == new.stat().st_ino
    [tar] = published.path.glob("lhotse_shar/*/*.tar")
    sound = tar.read_bytes()
    tar.chmod(0o644)
    tar.write_bytes(sound[:200_000] + b"x" + sound[200_001:])
    assert any("other samples" in fault for fault in verify(published.path))
    shards = [path.name for path in (home / "out/manifests/shard").iterdir()]
    [seen] = sample.known(chosen, shards).values()
    [row] = corpus.utterances(published.path)
    stored = sum(path.stat().st_size for path in (home / "out/audio").rglob("*.pcm"))
    assert abs(seen.pcm - stored) < 0.01 * stored
    assert seen.pcm > 3 * 2 * row["num_samples"], "also what is heard of each turn's own channel"


def test_settings_of_tracks_are_checked() -> None:
    for use in READ_BY_OTHERS:
        lossy = Plugin.model_validate({"use": use, "tracks": "own", "audio": "mp3"})
        with pytest.raises(ConfigError, match="tracks: own needs audio: wav or flac, not mp3"):
            plugins.FORMATS.resolve(lossy)
    asked: dict[str, Any] = {"sources": [{"path": "in", "name": "c"}], "out": "out"}
    for tracks, filters in (("own", True), ("by_turns", False), ("mix", False)):
        package = {"formats": [{"use": "webdataset", "tracks": tracks}]}
        chosen = PrepareSettings(**asked, package=package).job().filter.filters
        assert ("tracks" in [plugin.use for plugin in chosen]) == filters
