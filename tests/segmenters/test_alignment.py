"""A text aligned with what was heard: pairs of words, sentences, and a whole run over a book."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import corpus
from uttermill.flows.demo.corpus import ENGLISH, Line, speak
from uttermill.flows.demo.corpus import RATE as VOICE_RATE
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.plugins.contracts.segmenters import RecordingTranscript
from uttermill.tasks.recording import Locator, TimedWord
from uttermill.tasks.segmenters import _by_words as by_words
from uttermill.tasks.segmenters import _sentences as texts
from uttermill.tasks.segmenters import aligned
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import recipe
from uttermill.tasks.stages import whole_transcript

RATE = 16_000
LIST = {"kind": "jsonl", "name": "c", "language": "en"}
ORACLE = "tests.plugins.oracle_asr"
Words = list[str]


def book(count: int, seed: int = 0) -> Words:
    """Words of which the commonest are a fifth."""
    drawn = np.minimum(np.random.default_rng(seed).zipf(1.4, count), 5000)
    return [f"w{n}" for n in drawn]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from("abcdef"), max_size=40),
    st.lists(st.sampled_from("abcdef"), max_size=40),
)
def test_pairs_ascend_in_both(text: Words, heard: Words) -> None:
    found = by_words.pairs(text, heard)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(found))
    assert all(n < len(text) and m < len(heard) for n, m in found)
    same = by_words.pairs(text, text)
    assert same == [(n, n) for n in range(len(text))]


@pytest.mark.parametrize("cells", [by_words.LCS_CELLS, 4_000_000])
def test_what_only_one_of_them_has_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    """By the longest common subsequence, and by edits alone."""
    monkeypatch.setattr(by_words, "LCS_CELLS", cells)
    text = book(20_000)
    heard = text[:7000] + book(900, 1) + text[8000:]
    found = dict(by_words.pairs(text, heard))
    right = sum(
        found.get(n) == (n if n < 7000 else n - 100) for n in [*range(7000), *range(8000, 20_000)]
    )
    assert right / 19_000 > 0.999


def test_texts_that_have_nothing_in_common_are_left_alone() -> None:
    one, other = [f"a{n}" for n in range(5000)], [f"b{n}" for n in range(5000)]
    assert by_words.pairs(one, other) == []


def test_a_lost_sentence_does_not_take_the_place_of_one_that_was_said() -> None:
    """One is only heard, one is in both, one is only written: fewest edits alone would set the
    first against the second, and that against the third."""
    first, both, third = ([f"{c}{n}" for n in range(20)] for c in "abc")
    found = dict(by_words.pairs([*both, *third], [*first, *both]))
    assert [found[n] for n in range(20)] == [*range(20, 40)]


def test_a_text_that_repeats_itself_is_matched_in_order() -> None:
    """Nothing in it occurs once; every tenth word is misheard, and parts are in one only."""
    verse, chance = book(1000), np.random.default_rng(1)
    text: Words = []
    heard: Words = []
    place: dict[int, int] = {}
    for _ in range(8):
        for at in range(0, 1000, 20):
            drawn = chance.random()
            if drawn > 0.05:
                place |= {len(text) + n: len(heard) + n for n in range(20) if drawn < 0.95}
                heard += [w if chance.random() > 0.1 else "x" for w in verse[at : at + 20]]
            if drawn < 0.95:
                text += verse[at : at + 20]
    found = dict(by_words.pairs(text, heard))
    right = sum(found.get(n) == m for n, m in place.items())
    assert right / len(place) > 0.95


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Mr. Hale came. “Where?” she asked.", ["Mr. Hale came.", "“Where?” she asked."]),
        ("Chapter One\n\nIt rained.", ["Chapter One", "It rained."]),
        ("他来了。她走了！", ["他来了。", "她走了！"]),
        ("", []),
    ],
)  # fmt: skip
def test_sentences(text: str, found: list[str]) -> None:
    assert texts.sentences(text) == found


def test_long_sentences_are_divided_near_even_parts() -> None:
    text = " ".join("word," if n == 38 else "word" for n in range(90)) + "."
    parts = [len(part.split()) for part in texts.sentences(text)]
    assert sum(parts) == 91 - 1
    assert len(parts) == 3
    assert max(parts) <= texts.MOST_WORDS
    assert min(parts) >= 20


def timed(
    sentences: list[str], pause: float = 1.0
) -> tuple[RecordingTranscript, list[tuple[float, float]]]:
    """Words of 0.3 s, pauses between sentences; and where each sentence is spoken."""
    words: list[TimedWord] = []
    speech: list[tuple[float, float]] = []
    at = pause
    for sentence in sentences:
        begin = at
        for word in sentence.split():
            words.append(TimedWord(f" {word}", at, at + 0.3))
            at += 0.3
        speech.append((begin, at))
        at += pause
    return RecordingTranscript(tuple(words), tuple(speech), "en"), speech


def test_sentences_are_cut_in_the_pauses_beside_them() -> None:
    said = list(ENGLISH[:12])
    del said[7]
    said[4] = "Something quite different is told here at some length."
    said[9] = said[9].replace("doctor", "tractor man")
    heard, speech = timed(said)
    found = by_words.spoken(" ".join(ENGLISH[:12]), heard)
    assert [s.text for s in found] == list(ENGLISH[:12])
    assert [n for n, s in enumerate(found) if s.span is None] == [4, 7]
    places = [n for n in range(11) if n != 4]
    for sentence, place in zip([s for s in found if s.span], places, strict=True):
        assert sentence.span == pytest.approx(
            (speech[place][0] - texts.PAD, speech[place][1] + texts.PAD)
        )
    assert {s.match for s in found if s.span and s.match < 1} != set(), "a word was misheard"
    assert min(s.match for s in found if s.span) > 0.7


def test_a_sentence_whose_end_was_not_heard_is_doubtful() -> None:
    said = [s.rstrip(".") for s in ENGLISH[:6]]
    said[2] = " ".join(said[2].split()[:-1])
    found = by_words.spoken(" ".join(ENGLISH[:6]), timed(said)[0])
    assert [s.match <= by_words.DOUBTFUL for s in found] == [n == 2 for n in range(6)]


def test_a_long_sentence_is_divided_at_a_clause_far_from_even() -> None:
    """It was cut in the middle of a phrase, and read without a pause there."""
    clauses = "one " * 33 + "one, ", "two " * 9 + "two, ", "three " * 7 + "three."
    assert texts.sentences("".join(clauses)) == [clauses[0].strip(), "".join(clauses[1:])]
    parts = texts.sentences("one " * 3 + "one, " + "two " * 45 + "two.")
    assert [len(part.split()) for part in parts] == [25, 25], "four words make no part"


def test_edges_of_speech_go_by_its_own_level() -> None:
    """The detector's region is late at its begin, and at its end noise of the recording follows
    before a silence that was put there."""
    chance = np.random.default_rng(0)
    levels = [
        (0.5, 1e-3),
        (0.3, 1e-2),
        (1.0, 0.2),
        (0.1, 1e-2),
        (0.9, 0.2),
        (0.5, 1e-2),
        (0.5, 1e-3),
    ]
    pieces = [level * chance.standard_normal(round(s * RATE)) for s, level in levels]
    samples = np.concatenate(pieces).astype(np.float32)
    ((start, end),) = whole_transcript._edges(samples, ((0.86, 3.06),))
    assert start == pytest.approx(0.8, abs=0.021)
    assert end == pytest.approx(2.8, abs=0.021)
    # A whisper between pauses stays whole, and so does what is too short to have any.
    quiet = (1e-2 * chance.standard_normal(RATE)).astype(np.float32)
    ((start, end),) = whole_transcript._edges(quiet, ((0.2, 0.8),))
    assert end - start >= 0.6 * 2 / 3 - 0.04
    assert whole_transcript._edges(quiet[:100], ((0.0, 0.006),)) == [(0.0, 0.006)]


def test_no_word_is_taken_from_beyond_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first word of the second sentence was lost; the first was misheard as a whole."""
    text = "Let us dare to do our duty. The Egyptian background of the bondage."
    said = ["bananas and apples grow on other planets Nathan", "egyptian background of the bondage"]
    heard, speech = timed(said)
    found = by_words.spoken(text, heard)
    assert found[1].match <= by_words.DOUBTFUL
    assert found[1].span
    assert found[1].span[0] >= speech[0][1]
    monkeypatch.setattr(texts, "FAR", 10.0)
    found = by_words.spoken(text, heard)
    assert found[1].span
    assert found[1].span[0] < speech[0][1], "control"
    monkeypatch.undo()
    near, speech = timed([said[0], "Thee egyptian background of the bondage"])
    found = by_words.spoken(text, near)
    assert found[1].match > 0.7
    assert found[1].span == pytest.approx((speech[1][0] - texts.PAD, speech[1][1] + texts.PAD))


