"""Long segments whose words have times: cut at sentence ends, each piece with its own text."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import corpus
from uttermill.flows import settings as run_settings
from uttermill.tasks import pipeline, plugins
from uttermill.tasks.recording import Ignored, Recording, Segment, TimedWord
from uttermill.tasks.recording.turns import PartTexts, spelled
from uttermill.tasks.segmenters import _sentences, auto
from uttermill.tasks.segmenters import given as given_segmenter
from uttermill.tasks.settings import Plugin, Source
from uttermill.tasks.shard_store import recipe
from uttermill.tasks.storage import versions

TEXT = (
    "Mr. Hale came in. He sat down, tired, and said nothing! “Where were you?” she asked him "
    "after a long while. He did not know."
)
STEP = 2.0  # s from one word to the next
WORDS = tuple(
    TimedWord(word.strip(".,!?“”").upper(), 1 + STEP * i, 2 + STEP * i)
    for i, word in enumerate(TEXT.split())
)
SECONDS = WORDS[-1].end + 1


def segment(**changes: Any) -> Segment:
    return Segment(**{"start": 0.0, "end": SECONDS, "text": TEXT, "words": WORDS, **changes})


def pieces(one: Segment, target: float = 10.0, longest: float = 20.0) -> list[str]:
    end = SECONDS if one.end is None else one.end
    edges = [0.0, *_sentences.cuts(spelled(one), 0.0, end, target, longest), end]
    texts = PartTexts((one,))
    return [texts.between(0, *span) or "" for span in pairwise(edges)]


def test_words_take_the_spelling_of_the_text() -> None:
    words = spelled(segment())
    assert "".join(word.word for word in words) == TEXT
    assert [word.word for word in words[10:14]] == ["nothing! ", "“Where ", "were ", "you?” "]
    # A text with other words: the words as they are.
    assert spelled(segment(text="Something else"))[0].word == "MR "


def test_cut_at_sentence_ends() -> None:
    assert pieces(segment()) == [
        "Mr. Hale came in.",
        "He sat down, tired, and said nothing!",
        "“Where were you?” she asked him after a long while.",
        "He did not know.",
    ]


def test_clauses_and_pauses_where_no_sentence_ends() -> None:
    clauses = segment(text=TEXT.replace(".", "").replace("!", "").replace("?", ""))
    assert pieces(clauses, 16.0, 16.0)[0] == "Mr Hale came in He sat down,"
    late = [float(i > 5) for i in range(len(WORDS))]  # one longer pause, after six words
    plain = tuple(TimedWord("a", w.start + s, w.end + s) for w, s in zip(WORDS, late, strict=True))
    cuts = _sentences.cuts(plain, 0.0, SECONDS, 10.0, 16.0)
    assert cuts[0] == pytest.approx((plain[5].end + plain[6].start) / 2)


@pytest.mark.parametrize(
    ("word", "following", "rank"),
    [
        ("done. ", "He", 0),
        ("done.” ", "He", 0),
        ("完了。", "他", 0),
        ("Dr. ", "Who", 2),
        ("J. ", "S.", 2),
        ("approx. ", "ten", 2),
        ("3. ", "Then", 0),
        ("well, ", "then", 1),
        ("and ", "then", 2),
        ("", "x", 2),
    ],
)
def test_where_a_sentence_ends(word: str, following: str, rank: int) -> None:
    assert _sentences.rank(word, following) == rank


@settings(max_examples=200, deadline=None)
@given(
    gaps=st.lists(st.tuples(st.floats(0, 3), st.floats(0.05, 2)), min_size=1, max_size=80),
    ends=st.lists(st.sampled_from([".", ",", "", "?"]), min_size=80, max_size=80),
    target=st.floats(1, 12),
)
@pytest.mark.nightly
def test_pieces_are_short_and_lose_nothing(
    gaps: list[tuple[float, float]], ends: list[str], target: float
) -> None:
    words, at = [], 0.0
    for (pause, length), mark in zip(gaps, ends, strict=False):
        words.append(TimedWord(f"w{mark} ", at + pause, at + pause + length))
        at += pause + length
    longest = 12.0
    cuts = _sentences.cuts(words, 0.0, at, target, longest)
    assert cuts == sorted(set(cuts))
    edges = [0.0, *cuts, at]
    # A piece is longer only where it holds a single word with the pauses around it.
    for first, last in pairwise(edges):
        inside = [w for w in words if first <= (w.start + w.end) / 2 < last]
        assert last - first <= longest + 1e-6 or len(inside) <= 2
    if at <= longest:
        assert cuts == []


def spans(chosen: Any, one: Segment, rate: int = 100) -> list[Any]:
    found = chosen.push(np.zeros((int(SECONDS * rate), 1), np.float32))
    return [*found, *chosen.finish()]


def test_segmenters_cut_only_what_is_too_long() -> None:
    one = segment()
    lengths = {"target_seconds": 10.0, "max_seconds": 20.0}
    for chosen in (
        given_segmenter.start(given_segmenter.Settings(**lengths), 100, (one,)),
        auto.start(auto.Settings(**lengths), 100, (one,)),
    ):
        found = spans(chosen, one)
        assert [s.turn for s in found] == [0, 0, 0, 0]
        assert {s.given for s in found} == {None}
        assert [s.start for s in found][1:] == [s.end for s in found][:-1]
        assert (found[0].start, found[-1].end) == (0, round(SECONDS * 100))
    whole = given_segmenter.start(given_segmenter.Settings(max_seconds=3600), 100, (one,))
    assert [(s.given, s.turn) for s in spans(whole, one)] == [(0, None)]
    without = segment(words=None)
    kept = given_segmenter.start(given_segmenter.Settings(**lengths), 100, (without,))
    assert [(s.given, s.turn) for s in spans(kept, without)] == [(0, None)]


def test_recipe_has_word_times_only_where_there_are_any() -> None:
    of = recipe.cut_recipes(Plugin(use="auto"))
    plain = of("c", (segment(words=None),))
    assert plain == of("c", (segment(words=None, text="other"),))
    timed = of("c", (segment(),))
    assert timed != plain
    assert timed != of("c", (segment(text=TEXT.replace("!", "")),))


def audio(path: Path) -> None:
    noise = np.random.default_rng(0).standard_normal(int(SECONDS * 16000)) * 0.1
    sf.write(path, noise.astype(np.float32), 16000, "PCM_16")


def cut_list(folder: Path, name: str, offset: float = 0.0) -> Path:
    """A list of one cut by lhotse itself; it starts `offset` into the recording."""
    from lhotse import CutSet, MonoCut, SupervisionSegment  # with torch: 1.5 s of CPU, 300 MB
    from lhotse import Recording as LhotseRecording
    from lhotse.audio import AudioSource
    from lhotse.supervision import AlignmentItem

    source = AudioSource("file", [0], str(folder / "a.wav"))
    recording = LhotseRecording("a", [source], 16000, int(SECONDS * 16000), SECONDS)
    items = [AlignmentItem(w.word, w.start, w.end - w.start, 0.9) for w in WORDS]
    supervision = SupervisionSegment(
        "s1", "a", 0.0, SECONDS, 0, TEXT, "en", "hale", alignment={"word": items}
    )
    supervision = supervision.with_offset(-offset)
    cut = MonoCut("c", offset, SECONDS - offset, 0, supervisions=[supervision], recording=recording)
    CutSet.from_cuts([cut]).to_file(folder / name)
    return folder / name


def only(source: dict[str, Any]) -> Recording:
    module, chosen = plugins.resolve_source(Source.model_validate(source))
    (found,) = module.recordings(chosen)
    assert isinstance(found, Recording)
    return found


@pytest.mark.full
@pytest.mark.parametrize("name", ["cuts.jsonl", "cuts.jsonl.gz"])
def test_cuts_of_lhotse(tmp_path: Path, name: str) -> None:
    audio(tmp_path / "a.wav")
    found = only({"kind": "lhotse", "path": str(cut_list(tmp_path, name))})
    assert found.path == "a.wav"
    (one,) = found.segments or ()
    assert (one.start, one.end, one.speaker, one.language) == (0.0, SECONDS, "hale", "en")
    assert one.words is not None
    assert [w.word for w in one.words] == [w.word for w in WORDS]
    assert [w.end for w in one.words] == pytest.approx([w.end for w in WORDS])


@pytest.mark.full
def test_lhotse_cuts_that_cannot_be_used(tmp_path: Path) -> None:
    path = cut_list(tmp_path, "cuts.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-20])
    assert only({"kind": "lhotse", "path": str(path)}).error is not None
    cut = json.loads(cut_list(tmp_path, "b.jsonl").read_text())
    cut["recording"]["sources"][0]["type"] = "command"
    (tmp_path / "c.jsonl").write_text(json.dumps(cut) + "\n")
    error = only({"kind": "lhotse", "path": str(tmp_path / "c.jsonl")}).error
    assert error is not None
    assert error[0] == "unsupported"


def test_word_times_of_a_list(tmp_path: Path) -> None:
    audio(tmp_path / "a.wav")
    words: list[object] = [{"word": w.word, "start": w.start, "end": w.end} for w in WORDS[:-1]]
    words += [[WORDS[-1].word, WORDS[-1].start, 1.0]]
    line = {"wav": "a.wav", "txt": TEXT, "times": words}
    (tmp_path / "l.jsonl").write_text(json.dumps(line) + "\n")
    columns = {"audio": "wav", "text": "txt", "words": "times"}
    source = {"kind": "jsonl", "path": str(tmp_path / "l.jsonl"), "columns": columns}
    assert only(source).segments == (segment(end=None),)
    line["times"] = [["a", 3.0, 1.0], ["b", 1.0, 1.0]]
    (tmp_path / "l.jsonl").write_text(json.dumps(line) + "\n")
    assert only(source).error is not None


@pytest.mark.full
def test_run_publishes_each_sentence_with_its_text(tmp_path: Path) -> None:
    audio(tmp_path / "a.wav")
    source = {"kind": "lhotse", "path": str(cut_list(tmp_path, "cuts.jsonl"))}
    job = corpus.job(
        tmp_path,
        sources=[source],
        filter={"segmenter": {"use": "auto", "max_seconds": 20}, "filters": [{"use": "duration"}]},
        transcribe={"backend": {"use": "none"}},
    )
    published, _ = pipeline.run_here(job)
    rows = corpus.utterances(published.path)
    rows.sort(key=lambda row: row["start"])
    assert [row["text"] for row in rows] == pieces(segment())
    assert {row["speaker"] for row in rows} == {"hale"}
    assert {row["language"] for row in rows} == {"en"}


# Lhotse's cuts that say more than a span of a file: which channel, at which speed.


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
    corpus.jsonl(folder / "cuts.jsonl", cuts)
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


# `auto` cuts recordings whose text would be lost later than those that have none.


def test_a_recording_without_a_text_is_cut_and_one_with_a_text_stays(tmp_path: Path) -> None:
    shorter = {"target_seconds": 8, "max_seconds": 10, "whole_without_text_up_to": 10}
    assert auto.without_text(auto.Settings.model_validate(shorter)).whole_up_to == 10
    assert auto.without_text(auto.Settings()) == auto.Settings()
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in/told.wav", corpus.speech(1, 20.0, 16000), 16000)
    (tmp_path / "in/told.txt").write_text("what was said")
    sf.write(tmp_path / "in/untold.wav", corpus.speech(1, 20.5, 16000), 16000)
    chosen = {"use": "auto", **shorter}
    job = corpus.job(
        tmp_path, filter={"segmenter": chosen, "filters": []},
        sources=[{"kind": "folder", "path": str(tmp_path / "in")}],
    )  # fmt: skip
    corpus.run(job)
    newest = versions.newest(tmp_path / "out")
    assert newest is not None
    ledger = corpus.ledger(newest)
    spans = {(Path(r["source_path"]).name, r["end"] - r["start"]) for r in ledger if r["utterance"]}
    assert ("told.wav", 20.0) in spans
    assert all(seconds <= 10 for name, seconds in spans if name == "untold.wav")


def test_a_folder_is_cut_as_by_a_settings_file(tmp_path: Path) -> None:
    """What `--source` reads has the defaults of a settings file."""
    (tmp_path / "in").mkdir()
    named = run_settings.read(None, [str(tmp_path / "in")], str(tmp_path / "out"), ())
    file = tmp_path / "settings.yaml"
    file.write_text(f"sources: [{{kind: folder, path: {tmp_path}/in}}]\nout: {tmp_path}/out\n")
    stated = run_settings.read(str(file), (), None, ())
    for part in ("filter", "speakers", "resample", "transcribe"):
        assert getattr(named, part) == getattr(stated, part)
