"""`uttermill forget`: what a person asks to remove is gone from OUT, and stays out."""

import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.publish.test_prune import recorded
from uttermill.flows.cli import command_line
from uttermill.tasks.publish.upkeep import checkpoints
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import decision_log, manifest
from uttermill.tasks.shard_store.decision_log import Decision
from uttermill.tasks.storage import versions

SECRET = "my telephone number is nobodys business"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight recordings of four speakers in one shard; a person wrote the text of one clip."""
    home = tmp_path_factory.mktemp("forget")
    for number in range(8):
        corpus.add(home / "in" / f"speaker{number % 4}", number)
    (home / "in/speaker1/r05.txt").write_text(SECRET)
    recorded(asked(home))
    row = next(row for row in published(home) if row["recording"].endswith("r05.wav"))
    decision_log.append(home / "out", [Decision(row["id"], "retext", f"{SECRET} indeed")])
    recorded(asked(home))
    return home


@pytest.fixture
def home(base: Path, tmp_path: Path) -> Path:
    shutil.copytree(base, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def asked(home: Path, **changes: Any) -> Job:
    source = {"kind": "folder", "path": str(home / "in"), "name": "c", "speaker": "parent_folder"}
    changes.setdefault("shard", {"hours": 1.0, "settle_seconds": 0.0})
    return corpus.job(home, sources=[source], **changes)


def published(home: Path) -> list[dict[str, Any]]:
    newest = versions.newest(home / "out")
    assert newest is not None
    return corpus.utterances(newest)


def command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    code = command_line.main([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def stored(out: Path) -> str:
    """All that OUT stores beside versions and the runs' logs, as one text: tables by their rows."""
    texts = []
    for path in sorted(out.rglob("*")):
        if not path.is_file() or path.relative_to(out).parts[0] == "datasets":
            continue
        if path.suffix == ".parquet" and "manifests" in path.parts:
            texts.append(repr(pq.ParquetFile(path).read().to_pylist()))
        elif path.suffix != ".pcm" and path.name != "run.log":
            texts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(texts)


def test_a_recording_is_gone_from_what_is_stored_and_from_the_next_version(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = home / "out"
    [row] = [row for row in published(home) if row["recording"].endswith("r05.wav")]
    before = {row["id"] for row in published(home)} - {row["id"]}
    assert SECRET in stored(out)
    size = sum(path.stat().st_size for path in out.rglob("*.pcm"))
    code, answer = command(capsys, "forget", out, "--recording", row["recording"])
    assert (code, answer["recordings"], answer["clips"], answer["texts"]) == (0, 1, 1, 1)
    assert (answer["decisions"], answer["versions"]) == (1, ["v0001", "v0002"])
    rest = stored(out)
    for word in (SECRET, "r05", row["id"], row["sha256"]):
        assert word not in rest, word
    assert sum(path.stat().st_size for path in out.rglob("*.pcm")) == size - 2 * row["num_samples"]

    result, counts = recorded(asked(home))
    # The recordings were copied, so their bytes are looked at again.
    assert {name for name, (computed, _) in counts.items() if computed} == {"shard", "package"}
    assert {row["id"] for row in published(home)} == before
    assert not verify(result.path)
    assert not checkpoints.verify(out).faults
    ledger = pq.read_table(result.path / "ledger.parquet")
    assert not any("r05" in name for name in ledger["recording"].to_pylist())
    described = json.loads((result.path / "dataset.json").read_text())
    assert described["forgotten"] == 1
    card = (result.path / "README.md").read_text()
    assert "1 recording was removed on request" in card
    assert "r05" not in card + (out / "forgotten.jsonl").read_text()
    assert not recorded(asked(home))[0].new, "nothing is left to do"


def test_a_speaker_and_what_comes_of_them_later_stay_out(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also as a copy under another name, and after a change of settings; splits name nobody."""
    splits = {"package": {"splits": {"dev": 0.3}}}
    recorded(asked(home, **splits))
    assert command(capsys, "forget", home / "out", "--speaker", "speaker2")[1]["recordings"] == 2
    corpus.add(home / "in" / "speaker2", 3, seed=99, name="later.wav")
    (home / "in/other").mkdir()
    shutil.copy(home / "in/speaker2/r06.wav", home / "in/other/copied.wav")
    result, _ = recorded(asked(home, **splits))
    assert {row["speaker"] for row in published(home)} == {"speaker0", "speaker1", "speaker3"}
    names = pq.read_table(result.path / "splits.parquet")["name"].to_pylist()
    assert not any("speaker2" in name for name in names)
    assert "speaker2" not in (result.path / "README.md").read_text()
    recorded(asked(home, resample={"rate": 8000}))
    assert {row["speaker"] for row in published(home)} == {"speaker0", "speaker1", "speaker3"}
    for name in ("c/speaker2", "speaker2"):
        code, again = command(capsys, "forget", home / "out", "--speaker", name)
        assert (code, again["recordings"], again["clips"]) == (0, 0, 0), "nothing of them is left"


def test_what_a_kill_interrupts_the_same_command_finishes(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from uttermill.tasks.publish.upkeep import forget

    out = home / "out"

    def killed(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(forget, "_remove", killed)
        assert command_line.main(["forget", str(out), "--recording", "c/speaker1/r05.wav"]) == 130
    capsys.readouterr()
    assert SECRET in stored(out)
    commit = manifest.commit

    def commit_listing(*words: Any, **names: Any) -> Path:
        path = commit(*words, **names)
        return killed() if words[1] == "shard" else path

    with monkeypatch.context() as patched:
        patched.setattr(manifest, "commit", commit_listing)
        assert command_line.main(["forget", str(out), "--recording", "c/speaker1/r05.wav"]) == 130
    capsys.readouterr()
    assert "\n".join(path.name for path in out.rglob("report.html")) == ""
    assert not (out / "manifests/package/facts").exists(), "they go before what names the recording"
    assert command(capsys, "forget", out, "--recording", "c/speaker1/r05.wav")[0] == 0
    assert SECRET not in stored(out)
    recorded(asked(home))
    assert len(published(home)) == 7


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--recording", "c/nothing.wav"], "knows no recording 'c/nothing.wav'"),
        (["--speaker", "nobody"], "knows no speaker 'nobody'"),
        ([], "give --recording R or --speaker S"),
        (["--recording", "a", "--speaker", "b"], "give --recording R or --speaker S"),
    ],
)
def test_what_out_does_not_know_is_refused(
    base: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    code, answer = command(capsys, "forget", base / "out", *words)
    assert code == 2
    assert sentence in answer["error"]
    assert not (base / "out/forgotten.jsonl").exists()
