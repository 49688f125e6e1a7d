"""Questions with closed answers to a language model, behind a real server that answers as models
do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.helpers.chat_server import ChatServer, serving
from tests.helpers.format_entries import entries
from uttermill.flows import checks
from uttermill.tasks.audio.encoding import decode_int16
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.recording import yaml_text
from uttermill.tasks.settings.job import Job
from uttermill.tasks.storage import versions
from uttermill.tasks.text import llm_label
from uttermill.tasks.text.llm_label import judged

TOPIC = {"ask": "What is it about?", "answers": ["news", "sport", "other"]}
LENGTH = {"ask": "Is it long?", "answers": ["short", "long"]}
SAID = {"0": "news", "1": "sport", "2": "other", "3": "news"}  # by the text's last character


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        server.answer = lambda text: (200, SAID[text[-1]])
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", 4)
    corpus.listed(tmp_path / "in", 4, tmp_path / "list.jsonl")
    return tmp_path


def server_of(server: ChatServer, **changes: Any) -> dict[str, Any]:
    quick = {"timeout": 5.0, "retries": 2, "backoff": 0.01, "patience": 10.0}
    return {"url": server.url, "model": "tiny", **quick, **changes}


def job(home: Path, server: ChatServer, *others: dict[str, Any], **changes: Any) -> Job:
    """Four recordings, "reference number 0" to "3"; `changes`: of the plug-in."""
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c", "language": "en"}
    stages = {name: changes.pop(name) for name in ("filter", "package", "shard") if name in changes}
    own = {"use": "llm_label", "questions": {"topic": TOPIC}, **server_of(server), **changes}
    verdicts = [*others, own]
    transcribe = {"backend": {"use": "fake"}, "verdicts": verdicts}
    return corpus.job(home, sources=[source], transcribe=transcribe, **stages)


def rows(home: Path) -> list[dict[str, Any]]:
    newest = versions.newest(home / "out")
    assert newest is not None
    table = corpus.utterances(newest)
    return sorted(table, key=lambda row: str(row["recording"]))


def topics(home: Path) -> list[str | None]:
    return [row["llm_label_topic"] for row in rows(home)]


@pytest.mark.parametrize(
    ("reply", "value"),
    [("news", "news"), (" News.\n", "news"), ('"Sport"', "sport"), ("**other**", "other"),
     ("<think>sport?</think>\nnews", "news"), ("weather", None), ("", None),
     ("It is news", None), ("news, sport", None)],
)  # fmt: skip
def test_only_an_answer_of_the_set_counts(reply: str, value: str | None) -> None:
    answer = judged(reply, "some text", TOPIC["answers"])
    assert (answer.reply, answer.value) == (reply, value)
    assert answer.reason == ("" if value else "odd_answer")


def test_each_question_is_a_label_that_is_asked_once(home: Path, model: ChatServer) -> None:
    published, counts = corpus.run(job(home, model))
    assert topics(home) == ["news", "sport", "other", "news"]
    assert {row["llm_label_agreement"] for row in rows(home)} == {None}
    assert counts["transcribe"] == (4, 0)
    assert len(model.asked) == 4
    system = model.bodies[0]["messages"][0]["content"]
    assert "What is it about?" in system
    assert "news | sport | other" in system
    assert verify(published.path) == []
    again, counts = corpus.run(job(home, model))
    assert counts["transcribe"][0] == 0
    assert len(model.asked) == 4
    assert not again.new


@pytest.mark.nightly
def test_a_server_may_be_told_to_allow_the_answers_alone(home: Path, model: ChatServer) -> None:
    """As JSON, which the schema asks for; a server that takes no notice of it is understood too."""
    corpus.run(job(home, model))
    assert "response_format" not in model.bodies[0]
    plain = model.answer
    model.answer = lambda text: (
        plain(text) if text.endswith("3") else (200, json.dumps({"answer": SAID[text[-1]]}))
    )
    _, counts = corpus.run(job(home, model, constrained=True))
    assert counts["transcribe"][0] == 4, "they are asked anew"
    assert topics(home) == ["news", "sport", "other", "news"]
    [asked] = {json.dumps(body["response_format"]) for body in model.bodies[4:]}
    schema = json.loads(asked)["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == TOPIC["answers"]
    assert schema["required"] == ["answer"]
    model.answer = lambda text: (200, '{"answer": "weather"}')
    corpus.run(job(home, model, constrained=True, prompt="Say."))
    assert topics(home) == [None] * 4


@pytest.mark.nightly
def test_what_asks_again(home: Path, model: ChatServer) -> None:
    corpus.run(job(home, model))
    for change, asks in (
        ({"parallel": 2}, 0),
        ({"model": "large"}, 4),
        ({"prompt": "Say."}, 4),
        ({"temperature": None}, 4),
        ({"questions": {"topic": {**TOPIC, "ask": "Which?"}}}, 4),
        ({"questions": {"topic": {**TOPIC, "answers": ["news", "sport"]}}}, 4),
        ({"questions": {"topic": TOPIC, "length": LENGTH}}, 4),  # the new one alone
        ({}, 0),
    ):
        before = len(model.asked)
        changed = job(home, model, **change)
        plan = planning.plan(changed, changed)
        assert plan.stages["transcribe"].compute == asks, change
        corpus.run(changed)
        assert len(model.asked) - before == asks, change
    with serving() as moved:
        again, _ = corpus.run(job(home, moved))
        assert moved.asked == []  # the address is not part of the recipe
        assert not again.new


def test_only_what_other_rules_keep_is_asked(home: Path, model: ChatServer) -> None:
    short = corpus.filters(max=0.7)
    corpus.run(job(home, model, filter=short))
    assert sorted(model.asked) == ["reference number 0", "reference number 1"]
    corpus.run(job(home, model))
    assert len(model.asked) == 4


def test_an_odd_answer_is_null_and_drops_nothing(home: Path, model: ChatServer) -> None:
    model.answer = lambda text: (200, "weather" if text[-1] == "0" else SAID[text[-1]])
    published, _ = corpus.run(job(home, model, allowed={"topic": ["sport", "other", "news"]}))
    assert topics(home) == [None, "sport", "other", "news"]
    assert published.summary["utterances"]["packaged"] == 4
    corpus.run(job(home, model))
    assert len(model.asked) == 4  # an odd answer is an answer, too


def test_a_dead_server_ends_the_run_which_goes_on_later(home: Path, model: ChatServer) -> None:
    model.answer = lambda text: (503, {}) if len(model.asked) > 2 else (200, SAID[text[-1]])
    with pytest.raises(RunError, match=r"answers so far are kept: run it again"):
        corpus.run(job(home, model, parallel=1, retries=0))
    assert versions.newest(home / "out") is None
    done = {*model.asked[:2]}
    model.asked.clear()
    model.answer = lambda text: (200, SAID[text[-1]])
    corpus.run(job(home, model))
    assert done.isdisjoint(model.asked)
    assert len(model.asked) == 2
    assert topics(home) == ["news", "sport", "other", "news"]


@pytest.mark.nightly
def test_two_models_agree_or_do_not(home: Path, model: ChatServer) -> None:
    both = {"topic": TOPIC, "length": LENGTH}

    def first(text: str) -> tuple[int, str]:
        return 200, SAID[text[-1]] if "about" in model.bodies[-1]["messages"][0]["content"] else ""

    model.answer = first
    with serving() as other:
        other.answer = lambda text: (200, "sport" if text[-1] in "13" else SAID[text[-1]])
        asked = {"questions": {"topic": TOPIC}, "second": server_of(other, model="large")}
        corpus.run(job(home, model, **asked))
        assert len(model.asked) == len(other.asked) == 4
        assert topics(home) == ["news", "sport", "other", "news"], "of the first one"
        assert [row["llm_label_agreement"] for row in rows(home)] == [1.0, 1.0, 1.0, 0.0]
        published, _ = corpus.run(job(home, model, **asked, min_agreement=0.5))
        assert published.summary["reasons"]["transcribe.low_llm_label_agreement"]["items"] == 1
        assert len(model.asked) == len(other.asked) == 4
        moved = {**asked, "second": {**asked["second"], "url": model.url}}
        assert not corpus.run(job(home, model, **moved, min_agreement=0.5))[0].new
        corpus.run(job(home, model, **{**asked, "questions": both}))
        assert len(other.asked) == 8, "the new question"


@pytest.mark.nightly
def test_a_model_hears_each_clip_once(home: Path, model: ChatServer) -> None:
    same = {f"r0{n}": "one text for all 0" for n in range(4)}
    corpus.listed(home / "in", 4, home / "list.jsonl", **same)
    corpus.run(job(home, model))
    assert (len(model.asked), model.heard) == (1, []), "by the text alone, once a text"
    asked = job(home, model, audio=True)
    assert planning.plan(asked, asked).stages["transcribe"].compute == 4
    published, _ = corpus.run(asked)
    assert len(model.heard) == 4
    assert len(model.asked) == 5, "once a clip"
    assert "The recording follows it" in model.bodies[-1]["messages"][0]["content"]
    clips = sorted(len(decode_int16(wav)[0]) for wav in model.heard)
    assert {decode_int16(wav)[1] for wav in model.heard} == {16_000}
    assert clips == sorted(round(16_000 * row["duration"]) for row in rows(home))
    loudest = {np.abs(decode_int16(wav)[0]).max() for wav in model.heard}
    assert min(loudest) > 1000, "it is the clip"
    assert topics(home) == ["news"] * 4
    assert verify(published.path) == []
    again, counts = corpus.run(asked)
    assert (again.new, counts["transcribe"][0]) == (False, 0)
    corpus.run(job(home, model))
    assert len(model.asked) == 5


def test_two_models_that_hear(home: Path, model: ChatServer) -> None:
    with serving() as other:
        other.answer = lambda text: (200, "sport")
        second = {**server_of(other, model="large")}
        corpus.run(job(home, model, audio=True, second=second))
        assert len(model.heard) == len(other.heard) == 4
        assert [row["llm_label_agreement"] for row in rows(home)] == [0.0, 1.0, 0.0, 0.0]


def test_a_model_that_does_not_hear_is_named(home: Path, model: ChatServer) -> None:
    model.answer = lambda text: (400, {"error": "no audio"}) if model.heard else (200, "news")
    with pytest.raises(RunError, match=r"no audio.*llm_label\.audio \(only models.*label\.model"):
        corpus.run(job(home, model, audio=True, retries=0))
    model.heard.clear()
    corpus.run(job(home, model))
    assert topics(home) == ["news"] * 4


@pytest.mark.parametrize("setting", ["audio", "constrained"])
def test_a_setting_that_a_server_fails_on_is_named(
    home: Path, model: ChatServer, setting: str
) -> None:
    """llama.cpp answers audio with 500, as if it were out of order."""

    count = [0]

    def answer(text: str) -> tuple[int, str | dict[str, str]]:
        body = model.bodies[-1]
        heard = len(model.heard) > count[0]
        count[0] = len(model.heard)
        odd = heard if setting == "audio" else "response_format" in body
        return (500, {"error": "it is not supported"}) if odd else (200, "news")

    model.answer = answer
    words = rf"answers 500 \(it is not supported\), after 2 tries; check .*llm_label\.{setting} \("
    with pytest.raises(RunError, match=words):
        corpus.run(job(home, model, retries=1, parallel=1, **{setting: True}))
    model.answer = lambda text: (500, {"error": "out of order"})
    with pytest.raises(RunError, match="cannot be used now: it answers 500"):
        corpus.run(job(home, model, retries=1, parallel=1, **{setting: True}))


def test_the_example_of_a_question_is_yaml() -> None:
    described = str(llm_label.Settings.model_fields["questions"].description)
    example = yaml_text.load(described[described.index("{") :].rstrip("."), "the example")
    assert llm_label.Settings(questions=example).questions["topic"].answers[0] == "news"
    with pytest.raises(ConfigError) as told:
        llm_label.check_weights(llm_label.Settings())
    sentence = str(told.value)
    assert yaml_text.load(sentence[sentence.index("{") :], "the example") == example


def test_a_clip_in_which_pii_hides_something_does_not_leave(home: Path, model: ChatServer) -> None:
    corpus.listed(home / "in", 4, home / "list.jsonl", r00="write to anna@example.com number 0")
    chosen = job(home, model, {"use": "pii"}, audio=True)
    published, _ = corpus.run(chosen)
    assert len(model.heard) == 3
    assert sorted(model.asked) == [f"reference number {n}" for n in (1, 2, 3)]
    assert topics(home) == [None, "sport", "other", "news"]
    assert published.summary["utterances"]["packaged"] == 4
    assert corpus.run(chosen)[1]["transcribe"][0] == 0, "nothing waits"


def test_what_pii_hides_does_not_leave(home: Path, model: ChatServer) -> None:
    mail = "write to anna@example.com number 0"
    corpus.listed(home / "in", 4, home / "list.jsonl", r00=mail)
    corpus.run(job(home, model, {"use": "pii"}))
    assert "write to <EMAIL> number 0" in model.asked
    assert not any("@" in text for text in model.asked)


def test_a_label_is_published_in_clips_files(home: Path, model: ChatServer) -> None:
    package = {"publish": ["llm_label_topic"], "formats": ["webdataset"]}
    published, _ = corpus.run(job(home, model, package=package))
    field = pq.read_schema(published.path / "utterances.parquet").field("llm_label_topic")
    assert field.metadata[b"doc"] == b"What is it about? (label: news, sport, other)"
    assert field.metadata[b"published"] == b"yes"
    assert verify(published.path) == []
    assert published_topics(published.path) == ["news", "news", "other", "sport"]
    model.answer = lambda text: (200, "other")
    published, _ = corpus.run(job(home, model, package=package, model="large"))
    assert published_topics(published.path) == ["other"] * 4
    assert verify(published.path) == []


def published_topics(version: Path) -> list[str]:
    told = entries(version, "webdataset").values()
    return sorted(entry["llm_label_topic"] for entry in told)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"questions": {}}, r"llm_label\.questions is missing"),
     ({"url": None}, r"llm_label\.url is missing"),
     ({"model": None}, r"llm_label\.model is missing"),
     ({"second": {"url": "http://127.0.0.1:1"}}, r"llm_label\.second\.model is missing"),
     ({"api_key_env": "NO_SUCH_KEY"}, "api_key_env .* is not set"),
     ({"questions": {"topic": {"ask": "What?", "answers": ["one"]}}}, "at least two answers"),
     ({"questions": {"topic": {"ask": "What?", "answers": ["One", "one."]}}}, "differ in case"),
     ({"questions": {"a b": TOPIC}}, "named in a-z"),
     ({"questions": {"agreement": TOPIC}}, "must not be called 'agreement'"),
     ({"allowed": {"mood": ["news"]}}, "'mood', which is no question"),
     ({"allowed": {"topic": ["weather"]}}, "'weather' is no answer of 'topic'"),
     ({"min_agreement": 0.5}, "needs a second model"),
     ({"second": {"url": "http://127.0.0.1:1", "model": "m"}}, "would agree with itself")],
)  # fmt: skip
def test_bad_settings_are_refused_before_any_worker(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    corpus.make(tmp_path / "in", 1)
    own = {"use": "llm_label", "questions": {"topic": TOPIC}, "url": "http://127.0.0.1:1/v1"}
    verdicts = [{**own, "model": "m", **change}]
    with pytest.raises(ConfigError, match=words):
        checks.check(
            corpus.wishes(tmp_path, transcribe={"backend": {"use": "fake"}, "verdicts": verdicts})
        )
