"""What a transcript's line says, and which texts hold no words at all."""

from __future__ import annotations

from typing import Any

import pytest

from uttermill.tasks import scoring
from uttermill.tasks.sources._beside.cues import Said, recurring, said


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("Hello,  there.", Said("Hello, there.")),
        # markup
        ("<i>it</i> is &amp; was", Said("it is & was")),
        ('{\\an8}Up <font color="#fff">here</font>', Said("Up here")),
        ("<00:00:19.039><c.yellow> word</c>", Said("word")),
        ("it's 3 < 4 and 5 > 2", Said("it's 3 < 4 and 5 > 2")),
        # speakers
        ("<v Anna>Hi</v>", Said("Hi", "Anna")),
        ("<v.loud Anna Bell>Hi", Said("Hi", "Anna Bell")),
        ("ANNA: Hello there", Said("Hello there", "ANNA")),
        ("DR. O'NEILL: Hello there", Said("Hello there", "DR. O'NEILL")),
        ("АННА: Привет", Said("Привет", "АННА")),
        ("[SPEAKER_00]: hello", Said("hello", "SPEAKER_00")),
        ("Speaker 1: hello", Said("hello", "Speaker 1")),
        (">> ANNA: Hello", Said("Hello", "ANNA")),
        ("ANNA: One\nand two", Said("One and two", "ANNA")),
        ("ANNA: One\nBOB: Two", Said("One Two")),
        ("- Hello.\n- Bye.", Said("Hello. Bye.")),
        ("-Hello.\n–Bye.", Said("Hello. Bye.")),
        # no speakers
        ("He said: come", Said("He said: come")),
        ("THEY SAID: COME HERE", Said("THEY SAID: COME HERE")),
        ("at 12:30 or 1: what", Said("at 12:30 or 1: what")),
        ("-5 degrees", Said("-5 degrees")),
        ("a well-known fact", Said("a well-known fact")),
        # sounds
        ("[music]", Said("")),
        ("[music] hello (laughs)", Said("hello")),
        ("(SIGHS) Well *coughs* yes", Said("Well yes")),
        ("（笑）はい【音楽】", Said("はい")),
        ("(door slams)", Said("")),
        ("♪", Said("")),
        ("♪ la la ♪", Said("")),
        ("It begins ♪ la la ♪", Said("It begins")),
        ("The dose (ten minims) is small", Said("The dose (ten minims) is small")),
        ("so ++breath++ it {laugh} is &=laughs !SIL", Said("so it is")),
        ("[laughter-yes] i do", Said("yes i do")),
        ("!SIL", Said("")),
        # words that nobody understood
        ("the [inaudible] dog", Said("the [inaudible] dog", unheard=True)),
        ("the <UNK> dog", Said("the <UNK> dog", unheard=True)),
    ],
)
def test_what_a_line_says(raw: str, expected: Said) -> None:
    says = said(raw)
    assert says._replace(text=scoring.unmarked(says.text)) == expected


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("[music] hello (laughs)", "&=music hello &=laughs"),
        ("(door slams)\nWell *coughs*, yes", "&=door_slams Well &=coughs , yes"),
        ("（笑）はい【音楽】", "&=笑 はい &=音楽"),
        ("It begins ♪ la la ♪", "It begins &=music"),
        ("so ++breath++ it {laugh} [laughter-is]", "so ++breath++ it {laugh} is"),
        ("at [10:32] he said", "at he said"),
    ],
)
def test_a_line_has_marks_of_its_sounds(raw: str, text: str) -> None:
    assert said(raw).text == text


def test_a_name_that_begins_two_lines_is_a_speaker() -> None:
    text = "Anna: One\nBob: Two\nAnna: Three"
    assert recurring(text.splitlines()) == {"Anna"}
    assert said("Anna: One", recurring([text])) == Said("One", "Anna")
    assert said("Bob: Two", recurring([text])) == Said("Bob: Two")
    capitals = recurring(["ANNA: COME IN", "ANNA: SIT DOWN"])
    assert said("ANNA: COME IN", capitals) == Said("COME IN", "ANNA")


@pytest.mark.parametrize(
    "text",
    [
        "[inaudible]", "[inaudible 00:12]", "...", "…", "—", "???", "<UNK>", "<spoken_noise>",
        "(laughs)", "(laughs) [music]", "♪", "♪ ♪", "*sighs*", "{cough}", "（笑）", "【音楽】",
        "[a [b] c]", "UNK", "SIL", "xxx",
        "!SIL", "++breath++", "spn", "<spn>", "nsn", "sil", "<eps>", "<s> </s>", "(( ))", "{laugh}",
        "{B_TRANS}", "&-um", "&=laughs &-uh", "SIL SIL", "spn [noise] nsn", "!SIL ++um++ !EXIT",
    ],
)  # fmt: skip
def test_texts_without_words(text: str) -> None:
    assert scoring.wordless(text)


@pytest.mark.parametrize(
    "text",
    [
        "hello", "I", "2014", "um", "今天", "Sil", "[music] hello", "(yes) no", "ok [laughs]",
        "Spn", "sil no", "noise", "silence", "breath", "music", "laugh", "!hola", "C++", "AT&T",
        "[laughter-yes]", "<LAUGH-yes>", "q&-a", "1 ++i++ 2",
        "(this is a sentence that somebody put between brackets, as some people often do)",
    ],
)  # fmt: skip
def test_texts_with_words(text: str) -> None:
    assert not scoring.wordless(text)


def test_a_mark_that_is_a_word_of_the_language_is_one() -> None:
    row: Any = {"raw_text": "sil", "language": "tr", "scoring": None, "reference": None}
    assert scoring.scored(row, "sil", None)["words"] == 1  # "delete"
    assert scoring.scored(row, "sil", "en")["words"] is None
    assert scoring.wordless("spn", "tr")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("so [noise] it ++um++ is", "so it is"),
        ("!SIL hello <sil> there !SIL", "hello there"),
        ("{laugh} well (( )) &-um yes", "well yes"),
        ("i [vocalized-noise] know [laughter-that]", "i know that"),
        ("<SIL> <LAUGH-okay> {E_TRANS}", "okay"),
        ("the <UNK> dog", "the <UNK> dog"),
        ("the SIL and the spn", "the SIL and the spn"),
        ("[see note] a <b> {c} (d)", "[see note] a <b> {c} (d)"),
        ("C++ and AT&T, 3 < 4", "C++ and AT&T, 3 < 4"),
        ("[noise]", "[noise]"),
    ],
)
def test_marks_of_sounds_are_no_part_of_a_reference(text: str, words: str) -> None:
    assert scoring.unmarked(text) == words
    assert scoring.unmarked(words) == words


def test_no_error_rate_against_a_reference_without_words() -> None:
    row: Any = {"raw_text": "hello", "language": "en", "scoring": None, "reference": None}
    counted = scoring.scored(row, "hello", "en")
    none = scoring.scored(row, "[inaudible]", "en")
    assert (counted["words"], none["words"], none["word_errors"]) == (1, None, None)
    assert scoring.scored(none, "[inaudible]", "en") is none
