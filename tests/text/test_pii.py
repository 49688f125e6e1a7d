"""Personal data in texts: what is found, what is not, and that no published byte holds it."""

import json
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.helpers import corpus
from tests.helpers.tiers import nightly
from tests.text.pairs import PAIRS
from uttermill.tasks.asr import fake
from uttermill.tasks.plugins.contracts.asr import Word
from uttermill.tasks.plugins.rules import Limit
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import hidden
from uttermill.tasks.text import ScoredTranscript, _personal_data, pii

FOUND = PAIRS["personal"]
ORDINARY = PAIRS["ordinary"]


@pytest.mark.parametrize(("language", "kind", "marked"), FOUND)
def test_written_and_spoken_forms_are_found(language: str, kind: str, marked: str) -> None:
    start, end = marked.index("["), marked.index("]") - 1
    text = marked.replace("[", "").replace("]", "")
    assert _personal_data.hits(text, language) == ((start, end, kind),)


@pytest.mark.parametrize(("language", "text"), ORDINARY)
def test_ordinary_numbers_are_left_alone(language: str, text: str) -> None:
    assert _personal_data.hits(text, language) == ()


@pytest.mark.full
@pytest.mark.parametrize(
    "text", ["one two at dot com a.b@ " * 10_000, nightly("a." * 125_000), "1 " * 125_000]
)
def test_long_texts_take_time_in_proportion(text: str) -> None:
    _personal_data.hits(text, "en")


def job(tmp_path: Path, **settings: Any) -> Any:
    rule = Plugin.model_validate({"use": "pii", **settings})
    sources = [
        {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c", "language": "en"}
    ]
    return corpus.job(
        tmp_path,
        sources=sources,
        transcribe={"verdicts": (Plugin(use="empty_text"), rule)},
        package={"formats": ["wenet", "nemo", "hf_parquet"]},
    )


def test_counts_and_action() -> None:
    heard = ScoredTranscript("mail a.b@example.com", "asr", 2.0, language="en")
    assert pii.measure(heard, pii.Settings())["pii_email"] == 1
    assert pii.measure(heard, pii.Settings(kinds=("phone",)))["pii"] == 0
    limit, _ = pii.verdict(pii.Settings(action="drop"))
    assert isinstance(limit, Limit)
    assert limit.max == 0


def test_words_with_times_are_masked_as_one(tmp_path: Path) -> None:
    said = ["call", *PHONE.split(), "now"]
    rows: Any = [
        {"word": f" {word}", "start": float(n), "end": n + 0.5, "probability": 1.0}
        for n, word in enumerate(said)
    ]
    shown = hidden.words(job(tmp_path), rows, "en") or ()
    assert [row["word"].strip() for row in shown] == ["call", "<PHONE>", "now"]
    assert (shown[1]["start"], shown[1]["end"]) == (1.0, 10.5)
    assert hidden.words(job(tmp_path), None, "en") is None


PHONE = "four one five five five five two six seven one"


@pytest.mark.parametrize("action", ["mask", "drop"])
def test_no_published_byte_holds_it(tmp_path: Path, action: str) -> None:
    folder = corpus.make(tmp_path / "in")
    texts = {
        "r00": "Call (415) 555-2671, please!",
        "r01": "four one five five five five two six seven one",
        "r02": "mail jsmith@gmail.com or john dot smith at gmail dot com",
        "r03": "it is 4111 1111 1111 1111 and DE89 3704 0044 0532 0130 00",
    }
    corpus.listed(folder, 10, tmp_path / "list.jsonl", **texts)
    version = corpus.run(job(tmp_path, action=action, masks={"card": "[CARD]"}))[0].path
    rows = corpus.utterances(version)
    shown = sorted(row["text"] for row in rows if row["pii"])
    if action == "mask":
        assert shown == [
            "<PHONE>", "Call <PHONE>, please!", "it is [CARD] and <ACCOUNT>",
            "mail <EMAIL> or <EMAIL>",
        ]  # fmt: skip
        assert sum(row["pii"] for row in rows) == 6
        counts = {"clips": 4, "email": 2, "account": 1, "id": 0, "card": 1, "phone": 2}
        assert json.loads((version / "dataset.json").read_text())["pii"] == counts
        assert "found in 4 packaged clips" in (version / "README.md").read_text()
    else:
        facts = json.loads((version / "dataset.json").read_text())
        assert facts["reasons"]["transcribe.pii"]["items"] == 4
    places = [path for path in version.rglob("*") if path.is_file()]
    places += [path for path in (tmp_path / "out" / "runs").rglob("*") if path.is_file()]
    for path in places:
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data = json.dumps(
                pq.read_table(path).to_pylist(), default=repr, ensure_ascii=False
            ).encode()
        for secret in (
            "555-2671",
            "two six seven one",
            "jsmith@",
            "dot smith",
            "4111 1111",
            "0532 0130",
        ):
            assert secret.encode() not in data, (path, secret)


def test_words_are_muted_and_the_clip_keeps_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version's samples are those of a version without the rule, but for silence."""
    folder = corpus.make(tmp_path / "in")
    corpus.listed(folder, 10, tmp_path / "list.jsonl", r08=f"call {PHONE} now", r07="0 4155552671")
    heard = fake.Backend.transcribe

    def timed(self: Any, clips: Any) -> Any:
        for clip, transcript in zip(clips, heard(self, clips), strict=True):
            if round(len(clip.samples) / fake.Backend.RATE, 1) != 2.0:
                yield transcript
                continue
            said = ["call", *PHONE.split(), "now"]
            times = [Word(w, 0.5 + 0.05 * n, 0.55 + 0.05 * n, 0.9) for n, w in enumerate(said)]
            yield replace(transcript, text=" ".join(said), words=tuple(times))

    monkeypatch.setattr(fake.Backend, "transcribe", timed)
    plain = corpus.run(job(tmp_path, kinds=["email"]))[0].path
    muted = corpus.run(job(tmp_path, mute=True))[0].path
    assert verify(muted) == []
    before, after = (
        {row["source_id"]: row for row in corpus.utterances(v)} for v in (plain, muted)
    )
    assert before.keys() - after.keys() == {"k7"}, "its words have no times"
    row = after["k8"]
    assert row["num_samples"] == before["k8"]["num_samples"] == 32_000
    assert row["sha256"] != before["k8"]["sha256"]
    assert row["muted"] == "8000-17600"
    assert row["text"] == "call <PHONE> now"
    pcm, old = (clip_of(v, row["id"]) for v in (muted, plain))
    assert not pcm[8000:17600].any()
    assert (pcm[:7936] == old[:7936]).all()
    assert (pcm[17664:] == old[17664:]).all()
    same = before.keys() & after.keys() - {"k8"}
    assert all(after[key]["sha256"] == before[key]["sha256"] for key in same)
    ledger = corpus.ledger(muted)
    assert [r["detail"] for r in ledger if r["utterance"] == row["id"]] == ["muted: 8000-17600"]
    [lost] = [r for r in ledger if r["reason"] == "pii_untimed"]
    assert lost["outcome"] == "dropped"
    kept = corpus.run(job(tmp_path, mute=True, untimed="keep"))[0].path
    assert pq.read_table(kept / "utterances.parquet").num_rows == len(before)
    assert clip_of(kept, row["id"]).tobytes() == pcm.tobytes()


def clip_of(version: Path, key: str) -> Any:
    for path in sorted((version / "wenet").rglob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name == f"{key}.wav":
                    file = tar.extractfile(member)
                    assert file
                    return sf.read(BytesIO(file.read()), dtype="int16")[0]
    raise KeyError(key)
