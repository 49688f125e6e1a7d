"""What the rule `pii` hides comes out nowhere: not of a version, a report, a command or the
explorer; and muted words are heard nowhere. Checkpoints keep both."""

import base64
import contextlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from starlette.testclient import TestClient

from tests.explore.test_explore import client_of, get
from tests.helpers import corpus
from tests.insight.test_report import recorded
from uttermill.flows import cli
from uttermill.flows.run import report
from uttermill.tasks.asr import fake
from uttermill.tasks.base import shelves
from uttermill.tasks.insight.report import clips
from uttermill.tasks.plugins.contracts.asr import Word
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import decision_log

SAID = ["call", "four", "one", *["five"] * 4, "two", "six", "seven", "one", "now"]
SECRETS = ("two six seven one", "two, six", '"seven"', " seven", "555-2671", "5552671", "2671")
SECONDS = {2.0: 0.0, 1.6: -9.0}  # of clips whose words have times: their log-probability


def asked(home: Path, mute: bool = True, **package: Any) -> Job:
    """A job on ten recordings; three say a number."""
    rules: list[dict[str, Any]] = [
        {"use": "empty_text"},
        {"use": "logprob", "min": -2.0, "unless_wer": None},
    ]
    rules += [{"use": "pii", "mute": mute}, {"use": "tests.plugins.moods"}]
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c", "language": "en"}
    return corpus.job(
        home,
        sources=[source],
        transcribe={"verdicts": [Plugin.model_validate(rule) for rule in rules]},
        package=package,
    )


def spoken(self: Any, clips: Any) -> Iterator[Any]:
    for clip, transcript in zip(clips, HEARD(self, clips), strict=True):
        seconds = round(len(clip.samples) / fake.Backend.RATE, 1)
        if seconds not in SECONDS:
            yield transcript
            continue
        words = [Word(w, 0.5 + 0.05 * n, 0.55 + 0.05 * n, 0.9) for n, w in enumerate(SAID)]
        yield replace(
            transcript, text=" ".join(SAID), words=tuple(words), avg_logprob=SECONDS[seconds]
        )


HEARD = fake.Backend.transcribe


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Job, Path]]:
    """An OUT whose second run mutes what the first one published."""
    home = tmp_path_factory.mktemp("hidden")
    folder = corpus.make(home / "in")
    texts = {
        "r06": "call 4155552671 now",
        "r07": "it is (415) 555-2671",
        "r08": "call 555-2671 now",  # no whole number: what was heard is one
    }
    corpus.listed(folder, 10, home / "list.jsonl", **texts)
    others = ("metadata_csv", "duplex")  # `duplex` mutes nothing, and is refused with `mute`
    formats = [{"use": use} for use in shelves.names("formats") if use not in others]
    formats += [{"use": "metadata_csv", "profile": "hf_audiofolder"}]
    package: dict[str, Any] = {"formats": formats, "publish": ("words", "moods_words")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake.Backend, "transcribe", spoken)
        recorded(asked(home, mute=False, formats=[{"use": "wenet"}]))
        job = asked(home, **package)
        yield job, recorded(job)


@pytest.fixture
def client(made: tuple[Job, Path], tmp_path: Path) -> TestClient:
    return client_of(made[0].out, tmp_path / "home")


def secrets_of(data: bytes) -> list[str]:
    return [secret for secret in SECRETS if secret.encode() in data]


def version_of(job: Job) -> Path:
    return job.out / "datasets" / "v0002"


def rows_of(job: Job) -> dict[str, dict[str, Any]]:
    rows = corpus.utterances(version_of(job))
    return {row["source_id"]: row for row in rows}


def ledger_of(job: Job) -> list[Any]:
    return corpus.ledger(version_of(job))


def content(path: Path) -> bytes:
    """A file's bytes; of a table, its values; of a tar, its texts."""
    if path.suffix == ".parquet":
        columns = pq.read_table(path).to_pylist()
        return json.dumps(columns, default=repr, ensure_ascii=False).encode()
    if path.suffix == ".tar":
        with tarfile.open(path) as tar:
            texts = [m for m in tar if m.name.endswith((".json", ".txt"))]
            files = [tar.extractfile(member) for member in texts]
            return b"\n".join(file.read() for file in files if file)
    return b"" if path.suffix in (".wav", ".pcm") else path.read_bytes()


