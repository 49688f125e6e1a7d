"""Turns of a call's windows get their texts from the speakers' own channels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf

from tests.helpers import corpus
from tests.plugins import oracle_asr
from uttermill.tasks.base.schema import CutRow
from uttermill.tasks.insight.report import page
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.recording import tracks
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest, recipe
from uttermill.tasks.stages import cutting
from uttermill.tasks.stages.filter import SCHEMA

RATE = 16_000
SECONDS = 40
ORACLE = "tests.plugins.oracle_asr"
#: Start, end and channel of each turn, and what is said in it; one is a backchannel.
TALK = (
    (0.5, 14.0, 0, "so we went down to the river"),
    (6.0, 6.5, 1, "yeah"),
    (15.5, 30.0, 1, "call me at the office"),
    (31.5, 39.0, 0, "fine then we meet there"),
)
#: What is heard of all in the mix: nothing of the backchannel, and something else in a turn.
MIX = (*TALK[:1], *TALK[2:3], (31.5, 39.0, 0, "mine then"))


def words(said: tuple[tuple[float, float, int, str], ...]) -> str:
    """[[word, start, end], …], evenly spread over turns."""
    told: list[tuple[str, float, float]] = []
    for start, end, _, text in said:
        spoken = text.split()
        step = (end - start) / len(spoken)
        told += [(word, start + n * step, start + (n + 1) * step) for n, word in enumerate(spoken)]
    return json.dumps(told)


def call(home: Path) -> None:
    """The recording, and beside it what the recogniser knows: of the mix and of each channel."""
    sides = np.zeros((SECONDS * RATE, 2), np.int16)
    for number, (start, end, side, _) in enumerate(TALK):
        noise = corpus.speech(number, end - start, RATE)[:, 0]
        low = round(start * RATE)
        sides[low : low + len(noise), side] = 2 * np.round(noise * 16_384)
    (home / "in").mkdir(parents=True)
    sf.write(home / "in" / "call.wav", sides, RATE, "PCM_16")
    known = {"mix": sides.sum(axis=1) // 2, "0": sides[:, 0], "1": sides[:, 1]}
    for name, samples in known.items():
        sf.write(home / f"{name}.wav", samples.astype(np.int16), RATE, "PCM_16")
        said = MIX if name == "mix" else tuple(one for one in TALK if str(one[2]) == name)
        (home / f"{name}.json").write_text(words(said))


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    call(tmp_path)
    oracle_asr.HEARD.clear()
    return tmp_path


def job(home: Path, tells_channels: bool = True, **transcribe: Any) -> Job:
    known = [str(home / f"{name}.wav") for name in ("mix", "0", "1")]
    timed = transcribe.pop("timed", True)
    turns = [one[:3] for one in TALK]
    return corpus.job(
        home,
        speakers=Plugin(use="tests.plugins.told_sides", turns=turns, tells_channels=tells_channels),
        filter={"segmenter": {"use": "dialogue"}, "filters": [{"use": "dialogue"}]},
        transcribe={
            "backend": {"use": ORACLE, "path": known[0], "more": known[1:], "timed": timed},
            "verdicts": (),
            **transcribe,
        },
        package={"formats": ["webdataset"]},
    )


def told(version: Path) -> list[dict[str, Any]]:
    """The turns of its one window."""
    [row] = corpus.utterances(version)
    turns: list[dict[str, Any]] = row["turns"]
    return turns


def texts(version: Path) -> list[str | None]:
    return [turn["text"] for turn in told(version)]


@pytest.mark.full
def test_a_turn_has_the_words_of_its_own_channel(home: Path) -> None:
    published, _ = corpus.run(job(home))
    assert texts(published.path) == [text for *_, text in TALK]
    [row] = corpus.utterances(published.path)
    assert row["text"] == " ".join(text for *_, text in MIX), "the clip is the mix"
    assert " ".join(word["word"].strip() for word in row["word_times"]) == row["text"]
    for turn in row["turns"]:
        assert [word["word"].strip() for word in turn["words"]] == turn["text"].split()
        for word in turn["words"]:
            assert turn["start"] - 0.11 <= word["start"] < word["end"] <= turn["end"] + 0.11
    assert [turn["backchannel"] for turn in row["turns"]] == [False, True, False, False]
    ledger = corpus.ledger(published.path)
    assert sum(line["samples"] for line in ledger) == SECONDS * RATE
    assert verify(published.path) == []


@pytest.mark.nightly
def test_each_turn_is_heard_once(home: Path) -> None:
    published, counts = corpus.run(job(home))
    heard = len(oracle_asr.HEARD)
    assert heard == 1 + len(TALK)
    assert counts["resample"][0] == 1 + len(TALK)
    again, counts = corpus.run(job(home))
    assert all(computed == 0 for computed, _ in counts.values())
    assert again.path == published.path
    by_window, counts = corpus.run(job(home, turns_by="window"))
    assert counts["filter"][0] == counts["resample"][0] == counts["transcribe"][0] == 0
    assert texts(by_window.path) == ["so we went down to the river", "", "call me at the office",
                                     "mine then"]  # fmt: skip
    back, counts = corpus.run(job(home))
    assert counts["filter"][0] == counts["resample"][0] == counts["transcribe"][0] == 0
    assert texts(back.path) == texts(published.path)
    assert len(oracle_asr.HEARD) == heard


@pytest.mark.full
def test_turns_of_before_stay_as_they_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier releases did not store the channels of turns."""
    stored = cutting.turns_of

    def as_before(*args: Any) -> tuple[Any, list[CutRow]]:
        turns, rows = stored(*args)
        for row in rows:
            for turn in row["turns"]:
                del turn["channel"]
        return turns, rows

    with monkeypatch.context() as patch:
        patch.setattr(cutting, "turns_of", as_before)
        one, _ = corpus.run(job(home))
    assert texts(one.path)[1] == ""
    two, counts = corpus.run(job(home))
    assert all(computed == 0 for computed, _ in counts.values())
    assert two.path == one.path