def test_a_word_misheard_shares_its_letters() -> None:
    heard, _ = timed(["First comes this one", "Lobster Allen Newberg", "Last comes that one"])
    found = by_words.spoken(
        "First comes this one. Lobster a la Newberg. Last comes that one.", heard
    )
    assert found[1].match > 0.75
    assert found[0].match == found[2].match == 1.0
    other, _ = timed(["First comes this one", "Hamster Alien Iceberg", "Last comes that one"])
    found = by_words.spoken(
        "First comes this one. Lobster a la Newberg. Last comes that one.", other
    )
    assert found[1].match < 0.7


@pytest.mark.parametrize(
    ("said", "sure"),
    [
        (["This comes first", "Lobster Newberg salad", "That comes last"], True),
        (["This comes first Lobster Newberg salad That comes last"], True),
        (["This comes first", "that Lobster Newberg salad reached it", "That comes last"], False),
        (["This comes first", "Lobster Newberg salad reached its best", "That comes last"], False),
        (["This comes first", "for it is Lobster Newberg salad", "That comes last"], False),
        (["This comes first so then Lobster Newberg salad", "That comes last"], False),
    ],
)  # fmt: skip
def test_a_part_of_a_longer_sentence_is_doubtful(said: list[str], sure: bool) -> None:
    """Beside it somebody goes on speaking, and not the sentence before or behind it."""
    heard, _ = timed(said)
    found = by_words.spoken("This comes first. Lobster Newberg salad. That comes last.", heard)
    assert [s.match for s in found[1:]] == [1.0 if sure else by_words.DOUBTFUL, 1.0]


