"""Windows of a conversation: where they are cut, and whole runs over made dialogues."""

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import corpus, dialogues
from tests.helpers.dialogues import Asked, Dialogue
from tests.helpers.format_entries import entries
from uttermill.flows import checks
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks import pipeline
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.diarizers import channels
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.insight.report import page
from uttermill.tasks.publish.upkeep import verify
from uttermill.tasks.recording.turns import Turn, Voices
from uttermill.tasks.segmenters import Segmenter, Span, dialogue
from uttermill.tasks.segmenters.dialogue import Pause, WindowCuts
from uttermill.tasks.settings import Plugin, Source
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import recipe

ORACLE = "tests.plugins.oracle_asr"
CHAT = [{"use": "chat_jsonl", "tasks": ["dialogue"]}]
LENGTHS = 30, 60, 120, 1  # shortest, target, longest, rate
needs_voices = pytest.mark.skipif(
    find_spec("espeakng_loader") is None, reason="espeakng-loader is not installed"
)


def cut(pauses: Sequence[tuple[int, int]], end: int) -> list[Span]:
    """Of one conversation from 0 to `end` with these pauses: (middle, length)."""
    cuts = WindowCuts(*LENGTHS)
    cuts.begins(0)
    for middle, length in pauses:
        cuts.decide(middle - length, end)
        cuts.pause(Pause(middle, middle, length), end)
    cuts.ends(end, 5)
    cuts.begins(end)
    return cuts.spans


def told(spans: Sequence[Span]) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.reason or span.kind) for span in spans]


@pytest.mark.parametrize(
    ("pauses", "end", "windows"),
    [
        ([], 70, [(0, 70, "utterance")]),
        ([(10, 1)], 20, [(0, 20, "short_dialogue")]),
        ([(50, 1), (60, 1), (70, 1)], 121, [(0, 60, "utterance"), (60, 121, "utterance")]),
        # One that leaves a scrap is worse than a long window.
        ([(60, 1)], 80, [(0, 80, "utterance")]),
        # No window without a pause.
        ([(200, 1)], 240, [(0, 200, "no_pause"), (200, 240, "utterance")]),
        ([(10, 1), (200, 1)], 240, [
            (0, 10, "short_dialogue"), (10, 200, "no_pause"), (200, 240, "utterance"),
        ]),
        ([], 130, [(0, 130, "no_pause")]),
    ],
)  # fmt: skip
def test_windows_end_at_the_best_pause(
    pauses: list[tuple[int, int]], end: int, windows: list[tuple[int, int, str]]
) -> None:
    assert told(cut(pauses, end)) == windows


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(2, 90), min_size=1, max_size=40), st.data())
def test_windows_cover_all_and_keep_their_lengths(steps: list[int], data: st.DataObject) -> None:
    places = np.cumsum(steps).tolist()
    pauses = [(place, data.draw(st.integers(1, 2))) for place in places[:-1]]
    spans = cut(pauses, places[-1])
    assert [span.start for span in spans] == [0, *(span.end for span in spans[:-1])]
    assert spans[-1].end == places[-1]
    kept = [span for span in spans if span.kind == "utterance"]
    assert all(30 <= span.end - span.start <= 120 for span in kept)
    assert {edge for span in kept for edge in (span.start, span.end)} <= {0, *places}
    alone = WindowCuts(*LENGTHS)  # told of all pauses late
    alone.begins(0)
    for middle, length in pauses:
        alone.pause(Pause(middle, middle, length), places[-1])
    alone.ends(places[-1], 5)
    assert told(alone.spans) == told(spans)


def test_a_silence_ends_a_conversation_and_is_in_no_window() -> None:
    talk = dialogue.gaps([(0, 40), (41, 80), (95, 130)], longest=3)
    assert [(gap.start, gap.end, gap.until, gap.between) for gap in talk] == [
        (0, 0, 0, True), (40, 41, 80, False), (80, 95, 80, True), (130, None, 130, True),
    ]  # fmt: skip


def spans_of(segmenter: Segmenter, samples: np.ndarray, block: int) -> list[Span]:
    spans: list[Span] = []
    for start in range(0, len(samples), block):
        spans += segmenter.push(samples[start : start + block, None])
        assert segmenter.needed_from <= min(start + block, len(samples))
    return spans + segmenter.finish()


