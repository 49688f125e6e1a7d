"""Which channels hold different voices: calls, rooms, music."""

import json
from collections.abc import Callable, Iterable
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
import soxr

from tests.faults.command import Site
from tests.helpers import calls, corpus, tiers
from uttermill.flows.demo.corpus import ENGLISH, Line, speak
from uttermill.flows.demo.corpus import RATE as VOICE_RATE
from uttermill.tasks.audio.types import Sides
from uttermill.tasks.base.arrays import RATE, Float32s
from uttermill.tasks.insight.estimating import asked_apart, planning
from uttermill.tasks.speech import sides

QUIET = np.random.default_rng(3)


@cache
def call() -> calls.Sides:
    """Two voices that take turns."""
    lines = [
        Line(text, voice, 150, 50)
        for text, voice in zip(
            islice(cycle(ENGLISH), 8), cycle(("en-us", "en-us+f2")), strict=False
        )
    ]
    spoken = [
        soxr.resample(np.frombuffer(said, "<i2") / np.float32(32768), VOICE_RATE, RATE)
        for said in speak(lines)
    ]
    pauses = [np.zeros(len(part) + RATE // 2, np.float32) for part in spoken]
    both: list[list[Float32s]] = [[], []]
    for number, (part, pause) in enumerate(zip(spoken, pauses, strict=True)):
        padded = np.pad(part * 0.3, (0, len(pause) - len(part))).astype(np.float32)
        both[number % 2].append(padded)
        both[1 - number % 2].append(pause)
    return np.concatenate(both[0]), np.concatenate(both[1])


def judged(samples: calls.Stereo, block: int = 65_536) -> Sides:
    def blocks() -> Iterable[Float32s]:
        return (samples[start : start + block] for start in range(0, len(samples), block))

    return sides.looked_at(blocks, RATE, samples.shape[1])


CALLS: dict[str, Callable[[], calls.Stereo]] = {
    "clean": lambda: calls.noisy(call(), QUIET),
    "cross_talk": lambda: calls.noisy(calls.crossed(call(), -20, 0.02), QUIET),
    "softer": lambda: calls.noisy((call()[0], calls.softer(call()[1])), QUIET),
    "silence": lambda: np.stack(call(), 1),
}
ROOMS: dict[str, Callable[[], calls.Stereo]] = {
    "room": lambda: calls.noisy(calls.room(call(), QUIET, 6e-4), QUIET),
    "panned": lambda: calls.noisy(calls.panned(call(), 12), QUIET),
    "same": lambda: np.stack([call()[0] + call()[1]] * 2, 1),
    "one": lambda: calls.noisy((call()[0], 0 * call()[0]), QUIET),
    "echo": lambda: calls.noisy((call()[0], calls.delayed(call()[0], 0.15, -20)), QUIET),
    "tones": lambda: calls.noisy(calls.band(QUIET, 20 * RATE, tones()), QUIET),
    "nothing": lambda: np.zeros((RATE, 2), np.float32),
    "short": lambda: np.zeros((10, 2), np.float32),
    "array": lambda: np.zeros((RATE, 12), np.float32),
}


def tones() -> Float32s:
    times = np.arange(20 * RATE) / RATE
    return (0.1 * np.sign(np.sin(2 * np.pi * 220 * times)) * (times % 2 < 1)).astype(np.float32)


@pytest.mark.parametrize("made", CALLS.values(), ids=CALLS)
def test_the_sides_of_a_call_are_apart(made: Callable[[], calls.Stereo]) -> None:
    found = judged(made())
    assert found.apart, str(found)


@pytest.mark.parametrize("made", ROOMS.values(), ids=ROOMS)
def test_rooms_and_music_are_not_divided(made: Callable[[], calls.Stereo]) -> None:
    found = judged(made())
    assert not found.apart, str(found)


def test_cross_talk_is_measured() -> None:
    found = judged(CALLS["cross_talk"]())
    assert found.cross_talk == pytest.approx(-20, abs=2)
    assert str(found).startswith("they hold different voices (one alone is heard in ")
    assert "cross-talk -2" in str(found) or "cross-talk -1" in str(found)
    assert judged(CALLS["clean"]()).cross_talk is None


@pytest.mark.full
def test_the_answer_does_not_depend_on_the_blocks() -> None:
    samples = CALLS["cross_talk"]()
    assert judged(samples, 1000) == judged(samples)


@pytest.mark.nightly
def test_a_run_says_what_it_found(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in/call.wav", CALLS["cross_talk"](), RATE)
    sf.write(tmp_path / "in/room.wav", ROOMS["room"](), RATE)
    corpus.add(tmp_path / "in", 1)
    source = {"kind": "folder", "path": str(tmp_path / "in"), "name": "c", "channels": "auto"}
    job = corpus.job(
        tmp_path, sources=[source], filter={"segmenter": {"use": "whole"}, "filters": ()}
    )
    [sample] = [s for s in planning.plan(job, None).stated if s.startswith("Channels")]
    assert sample.startswith(
        "Channels of the source 'c': of 3 of its 3 new files that were looked at, 1 is read apart, "
        "such as call.wav: they hold different voices (one alone is heard in"
    )
    assert "; 1 is mixed, such as room.wav: " in sample
    assert sample.endswith("; 1 is of one channel; the run decides for each file")
    published, _ = corpus.run(job)
    rows = corpus.utterances(published.path)
    assert {row["recording"]: (row["channel"], row["speaker"]) for row in rows} == {
        "c/call.wav#0": (0, "c/call.wav#0"), "c/call.wav#1": (1, "c/call.wav#1"),
        "c/room.wav": (None, None), "c/r01.wav": (None, None),
    }  # fmt: skip
    ledger = corpus.ledger(published.path)
    said: dict[str, Any] = {row["reason"]: row for row in ledger if row["stage"] == "shard"}
    assert said.keys() == {"channels_apart", "channels_mixed"}
    assert said["channels_apart"]["recording"] == "c/call.wav#0"
    assert said["channels_apart"]["channel"] is None
    assert "they hold different voices" in said["channels_apart"]["detail"]
    assert said["channels_mixed"]["recording"] == "c/room.wav"
    assert said["channels_mixed"]["samples"] == 0
    assert all(computed == 0 for computed, _ in corpus.run(job)[1].values())
    known = [s for s in planning.plan(job, job).stated if s.startswith("Channels")]
    assert [s.partition(",")[0] for s in known] == [
        "Channels of 1 file of the source 'c' are read apart",
        "Channels of 1 file of the source 'c' are mixed",
    ]


def test_a_plan_that_cannot_look_in_time_says_how_the_run_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in/call.wav", CALLS["cross_talk"](), RATE)
    source = {"kind": "folder", "path": str(tmp_path / "in"), "name": "c", "channels": "auto"}
    job = corpus.job(tmp_path, sources=[source])
    monkeypatch.setattr(asked_apart, "PATIENCE", 0.0)
    [sentence] = [s for s in planning.plan(job, None).stated if s.startswith("Channels")]
    assert sentence == (
        "Channels of 1 new file of the source 'c' are not looked at yet: the run reads a file's "
        "channels apart where one alone is heard in most of its speech, else their mix"
    )


# Voices over the telephone beside others: where speakers are told apart by their voices and splits
# go by them, `plan`, the end of a run and its report warn that one person may be two.

WORDS = "may give a person heard in both two names"
VOICES = {"use": "tests.plugins.voiced"}
SPLITS = {"splits": {"dev": 0.3}}


def say(path: Path, person: int, rate: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = 0.1 * np.random.default_rng([person, rate]).normal(size=2 * rate)
    samples[:2] = person / 100
    sf.write(path, samples.clip(-1, 1), rate, "FLOAT")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(asked_apart, "PATIENCE", 120.0)  # of a busy machine
    site = Site(tmp_path, "", history="none")
    for person, rate in ((1, 16000), (2, 16000), (3, 44100), (1, 8000), (4, 8000)):
        say(site.source / f"of{rate}/p{person}.wav", person, rate)
    return site


def told(site: Site, out: str, **settings: Any) -> list[str]:
    """What says it: of the plan before the run, the run, its report, and the plan after it."""
    file = site.settings(out, **settings)
    before = site.command("plan", file).result
    ran = site.command("run", file)
    assert ran.code == 0, ran.stderr
    places = {
        "plan": json.dumps(before.get("stated", [])),
        "run": ran.stderr,
        "json": json.dumps(ran.result),
        "report": next((site.home / out / "runs").glob("*/report.html")).read_text(),
        "plan after": json.dumps(site.command("plan", file).result.get("stated", [])),
    }
    return [name for name, text in places.items() if WORDS in text]


@pytest.mark.cluster
@pytest.mark.nightly
def test_both_bands_are_told_where_splits_go_by_voices(site: Site) -> None:
    everywhere = ["plan", "run", "json", "report", "plan after"]
    assert told(site, "both", speakers=VOICES, package=SPLITS) == everywhere
    file = site.settings("both", speakers=VOICES, package=SPLITS)
    (sentence,) = [s for s in site.command("plan", file).result["stated"] if WORDS in s]
    assert sentence.startswith(
        "2 recordings have the band of a telephone (below 16 kHz) and 3 a wider one: "
    )


STATED = {"kind": "folder", "name": "c", "speaker": "parent_folder"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"speakers": VOICES}, ""),
        tiers.nightly({"package": SPLITS}, ""),
        tiers.nightly({"speakers": {**VOICES, "across_recordings": False}, "package": SPLITS}, ""),
        ({"speakers": VOICES, "package": {**SPLITS, "disjoint": ["recording"]}}, ""),
        tiers.nightly({"speakers": VOICES, "package": SPLITS, "sources": [STATED]}, ""),
        tiers.nightly({"speakers": VOICES, "package": SPLITS}, "of8000"),
    ],
    ids=["no splits", "no voices", "not across", "may share", "speakers stated", "one band"],
)
def test_it_is_told_nowhere_else(site: Site, settings: dict[str, Any], folder: str) -> None:
    (source,) = settings.get("sources", [{"kind": "folder", "name": "c"}])
    sources = [{**source, "path": str(site.source / folder)}]
    file = site.settings("out", **{**settings, "sources": sources})
    assert WORDS not in json.dumps(site.command("plan", file).result)


def test_a_limit_of_hours_goes_by_voices_too(site: Site) -> None:
    file = site.settings("out", speakers=VOICES, package={"max_hours_per_speaker": 1})
    assert WORDS in json.dumps(site.command("plan", file).result)
