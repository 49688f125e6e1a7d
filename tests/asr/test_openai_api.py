"""Recogniser over HTTP, against a real server on 127.0.0.1 that fails in every way."""

import email
import email.policy
import io
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf

from tests.helpers import corpus
from tests.helpers.post_server import Answer, PostServer
from uttermill.flows import checks, settings
from uttermill.flows.run import run_folder
from uttermill.tasks import pipeline, plugins
from uttermill.tasks.asr import SpeechClip, Transcript, openai_api
from uttermill.tasks.base import masking
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.plugins.served import client
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import recipe

RATE = 16000
KEY = "sk-hunter2-hunter2"
OK = {"text": " heard "}


class Request:
    """What came in: the form's fields, the clip's samples, the headers."""

    def __init__(self, headers: Any, body: bytes) -> None:
        head = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
        message: Any = email.message_from_bytes(head + body, policy=email.policy.HTTP)
        parts = {p.get_param("name", header="content-disposition"): p for p in message.iter_parts()}
        self.wav = parts.pop("file").get_payload(decode=True)
        self.fields = {n: p.get_payload(decode=True).decode() for n, p in parts.items()}
        self.headers = headers

    @property
    def samples(self) -> int:
        return (len(self.wav) - 44) // 2

    @property
    def silent(self) -> bool:
        return not any(self.wav[44:])


