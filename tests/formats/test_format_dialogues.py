"""Windows of conversations, published by a whole run, through the libraries that read them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import corpus, talks
from uttermill.tasks.publish.upkeep.verify import verify

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
COUNT = 2


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("talks")
    for number in range(COUNT):
        talks.add(home, number)
    published, _ = corpus.run(talks.job(home))
    return published.path


def rows(version: Path) -> dict[str, dict[str, Any]]:
    table = corpus.utterances(version)
    return {row["id"]: row for row in table}


@pytest.mark.full
def test_a_window_has_everything(version: Path) -> None:
    assert len(rows(version)) == COUNT
    for row in rows(version).values():
        number = int(Path(row["recording"]).stem[-1])
        assert [turn["text"] for turn in row["turns"]] == [
            talks.text_of(number, turn) for turn in range(len(talks.TURNS))
        ]
        assert [turn["speaker"][0] for turn in row["turns"]] == [who for *_, who in talks.TURNS]
        words = [word["word"].strip() for word in row["reference_words"]]
        assert words == row["text"].split()
        assert row["tagging_length"] == "long"
        assert len(row["tagging_voice"]) == 3
        assert len(row["moods_words"]) == len(words)
    assert verify(version) == []


@pytest.mark.full
def test_webdataset_reads_turns(version: Path) -> None:
    import webdataset

    tars = sorted(map(str, (version / "webdataset" / "train").glob("*.tar")))
    samples = [*webdataset.WebDataset(tars, shardshuffle=False)]
    wanted = rows(version)
    assert {sample["__key__"] for sample in samples} == {*wanted}
    for sample in samples:
        told, row = json.loads(sample["json"]), wanted[sample["__key__"]]
        assert [(turn["speaker"], turn["text"]) for turn in told["turns"]] == [
            (turn["speaker"], turn["text"]) for turn in row["turns"]
        ]
        assert np.allclose(told["tagging_voice"], row["tagging_voice"])


def test_datasets_reads_the_chats(version: Path, tmp_path: Path) -> None:
    """As the trainers that it is for: Hugging Face's reader of JSON lines."""
    import soundfile as sf
    from datasets import load_dataset

    home = version / "chat_jsonl"
    files = str(home / "train.jsonl")
    lines = load_dataset("json", data_files=files, split="train", cache_dir=str(tmp_path))
    wanted = rows(version)
    assert len(lines) == len(wanted)
    for line in lines:
        [audio] = line["audios"]
        row = wanted[Path(audio).stem]
        assert sf.info(home / audio).frames == row["num_samples"]
        (asked, told) = line["messages"]
        assert (asked["role"], told["role"]) == ("user", "assistant")
        number = int(Path(row["recording"]).stem[-1])
        names = {"a": "S1", "b": "S2"}
        assert told["content"].split("\n") == [
            f"{names[who]}: {talks.text_of(number, turn)}"
            for turn, (*_, who) in enumerate(talks.TURNS)
            if not row["turns"][turn]["backchannel"]
        ]
