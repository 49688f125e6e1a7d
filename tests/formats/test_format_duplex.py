"""Conversations on two tracks, as moshi-finetune reads them."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf

from tests.helpers import corpus
from tests.plugins import oracle_asr
from tests.speech import test_own_channels as calls
from tests.speech.test_own_channels import RATE, TALK
from uttermill.flows import checks
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError, NothingLeft
from uttermill.tasks.insight.estimating import planning, sample
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job

MAIN, OTHER = "SPEAKER_MAIN", "SPEAKER_OTHER"


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    calls.call(tmp_path)
    oracle_asr.HEARD.clear()
    return tmp_path


def job(home: Path, *formats: dict[str, Any], tells_channels: bool = True) -> Job:
    chosen = calls.job(home, tells_channels)
    own = any(one.get("tracks", "own") == "own" for one in formats)
    filters = [{"use": "dialogue"}, *([{"use": "tracks"}] if own else [])]
    return corpus.job(
        home,
        speakers=chosen.speakers,
        filter={"segmenter": {"use": "dialogue"}, "filters": filters},
        transcribe=chosen.transcribe.model_dump(),
        package={"formats": [*formats] or ["webdataset"]},
    )


def conversations(version: Path) -> Iterator[tuple[np.ndarray, list[Any], dict[str, Any]]]:
    """As the trainer: samples [n, 2], words in order of starts, and the whole file beside."""
    for lines in sorted(version.rglob("*.jsonl")):
        for line in lines.read_text().splitlines():
            entry = json.loads(line)
            path = lines.parent / entry["path"]
            samples, rate = sf.read(path, dtype="int16", always_2d=True)
            assert len(samples) / rate == entry["duration"]
            beside = json.loads(path.with_suffix(".json").read_text())
            yield samples, beside["alignments"], beside


def said(words: list[Any], side: str) -> list[str]:
    return [word for word, _, who in words if who == side]


def text_of(channel: int) -> list[str]:
    return [word for *_, side, text in TALK if side == channel for word in text.split()]


def test_each_speaker_has_the_channel_of_the_call(home: Path) -> None:
    """Adding the format converts both channels, and recognises nothing."""
    before = job(home)
    corpus.run(before)
    chosen = job(home, {"use": "duplex"})
    planned = planning.plan(chosen, before)
    published, counts = corpus.run(chosen)
    assert planned.stages["resample"].compute == counts["resample"][0] == 2
    assert planned.stages["transcribe"].compute == counts["transcribe"][0] == 0
    [(samples, words, beside)] = conversations(published.path)
    [row] = corpus.utterances(published.path)
    call, _ = sf.read(home / "in" / "call.wav", dtype="int16")
    start = round(row["start"] * RATE)
    assert np.abs(samples.astype(int) - call[start : start + len(samples)]).max() <= 1
    assert said(words, MAIN) == text_of(0)
    assert said(words, OTHER) == text_of(1)
    assert [times for _, times, _ in words] == sorted(times for _, times, _ in words)
    assert [turn["side"] for turn in beside["turns"]] == [MAIN, OTHER, OTHER, MAIN]
    assert [len(names) for names in beside["speakers"].values()] == [1, 1]
    assert verify(published.path) == []
    ledger = corpus.ledger(published.path)
    assert sum(line["samples"] for line in ledger) == len(call)
    again, counts = corpus.run(chosen)
    assert not again.new
    assert all(computed == 0 for computed, _ in counts.values())
    for name in (".wav", ".json"):
        [path] = (published.path / "duplex").rglob(f"*{name}")
        sound = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(sound[:-9] + b"x" + sound[-8:])
        assert any(path.name in fault for fault in verify(published.path))
        path.write_bytes(sound)


def test_left_and_right_change_places(home: Path) -> None:
    published, _ = corpus.run(job(home, {"use": "duplex", "swap": True}))
    [(samples, words, _)] = conversations(published.path)
    assert said(words, MAIN) == text_of(1)
    silent = slice(round(16.5 * RATE), round(25 * RATE))  # of the first speaker
    assert samples[silent, 0].any()
    assert not samples[silent, 1].any()
    assert verify(published.path) == []


def test_a_mix_is_two_tracks_only_if_asked(home: Path) -> None:
    """Without channels of their own, the clip is dropped; by turns, each side is silent where
    nobody on it speaks."""
    with pytest.raises(NothingLeft) as refused:
        corpus.run(job(home, {"use": "duplex"}, tells_channels=False))
    assert "filter.no_own_channels" in refused.value.reasons
    by_turns = job(home, {"use": "duplex", "tracks": "by_turns"}, tells_channels=False)
    published, _ = corpus.run(by_turns)
    [(samples, _, beside)] = conversations(published.path)
    rate = RATE
    for side, name in enumerate((MAIN, OTHER)):
        spoken = np.zeros(len(samples), bool)
        for turn in beside["turns"]:
            if turn["side"] == name:
                spoken[round(turn["start"] * rate) : round(turn["end"] * rate)] = True
        assert samples[spoken, side].any()
        assert not samples[~spoken, side].any()
    assert verify(published.path) == []


def test_settings_that_give_no_channels_are_refused(tmp_path: Path) -> None:
    corpus.add(tmp_path / "in", 1)
    asked: dict[str, Any] = {
        "sources": [{"path": str(tmp_path / "in"), "name": "c"}],
        "out": str(tmp_path / "out"),
        "transcribe": {"backend": {"use": "fake"}},
        "package": {"formats": ["duplex"]},
    }
    with pytest.raises(ConfigError, match="turns"):
        checks.check_wishes(PrepareSettings(**asked))
    settings = PrepareSettings(**asked).job()
    assert [plugin.use for plugin in settings.filter.filters][-1] == "tracks"
    by_turns = {"formats": [{"use": "duplex", "tracks": "by_turns"}]}
    settings = PrepareSettings(**{**asked, "package": by_turns}).job()
    assert "tracks" not in [plugin.use for plugin in settings.filter.filters]


# Conversations on two tracks in formats of others, through their own readers.

READ_BY_OTHERS = ("webdataset", "lhotse_shar", "hf_parquet")
#: Lhotse leaves the files that it reads to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
SIDES = [side for *_, side, _ in TALK]


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