def test_no_file_of_a_version_or_a_run_holds_a_hidden_text(made: tuple[Job, Path]) -> None:
    job, run = made
    assert verify(version_of(job)) == []
    places = [path for home in (version_of(job), run) for path in home.rglob("*") if path.is_file()]
    assert len({path.parts[len(version_of(job).parts)] for path in places}) > 15
    leaks = {str(path): found for path in places if (found := secrets_of(content(path)))}
    assert leaks == {}
    reasons = {row["recording"][-7:-4]: row["reason"] for row in ledger_of(job)}
    assert (reasons["r06"], reasons["r07"]) == ("low_logprob", "pii_untimed")
    row = rows_of(job)["k8"]
    assert row["text"] == "call <PHONE> now"
    assert [word["word"] for word in row["word_times"]] == ["call", "<PHONE>", "now"]
    first = pq.read_table(job.out / "datasets/v0001/utterances.parquet")["hypothesis"].to_pylist()
    assert "call <PHONE> now" in first


@pytest.mark.nightly
def test_no_command_prints_it(made: tuple[Job, Path], capsys: pytest.CaptureFixture[str]) -> None:
    job, _ = made
    out, version = str(job.out), str(version_of(job))
    asked = [["status", out], ["ledger", out, "--items"], ["ledger", out, "--items", "--csv"]]
    asked += [["what-if", out, "--set", "transcribe.verdicts.pii.mute=false"], ["verify", version]]
    asked += [["list", version, "--format", name] for name in shelves.names("formats")]
    asked += [["review", "export", out], ["report", out]]
    for words in asked:
        with contextlib.suppress(SystemExit):
            cli.main(words)
        printed = capsys.readouterr()
        assert secrets_of((printed.out + printed.err).encode()) == [], words


def silent(data: bytes, begin: float = 0.0) -> bool:
    """Whether the words of the number are in a WAV; `begin`: of it, in s of the recording."""
    pcm, rate = sf.read(io.BytesIO(data), dtype="int16")
    low, high = (round((second - begin) * rate) for second in (0.55, 1.05))
    return not bool(pcm[low:high].any())


def test_the_explorer_neither_shows_nor_plays_it(client: TestClient) -> None:
    rows = get(client, "/api/rows", limit=100)["rows"]
    assert len(rows) == 10
    seen = client.get("/api/rows", params={"limit": 100}).content
    seen += client.get("/api/export/jsonl").content
    seen += client.get("/api/sql", params={"sql": "SELECT * FROM items"}).content
    seen += client.get("/api/table", params={"by": "word"}).content
    played: dict[str, list[bool]] = {}
    for row in rows:
        seen += client.get(f"/api/clip/{row['item']}").content
        name = Path(row["recording"]).stem
        for wish, begin in (({}, 0.0), ({"around": "1"}, 0.0), ({"start": 0.1, "end": 1.2}, 0.1)):
            sound = client.get(f"/api/audio/{row['item']}", params=wish)
            if sound.status_code == 200 and row["seconds"] > 1.2:
                played.setdefault(name, []).append(silent(sound.content, begin))
    assert secrets_of(seen) == []
    assert played.pop("r08") == played.pop("r06") == played.pop("r07") == [True] * 3
    assert not any(any(plays) for plays in played.values()), "control: others are heard"


def test_the_report_neither_shows_nor_plays_it(made: tuple[Job, Path]) -> None:
    job, run = made
    page = report.page(job, run)
    assert secrets_of(page) == []
    said = [
        clips.Sample(row)
        for row in ledger_of(job)
        if row["recording"][-7:-4] in ("r06", "r07", "r08")
    ]
    clips.look_up(job, said)
    clips.make(job.out, said)
    for sample in said:
        assert sample.utterance
        assert (muted := sample.utterance.muted)
        assert secrets_of(f"{sample.text} {sample.heard} {sample.reference}".encode()) == []
        sound = base64.b64decode((sample.media.audio or "").partition(",")[2])
        pcm, rate = sf.read(io.BytesIO(sound), dtype="int16")
        low, high = round(0.6 * rate), round(1.0 * rate)
        assert abs(pcm[low:high]).max() < 8 < abs(pcm).max() or muted.startswith("0-")


