"""Answers as servers give them by their documented schemas: which scores are real, when words are
said, and how many requests a server can take. The server is real; `test_openai_api.py` has it."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.asr.test_openai_api import Request, Stub, clip, hear
from tests.helpers.post_server import Answer
from uttermill.tasks.asr import Transcript, openai_api
from uttermill.tasks.plugins.served.client import FIRST, Pace

TEXT = "Well, hello there."


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Stub()
    yield server
    server.close()


def segment(**changes: Any) -> dict[str, Any]:
    return {
        "id": 0, "seek": 0, "start": 0.0, "end": 1.0, "text": " " + TEXT, "temperature": 0.0,
        "tokens": [50364, 1042, 11, 7751, 456, 13], **changes,
    }  # fmt: skip


def words(**more: Any) -> list[dict[str, Any]]:
    times = {"Well": (0.0, 0.2), "hello": (0.2, 0.6), "there": (0.6, 0.95)}
    return [{"word": w, "start": a, "end": b, **more} for w, (a, b) in times.items()]


#: vLLM 0.11 protocol: `avg_logprob` and `compression_ratio` are -1.0, `no_speech_prob` may be.
VLLM = {
    "duration": "1.0", "language": "en", "text": TEXT, "words": None,
    "segments": [segment(avg_logprob=-1.0, compression_ratio=-1.0, no_speech_prob=-1.0)],
}  # fmt: skip
#: vLLM on Metal and others: 0.0.
ZEROS = {
    "duration": 1.0, "language": "en", "text": TEXT,
    "segments": [segment(avg_logprob=0.0, compression_ratio=0.0, no_speech_prob=0.0)] * 2,
}  # fmt: skip
#: faster-whisper-server, now speaches: all of Whisper's scores, words with probabilities.
SPEACHES = {
    "task": "transcribe", "language": "en", "duration": 1.0, "text": TEXT,
    "words": [{**w, "word": " " + w["word"]} for w in words(probability=0.75)],
    "segments": [segment(avg_logprob=-0.25, compression_ratio=0.7, no_speech_prob=0.02)],
}  # fmt: skip
#: LocalAI: segments of Go's durations, in ns, and no scores.
LOCALAI = {
    "text": TEXT,
    "segments": [{"id": 0, "start": 0, "end": 1_000_000_000, "text": TEXT, "tokens": [1, 2]}],
}
#: OpenAI's whisper-1: the language's name, bare words without probabilities.
OPENAI = {
    "task": "transcribe", "language": "english", "duration": 1.0, "text": TEXT, "words": words(),
    "segments": [segment(avg_logprob=-0.31, compression_ratio=0.72, no_speech_prob=0.0098)],
    "usage": {"type": "duration", "seconds": 1},
}  # fmt: skip
#: OpenAI's gpt-4o-transcribe, asked for log-probabilities; it knows json only.
GPT = {
    "text": TEXT,
    "logprobs": [{"token": t, "logprob": p, "bytes": []} for t, p in (("W", -0.1), ("h", -0.5))],
}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (VLLM, Transcript(TEXT, "en")),
        (ZEROS, Transcript(TEXT, "en")),
        (SPEACHES, Transcript(TEXT, "en", None, -0.25, 0.02, 0.7)),
        (LOCALAI, Transcript(TEXT)),
        (OPENAI, Transcript(TEXT, "en", None, -0.31, 0.0098, 0.72)),
    ],
    ids=["vllm", "zeros", "speaches", "localai", "openai"],
)
def test_only_scores_that_are_real_are_stored(
    stub: Stub, answer: dict[str, Any], expected: Transcript
) -> None:
    stub.answer = lambda _: (200, answer)
    assert hear(stub, clip(1.0)) == [expected]
    assert "timestamp_granularities[]" not in stub.seen[0].fields


def test_log_probabilities_of_tokens(stub: Stub) -> None:
    stub.answer = lambda _: (200, GPT)
    heard = hear(stub, clip(1.0), response_format="json", token_logprobs=True)[0]
    assert heard.avg_logprob == pytest.approx(-0.3)
    assert stub.seen[0].fields["include[]"] == "logprobs"


@pytest.mark.parametrize(("answer", "sure"), [(SPEACHES, 0.75), (OPENAI, None)])
def test_words_are_written_as_in_the_text(
    stub: Stub, answer: dict[str, Any], sure: float | None
) -> None:
    stub.answer = lambda _: (200, answer)
    heard = hear(stub, clip(1.0), word_timestamps=True)[0]
    assert heard.words is not None
    assert [w.word for w in heard.words] == ["Well,", " hello", " there."]
    assert [(w.start, w.end) for w in heard.words] == [(0.0, 0.2), (0.2, 0.6), (0.6, 0.95)]
    assert {w.probability for w in heard.words} == {sure}
    assert heard.text_end == 0.95
    sent = [r.fields["timestamp_granularities[]"] for r in stub.seen]
    assert sent == ["segment"]  # the last of two fields of that name


@pytest.mark.parametrize(
    "odd",
    [None, 7, [7], [{"word": "Well"}], [{"word": "Bell", "start": 0, "end": 1}],
     [{"word": w["word"], "start": w["start"] * 1e9, "end": w["end"] * 1e9} for w in words()]],
)  # fmt: skip
def test_words_that_cannot_be_are_none(stub: Stub, odd: Any) -> None:
    stub.answer = lambda _: (200, {**OPENAI, "words": odd})
    heard = hear(stub, clip(1.0), word_timestamps=True)[0]
    assert (heard.words, heard.text_end, heard.text) == (None, None, TEXT)


def test_words_need_the_full_format() -> None:
    with pytest.raises(ValueError, match="needs response_format verbose_json"):
        openai_api.Settings(word_timestamps=True, response_format="json")


# --- how many at once


def test_it_asks_for_more_while_the_server_keeps_up(stub: Stub) -> None:
    def slow(_: Request) -> Answer:
        time.sleep(0.02)
        return 200, {"text": "heard"}

    stub.answer = slow
    assert len(hear(stub, *(clip(seed=n) for n in range(100)), parallel=12)) == 100
    assert FIRST < stub.most <= 12


def test_the_rule_of_growth() -> None:
    now = [0.0]
    pace = Pace(16, clock=lambda: now[0])
    flight: list[tuple[float, Any]] = []

    def one(push: bool = False) -> None:
        """As many as may be are in flight; the oldest gets its answer."""
        while len(flight) < pace.limit:
            slot = pace.slot(lambda: False)
            assert slot.__enter__()
            flight.append((now[0], slot))
        began, slot = flight.pop(0)
        now[0] += 1
        pace.pushed_back(began, None) if push else pace.answered()
        slot.__exit__(None, None, None)

    assert pace.limit == FIRST == 4
    for _ in range(4):
        one()
    assert pace.limit == 8  # twice as many after a round
    for _ in range(8):  # all that are in flight together
        one(push=True)
    assert pace.limit == 4  # counts once
    for _ in range(40):
        one()
    assert 7 <= pace.limit <= 9  # one more a round
    for _ in range(400):
        one()
    assert pace.limit == 16
    for _ in range(60):
        one(push=True)
    assert pace.limit == 1


def test_all_wait_as_long_as_the_server_asks() -> None:
    now = [0.0]
    pace = Pace(4, clock=lambda: now[0])
    pace.pushed_back(0.0, 5.0)
    sent = threading.Event()

    def ask() -> None:
        with pace.slot(lambda: False):
            sent.set()

    thread = threading.Thread(target=ask)
    thread.start()
    assert not sent.wait(0.3)
    now[0] = 5.0
    assert sent.wait(10)
    thread.join()
    with pace.slot(lambda: True) as going:
        assert not going  # the run has stopped