class Stub(PostServer):
    """A transcription server whose answers a test decides."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.answer: Callable[[Request], Answer] = lambda _: (200, OK)
        self.seen: list[Request] = []
        super().__init__(host)

    def take(self, headers: Any, body: bytes) -> Request:
        request = Request(headers, body)
        self.seen.append(request)
        return request

    def reply(self, request: Request) -> Answer:
        return self.answer(request)

    def fails(self, count: int, *answer: Any) -> None:
        """The first `count` requests get this answer, the rest are heard."""
        self.answer = lambda _: answer if len(self.seen) <= count else (200, OK)


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.close()


def options(stub: Stub, **changes: Any) -> dict[str, Any]:
    return {
        "url": stub.url, "model": "tiny", "timeout": 5.0, "retries": 3, "backoff": 0.01,
        "patience": 10.0, **changes,
    }  # fmt: skip


def clip(seconds: float = 0.2, seed: int = 1, language: str | None = None) -> SpeechClip:
    picks = np.random.default_rng(seed).integers(-9000, 9000, round(seconds * RATE))
    return SpeechClip((picks / 32768).astype(np.float32), language)


def hear(stub: Stub, *clips: SpeechClip, **changes: Any) -> list[Transcript]:
    backend = openai_api.Backend(openai_api.Settings.model_validate(options(stub, **changes)))
    return list(backend.transcribe(clips or (clip(),)))


# --- what is sent, and what comes back


def test_a_request_is_what_openai_wants(stub: Stub) -> None:
    given = clip(0.3, language="es")
    heard = hear(
        stub, given, clip(language="de"), api_key=KEY, response_format="json", temperature=0.5,
        prompt={"es": "Hola."}, parallel=1,
    )  # fmt: skip
    assert heard[0] == Transcript("heard", "es")
    first, second = stub.seen
    assert stub.paths == {"/v1/audio/transcriptions"}
    assert first.fields == {
        "model": "tiny", "response_format": "json", "temperature": "0.5", "language": "es",
        "prompt": "Hola.",
    }  # fmt: skip
    assert "prompt" not in second.fields
    assert first.headers["Authorization"] == f"Bearer {KEY}"
    samples, rate = sf.read(io.BytesIO(first.wav), dtype="int16")
    assert rate == RATE
    np.testing.assert_array_equal(samples / np.float32(32768), given.samples)


def test_verbose_answers_have_language_and_scores(stub: Stub) -> None:
    segments = [
        {"start": 0, "end": 1, "avg_logprob": -0.2, "no_speech_prob": 0.0,
         "compression_ratio": 1.0, "tokens": [1, 2, 3]},
        {"start": 1, "end": 4, "avg_logprob": -0.4, "no_speech_prob": 0.4,
         "compression_ratio": 1.5, "tokens": list(range(11))},
        "no segment",
    ]  # fmt: skip
    stub.answer = lambda _: (
        200, {"text": "Hola\n a todos", "language": "spanish", "segments": segments}
    )  # fmt: skip
    heard, forced = hear(stub, clip(), clip(language="fr"), parallel=1)
    assert (heard.text, heard.language, forced.language) == ("Hola a todos", "es", "fr")
    assert heard.avg_logprob == pytest.approx(-0.35)
    assert heard.no_speech_probability == pytest.approx(0.3)
    assert heard.compression_ratio == 1.5
    assert "Authorization" not in stub.seen[0].headers
    assert stub.seen[0].fields == {
        "model": "tiny", "response_format": "verbose_json", "temperature": "0"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "code"),
    [("english", "en"), ("Mandarin", "zh"), ("en-US", "en"), ("yue", "yue"), ("klingonese", None),
     (7, None), (None, None)],
)  # fmt: skip
def test_names_of_languages(name: Any, code: str | None) -> None:
    assert openai_api.code(name) == code


@pytest.mark.parametrize(
    "extra",
    [{"segments": 7}, {"segments": [{"avg_logprob": "x", "no_speech_prob": float("nan")}]},
     {"segments": [{"no_speech_prob": 7, "tokens": 1, "compression_ratio": True}]}],
)  # fmt: skip
def test_odd_parts_of_an_answer_are_left_out(extra: dict[str, Any]) -> None:
    answer = json.dumps({"text": "a", **extra}).encode()
    assert openai_api.transcript(openai_api.parse(answer), None) == Transcript("a")


def test_order_and_back_pressure(stub: Stub) -> None:
    def slow(request: Request) -> Answer:
        time.sleep(0.05 if request.samples % 2 else 0.01)
        return 200, {"text": str(request.samples)}

    stub.answer = slow
    clips = [SpeechClip(np.full(4000 + n, 0.1, np.float32)) for n in range(24)]
    heard = hear(stub, *clips, parallel=3)
    assert [h.text for h in heard] == [str(4000 + n) for n in range(24)]
    assert stub.most == 3


def test_odd_clips(stub: Stub) -> None:
    bad = SpeechClip(np.array([0.1, np.nan], np.float32))
    heard = hear(stub, bad, SpeechClip(np.zeros(0, np.float32)), clip(0.01), language="en")
    assert heard[0].error == "samples are NaN or infinite"
    assert (heard[1].text, heard[1].no_speech_probability) == ("", 1.0)
    assert heard[2].text == "heard"
    assert [request.samples for request in stub.seen] == [RATE // 10]


# --- tries


@pytest.mark.parametrize(
    "answer",
    [(500, {}), (503, b"<html>"), (408, {}), (409, {}), (0, b""), (200, b"<html>"), (200, [1]),
     (200, {"text": None}), (200, b'{"text": "' + b"a" * (5 << 20) + b'"}'), (200, b"[" * 100_000)],
)  # fmt: skip
def test_a_failure_that_passes(stub: Stub, answer: Any) -> None:
    stub.fails(2, *answer)
    assert hear(stub)[0].text == "heard"
    assert len(stub.seen) == 3


def test_the_server_says_how_long_to_wait(stub: Stub) -> None:
    stub.fails(1, 429, {}, {"Retry-After": "0.4"})
    began = time.monotonic()
    assert hear(stub, backoff=0.0)[0].text == "heard"
    assert time.monotonic() - began >= 0.4
    assert client.retry_after({"retry-after": formatdate(time.time() + 60)}) == pytest.approx(
        60, abs=2
    )
    assert client.retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    for odd in ("", "soon", "-1", "nan", "inf"):
        assert client.retry_after({"retry-after": odd}) is None


def test_a_wait_beyond_all_patience_ends_the_run(stub: Stub) -> None:
    stub.fails(99, 429, {"error": {"message": "quota"}}, {"Retry-After": "3600"})
    with pytest.raises(RunError, match=r"429 \(quota\), and asks to wait 3600 s, after 1 tries"):
        hear(stub)
    assert len(stub.seen) == 1


def test_a_timeout_that_passes(stub: Stub) -> None:
    again = threading.Event()

    def answer(_: Request) -> Answer:
        again.wait(60) if len(stub.seen) == 1 else again.set()
        return 200, OK

    stub.answer = answer
    assert hear(stub, timeout=1.0)[0].text == "heard"
    assert len(stub.seen) == 2


# --- whose fault


def test_a_clip_that_is_refused_costs_itself(stub: Stub) -> None:
    def answer(request: Request) -> Answer:
        if request.samples == 4000:
            return 400, {"error": {"message": f"odd audio, {KEY}"}}
        return 200, OK

    stub.answer = answer
    odd = SpeechClip(np.full(4000, 0.1, np.float32))
    heard = hear(stub, odd, clip(), odd, clip(), api_key=KEY, parallel=1)
    assert [h.error for h in heard[1::2]] == [None, None]
    assert heard[0].error == "the transcription server: it answers 400 (odd audio, ***)"
    assert heard[2].error
    assert [r.silent for r in stub.seen] == [False, True, False, False, False]  # one control


def test_settings_that_are_refused_end_the_run(stub: Stub) -> None:
    stub.answer = lambda _: (422, {"detail": "no verbose_json"})
    with pytest.raises(RunError, match=r"no clip with these settings.*no verbose_json.*json only"):
        hear(stub, clip(), clip())


@pytest.mark.parametrize("answer", [(500, {}), (0, b""), (200, b"null")])
def test_a_clip_that_breaks_the_server_costs_itself(stub: Stub, answer: Any) -> None:
    stub.answer = lambda request: answer if request.samples == 4000 else (200, OK)
    heard = hear(stub, SpeechClip(np.full(4000, 0.1, np.float32)), clip(), retries=1)
    assert "after 2 tries" in str(heard[0].error)
    assert heard[1].text == "heard"
    assert Counter(r.silent for r in stub.seen) == {False: 3, True: 1}


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "api_key_env"), (403, "api_key_env"), (404, r"\.model \('tiny'\)"), (402, "account"),
     (307, "final address")],
)  # fmt: skip
def test_what_every_clip_would_meet_ends_the_run_at_once(
    stub: Stub, status: int, words: str
) -> None:
    stub.answer = lambda _: (status, {"error": f"bad {KEY}"}, {"Location": "http://127.0.0.1:1/"})
    with pytest.raises(RunError, match=words) as caught:
        hear(stub, *(clip(seed=n) for n in range(20)), api_key=KEY, parallel=2)
    assert KEY not in str(caught.value)
    assert len(stub.seen) <= 4


def test_a_refusal_stops_the_clips_that_wait_while_an_earlier_clip_is_heard(stub: Stub) -> None:
    first = clip(0.3)

    def answer(request: Request) -> Answer:
        if request.samples == len(first.samples):
            time.sleep(1.0)
            return (200, OK)
        return (403, {"error": "no"})

    stub.answer = answer
    with pytest.raises(RunError, match="api_key_env"):
        hear(stub, first, *(clip(0.5, seed=n) for n in range(20)), api_key=KEY, parallel=2)
    assert len(stub.seen) <= 4


def test_a_server_that_is_away_ends_the_run(stub: Stub) -> None:
    stub.fails(99, 503, {})
    with pytest.raises(RunError, match=r"cannot be used now: it answers 503.*run it again"):
        hear(stub, clip(), clip())
    closed = Stub()
    closed.close()
    with pytest.raises(RunError, match="ConnectError"):
        hear(closed, retries=1)


def test_no_clip_takes_longer_than_patience(stub: Stub) -> None:
    stub.fails(99, 500, {})
    began = time.monotonic()
    with pytest.raises(RunError):
        hear(stub, retries=1000, backoff=0.2, patience=0.5)
    assert time.monotonic() - began < 30, "a thousand tries take longer"


# --- settings


@pytest.mark.parametrize(
    ("change", "words"),
    [({"url": "localhost:8000"}, "is not an address"), ({"url": "ftp://h/v1"}, "is not an address"),
     ({"url": "http:///v1"}, "is not an address"), ({"url": "http://h:99999"}, "is not an address"),
     ({"url": "http://h /v1"}, "is not an address"),
     ({"url": f"http://u:{KEY}@h/v1"}, "credentials"),
     ({"url": f"http://h/v1?key={KEY}"}, "credentials"), ({"ca_file": "ca.pem"}, "begin with"),
     ({"api_key": KEY, "api_key_env": "X"}, "give only one"), ({"parallel": 0}, "parallel"),
     ({"url": None}, "url is missing"), ({"model": None}, "model is missing"),
     ({"ca_file": "/no/ca.pem"}, "not a file here"), ({"api_key_env": "NO_SUCH_KEY"}, "is not set"),
     ({"api_key": f"{KEY}\n"}, "characters")],
)  # fmt: skip
def test_bad_settings_are_refused_before_any_worker(change: dict[str, Any], words: str) -> None:
    given = {"use": "openai_api", "url": "http://127.0.0.1:1/v1", "model": "m", **change}
    recogniser = plugins.ASR.load("openai_api")
    with pytest.raises(ConfigError, match=words) as caught:
        recogniser.weights(plugins.ASR.resolve(Plugin.model_validate(given))[1])
    assert KEY not in str(caught.value)


def test_what_the_recipe_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    chosen = openai_api.Settings(
        url="https://h/v1/audio/transcriptions/", model="large", api_key_env="MY_KEY"
    )
    assert chosen.url == "https://h/v1"
    assert openai_api.weights(chosen) == "openai_api:large"  # and nobody was asked
    assert openai_api.key(chosen) == KEY
    assert set(chosen.recipe()) == {
        "language", "prompt", "temperature", "response_format", "word_timestamps", "token_logprobs"
    }  # fmt: skip


def test_a_hidden_key_is_not_sent(stub: Stub) -> None:
    with pytest.raises(ConfigError, match="api_key_env"):
        hear(stub, api_key=masking.HIDDEN)
    assert stub.seen == []


def test_a_ca_file_that_is_none(stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match="cannot be used"):
        hear(stub, ca_file=str(tmp_path / "ca.pem"))


# --- the whole line


def configured(tmp: Path, stub: Stub, **changes: Any) -> settings.PrepareSettings:
    return settings.parse({
        "sources": [{"path": str(tmp / "in"), "name": "c"}],
        "out": str(tmp / "out"), "shard": {"settle_seconds": 0},
        "filter": {"segmenter": {"use": "whole"}},
        "transcribe": {"backend": {"use": "openai_api", **options(stub, **changes)}},
    })  # fmt: skip


def test_the_whole_line_and_the_key_is_written_nowhere(
    stub: Stub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    corpus.make(tmp_path / "in", 4)
    stub.answer = lambda r: (200, {"text": f"{r.samples} samples", "language": "english"})
    chosen = configured(tmp_path, stub, api_key=KEY)
    job = checks.check(chosen)
    with run_folder.record(job.out, chosen) as record:
        published, stages = pipeline.run_here(job)
        record.finish({})
    rows = corpus.utterances(published.path)
    assert {r["text"] for r in rows} == {f"{r['num_samples']} samples" for r in rows}
    assert {r["language"] for r in rows} == {"en"}
    assert stages["transcribe"]["items_computed"] == len(stub.seen) == 4
    assert {r.headers["Authorization"] for r in stub.seen} == {f"Bearer {KEY}"}
    held = [p for p in job.out.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    assert held == []
    assert KEY not in caplog.text
    assert "openai_api:tiny" in (published.path / "dataset.json").read_text()


def test_an_outage_loses_nothing_and_a_rerun_goes_on(stub: Stub, tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 5)
    stub.answer = lambda _: (200, OK) if len(stub.seen) <= 3 else (503, {})
    job = checks.check(configured(tmp_path, stub, parallel=1, retries=0))
    with pytest.raises(RunError, match="run it again to continue"):
        pipeline.run_here(job)
    stub.answer = lambda _: (200, OK)
    moved = Stub()  # another address is no other model
    try:
        again = checks.check(configured(tmp_path, moved, retries=0))
        published, stages = pipeline.run_here(again)
        assert len(moved.seen) == stages["transcribe"]["items_computed"] == 2
    finally:
        moved.close()
    assert published.summary["utterances"]["packaged"] == 5
    plain = Plugin.model_validate({"use": "openai_api", **options(stub)})
    other = Plugin.model_validate({"use": "openai_api", **options(moved, api_key=KEY)})
    assert recipe.of_plugin("asr", plain) == recipe.of_plugin("asr", other)