@pytest.mark.nightly
def test_turns_without_a_channel_keep_to_the_window(home: Path) -> None:
    published, counts = corpus.run(job(home, tells_channels=False))
    assert counts["resample"][0] == counts["transcribe"][0] == len(oracle_asr.HEARD) == 1
    assert texts(published.path)[1:3] == ["", "call me at the office"]
    report = page.build(job(home), "r", published.path)
    assert b"1 backchannels (up to 1 s inside another\xe2\x80\x99s turn), 1 of them with" in report


@pytest.mark.full
def test_no_times_of_words_are_needed(home: Path) -> None:
    published, _ = corpus.run(job(home, timed=False))
    assert texts(published.path) == [text for *_, text in TALK]
    assert [turn["words"] for turn in told(published.path)] == [None] * len(TALK)


@pytest.mark.full
def test_a_channel_that_cannot_be_converted_loses_nothing_else(home: Path) -> None:
    path = home / "in" / "call.wav"
    samples, _ = sf.read(path)
    samples[:, 1] *= 12
    samples[:, 0] /= 3
    sf.write(path, samples, RATE, "FLOAT")
    [mix, left] = samples.mean(axis=1), samples[:, 0]
    for name, mono in {"mix": mix, "0": left}.items():
        pcm = np.clip(np.rint(mono * 32768), -32768, 32767).astype(np.int16)
        sf.write(home / f"{name}.wav", pcm, RATE, "PCM_16")
    published, _ = corpus.run(job(home))
    assert texts(published.path) == [TALK[0][-1], "", TALK[2][-1], TALK[3][-1]]
    [line] = [line for line in corpus.ledger(published.path) if line["outcome"] == "packaged"]
    assert line["detail"].startswith("2 turns of channel 1 by the window's words: over_full_scale:")
    assert verify(published.path) == []
    _, counts = corpus.run(job(home))
    assert all(computed == 0 for computed, _ in counts.values())


def test_a_turn_that_the_recogniser_fails_on_has_the_words_of_the_window(home: Path) -> None:
    (home / "1.json").write_text(words((TALK[1], (*TALK[2][:3], oracle_asr.FATAL))))
    published, _ = corpus.run(job(home))
    assert texts(published.path) == [text for *_, text in TALK]
    ledger = corpus.ledger(published.path)
    [detail] = [line["detail"] for line in ledger if line["outcome"] == "packaged"]
    assert detail.startswith("1 turn of channel 1 by the window's words: asr_error: it cannot hear")
    _, counts = corpus.run(job(home))
    assert all(computed == 0 for computed, _ in counts.values())


def test_prune_keeps_them(home: Path) -> None:
    asked = job(home)
    corpus.run(asked)
    [shard] = manifest.shards(asked.out)
    settings = prune.KeptSettings(asked, recipe.weights_of(asked.transcribe.recognisers))
    files = prune.find_unneeded(asked.out, shard, [settings], None)
    assert (files.manifests, files.audio, files.uncut) == ([], [], 0)


def test_what_is_hidden_of_a_turn_is_silent_too(home: Path) -> None:
    """The mix does not give away the number that the speaker's own channel does."""
    said = (TALK[2][0], TALK[2][1], 1, "write to anna@example.org please")
    (home / "1.json").write_text(words((TALK[1], said)))
    hides = [{"use": "pii", "mute": True}]
    published, _ = corpus.run(job(home, verdicts=hides))
    [row] = corpus.utterances(published.path)
    assert "anna" not in str(row)
    assert row["turns"][2]["text"] == "write to <EMAIL> please"
    low, high = (int(place) / RATE for place in row["muted"].split("-"))
    step = (said[1] - said[0]) / 4
    first = said[0] + 2 * step - row["start"]
    assert low == pytest.approx(first - 0.05, abs=0.01)
    assert high == pytest.approx(first + step + 0.05, abs=0.01)
    assert verify(published.path) == []


def test_a_channel_of_some_that_are_heard() -> None:
    row: Any = {"channels": [1, 3]}
    assert [tracks.file_channel(row, number) for number in (0, 1)] == [(1,), (3,)]
    row["channels"] = None
    assert tracks.file_channel(row, 2) == (2,)


@pytest.mark.full
def test_the_stored_turns_name_their_channels(home: Path) -> None:
    asked = job(home)
    corpus.run(asked)
    [shard] = manifest.shards(asked.out)
    [part] = manifest.read(asked.out, "filter", shard)
    assert part.table.schema.field("turns").type == SCHEMA.field("turns").type
    stored = [row for row in part.table.to_pylist() if row["kind"] == "turns"]
    assert [turn["channel"] for turn in stored[0]["turns"]] == [0, 1, 1, 0]