@pytest.mark.usefixtures("quick_scores")
def test_both_audios_and_their_features_are_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake.Backend, "transcribe", spoken)
    corpus.listed(corpus.make(tmp_path / "in"), 10, tmp_path / "list.jsonl")
    for audio, use in (("both", "webdataset"), ("enhanced", "features")):
        job = asked(tmp_path, formats=[{"use": use}], audio=audio)
        job = replace(job, enhance=Plugin(use="tests.plugins.quieter"))
        version = corpus.run(job)[0].path
        assert verify(version) == []
        [key] = [row["id"] for row in corpus.utterances(version) if row["muted"]]
        with tarfile.open(next(version.rglob("*.tar"))) as tar:
            members = [member for member in tar if member.name.startswith(key)]
            for member in members:
                file = tar.extractfile(member)
                data = file.read() if file else b""
                if member.name.endswith(".wav"):
                    assert silent(data), member.name
                elif member.name.endswith(".npy"):
                    bands = np.load(io.BytesIO(data))
                    assert bands[60:100].max() < bands[:40].mean() - 3
        assert len(members) == (4 if audio == "both" else 3)


def test_the_explorer_hides_it_where_no_run_is_kept(made: tuple[Job, Path], tmp_path: Path) -> None:
    """What the version itself says is muted stays so, and checkpoints' texts are not shown."""
    out = tmp_path / "out"
    shutil.copytree(made[0].out, out, symlinks=True)
    shutil.rmtree(out / "runs")
    client = client_of(out, tmp_path / "home")
    answer = client.get("/api/rows", params={"limit": 100})
    assert secrets_of(answer.content) == []
    [row] = [row for row in answer.json()["rows"] if "r08" in row["recording"]]
    sound = client.get(f"/api/audio/{row['item']}", params={"around": "1"})
    assert silent(sound.content)


@pytest.mark.full
def test_an_open_explorer_hides_what_the_next_run_hides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had read the version, and judged its utterances, before."""
    monkeypatch.setattr(fake.Backend, "transcribe", spoken)
    folder = corpus.make(tmp_path / "in")
    corpus.listed(folder, 10, tmp_path / "list.jsonl", r06="call 4155552671 now")
    job = asked(tmp_path)
    open_rules = tuple(rule for rule in job.transcribe.verdicts if rule.use != "pii")
    recorded(replace(job, transcribe=job.transcribe.model_copy(update={"verdicts": open_rules})))
    client = client_of(job.out, tmp_path / "home")
    [item] = [row["item"] for row in get(client, "/api/rows")["rows"] if "r06" in row["recording"]]

    def shown() -> tuple[list[str], bool]:
        about: dict[str, Any] = {"version": 1, "in.outcome": "dropped"}
        data = client.get("/api/rows", params=about).content
        data += client.get("/api/export/jsonl", params=about).content
        data += client.get(f"/api/clip/{item}", params=about).content
        sql = "SELECT text FROM items WHERE outcome = 'dropped'"
        data += client.get("/api/sql", params={"sql": sql, **about}).content
        sound = client.get(f"/api/audio/{item}", params=about).content
        return secrets_of(data), silent(sound)

    leaks, muted = shown()
    assert leaks
    assert not muted
    recorded(job)
    assert shown() == ([], True)


def test_the_explorer_hides_it_in_what_people_wrote(made: tuple[Job, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(made[0].out, out, symlinks=True)
    client = client_of(out, tmp_path / "home")
    clip = get(client, "/api/rows")["rows"][0]["id"]
    number = "call 4155552671 now"
    written = {"id": clip, "decision": "retext", "text": number, "note": f"she says {number}"}
    answer = client.post("/api/reviews", json={"decisions": [written, written]})
    assert answer.status_code == 200
    assert secrets_of(answer.content + client.get("/api/reviews").content) == []
    [first, _] = get(client, "/api/reviews")["decisions"]
    assert (first["text"], first["note"]) == ("call <PHONE> now", "she says call <PHONE> now")
    assert secrets_of(decision_log.stored(out)), "the next run gets what was written"
