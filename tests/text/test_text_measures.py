"""Verdicts on text that work out numbers of their own: texts in, numbers and reasons out."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.text.test_text import DEFAULT, measured, reason
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.scoring import normalise, score
from uttermill.tasks.settings import Plugin, TranscribeSettings
from uttermill.tasks.text import ScoredTranscript, words

SPEECH = "he should make inquiries as to symptoms and to the time at which food was taken"
CHINESE = "想听歌曲老男孩"


def heard(text: str, seconds: float = 5.0, **known: Any) -> ScoredTranscript:
    return ScoredTranscript(text, "asr", seconds, text, **known)


def against(
    reference: str, hypothesis: str, seconds: float = 3.0, **known: Any
) -> ScoredTranscript:
    """A clip with a reference, scored."""
    language = known.setdefault("language", "en")
    s = score(reference, hypothesis, language)
    said, compared = normalise(reference, language), normalise(hypothesis, language)
    return ScoredTranscript(
        reference, "reference", seconds, hypothesis, reference, compared, said,
        wer=s.wer, cer=s.cer, **known,
    )  # fmt: skip


def value(use: str, what: ScoredTranscript, column: str = "", **options: Any) -> Any:
    module, chosen = plugins.TEXT.resolve(Plugin(use=use, **options))
    return module.measure(what, chosen)[column or use]


def test_words() -> None:
    assert words("No, it's 你好! ＡＢ_c 3") == ["no", "it's", "你", "好", "ａｂ", "c", "3"]
    assert words("'twas rock ’n’ roll…") == ["twas", "rock", "n", "roll"]
    assert words("") == words(" -- ") == []


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", None),
        ("!!!", None),
        (SPEECH, 0.0),
        ("no no no no", 0.0),  # four times: people do
        ("No, no, no, no, no!", 1.0),
        ("no no no no no way", 5 / 6),
        ("so I'm going to I'm going to I'm going to I'm going to I'm going to go", 15 / 17),
        ("哈哈哈哈哈", 1.0),
        ("的的的的的 我们", 5 / 7),
        ("one two three four five six seven eight nine " * 5, 0.0),  # nine words: no n-gram of ours
        ("one two three four five six seven eight " * 5, 1.0),
        ("a b " * 4 + "a", 0.0),
        ("a a a a b b b b b c c", 5 / 11),
    ],
)
def test_repetition(text: str, share: float | None) -> None:
    assert value("repetition", heard(text)) == (share if share is None else pytest.approx(share))


@settings(deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_repetition_is_what_a_plain_search_finds(said: list[str]) -> None:
    longest = 0
    for n in range(1, 9):
        for start in range(len(said)):
            for end in range(start + 5 * n, len(said) + 1):
                if all(said[i] == said[i - n] for i in range(start + n, end)):
                    longest = max(longest, end - start)
    share = value("repetition", heard(" ".join(said)))
    assert share == (longest / len(said) if said else None)


@pytest.mark.parametrize(
    ("text", "seconds", "language", "alphabetic", "syllabic"),
    [
        ("It's fine.", 2.0, "en", 4.0, None),  # the apostrophe inside a word counts
        ("想听歌曲老男孩。", 3.5, "zh", None, 2.0),
        ("안녕하세요", 2.5, "ko", None, 2.0),
        ("13889079702", 4.4, "zh", None, 2.5),
        ("13889079702", 4.4, "en", 47 / 4.4, None),
        ("听 Because", 2.0, "zh", 5.0, None),  # 1 x 3 + 7 letters
        ("想听歌曲 Because", 2.0, "zh", None, (4 + 7 / 3) / 2),
        ("twelve letters", 0.1, "en", 13.0, None),  # as if in a second
        ("สวัสดี", 2.0, "th", 3.0, None),  # vowel signs are characters, too
        ("...", 2.0, "en", None, None),
    ],
)
def test_char_rate(
    text: str, seconds: float, language: str, alphabetic: float | None, syllabic: float | None
) -> None:
    what = heard(text, seconds, language=language)
    for part, expected in (("alphabetic", alphabetic), ("syllabic", syllabic)):
        found = value("char_rate", what, f"char_rate_{part}")
        assert found == (None if expected is None else pytest.approx(expected)), part


@pytest.mark.parametrize(
    ("text", "seconds", "expected"),
    [
        (SPEECH, 6.0, None),
        (SPEECH, 2.0, "too_fast"),  # 64 letters
        ("Bah!", 5.0, "too_slow"),
        (CHINESE, 3.1, None),
        (CHINESE * 2, 1.1, "too_fast"),
        ("你", 1.5, None),
        ("你", 2.1, "too_slow"),
        ("8", 1.2, None),
    ],
)
def test_char_rate_decides(text: str, seconds: float, expected: str | None) -> None:
    assert reason(heard(text, seconds), Plugin(use="char_rate")) == expected
    confirmed = against(text, text, seconds)
    assert reason(confirmed, Plugin(use="char_rate")) is None, "a reference says so, too"


@pytest.mark.parametrize(
    ("text", "seconds", "logprob", "expected"),
    [
        ("Thank you.", 5.0, -0.9, "hallucination"),
        ("Thank you.", 0.9, -0.9, None),  # at the pace of speech
        ("Thank you.", 5.0, -0.3, None),  # it was sure
        ("Thank you. Thank you.", 5.0, -0.9, "hallucination"),
        ("Thank you for the apples.", 5.0, -0.9, None),
        ("Thanks for watching!", 1.0, -0.1, "hallucination"),
        ("I have to go. Thanks for watching!", 5.0, -0.1, None),
        ("Subtitles by the Amara.org community", 2.0, -0.1, "hallucination"),
        ("And so we left. Subtitles by the Amara.org community", 6.0, -0.1, "hallucination"),
        ("Untertitel im Auftrag des ZDF für funk, 2017", 2.0, -0.2, "hallucination"),
        ("ご視聴ありがとうございました。", 2.0, -0.2, "hallucination"),
        ("謝謝觀看!", 2.0, -0.2, "hallucination"),
        ("Sous-titrage ST' 501", 2.0, -0.2, "hallucination"),
        ("2017", 2.0, -0.9, None),
        ("", 2.0, -0.9, None),
        ("you", 3.0, None, "hallucination"),
        (SPEECH, 5.0, -0.3, None),
    ],
)
def test_hallucination(
    text: str, seconds: float, logprob: float | None, expected: str | None
) -> None:
    alone = Plugin(use="hallucination")
    assert reason(heard(text, seconds, avg_logprob=logprob), alone) == expected
    said = against(text, text, seconds, avg_logprob=logprob)
    assert reason(said, alone) is None, "it is the source's text"
    spoken = ScoredTranscript(
        text, "asr", seconds, text, text, avg_logprob=logprob, wer=0.0, cer=0.0
    )
    assert reason(spoken, alone) is None, "a reference confirms it"


@pytest.mark.parametrize(
    ("reference", "hypothesis", "spaced", "unspaced", "expected"),
    [
        ("KEN PAIRS LACK FULL FLAVOR", "Jump the fence and hurry up the bank.", 1, None, True),
        ("LOBSTER A LA NEWBERG", "Lopster, Ellen Newberg.", 0, None, False),
        ("yes", "no", None, None, False),  # one word
        (SPEECH, SPEECH, 0, None, False),
        (SPEECH, "", 1, None, True),
        (CHINESE, CHINESE, None, 0, False),
        (CHINESE, "今天天气非常好", None, 1, True),
        ("你好", "再見", None, None, False),  # two characters
    ],
)
def test_error_rate(
    reference: str, hypothesis: str, spaced: int | None, unspaced: int | None, expected: bool
) -> None:
    language = "en" if reference.isascii() else "zh"
    what = against(reference, hypothesis, language=language)
    row = measured(what, Plugin(use="error_rate"))
    found = [row["error_rate_spaced"], row["error_rate_unspaced"]]
    assert [None if rate is None else round(min(rate, 1)) for rate in found] == [spaced, unspaced]
    assert (reason(what, Plugin(use="error_rate")) == "high_error_rate") == expected


@pytest.mark.parametrize(
    ("reference", "hypothesis", "first", "last"),
    [
        ("the cat sat", "The cat sat.", 0, 0),
        ("the cat sat", "cat sat", 1, 0),
        ("the cat sat", "and then the cat sat", 2, 0),
        ("the cat sat", "a cat sat", 0, 0),  # misheard, but there
        ("the cat sat", "the cat", 0, 1),
        ("the cat sat", "the cat sat down", 0, 1),
        ("the cat sat", "dogs", None, None),
        ("the cat sat", "", None, None),
        ("想听歌曲", "听歌曲吧", 1, 1),
        ("...", "a", None, None),
    ],
)
def test_edge_errors(reference: str, hypothesis: str, first: int | None, last: int | None) -> None:
    what = against(reference, hypothesis)
    row = measured(what, Plugin(use="edge_errors"))
    assert (row["edge_errors_first"], row["edge_errors_last"]) == (first, last)
    expected = "first_word" if first else "last_word" if last else None
    assert reason(what, Plugin(use="edge_errors")) == expected


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(max_size=80), st.text(max_size=80) | st.none(), st.text(max_size=80) | st.none(),
    st.sampled_from(["reference", "asr"]), st.floats(0, 40), st.booleans(),
    st.sampled_from([None, "en", "zh", "tr", "xx"]),
)  # fmt: skip
def test_any_text_can_be_measured(
    text: str, hypothesis: str | None, reference: str | None, source: str, seconds: float,
    listened: bool, language: str | None,
) -> None:  # fmt: skip
    what = ScoredTranscript(
        text, source, seconds, hypothesis, reference, hypothesis, reference, language,
        wer=0.5 if reference and hypothesis else None,
        cer=0.5 if reference and hypothesis else None, listened=listened,
    )  # fmt: skip
    every = [Plugin(use=use) for use in shelves.names("text")]
    row = measured(what, *every)
    assert 0 <= (row["repetition"] or 0) <= 1
    assert {type(v) for v in row.values()} <= {type(None), float, int, str}
    assert all((row[f"char_rate_{part}"] or 0) >= 0 for part in ("alphabetic", "syllabic"))
    reason(what, *every)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (heard(SPEECH, language="en", language_probability=0.99, avg_logprob=-0.2), None),
        (heard("Thank you.", 5.0, language_probability=0.48, avg_logprob=-0.9,
               no_speech_probability=0.63), "language_uncertain"),
        (heard("Thank you.", 5.0, language_probability=0.68, avg_logprob=-0.9,
               no_speech_probability=0.63), "hallucination"),
        (heard("I don't think so.", 5.0, language_probability=0.68, avg_logprob=-0.9,
               no_speech_probability=0.31), "low_confidence"),
        (against("A second opinion was never asked for", "I don't think so.", 5.0,
                 language_probability=0.68, avg_logprob=-0.9, no_speech_probability=0.31),
         "low_confidence"),
        (against("I do not think so", "I don't think so.", 5.0, language_probability=0.68,
                 avg_logprob=-0.9, no_speech_probability=0.31), None),
        (heard("Thank you.", 5.0, avg_logprob=-0.9, no_speech_probability=0.63), "hallucination"),
        (heard("Thanks for watching!", 17.7, avg_logprob=-1.13, no_speech_probability=0.5),
         "hallucination"),
        (heard("no no no no no no no", 3.0, compression_ratio=1.2), "repetition"),
        (against("thank you", "Thank you.", 4.0, language_probability=0.5, avg_logprob=-1.2,
                 no_speech_probability=0.7), None),
        (against("KEN PAIRS LACK FULL FLAVOR", "Jump the fence and hurry up the bank.",
                 language_probability=1.0, avg_logprob=-0.06), "high_error_rate"),
        (against(SPEECH, "", avg_logprob=-1.4, no_speech_probability=0.8), "no_speech"),
    ],
)  # fmt: skip
def test_the_defaults_together(what: ScoredTranscript, expected: str | None) -> None:
    assert TranscribeSettings().verdicts == DEFAULT
    assert reason(what, *DEFAULT) == expected


@pytest.mark.parametrize(
    ("text", "dropped"),
    [
        ("He should make inquiries, as to symptoms and to the time.", False),
        (SPEECH.upper(), True),
        (SPEECH, True),
        ("he should make inquiries, as to symptoms and to the time", False),  # of a sentence
        ("OK, NASA.", False),
        (CHINESE, False),
        ("He said so. No, no, no, we all said so.", False),
        ("We begin with We begin with a line of words a line of words that ends", True),
        (None, False),
    ],
)
def test_references_that_look_like_a_machine_s(text: str | None, dropped: bool) -> None:
    clip = ScoredTranscript(text or SPEECH, "reference", 5.0, reference=text)
    module, chosen = plugins.TEXT.resolve(Plugin(use="reference_suspect"))
    rejection = judge(module.measure(clip, chosen), module.verdict(chosen))
    assert (rejection.reason if rejection else None) == ("reference_suspect" if dropped else None)
