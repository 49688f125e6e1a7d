"""Verdicts on text in whole runs: which text is packaged, what is stored, what a limit costs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, outcomes
from uttermill.flows.cli import queries
from uttermill.tasks.accounting import summary
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.publish import foreseen
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.scoring import training_text
from uttermill.tasks.settings import Plugin, TranscribeSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store.manifest import shards
from uttermill.tasks.shard_store.text_values import final_text, text_columns
from uttermill.tasks.shard_store.utterance import UNHEARD, Utterance
from uttermill.tasks.stages.listing import shard_choice


def spoken(text: str, reference: str | None, words: int | None, errors: int | None) -> Utterance:
    recording: Any = {"text": reference}
    heard: Any = {"text": text, "words": words, "word_errors": errors}
    place = recording, 0, 16000, 16000, None
    return Utterance("", *place, {}, "", UNHEARD, whole=True, transcript=heard)


@pytest.mark.parametrize(
    ("wanted", "reference", "words", "errors", "expected"),
    [
        ("reference", "said", 10, 10, ("said", "reference")),
        ("reference", None, None, None, ("heard", "asr")),
        ("asr", "said", 10, 0, ("heard", "asr")),
        ("reference_if_close", "said", 10, 3, ("said", "reference")),
        ("reference_if_close", "said", 10, 4, ("heard", "asr")),
        ("reference_if_close", "...", 0, 1, ("heard", "asr")),  # no words to compare
        ("reference_if_close", None, None, None, ("heard", "asr")),
    ],
)
def test_which_text_is_packaged(
    wanted: Any, reference: str | None, words: int | None, errors: int | None, expected: Any
) -> None:
    job = Job(Path("out"), transcribe=TranscribeSettings(text=wanted, close_wer=0.3))
    assert final_text(job, spoken("heard", reference, words, errors)) == expected


@pytest.mark.parametrize("wanted", ["reference", "reference_if_close"])
def test_where_nobody_listened_the_reference_stays(wanted: Any) -> None:
    unheard: Any = {"text": None, "words": None, "word_errors": None}
    utterance = replace(spoken("", "said", None, None), transcript=unheard)
    job = Job(Path("out"), transcribe=TranscribeSettings(text=wanted))
    assert final_text(job, utterance) == ("said", "reference")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six recordings without references, heard by `fake`, all kept."""
    tmp = tmp_path_factory.mktemp("texts")
    corpus.make(tmp / "in", 6)
    published, _ = corpus.run(corpus.job(tmp))
    assert published.summary["utterances"]["packaged"] == 6
    return tmp


@pytest.mark.full
def test_limits_on_texts_are_taken_again_for_free(base: Path) -> None:
    def limited(most: float) -> Job:
        rate = {"use": "char_rate", "max_alphabetic": most}
        return corpus.job(base, transcribe={"backend": {"use": "fake"}, "verdicts": [rate]})

    everything = outcomes.table(corpus.job(base))
    rates = sorted(everything["char_rate_alphabetic"].to_pylist())
    middle = (rates[2] + rates[3]) / 2
    foreseen = what_if.kept(limited(middle), limited(middle))[0]["items"]
    published, counts = corpus.run(limited(middle))
    assert {counts[n][0] for n in ("shard", "filter", "resample", "transcribe")} == {0}
    assert published.summary["utterances"]["packaged"] == foreseen == 3
    assert published.summary["reasons"]["transcribe.too_fast"]["items"] == 3
    table = outcomes.table(limited(middle))
    assert sorted(table["char_rate_alphabetic"].to_pylist()) == rates, "of rejected rows, too"
    ledger = pq.read_table(published.path / "ledger.parquet")
    fast = ledger.filter(pc.equal(ledger["reason"], "too_fast"))
    assert sorted(fast["value"].to_pylist()) == rates[3:]
    assert set(fast["threshold"].to_pylist()) == {middle}


@pytest.mark.full
def test_columns_of_verdicts_are_published(base: Path) -> None:
    job = corpus.job(base)
    published, _ = corpus.run(job)
    table = pq.read_table(published.path / "utterances.parquet")
    columns = text_columns(job.transcribe.verdicts)
    assert {"repetition", "char_rate_alphabetic", "hallucination_pace"} <= set(columns)
    for name, (unit, doc) in columns.items():
        about = table.schema.field(name).metadata
        assert (about[b"unit"].decode(), about[b"doc"].decode()) == (unit, doc)
    assert table["repetition"].to_pylist() == [0.0] * 6
    assert table["error_rate_spaced"].null_count == 6
    shown = {entry["column"] for entry in queries.columns()["measures"]}
    assert set(columns) <= shown, "`uttermill schema` names them"


