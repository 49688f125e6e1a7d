"""Punctuation and case by a language model, behind a real server that answers as models do."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from tests.helpers.chat_server import ChatServer, serving
from tests.helpers.post_server import Answer
from uttermill.flows import checks
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.plugins.served.chat import CONTROL, Writer, Written, judged
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.publish.upkeep.prune import KeptSettings
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings.job import Job
from uttermill.tasks.settings.transcribe import LlmText
from uttermill.tasks.shard_store import decision_log as reviews
from uttermill.tasks.shard_store import manifest, recipe
from uttermill.tasks.storage import versions

SAID = "the bank is closed on mondays"
KEY = "sk-hunter2-hunter2"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        yield server


def options(server: ChatServer, **changes: Any) -> dict[str, Any]:
    quick = {"timeout": 5.0, "retries": 2, "backoff": 0.01, "patience": 10.0}
    return {"url": server.url, "model": "tiny", **quick, **changes}


def write(model: ChatServer, *texts: str, **changes: Any) -> list[Written]:
    writer = Writer(LlmText.model_validate(options(model, **changes)))
    return list(writer.write([(text, "en") for text in texts or (SAID,)]))


# --- which answers are taken


@pytest.mark.parametrize(
    ("asked", "answer", "text"),
    [
        (SAID, "The bank is closed on Mondays.", "The bank is closed on Mondays."),
        (SAID, "  The bank\nis closed: on Mondays!\n", "The bank is closed: on Mondays!"),
        (SAID, '"The bank is closed on Mondays."', "The bank is closed on Mondays."),
        (SAID, "“The bank is closed on Mondays.”", "The bank is closed on Mondays."),
        (SAID, "**The bank is closed on Mondays.**", "The bank is closed on Mondays."),
        (SAID, "```text\nThe bank is closed on Mondays.\n```", "The bank is closed on Mondays."),
        (SAID, "<think>\nA bank?\n</think>\n\nThe bank is closed on Mondays.",
         "The bank is closed on Mondays."),
        ("go he said now", '"Go," he said, "now."', '"Go," he said, "now."'),
        ('"GO" HE SAID', '"Go," he said.', '"Go," he said.'),
        ("it's a well known place", "It’s a well-known place.", "It’s a well-known place."),
        ("WE SAW MR SMITH", "We saw Mr. Smith.", "We saw Mr. Smith."),
        ("we're twenty one", "We're twenty-one.", "We're twenty-one."),
        ("c# is hard", "C# is hard.", "C# is hard."),
    ],
)  # fmt: skip
def test_answers_that_keep_every_word(asked: str, answer: str, text: str) -> None:
    assert judged(asked, answer, "en") == Written(answer, text)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("The bank is now closed on Mondays.", "words_changed"),
        ("The bank is on Mondays.", "words_changed"),
        ("The bank is closed on Monday.", "words_changed"),
        ("On Mondays the bank is closed.", "words_changed"),
        ("Here is the text: The bank is closed on Mondays.", "words_changed"),
        ("The bank is closed on Mondays. (Note: corrected.)", "words_changed"),
        ("I'm sorry, I can't help with that.", "words_changed"),
        ("Die Bank ist montags geschlossen.", "words_changed"),
        ("The **bank** is closed on Mondays.", "odd_marks"),
        ("# The bank is closed on Mondays.", "odd_marks"),
        ("The bank is closed on Mondays. 🙂", "odd_marks"),
        ("", "empty_answer"),
        (" \n", "empty_answer"),
        ('""', "empty_answer"),
        ("<think>never ends", "odd_marks"),
    ],
)
def test_answers_that_are_refused(answer: str, reason: str) -> None:
    found = judged(SAID, answer, "en")
    assert (found.answer, found.text, found.reason) == (answer, None, reason)


@pytest.mark.parametrize(
    ("asked", "answer", "language", "taken"),
    [
        ("今天我买了苹果", "今天，我买了苹果。", "zh", True),
        ("今天我买了苹果", "今天，我买了一个苹果。", "zh", False),
        ("ich sah straßen", "Ich sah Straßen.", "de", True),
        ("hola qué tal", "¡Hola! ¿Qué tal?", "es", True),
        ("hola que tal", "¡Hola! ¿Qué tal?", "es", False),  # an accent is a spelling
        ("как дела", "Как дела?", "", True),
    ],
)
def test_other_languages(asked: str, answer: str, language: str, taken: bool) -> None:
    assert (judged(asked, answer, language).text is not None) == taken


# --- how it is asked


def test_a_request_is_what_openai_wants(model: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    [found] = write(
        model, api_key_env="MY_KEY", prompt="Dot it.", url=f"{model.url}/chat/completions"
    )
    assert found.text == "The bank is closed on mondays."
    assert model.paths == {"/v1/chat/completions"}
    assert model.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert model.bodies == [
        {
            "model": "tiny", "temperature": 0.0,
            "messages": [
                {"role": "system", "content": "Dot it."}, {"role": "user", "content": SAID}
            ],
        }
    ]  # fmt: skip
    write(model, temperature=None)
    assert "temperature" not in model.bodies[1]


@pytest.mark.parametrize(
    "answer",
    [(500, {}), (503, b"<html>"), (429, {}, {"Retry-After": "0.01"}), (408, {}), (0, b""),
     (200, b"<html>"), (200, b"[1]"), (200, {"choices": []}), (200, {"error": "overloaded"}),
     (200, {"choices": [{"message": {"content": 7}}]})],
)  # fmt: skip
def test_a_failure_that_passes(model: ChatServer, answer: Any) -> None:
    model.answer = lambda text: answer if len(model.asked) < 3 else (200, text)
    assert write(model)[0].text == SAID
    assert model.asked == [SAID] * 3


def test_a_text_that_gets_no_answer_costs_itself(model: ChatServer) -> None:
    def answer(text: str) -> Answer:
        return (500, {"error": {"message": f"too odd {KEY}"}}) if text == "odd" else (200, text)

    model.answer = answer
    found = write(model, "odd", "fine", parallel=1)
    assert [(f.text, f.reason) for f in found] == [(None, "no_answer"), ("fine", "")]
    assert found[0].detail.startswith("the language model's server: it answers 500 (too odd")
    assert model.asked == ["odd", "odd", "odd", CONTROL, "fine"]


def test_a_null_message_is_an_empty_answer(model: ChatServer) -> None:
    model.answer = lambda _: (200, {"choices": [{"message": {"content": None}}]})
    assert write(model)[0].reason == "empty_answer"


@pytest.mark.parametrize(
    ("answer", "words"),
    [((503, {}), r"language model's server .* cannot be used now: it answers 503"),
     ((200, b"<html>"), r"not a JSON object with a text; is transcribe.llm_text.url"),
     ((401, {"error": f"bad {KEY}"}), r"accepts no texts.*transcribe.llm_text.api_key_env"),
     ((404, {}), r"transcribe.llm_text.model \('tiny'\)"),
     ((400, {"error": "temperature"}), r"accepts no text with these settings.*\.temperature"),
     ((429, {}, {"Retry-After": "3600"}), "asks to wait 3600 s")],
)  # fmt: skip
def test_a_server_that_cannot_be_used_ends_the_run(
    model: ChatServer, monkeypatch: pytest.MonkeyPatch, answer: Any, words: str
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    model.answer = lambda _: answer
    with pytest.raises(RunError, match=words) as caught:
        write(model, api_key_env="MY_KEY")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"url": None}, r"transcribe\.llm_text\.url is missing"),
     ({"model": None}, "model is missing"),
     ({"api_key_env": "NO_SUCH_KEY"}, r"transcribe\.llm_text\.api_key_env .* is not set"),
     ({"ca_file": "/no/ca.pem"}, "not a file here"), ({"url": "localhost:1"}, "is not an address"),
     ({"prompt": ""}, "prompt"), ({"modle": "x"}, "modle")],
)  # fmt: skip
def test_bad_settings_are_refused_before_any_worker(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    given = {"url": "http://127.0.0.1:1/v1", "model": "m", **change}
    with pytest.raises(ConfigError, match=words):
        checked(tmp_path, transcribe={"backend": {"use": "fake"}, "llm_text": given})


def test_the_form_needs_a_model(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"text_form is llm_text, which needs transcribe.llm_text"
    ):
        checked(
            tmp_path, transcribe={"backend": {"use": "fake"}}, package={"text_form": "llm_text"}
        )


def checked(tmp_path: Path, **stages: Any) -> Job:
    corpus.make(tmp_path / "in", 1)
    return checks.check(corpus.wishes(tmp_path, **stages))


# --- in a run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", 4)
    corpus.listed(tmp_path / "in", 4, tmp_path / "list.jsonl", r03="reference number one")
    return tmp_path


def job(home: Path, model: ChatServer | None, form: str = "llm_text", **changes: Any) -> Job:
    """Four recordings; two have equal texts."""
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c", "language": "en"}
    server = options(model, **changes.pop("server", {})) if model else None
    return corpus.job(
        home,
        sources=[source],
        transcribe={"backend": {"use": "fake"}, "llm_text": server, **changes.pop("said", {})},
        package={"text_form": form},
        **changes,
    )


def rows(out: Path) -> list[dict[str, Any]]:
    newest = versions.newest(out)
    assert newest is not None
    found = corpus.utterances(newest)
    return sorted(found, key=lambda row: str(row["recording"]))


def test_texts_are_packaged_as_the_model_writes_them(home: Path, model: ChatServer) -> None:
    published, counts = corpus.run(job(home, model))
    found = rows(home / "out")
    assert [row["text"] for row in found] == [
        "Reference number 0.", "Reference number 1.", "Reference number 2.",
        "Reference number one.",
    ]  # fmt: skip
    assert {row["llm_text"] for row in found} == {"taken"}
    assert found[0]["normalised"] == "reference number 0"
    assert counts["transcribe"] == (4, 0)
    assert len(model.asked) == 4
    assert verify(published.path) == []
    _, counts = corpus.run(job(home, model))
    assert counts["transcribe"][0] == 0
    assert len(model.asked) == 4  # a second run asks nothing


def test_an_answer_is_no_transcript(home: Path, model: ChatServer) -> None:
    """It belongs to a text: who looks for what was heard of some audio does not find it."""
    chosen = job(home, model)
    corpus.run(chosen)
    (shard,) = manifest.shards(chosen.out)
    parts = manifest.read(chosen.out, "transcribe", shard)
    stored = [row for part in parts for row in part.table.to_pylist()]
    answers = [row for row in stored if row["audio"] is None]
    assert len(stored) == 8
    assert {row["text"] for row in answers} == {row["text"] for row in rows(chosen.out)}


def test_the_text_stays_where_words_change(home: Path, model: ChatServer) -> None:
    def answer(text: str) -> Answer:
        return 200, "Sure! " + text if text.endswith(("1", "one")) else text + "!"

    model.answer = answer
    corpus.run(job(home, model))
    found = [(row["text"], row["llm_text"]) for row in rows(home / "out")]
    assert found == [
        ("reference number 0!", "taken"), ("reference number 1", "words_changed"),
        ("reference number 2!", "taken"), ("reference number one", "words_changed"),
    ]  # fmt: skip
    asked = len(model.asked)
    corpus.run(job(home, model))
    assert len(model.asked) == asked  # a refused answer is an answer, too


@pytest.mark.nightly
def test_what_is_not_asked(home: Path, model: ChatServer) -> None:
    """What verdicts drop, what is empty, and all if there is no such setting."""
    corpus.run(job(home, None, "as_is"))
    assert "llm_text" not in rows(home / "out")[0]
    corpus.run(job(home, model, filter=corpus.filters(min=0.7), said={"text": "reference"}))
    assert sorted(model.asked) == ["reference number 2", "reference number one"]
    plan = planning.plan(job(home, model), job(home, model, filter=corpus.filters(min=0.7)))
    assert plan.stages["transcribe"].compute == 2
    corpus.run(job(home, model))
    assert len(model.asked) == 4  # only those that were let in


@pytest.mark.full
def test_the_form_is_decided_late(home: Path, model: ChatServer) -> None:
    corpus.run(job(home, model))
    for form, text in (("as_is", "reference number 0"), ("normalised", "reference number zero")):
        _, counts = corpus.run(job(home, model, form))
        assert rows(home / "out")[0]["text"] == text
        assert counts["transcribe"][0] == 0
    assert len(model.asked) == 4


def test_a_killed_run_asks_only_what_lacks(home: Path, model: ChatServer) -> None:
    def dies(text: str) -> Answer:
        return (503, {}) if len(model.asked) > 2 else (200, text + ".")

    model.answer = dies
    with pytest.raises(RunError, match="answers so far are kept: run it again"):
        corpus.run(job(home, model, server={"parallel": 1, "retries": 0}))
    assert versions.newest(home / "out") is None
    done = {*model.asked[:2]}
    model.asked.clear()
    model.answer = lambda text: (200, text + ".")
    corpus.run(job(home, model, server={"parallel": 1}))
    assert done.isdisjoint(model.asked)
    assert len(model.asked) == 2
    assert {row["llm_text"] for row in rows(home / "out")} == {"taken"}
    corpus.run(job(home, model, out=home / "fresh"))
    assert [*map(str, rows(home / "out"))] == [*map(str, rows(home / "fresh"))]


def test_no_answer_may_pass(home: Path, model: ChatServer) -> None:
    model.answer = lambda text: (500, {}) if text.endswith("2") else (200, text + ".")
    corpus.run(job(home, model, server={"retries": 0}))
    assert [row["llm_text"] for row in rows(home / "out")].count("no_answer") == 1
    model.answer = lambda text: (200, text + ".")
    corpus.run(job(home, model, shard={"retry": True, "settle_seconds": 0.0}))
    assert {row["llm_text"] for row in rows(home / "out")} == {"taken"}


def test_what_a_person_wrote_is_not_asked_about(home: Path, model: ChatServer) -> None:
    corpus.run(job(home, None, "as_is"))
    first = rows(home / "out")[0]["id"]
    reviews.append(
        home / "out",
        [reviews.Decision(first, "retext", text="so i say", when="2026-01-02T03:04:05Z")],
    )
    corpus.run(job(home, model))
    found = rows(home / "out")[0]
    assert (found["text"], found["llm_text"]) == ("so i say", None)
    assert len(model.asked) == 3


def test_answers_outlive_pruning(home: Path, model: ChatServer) -> None:
    corpus.run(job(home, model))
    chosen = job(home, model)
    prune_all(chosen)
    corpus.run(chosen)
    assert len(model.asked) == 4
    prune_all(job(home, None, "as_is"))
    corpus.run(job(home, None, "as_is"))


def prune_all(chosen: Job) -> None:
    current = [KeptSettings(chosen, recipe.weights(chosen.transcribe.recognisers))]
    prune.carry_out(prune.plan(chosen.out, prune.kept_versions(chosen.out, 1), current))


def test_threads_are_gone(model: ChatServer) -> None:
    write(model)
    assert not [t for t in threading.enumerate() if t.name.startswith("server_")]
