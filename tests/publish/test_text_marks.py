"""`package.text_marks`: sounds that a filter found, at their place in a clip's text."""

import json
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf

from tests.helpers import corpus
from uttermill.flows.settings import of_mapping
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.base.schema import WordRow
from uttermill.tasks.publish import published_columns
from uttermill.tasks.publish.text_marks import heard, stated, with_marks
from uttermill.tasks.settings.job import Job

EVERY = {"use": "tests.plugins.laughing"}


def words(*timed: tuple[str, float, float]) -> list[WordRow]:
    return [
        {"word": word, "start": start, "end": end, "probability": 1.0} for word, start, end in timed
    ]


SAID = words((" so", 0.2, 0.5), (" that", 0.5, 1.0), (" is", 2.0, 2.4), (" it", 2.4, 2.8))


@pytest.mark.parametrize(
    ("text", "sounds", "expected"),
    [
        ("So that is it.", [(1.1, "[laughs]")], "So that [laughs] is it."),
        ("So that is it.", [(0.0, "[coughs]")], "[coughs] So that is it."),
        ("So that is it.", [(2.9, "[laughs]")], "So that is it. [laughs]"),
        ("So that is it.", [(1.1, "[a]"), (1.2, "[a]"), (1.3, "[b]")], "So that [a] [b] is it."),
        ("So, “that” (is) it!", [(1.1, "[x]")], "So, “that” [x] (is) it!"),
        ("So that it.", [(1.1, "[x]")], "So that [x] it."),
        ("So that is it.", [], "So that is it."),
        ("", [(1.0, "[x]")], ""),
    ],
)
def test_a_mark_stands_before_the_first_word_after_the_sound(
    text: str, sounds: list[tuple[float, str]], expected: str
) -> None:
    assert with_marks(text, heard(text, SAID, sounds)) == expected
    assert with_marks(text, heard(text, (), sounds)) == text, "without times of words"


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("So &=laughs that is it.", "So that is it.", "So [L] that is it."),
        ("&=soft_laughter So that &=Musik is it. &=LAUGHS", "So that is it.",
         "[L] So that [M] is it. [L]"),
        ("So &=a_dog_barks that", "So that", "So that"),
        ("so [laughter] that {music} is 5", "So that is five", "So [L] that [M] is five"),
        ("你好 &=笑 再见", "你好 再见", "你好 [X] 再见"),
        ("So that", "So that", "So that"),
    ],
)  # fmt: skip
def test_a_mark_stands_where_the_source_states_the_sound(
    source: str, text: str, expected: str
) -> None:
    marks = {"applause": "[A]", "laughter": "[L]", "musical": "[M]", "笑声": "[X]"}
    assert with_marks(text, stated(text, source, marks)) == expected


CAPTIONS = """WEBVTT

00:00.000 --> 00:01.000
[Music]

00:01.000 --> 00:03.000
Well, (laughs) that is it.

00:03.500 --> 00:05.500
[LAUGHING] This one (softly) goes on

00:05.500 --> 00:07.000
for *coughs* long enough. ♪ la la
"""


def test_captions_state_sounds(tmp_path: Path) -> None:
    """A clip's text has them only if asked; nothing is computed for them."""
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in/film.wav", corpus.speech(1, 8.0, 16_000), 16_000)
    (tmp_path / "in/film.vtt").write_text(CAPTIONS)
    source = {"kind": "folder", "path": str(tmp_path / "in"), "name": "c", "language": "en"}
    texts = []
    for marks in ({}, {"laughter": "[laughs]", "coughing": "[coughs]", "music": "[music]"}):
        chosen = corpus.job(
            tmp_path,
            sources=[source],
            filter=corpus.filters() | {"segmenter": {"use": "given"}},
            package={"text_marks": marks},
        )
        published, counts = corpus.run(chosen)
        rows = corpus.utterances(published.path)
        texts.append([row["text"] for row in sorted(rows, key=lambda row: row["start"])])
    assert {name for name, (computed, _) in counts.items() if computed} == {"package"}
    assert texts == [
        ["Well, that is it.", "This one (softly) goes on", "for long enough."],
        [
            "Well, [laughs] that is it.",
            "[laughs] This one (softly) goes on",
            "for [coughs] long enough. [music]",
        ],
    ]


def asked(home: Path, **package: Any) -> Job:
    if not (home / "list.jsonl").exists():
        corpus.listed(corpus.make(home / "in", 3), 3, home / "list.jsonl")
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c", "language": "en"}
    transcribe = {"backend": {"use": "fake"}, "reference_words": True}
    filters = corpus.filters(EVERY)
    return corpus.job(
        home, sources=[source], filter=filters, transcribe=transcribe, package=package
    )


def test_texts_have_them_and_the_card_counts_them(tmp_path: Path) -> None:
    """Nothing is computed for them, and comparisons go on without them."""
    corpus.run(asked(tmp_path))
    then = asked(tmp_path, text_marks={"laughter": "[laughs]"})
    published, counts = corpus.run(then)
    assert {name for name, (computed, _) in counts.items() if computed} == {"package"}
    rows = corpus.utterances(published.path)
    assert [row["text"] for row in rows] == [
        f"reference [laughs] number {row['source_id'][1:]}" for row in rows
    ]
    assert not any("laugh" in row["normalised"] for row in rows)
    assert json.loads((published.path / "dataset.json").read_text())["text_marks"] == {
        "laughter": 3
    }
    assert "`\\[laughs\\]` 3" in (published.path / "README.md").read_text()


def test_what_cannot_be_marked_is_refused(tmp_path: Path) -> None:
    corpus.listed(corpus.make(tmp_path / "in", 3), 3, tmp_path / "list.jsonl")
    unknown = corpus.job(
        tmp_path,
        filter=corpus.filters(EVERY),
        transcribe={"backend": {"use": "fake"}, "text": "asr"},
        package={"text_marks": {"thunder": "[thunder]"}},
    )
    with pytest.raises(ConfigError, match=r"no filter finds 'thunder'; there are: laughter"):
        published_columns.check(unknown)
    timeless = corpus.job(
        tmp_path, filter=corpus.filters(EVERY), package={"text_marks": {"laughter": "[l]"}}
    )
    with pytest.raises(ConfigError, match="needs to know when words are said"):
        published_columns.check(timeless)
    package = {"text_marks": {"laughter": " "}}
    with pytest.raises(ConfigError, match="the mark of laughter must be 1 to 40 printable"):
        of_mapping({"sources": [{"path": "x"}], "out": "y", "package": package})
