"""`second_text` of a source: a translation, say, published beside the text with its language."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.sources.test_columns import with_audio
from uttermill.flows.settings import of_mapping
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings import Source
from uttermill.tasks.settings.job import Job

TEXTS = {"r00.wav": "guten Morgen", "r01.wav": "wie geht es", "r02.wav": None}
SECOND = {"column": "english", "language": "English"}
LONG = "a translation that is longer than any label may be, " * 6


def records() -> list[dict[str, Any]]:
    english = {"r00.wav": " good \n morning ", "r01.wav": LONG, "r02.wav": None}
    return [
        {"text": text, "english": english[name], "mood": "calm"} for name, text in TEXTS.items()
    ]


def jsonl(home: Path) -> dict[str, Any]:
    lines = [{"wav": name, **row} for name, row in zip(TEXTS, records(), strict=True)]
    corpus.jsonl(home / "list.jsonl", lines)
    return {"kind": "jsonl", "path": str(home / "list.jsonl")}


def table(home: Path) -> dict[str, Any]:
    lines = ["file\ttext\tenglish\tmood"]
    for name, row in zip(TEXTS, records(), strict=True):
        english = " ".join((row["english"] or "").split())
        lines.append(f"{name}\t{row['text'] or ''}\t{english}\t{row['mood']}")
    (home / "list.tsv").write_text("\n".join(lines) + "\n")
    return {"kind": "table", "path": str(home / "list.tsv")}


def hf_parquet(home: Path) -> dict[str, Any]:
    pq.write_table(with_audio(TEXTS, records()), home / "list.parquet")
    return {"kind": "hf_parquet", "path": str(home / "list.parquet")}


def asked(home: Path, source: dict[str, Any], **package: Any) -> Job:
    named = {**source, "name": "c", "language": "de", "second_text": SECOND}
    return corpus.job(home, sources=[named], package=package)


@pytest.mark.parametrize(("kind", "labels"), [(jsonl, None), (table, ["mood"]), (hf_parquet, None)])
def test_it_is_published_with_its_language(tmp_path: Path, kind: Any, labels: Any) -> None:
    corpus.make(tmp_path, 3)
    source = {**kind(tmp_path), "labels": labels}
    formats = [{"use": "hf_parquet"}, {"use": "chat_jsonl", "tasks": ["translation"]}]
    version = corpus.run(asked(tmp_path, source, formats=formats))[0].path
    rows = corpus.utterances(version)
    second = {round(row["end"], 1): (row["second_text"], row["second_language"]) for row in rows}
    assert second == {
        0.4: ("good morning", "en"), 0.6: (LONG.strip(), "en"), 0.8: (None, None)
    }  # fmt: skip
    assert {str(row.get("labels")) for row in rows} == {
        "None" if labels is None else "[('mood', 'calm')]"
    }
    lines = (version / "chat_jsonl/train.jsonl").read_text().splitlines()
    assert len(lines) == 2, "a clip without a translation is asked for none"
    prompts = {json.loads(line)["messages"][0]["content"] for line in lines}
    assert prompts == {"<audio>Translate the speech into the language en."}
    answers = {json.loads(line)["messages"][1]["content"] for line in lines}
    assert answers == {"good morning", LONG.strip()}
    [file] = version.glob("hf_parquet/train/*.parquet")
    read = pq.read_table(file).select(["second_text", "second_language"])
    assert read.schema.types == [pa.string(), pa.string()]
    assert ("good morning", "en") in [tuple(row.values()) for row in read.to_pylist()]
    assert json.loads((version / "dataset.json").read_text())["second_texts"] == {"en": 2}
    assert "by its language: en 2" in (version / "README.md").read_text()


def test_another_column_only_needs_a_new_version(tmp_path: Path) -> None:
    corpus.make(tmp_path, 3)
    source = jsonl(tmp_path)
    corpus.run(asked(tmp_path, source))
    none = corpus.job(tmp_path, sources=[{**source, "name": "c", "language": "de"}])
    published, counts = corpus.run(none)
    assert published.new
    assert not any(computed for name, (computed, _) in counts.items() if name != "package")
    assert "second_text" not in pq.read_schema(published.path / "utterances.parquet").names


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    corpus.make(tmp_path, 3)
    source = {**jsonl(tmp_path), "second_text": {"column": "french", "language": "fr"}}
    module, settings = plugins.resolve_source(Source.model_validate(source))
    sentences = [*module.notes(settings)]
    assert any("`second_text` names 'french', and none" in one for one in sentences), sentences
    for wrong, sentence in (
        ({"second_text": {"column": "a", "language": "klingonish"}}, "klingonish"),
        ({"second_text": {"language": "en"}}, "column"),
        ({"labels": ["second_text"]}, "give the label another name"),
    ):
        given = {**jsonl(tmp_path), **wrong}
        with pytest.raises(ConfigError, match=sentence):
            of_mapping({"sources": [given], "out": str(tmp_path / "out")})