def test_a_sentence_does_not_take_the_first_words_of_the_next() -> None:
    heard, _ = timed(["This comes first", "But by printers in many cities"])
    found = by_words.spoken("This comes first. But by. But by printers in many cities.", heard)
    assert found[1].match <= by_words.DOUBTFUL
    assert found[0].match == 1.0


def test_words_said_twice_are_those_beside_what_goes_on() -> None:
    """The longest common subsequence may begin with words of what is only heard."""
    said = ["the forms that they had of one", "the forms of printed letters should be beautiful"]
    text = said[1].split()
    found = dict(by_words.pairs(text, " ".join(said).split()))
    assert [found[n] for n in range(8)] == [*range(7, 15)]
    ends = dict(by_words.pairs(text, f"{said[1]} and so were letters beautiful".split()))
    assert [ends[n] for n in range(8)] == [*range(8)]


def test_a_word_heard_too_much_before_a_sentence_is_part_of_it() -> None:
    text = "Imitates a much freer hand which is simpler and rounder"
    heard, speech = timed(["This comes first", f"It {text.lower()}"])
    found = by_words.spoken(f"This comes first. {text}.", heard)
    assert found[1].match > 0.9
    assert found[1].span
    assert found[1].span[0] == pytest.approx(speech[1][0] - texts.PAD)
    short, _ = timed(["This comes first", "That lobster newberg"])
    assert by_words.spoken("This comes first. Lobster newberg.", short)[1].match < 0.7


@pytest.mark.parametrize(("word", "sure"), [("minutes", True), ("minutes or more", False)])
def test_a_last_word_misheard_before_a_pause_is_taken_for_it(word: str, sure: bool) -> None:
    heard, speech = timed(["The dose for an adult is ten " + word, "Something else is told here"])
    found = by_words.spoken("The dose for an adult is ten grains.", heard)
    assert (found[0].match > 0.7) == sure
    assert found[0].span
    assert (found[0].span[1] > speech[0][1]) == sure


@pytest.mark.parametrize("lost", [True, False])
def test_words_set_in_the_place_of_lost_ones_are_doubtful(lost: bool) -> None:
    """The recogniser lost the name at the end of the first sentence, which stands alone between two
    long pauses, and gave its time to the first word of the second."""
    words = ["our", "duty", "as", "we", "understand", "it", *([] if lost else ["Lincoln"])]
    at = [TimedWord(w, 1 + 0.3 * n, 1.3 + 0.3 * n) for n, w in enumerate(words[:6])]
    if lost:
        at += [TimedWord("The", 3.8, 4.2), TimedWord("Egyptian", 4.2, 6.6)]
    else:
        at += [TimedWord("Lincoln", 3.8, 4.2), TimedWord("The", 5.6, 6.1)]
        at += [TimedWord("Egyptian", 6.1, 6.6)]
    at += [TimedWord("background", 6.6, 7.1), TimedWord("came", 7.1, 7.5)]
    heard = RecordingTranscript(tuple(at), ((1.0, 2.8), (3.8, 4.3), (6.0, 7.5)), "en")
    found = by_words.spoken(
        "Our duty as we understand it Lincoln. The Egyptian background came.", heard
    )
    assert [s.match for s in found] == [by_words.DOUBTFUL if lost else 1.0] * 2
    alone = by_words.spoken("The Egyptian background came.", heard)
    assert (alone[0].match <= by_words.DOUBTFUL) == lost, "the second word holds the pause"


