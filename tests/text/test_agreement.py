"""Several recognisers of a clip: how far they agree, the text they vote for, what it costs."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.helpers.outcomes import passing
from tests.plugins import erring_asr
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.plugins.contracts.text import ScoredTranscript
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.scoring import agreement
from uttermill.tasks.settings import TranscribeSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import annotated, recipe
from uttermill.tasks.text import agreement as verdict

ERRING = "tests.plugins.erring_asr"


# --- texts


def test_rates_of_pairs_have_no_reference() -> None:
    [(wer, cer)] = agreement.rates(["a b c d", "a b"])
    assert (wer, cer) == (0.5, 4 / 7)
    assert agreement.rates(["", ""]) == [(0.0, 0.0)]
    assert agreement.rates(["a", ""]) == [(1.0, 1.0)]
    assert [wer for wer, _ in agreement.rates(["a b", "a c", "a b"])] == [0.5, 0.0, 0.5]
    assert agreement.rates(["你好吗", "你好"])[0][0] == pytest.approx(1 / 3)


def test_the_medoid_is_nearest_to_all() -> None:
    assert agreement.medoid(["a b x", "a b c", "a b c d"]) == 1
    assert agreement.medoid(["a b", "c d"]) == 0
    assert agreement.medoid(["x", "a b", "a b"]) == 1


@pytest.mark.parametrize(
    ("texts", "won", "confidence"),
    [
        (["The cat sat.", "the hat sat", "The cat sad"], "The cat sat.", 7 / 9),
        (["one two three", "two three", "two three"], "two three", 8 / 9),
        (["two three", "one two three", "one two three"], "one two three", 8 / 9),
        (["a b", "c d"], "a b", 0.5),
        (["", "", "word"], "", 2 / 3),
        (["", ""], "", 1.0),
        (["你好，世界。", "你号世界", "你好世界"], "你好，世界。", 11 / 12),
        (["I like 你好", "I like 你号", "I bike 你好"], "I like你好", 10 / 12),
        (["don't stop", "Don’t stop!", "do stop"], "don't stop", 5 / 6),
    ],
)  # fmt: skip
def test_the_vote(texts: list[str], won: str, confidence: float) -> None:
    vote = agreement.rover(texts)
    assert vote.text == won
    assert vote.confidence == pytest.approx(confidence)


def test_one_text_votes_for_itself() -> None:
    for text in ("Hello, world – again.", "你好，世界。", "- - a"):
        assert agreement.rover([text, text]) == agreement.Vote(text, 1.0)


# --- the verdict


def measured(*texts: str) -> dict[str, float | None]:
    pairs = tuple((text, text.lower().strip(".")) for text in texts)
    heard = ScoredTranscript("t", "asr", 1.0, hypotheses=pairs)
    return verdict.measure(heard, verdict.Settings())


def test_measures_of_agreement() -> None:
    found = measured("A b c d.", "a b c d", "a b c x")
    assert found["agreement"] == pytest.approx(1 - (0 + 1 / 4 + 1 / 4) / 3)
    assert found["agreement_worst"] == 0.25
    assert found["agreement_votes"] == pytest.approx((1 + 1 + 1 + 2 / 3) / 4)
    assert measured("你好吗", "你好")["agreement"] == pytest.approx(2 / 3)  # by characters
    assert set(measured("alone").values()) == {None}


def test_limits_by_language() -> None:
    rules = verdict.verdict(verdict.Settings(min=0.8, by_language={"zh": 0.5, "de": 0.9}))
    rows = [
        {"agreement": value, "language": language}
        for value in (0.4, 0.6, 0.85, 0.95, None)
        for language in ("en", "zh", "de", None)
    ]
    found = [judge(row, rules) is None for row in rows]
    assert found == [
        *(False, False, False, False), *(False, True, False, False), *(True, True, False, True),
        *(True,) * 8,
    ]  # fmt: skip
    columns = ("agreement", "agreement_worst", "agreement_votes")
    table = pa.table(
        {
            **{name: pa.array([row.get(name) for row in rows], pa.float64()) for name in columns},
            "language": pa.array([row["language"] for row in rows], pa.string()),
        }
    )
    assert passing(table, rules) == found


# --- settings


def test_a_list_names_the_first_too() -> None:
    one = TranscribeSettings.model_validate({"backends": [{"use": "fake"}]})
    assert one == TranscribeSettings.model_validate({"backend": {"use": "fake"}})
    several = TranscribeSettings.model_validate({"backends": [{"use": "fake"}, {"use": "none"}]})
    assert several.backend.use == "fake"
    assert [each.use for each in several.recognisers] == ["fake", "none"]
    again = TranscribeSettings.model_validate(several.model_dump(mode="json"))
    assert again == several


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"backend": {"use": "none"}, "backends": [{"use": "fake"}, {"use": "none"}]}, "one of"),
        ({"backends": [{"use": "fake"}, {"use": "fake"}]}, "twice"),
        ({"when": {"loudness": {"max": 1}}}, "'loudness' is not a score of a transcript"),
        ({"when": {"avg_logprob": {"most": 1}}}, "most"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TranscribeSettings.model_validate(given)


# --- whole runs


def erring(*wrong: int, **options: Any) -> list[dict[str, Any]]:
    return [{"use": ERRING, "name": "abc"[n], "wrong": w, **options} for n, w in enumerate(wrong)]


AGREEMENT = {"use": "agreement", "min": 0.7}


def job(home: Path, *wrong: int, out: str = "out", **more: Any) -> Job:
    transcribe = {"backends": erring(*wrong), "verdicts": [AGREEMENT], **more}
    first = transcribe["backends"][0]
    return corpus.job(home, out=home / out, transcribe={"backend": first, **transcribe})


def rows(home: Path, out: str = "out") -> list[dict[str, Any]]:
    table = pq.read_table(home / out / "datasets/latest/utterances.parquet")
    return sorted(table.to_pylist(), key=lambda row: str(row["id"]))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", 6)  # 0.4, 0.6, 0.8 s are doubtful; 1.0, 1.2, 1.4 are not
    erring_asr.HEARD.clear()
    return tmp_path


@pytest.mark.full
def test_each_text_is_heard_once_and_the_verdict_is_free(home: Path) -> None:
    corpus.run(job(home, 0))
    assert erring_asr.HEARD == {"a": 6}
    found = rows(home)
    assert {row["agreement"] for row in found} == {None}
    published, counts = corpus.run(job(home, 0, 1))
    assert erring_asr.HEARD == {"a": 6, "b": 6}  # the first is not heard again
    assert counts["transcribe"] == (6, 6)
    assert counts["resample"][0] == 0
    kept = rows(home)
    assert kept
    assert len(kept) == 1  # of four words, one is another
    assert all(row["agreement"] >= 0.7 for row in kept)
    assert verify(published.path) == []
    corpus.run(job(home, 0, 1, 1))
    assert erring_asr.HEARD == {"a": 6, "b": 6, "c": 6}
    loose = job(home, 0, 1, 1, verdicts=[{"use": "agreement", "min": 0.0}])
    strict = job(home, 0, 1, 1)
    before, after = what_if.kept(strict, loose)
    assert after["items"] == 6 > before["items"]
    _, counts = corpus.run(loose)
    assert counts["transcribe"][0] == 0
    assert len(rows(home)) == 6
    corpus.run(job(home, 0))
    assert sum(erring_asr.HEARD.values()) == 18  # back is free
    assert [row["text"] for row in rows(home)] == [row["text"] for row in found]


def test_a_further_one_hears_only_what_is_doubtful(home: Path) -> None:
    doubt = {"avg_logprob": {"max": -0.4}}
    corpus.run(job(home, 0, 1, when=doubt, verdicts=[{"use": "agreement", "min": 0.0}]))
    assert erring_asr.HEARD == {"a": 6, "b": 3}
    known = [row["agreement"] is not None for row in rows(home)]
    assert known.count(True) == 3
    everything = job(home, 0, 1, verdicts=[{"use": "agreement", "min": 0.0}])
    corpus.run(everything)
    assert erring_asr.HEARD == {"a": 6, "b": 6}
    assert all(row["agreement"] is not None for row in rows(home))


@pytest.mark.nightly
def test_a_further_one_hears_what_a_filter_suspects(home: Path) -> None:
    """In music or applause, recognisers invent words that they are sure of."""
    free = [{"use": "agreement", "min": 0.0}]
    suspected: dict[str, Any] = {"also_when": {"duration": {"min": 1.3}}, "verdicts": free}
    doubt: dict[str, Any] = {"when": {"avg_logprob": {"max": -0.4}}}
    corpus.run(job(home, 0, 1, **suspected))
    assert erring_asr.HEARD == {"a": 6, "b": 1}
    corpus.run(job(home, 0, 1, **suspected, **doubt))
    assert erring_asr.HEARD == {"a": 6, "b": 4}
    assert [row["agreement"] is None for row in rows(home)].count(True) == 2
    _, counts = corpus.run(job(home, 0, 1, **suspected))
    assert counts["transcribe"][0] == 0
    assert [row["agreement"] is None for row in rows(home)].count(True) == 5


def test_what_no_filter_measures_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="also_when: no filter measures 'sounds_applause'"):
        annotated.check(job(home, 0, 1, also_when={"sounds_applause": {"min": 0.1}}))


@pytest.mark.parametrize(("asr", "errs"), [("first", True), ("medoid", False), ("rover", False)])
def test_the_text_that_was_heard(home: Path, asr: str, errs: bool) -> None:
    """The first of three errs in one word; the others do not."""
    corpus.run(job(home, 1, 0, 0, asr=asr, verdicts=[{"use": "agreement", "min": 0.0}]))
    found = rows(home)
    assert len(found) == 6
    for row in found:
        assert row["text"].startswith("Arong") == errs
        assert row["hypothesis"].startswith("Arong")  # what the first heard stays
        assert row["normalised"].startswith("arong") == errs
        assert row["text_source"] == "asr"


def test_what_a_further_one_refuses_costs_nothing(home: Path) -> None:
    chosen = [*erring(0), *erring(9, 0, refuses=True)[1:]]
    verdicts = [{"use": "agreement", "min": 0.0}]
    corpus.run(
        corpus.job(
            home, transcribe={"backend": chosen[0], "backends": chosen, "verdicts": verdicts}
        )
    )
    assert sorted(row["agreement"] is None for row in rows(home)) == [False] * 3 + [True] * 3


def test_a_killed_run_goes_on_with_what_lacks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What dies in the second recogniser keeps the first one's texts."""
    real = erring_asr.Backend.transcribe

    def dies(self: erring_asr.Backend, clips: Any) -> Any:
        if self._settings.name == "b":
            raise KeyboardInterrupt
        return real(self, clips)

    monkeypatch.setattr(erring_asr.Backend, "transcribe", dies)
    with pytest.raises(KeyboardInterrupt):
        corpus.run(job(home, 0, 1))
    monkeypatch.undo()
    corpus.run(job(home, 0, 1))
    assert erring_asr.HEARD == {"a": 6, "b": 6}
    corpus.run(job(home, 0, 1, out="fresh"))
    assert [*map(str, rows(home))] == [*map(str, rows(home, "fresh"))]


def test_a_model_that_is_missing_is_found_before_any_worker(tmp_path: Path) -> None:
    missing = {"use": "onnx_asr", "model": str(tmp_path / "nowhere")}
    chosen = TranscribeSettings.model_validate({"backends": [{"use": "fake"}, missing]})
    with pytest.raises(ConfigError, match="is not a folder on this machine"):
        recipe.weights(chosen.recognisers)


@pytest.mark.full
def test_the_data_card_names_all_and_their_licences(home: Path) -> None:
    chosen = [*erring(0), {"use": "moonshine"}]
    verdicts = [{"use": "agreement", "min": 0.0}]
    settings = {"backend": chosen[0], "backends": chosen, "verdicts": verdicts}
    published, _ = corpus.run(corpus.job(home, transcribe=settings))
    card = (published.path / "README.md").read_text()
    assert "4. Transcribed: `tests.plugins.erring_asr`, `moonshine`, weights" in card
    assert "Weights of the recogniser `moonshine`: MIT." in card
    told = json.loads((published.path / "dataset.json").read_text())
    assert len(told["recipes"]["further_backends"]) == 1
    assert len(told["recipes"]["weights"].split("\n")) == 2