def true_turns(made: Dialogue) -> tuple[Turn, ...]:
    return tuple(Turn(round(t.start * RATE), round(t.end * RATE), t.speaker) for t in made.turns)


@pytest.fixture(scope="module")
def talk() -> Dialogue:
    return dialogues.made(Asked(3, 200, seed=2), dialogues.synthetic())


@needs_voices
@pytest.mark.nightly
def test_nobody_is_cut(talk: Dialogue) -> None:
    voices = Voices(true_turns(talk))
    spans = spans_of(dialogue.at_turns(dialogue.Settings(), RATE, (), voices), talk.mix, 16_000)
    odd = spans_of(dialogue.at_turns(dialogue.Settings(), RATE, (), voices), talk.mix, 7_777)
    assert spans == odd, "blocks do not move cuts"
    assert [span.start for span in spans] == [0, *(span.end for span in spans[:-1])]
    assert spans[-1].end == len(talk.mix)
    speaking = talk.anybody()
    windows = [span for span in spans if span.kind == "utterance"]
    assert len(windows) >= 3
    for edge in (edge for span in windows for edge in (span.start, span.end)):
        assert not speaking[min(edge * 1000 // RATE, len(speaking) - 1)]


@pytest.mark.full
@needs_voices
def test_a_turn_that_the_diarizer_misses_is_not_cut_either(talk: Dialogue) -> None:
    """The pauses of all known turns may hold speech; the voice detector hears it."""
    known = tuple(turn for n, turn in enumerate(true_turns(talk)) if n % 4)
    wide = dialogue.Settings(max_gap_seconds=30)
    spans = spans_of(dialogue.at_turns(wide, RATE, (), Voices(known)), talk.mix, 16_000)
    speaking = talk.anybody()
    edges = [edge for span in spans if span.kind == "utterance" for edge in (span.start, span.end)]
    assert edges
    assert not any(speaking[min(edge * 1000 // RATE, len(speaking) - 1)] for edge in edges)


def test_without_turns_a_recording_is_unsegmented() -> None:
    samples = np.zeros(RATE, np.float32)
    segmenter = dialogue.at_turns(dialogue.Settings(), RATE, (), Voices(()))
    assert told(spans_of(segmenter, samples, 500)) == [(0, RATE, "no_turns")]


def test_how_clips_of_one_voice_are_cut_is_not_in_the_recipe() -> None:
    talks, single = Plugin(use="dialogue"), Plugin(use="vad")
    asked = [Plugin(use="given"), Plugin(use="given", min_turn_seconds=2.0)]
    recipes = {recipe.cut_recipes(talks, speakers)("c", None, "turns") for speakers in asked}
    assert len(recipes) == 1
    control = {recipe.cut_recipes(single, speakers)("c", None, "turns") for speakers in asked}
    assert len(control) == 2


def test_a_run_without_turns_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus.add(tmp_path / "in", 1)
    asked: dict[str, Any] = {
        "sources": [{"kind": "folder", "path": str(tmp_path / "in"), "name": "c"}],
        "out": str(tmp_path / "out"),
        "filter": {"segmenter": {"use": "dialogue"}},
    }
    with pytest.raises(ConfigError, match=r"duration keeps clips of up to 30 s"):
        checks.check_wishes(PrepareSettings(**asked, speakers={"use": "given"}))
    asked["filter"]["filters"] = [{"use": "dialogue"}]
    with pytest.raises(ConfigError, match=r"set speakers\.use to segments"):
        checks.check_wishes(PrepareSettings(**asked))
    caplog.clear()
    checks.check_wishes(PrepareSettings(**asked, speakers={"use": "given"}))
    assert "turns get no texts" in caplog.text
    timed = {"backend": {"use": "faster_whisper", "word_timestamps": True}}
    caplog.clear()
    checks.check_wishes(PrepareSettings(**asked, speakers={"use": "channels"}))
    assert not caplog.text
    by_window = {"turns_by": "window"}
    checks.check_wishes(
        PrepareSettings(**asked, speakers={"use": "channels"}, transcribe=by_window)
    )
    assert "turns get no texts" in caplog.text
    caplog.clear()
    checks.check_wishes(PrepareSettings(**asked, speakers={"use": "given"}, transcribe=timed))
    assert not caplog.text


# --- calls ----------------------------------------------------------------------------------------


def turns_of(samples: np.ndarray, block: int = 16_000) -> tuple[Turn, ...]:
    diarizer = channels.start(channels.Settings(), RATE, ())
    for start in range(0, len(samples), block):
        diarizer.push(samples[start : start + block])
    return diarizer.finish()


@pytest.mark.full
@needs_voices
def test_each_channel_of_a_call_is_a_speaker(talk: Dialogue) -> None:
    call = dialogues.made(Asked(2, 60, seed=5), dialogues.synthetic())
    leak = 10 ** (-25 / 20)
    sides = np.stack([call.channels[0] + leak * call.channels[1],
                      call.channels[1] + leak * call.channels[0]], 1)  # fmt: skip
    found = turns_of(sides)
    assert found == turns_of(sides, 12_345)
    frames = np.zeros((6000, 2), bool)
    for turn in found:
        frames[turn.start // 160 : turn.end // 160, turn.speaker] = True
    truth = call.spoken()
    first = int(truth[:, 1].argmax() < truth[:, 0].argmax())  # speaks first: number 0
    wrong = frames != truth[:, [first, 1 - first]]
    assert wrong.sum() / truth.sum() < 0.08


def test_a_recording_of_one_channel_tells_nobody_apart() -> None:
    assert turns_of(corpus.speech(0, 3, RATE).astype(np.float32)) == ()


# --- whole runs -----------------------------------------------------------------------------------


def write(made: Dialogue, path: Path) -> None:
    """The recording, its RTTM, and its words for the oracle, evenly spread over each turn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, made.mix, RATE)
    lines = [
        f"SPEAKER {path.stem} 1 {t.start:.4f} {t.end - t.start:.4f} <NA> <NA> p{t.speaker} <NA> x"
        for t in made.turns
    ]
    path.with_suffix(".rttm").write_text("\n".join(lines) + "\n")
    words = []
    for turn in made.turns:
        said = turn.text.split()
        step = (turn.end - turn.start) / len(said)
        words += [
            (word, turn.start + n * step, turn.start + (n + 1) * step)
            for n, word in enumerate(said)
        ]
    path.with_suffix(".json").write_text(json.dumps(sorted(words, key=lambda word: word[1])))


def job_of(folder: Path, path: Path, **limits: object) -> Job:
    return corpus.job(
        folder,
        sources=[{"kind": "folder", "path": str(path.parent), "name": "c", "language": "en"}],
        speakers=Plugin(use="given"),
        filter={
            "segmenter": {"use": "dialogue"},
            "filters": [{"use": "dialogue", **limits}, {"use": "silence"}],
        },
        transcribe={"backend": {"use": ORACLE, "path": str(path)}, "verdicts": ()},
        package={"formats": ["webdataset", "lhotse_shar", *CHAT]},
    )


def truth_in(made: Dialogue, row: dict[str, Any]) -> list[tuple[int, float, float, str]]:
    """The true turns of a window, pauses of up to a second joined: voice, start, end, text."""
    joined: list[tuple[int, float, float, str]] = []
    for turn in (t for t in made.turns if row["start"] <= t.start and t.end <= row["end"]):
        start, end = turn.start - row["start"], turn.end - row["start"]
        place = next((n for n, one in enumerate(joined)
                      if one[0] == turn.speaker and start - one[2] <= 1.0), None)  # fmt: skip
        if place is None:
            joined.append((turn.speaker, start, end, turn.text))
        else:
            who, first, _, text = joined[place]
            joined[place] = who, first, end, f"{text} {turn.text}"
    return joined


def check_counts(rows: Sequence[dict[str, Any]], told_of_all: dict[str, Any]) -> None:
    """What dataset.json says of all windows is what their turns say, counted one by one."""
    lengths, offsets = [], []
    for row in rows:
        floor = [turn for turn in row["turns"] if not turn["backchannel"]]
        lengths += [turn["end"] - turn["start"] for turn in floor]
        offsets += [b["start"] - a["end"] for a, b in pairwise(floor) if a["number"] != b["number"]]
    assert told_of_all["windows"] == len(rows)
    assert told_of_all["turns"] == len(lengths)
    backchannels = sum(turn["backchannel"] for row in rows for turn in row["turns"])
    assert told_of_all["backchannels"] == backchannels
    assert told_of_all["floor_transfers"] == len(offsets)
    assert told_of_all["transfers_in_overlap"] == sum(offset < 0 for offset in offsets)
    for name, values in (("turn_seconds", lengths), ("offset_seconds", offsets)):
        median = np.quantile(values, 0.5, method="inverted_cdf")
        assert told_of_all[name]["median"] == pytest.approx(median, abs=0.011)
    samples = sum(row["num_samples"] for row in rows)
    for name in ("overlap", "silence"):
        share = sum(row[f"dialogue_{name}"] * row["num_samples"] for row in rows) / samples
        assert told_of_all["shares"][name] == pytest.approx(share, abs=1e-4)
    people = Counter(len({turn["number"] for turn in row["turns"]}) for row in rows)
    assert {e["speakers"]: e["windows"] for e in told_of_all["speakers"]} == people


@pytest.mark.full
@needs_voices
def test_windows_with_their_turns_are_published(tmp_path: Path, talk: Dialogue) -> None:
    path = tmp_path / "in" / "talk.wav"
    write(talk, path)
    job = job_of(tmp_path, path)
    published, _ = pipeline.run_here(job)
    version = published.path
    rows = pq.read_table(version / "utterances.parquet").sort_by("start").to_pylist()
    assert len(rows) >= 3
    ledger = corpus.ledger(version)
    assert sum(row["samples"] for row in ledger) == len(talk.mix)
    numbers: dict[int, str] = {}
    right, words = 0, 0
    for row in rows:
        expected = truth_in(talk, row)
        turns = row["turns"]
        assert len(turns) == len(expected)
        assert row["dialogue_turns"] + row["dialogue_backchannels"] == len(turns)
        for turn, (who, start, end, text) in zip(turns, expected, strict=True):
            assert abs(turn["start"] - start) < 1e-3
            assert abs(turn["end"] - end) < 1e-3
            assert numbers.setdefault(who, turn["speaker"]) == turn["speaker"]
            assert turn["speaker"] == f"p{who}"
            right += sum(word in text.split() for word in turn["text"].split())
            words += len(text.split())
        heard = [word for turn in turns for word in turn["words"]]
        assert sorted(heard, key=lambda w: w["start"]) == row["word_times"], "each word is in one"
    assert right / words > 0.95, "words in overlaps may be another's"
    lines = (version / "chat_jsonl/train.jsonl").read_text().splitlines()
    answers = [json.loads(line)["messages"][1]["content"] for line in lines]
    assert {answer.count("S1: ") > 0 < answer.count("S2: ") for answer in answers} == {True}
    assert verify.verify(version) == []
    check_counts(rows, json.loads((version / "dataset.json").read_text())["dialogues"])
    card = (version / "README.md").read_text()
    assert "changes of speaker" in card
    report = page.build(job, "r", version)
    assert b"Conversations" in report
    told = entries(version, "webdataset")
    assert {name: fact["turns"] for name, fact in told.items()} == {
        row["id"]: row["turns"] for row in rows
    }

    _, counts = pipeline.run_here(job_of(tmp_path, path, max_overlap=0.02))
    assert all(stage["items_computed"] == 0 for name, stage in counts.items() if name != "package")
    strict = [row for row in rows if row["dialogue_overlap"] <= 0.02]
    now, _ = what_if.kept(job_of(tmp_path, path, max_overlap=0.02), job_of(tmp_path, path))
    assert now["items"] == len(strict) < len(rows)


@pytest.mark.full
@needs_voices
def test_a_call_is_packaged_as_its_mix_with_a_speaker_a_channel(tmp_path: Path) -> None:
    call = dialogues.made(Asked(2, 70, seed=3, silence=0.0), dialogues.synthetic())
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in" / "call.wav", call.channels.T, RATE)
    sf.write(tmp_path / "in" / "mono.wav", call.mix[: 40 * RATE], RATE)
    job = corpus.job(
        tmp_path,
        speakers=Plugin(use="channels"),
        filter={"segmenter": {"use": "dialogue"}, "filters": [{"use": "dialogue"}]},
    )
    published, _ = pipeline.run_here(job)
    rows = corpus.utterances(published.path)
    assert {row["recording"] for row in rows} == {"c/call.wav"}
    assert {row["channel"] for row in rows} == {None}
    truth = {turn.speaker for turn in call.turns}
    assert {turn["speaker"] for row in rows for turn in row["turns"]} == {
        f"call.wav#{number + 1}" for number in truth
    }
    turns = [turn for row in rows for turn in row["turns"]]
    assert all(turn["text"] for turn in turns), "of its own channel"
    assert all(turn["words"] is None for turn in turns), "no times of words"
    ledger = corpus.ledger(published.path)
    alone = [row for row in ledger if row["recording"] == "c/mono.wav"]
    assert [(row["reason"], row["samples"]) for row in alone] == [("no_turns", 40 * RATE)]
    whole = sum(row["samples"] for row in ledger if row["recording"] == "c/call.wav")
    assert whole == len(call.mix)


@pytest.mark.full
@needs_voices
def test_turns_that_the_source_writes_down_keep_its_texts(tmp_path: Path, talk: Dialogue) -> None:
    path = tmp_path / "in" / "talk.wav"
    write(talk, path)
    path.with_suffix(".rttm").unlink()
    lines = [f"talk 1 p{t.speaker} {t.start:.4f} {t.end:.4f} <o> Sir, {t.text}" for t in talk.turns]
    path.with_suffix(".stm").write_text("\n".join(lines) + "\n")
    published, _ = pipeline.run_here(job_of(tmp_path, path))
    rows = corpus.utterances(published.path)
    assert len(rows) >= 3
    for row in rows:
        inside = [t for t in talk.turns if row["start"] <= t.start and t.end <= row["end"]]
        assert row["text"] == " ".join(f"Sir, {turn.text}" for turn in inside)
        assert row["text_source"] == "reference"
        assert row["word_errors"] >= len(inside), "a word of each turn is not said"
        said = Counter(word for turn in row["turns"] for word in turn["text"].split())
        assert said == Counter(row["text"].split())
        for turn in row["turns"]:
            own = [t for t in inside if f"p{t.speaker}" == turn["speaker"]
                   and turn["start"] - 1e-3 <= t.start - row["start"] <= turn["end"]]  # fmt: skip
            assert turn["text"] == " ".join(f"Sir, {t.text}" for t in own)


def test_turns_keep_the_labels_of_their_segments(tmp_path: Path) -> None:
    """One turn is two segments, of which the longer one says how it is; another says nothing."""
    path = tmp_path / "in" / "r.wav"
    path.parent.mkdir()
    sf.write(path, corpus.speech(1, 60.0, 8000), 8000, "PCM_16")
    spans = [
        (0.5, 15.0, "ann", "glad"),
        (17.0, 20.0, "bob", "sad"),
        (20.5, 30.0, "bob", "calm"),
        (32.0, 58.0, "ann", None),
    ]
    lines = [
        {"wav": str(path), "key": f"k{start}", "start": start, "end": end, "speaker": who,
         **({"emotion": how} if how else {})}
        for start, end, who, how in spans
    ]  # fmt: skip
    corpus.jsonl(tmp_path / "list.jsonl", lines)
    source = {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}
    job = corpus.job(
        tmp_path,
        sources=[{**source, "labels": ["emotion"]}],
        speakers=Plugin(use="given"),
        filter={"segmenter": {"use": "dialogue"}, "filters": [{"use": "dialogue"}]},
        package={"formats": ["webdataset", "lhotse_shar"]},
    )
    published, _ = pipeline.run_here(job)
    [row] = corpus.utterances(published.path)
    stated = [turn["labels"] for turn in row["turns"]]
    assert stated == [[("emotion", "glad")], [("emotion", "calm")], None]
    [told] = entries(published.path, "webdataset").values()
    turns = told["turns"]
    assert [turn.get("labels") for turn in turns] == [
        {"emotion": "glad"},
        {"emotion": "calm"},
        None,
    ]
    cuts = gzip.decompress(next(published.path.glob("lhotse_shar/**/cuts.*.gz")).read_bytes())
    custom = [s["custom"] for s in json.loads(cuts.splitlines()[0])["supervisions"]]
    assert [one.get("labels") for one in custom] == [{"emotion": "glad"}, {"emotion": "calm"}, None]
    assert verify.verify(published.path) == []
    plain, _ = pipeline.run_here(replace(job, sources=(Source.model_validate(source),)))
    [row] = corpus.utterances(plain.path)
    assert all("labels" not in turn for turn in row["turns"])
    assert verify.verify(plain.path) == []