def recorded(folder: Path) -> tuple[Path, list[str]]:
    """Ten spoken sentences in a recording, with what the oracle knows of it."""
    said = list(ENGLISH[:10])
    pytest.importorskip("espeakng_loader")
    voices = speak([Line(text, "en-us", 150) for text in said])
    pieces, words = [np.zeros(RATE, np.float32)], []
    at = 1.0
    for text, voice in zip(said, voices, strict=True):
        wide = soxr.resample(voice, VOICE_RATE, RATE, "HQ").astype(np.float32)
        pieces += [wide, np.zeros(RATE * 4 // 5, np.float32)]
        step = len(wide) / RATE / len(text.split())
        words += [[w, at + n * step, at + (n + 1) * step] for n, w in enumerate(text.split())]
        at += len(wide) / RATE + 0.8
    samples = np.concatenate(pieces)
    noise = np.random.default_rng(0).normal(0, 1e-3, len(samples))
    path = folder / "in" / "book.wav"
    path.parent.mkdir(parents=True)
    sf.write(path, np.clip(samples + noise, -1, 1), RATE, "PCM_16")
    path.with_suffix(".json").write_text(json.dumps(words))
    return path, said


def job_of(folder: Path, path: Path, text: str, least: float = 0.7) -> Job:
    line = {"key": "book", "wav": str(path), "txt": text}
    (folder / "book.jsonl").write_text(json.dumps(line) + "\n")
    segmenter = {"use": "aligned", "backend": {"use": ORACLE, "path": str(path)}}
    alignment = Plugin.model_validate({"use": "alignment", "min": least})
    return corpus.job(
        folder,
        sources=[{**LIST, "path": str(folder / "book.jsonl")}],
        filter={
            "segmenter": segmenter,
            "filters": (Plugin(use="duration"), alignment),
        },
        transcribe={"backend": {"use": "none"}, "verdicts": ()},
    )  # fmt: skip


def test_a_recording_without_text_is_no_utterance(tmp_path: Path) -> None:
    segmenter = aligned.start(aligned.Settings(), RATE, ())
    spans = segmenter.push(np.zeros((RATE, 1), np.float32)) + segmenter.finish()
    assert [(s.start, s.end, s.kind, s.reason) for s in spans] == [
        (0, RATE, "unsegmented", "no_text")
    ]


def test_beside_sentences_speech_is_unsegmented_and_a_pause_is_none() -> None:
    """Each pause of a book was told as speech that its text lacks: an eighth of the audio."""
    speech = ((1.0, 3.0), (4.0, 5.0), (6.0, 8.0))
    said = [texts.Sentence("One.", (0.9, 3.1), 1.0), texts.Sentence("Two.", (5.9, 8.1), 1.0)]
    segmenter = aligned.Aligned(said, RATE, "not_in_text", speech)
    spans = segmenter.push(np.zeros((9 * RATE, 1), np.float32)) + segmenter.finish()
    assert [(s.start / RATE, s.end / RATE, s.kind, s.reason) for s in spans] == [
        (0.0, 0.9, "non_speech", None),
        (0.9, 3.1, "utterance", None),
        (3.1, 5.9, "unsegmented", "not_in_text"),
        (5.9, 8.1, "utterance", None),
        (8.1, 9.0, "non_speech", None),
    ]


def test_a_recogniser_without_times_of_words_fails_the_recording(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path)
    recogniser = Plugin.model_validate({"use": ORACLE, "path": str(path), "timed": False})
    with pytest.raises(ItemError, match="no times of words"):
        whole_transcript.transcribed(Locator(str(path)), recogniser, "en")


def test_text_and_recogniser_are_in_the_recipe() -> None:
    def of(text: str | None, **options: Any) -> str:
        plugin = Plugin.model_validate({"use": "aligned", "backend": {"use": "fake", **options}})
        return recipe.cut_recipes(plugin)("c", None, text=text, language="en")

    assert of("One.") == of("One.")
    assert len({of("One."), of("Two."), of("One.", seed=1), of(None)}) == 4
    vad = recipe.cut_recipes(Plugin(use="vad"))
    assert vad("c", None, text="One.", language="en") == vad("c", None)