@pytest.mark.full
def test_a_rule_on_other_columns_is_answered_from_the_shards(base: Path) -> None:
    few = corpus.job(base, transcribe={"verdicts": [{"use": "empty_text"}]})
    corpus.run(few)
    rate = Plugin(use="char_rate", min_alphabetic=None, max_alphabetic=0.1)
    more = corpus.job(base, transcribe={"verdicts": [rate]})
    assert what_if.kept(few, more)[1]["items"] == 0
    with foreseen.version(more, shards(more.out)) as version:
        assert version.clips(["id"]).num_rows == 0


# `package.text_form`: the same texts as written, or in one case, without punctuation.


TEXTS = {
    "r00": ("en", "It's twenty-one, Mr. Smith!", "it's twenty one mr smith"),
    "r01": ("de", "Am 3. Mai, um 12 Uhr?", "am drei mai um zwölf uhr"),
    "r02": ("zh", "今天，我买了三個蘋果。", "今天我买了三個蘋果"),
}


@pytest.mark.full
def test_normalised_texts_reach_every_format(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    rows = [
        {"wav": str(tmp_path / f"in/{name}.wav"), "key": name, "txt": text, "lang": language}
        for name, (language, text, _) in TEXTS.items()
    ]
    listed = tmp_path / "list.jsonl"
    corpus.jsonl(listed, rows)
    columns = {"audio": "wav", "text": "txt", "language": "lang"}
    source = [{"kind": "jsonl", "path": str(listed), "name": "c", "columns": columns}]
    texts = {"backend": {"use": "fake"}, "verdicts": ()}
    formats = {"formats": ["wenet_raw", "kaldi"]}
    as_is = corpus.job(tmp_path, sources=source, transcribe=texts, package=formats)
    one, _ = corpus.run(as_is)
    other = corpus.job(
        tmp_path, sources=source, transcribe=texts, package={**formats, "text_form": "normalised"}
    )
    two, counts = corpus.run(other)
    assert counts["transcribe"] == (0, 3), "nothing is heard again"
    found = [corpus.utterances(v.path) for v in (one, two)]
    for before, after in zip(*found, strict=True):
        language, written, wanted = TEXTS[Path(before["source_path"]).stem]
        assert before["text"] == written
        assert after["normalised"] == before["normalised"], "what rates are taken of stays"
        assert after["text"] == wanted, language
        assert not set(after["text"]) & set(",.!?，。")
    lines = (two.path / "wenet_raw/train/data.list").read_text().splitlines()
    assert {json.loads(line)["txt"] for line in lines} == {row["text"] for row in found[1]}
    kaldi = (two.path / "kaldi/train/text").read_text()
    assert all(row["text"] in kaldi for row in found[1])
    assert verify(two.path) == []


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("en", "At 5 o'clock, in 1984: A-B!", "at five o'clock in nineteen eighty four a b"),
        ("de", "Straße 3,5 %", "straße drei komma fünf prozent"),
        ("tr", "İstanbul, IĞDIR", "istanbul ığdır"),
        ("ar", "٣ كتب", "ثلاثة كتب"),
        ("", "25 Ἄ!", "25 ἄ"),
        ("xx", "", ""),
    ],
)
def test_training_text_keeps_every_word(language: str, text: str, wanted: str) -> None:
    found = training_text(text, language)
    assert found == wanted
    assert training_text(found, language) == found


# Without a recogniser the texts are the sources' own.

NONE = {"backend": {"use": "none"}}


@pytest.mark.full
def test_references_are_packaged_and_the_rest_has_no_text(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 4)
    corpus.listed(tmp_path / "in", 4, tmp_path / "list.jsonl", r02="")
    source = [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}]
    published, _ = corpus.run(corpus.job(tmp_path, sources=source, transcribe=NONE))
    rows = corpus.utterances(published.path)
    assert {(row["hypothesis"], row["words"]) for row in rows} == {(None, None)}
    assert summary.errors_of(published.path)["scored"] == 0
    assert {(row["text"], row["text_source"]) for row in rows} == {
        (f"reference number {n}", "reference") for n in (0, 1, 3)
    }
    assert published.summary["reasons"]["transcribe.empty_text"]["items"] == 1
    kept = {**NONE, "verdicts": []}
    published, _ = corpus.run(corpus.job(tmp_path, sources=source, transcribe=kept))
    assert published.summary["utterances"]["packaged"] == 4


def test_shards_are_larger_where_nobody_listens(tmp_path: Path) -> None:
    seconds = np.full(40, 60.0)
    names = pa.array([f"r{n:02d}" for n in range(40)])
    counts = {}
    for use in ("none", "fake"):
        job = corpus.job(tmp_path, transcribe={"backend": {"use": use}})
        smallest = shard_choice.least(job)
        counts[use] = shard_choice.assigned(seconds, names, None, smallest)[1]
        assert shard_choice.assigned(seconds, names, 600 / 3600, smallest)[1] == 4, (
            "a setting decides"
        )
    assert counts == {"none": 3, "fake": 40}
