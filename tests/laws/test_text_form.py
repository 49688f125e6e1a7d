"""`package.text_form`: the same texts as written, or in one case, without punctuation."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.scoring import training_text

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
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows))
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
    found = [pq.read_table(v.path / "utterances.parquet").to_pylist() for v in (one, two)]
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
