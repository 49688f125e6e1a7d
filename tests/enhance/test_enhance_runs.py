"""The step enhance: runs with it, what changes cost, and what is refused."""

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, random_access
from tests.helpers.format_entries import entries
from tests.helpers.published import sha256
from uttermill.flows import checks, settings
from uttermill.flows.explore import clip
from uttermill.flows.explore.corpus import Corpus, Run
from uttermill.tasks import pipeline
from uttermill.tasks.base import shelves
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.insight import judged, report
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.insight.report.clips import Sample, look_up
from uttermill.tasks.publish.upkeep import verify
from uttermill.tasks.publish.upkeep.prune import KeptSettings
from uttermill.tasks.publish.upkeep.prune import find_unneeded as unneeded
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import enhanced, recipe
from uttermill.tasks.shard_store.shard_view import ShardView
from uttermill.tasks.stages import stage
from uttermill.tasks.storage import versions

QUIETER = "tests.plugins.quieter"


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four recordings."""
    tmp = tmp_path_factory.mktemp("enhance")
    corpus.make(tmp / "in", 4)
    return tmp


@pytest.fixture(scope="module")
def base(four: Path) -> Path:
    """Beside them, an OUT that has their enhanced clips, with real scores."""
    corpus.run(enhancing_job(four, four / "out"))
    return four


@pytest.fixture
def out(base: Path, tmp_path: Path) -> Path:
    """A copy of that OUT."""
    shutil.copytree(base / "out", tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def enhancing_job(base: Path, out: Path, hear: str = "original", **options: Any) -> Job:
    package = {name: options.pop(name) for name in ("audio", "formats") if name in options}
    enhance = Plugin.model_validate({"use": QUIETER, **options})
    return corpus.job(base, out=out, enhance=enhance, transcribe={"hear": hear}, package=package)


@pytest.mark.usefixtures("quick_scores")
@pytest.mark.nightly
def test_people_hear_what_is_packaged(base: Path, tmp_path: Path) -> None:
    """In the report and in the explorer, where the recogniser heard the original and no tar holds
    the clips."""
    job = enhancing_job(base, tmp_path / "out", audio="enhanced", formats=[{"use": "hf_parquet"}])
    version = corpus.run(job)[0].path
    packaged = {row["id"]: row["sha256"] for row in corpus.utterances(version)}
    ledger: Any = corpus.ledger(version)
    shown = [Sample(row) for row in ledger if row["utterance"] in packaged]
    look_up(job, shown)
    stored = ((s.row["utterance"], judged.packed(s.utterance)) for s in shown)
    assert {clip: row and row["sha256"] for clip, row in stored} == packaged
    explored = Explored(job, tmp_path / "home")
    items = explored.items()
    for row in explored.rows(f"SELECT item, id FROM {items.name} WHERE outcome = 'packaged'"):
        pcm, _ = clip.audio_of(explored, items, row["item"])
        assert hashlib.sha256(pcm.astype("<i2").tobytes()).hexdigest() == packaged[row["id"]]
    explored.close()


class Explored(Corpus):
    """An OUT whose last run had this job."""

    def __init__(self, job: Job, home: Path) -> None:
        home.mkdir()
        self._last = Run(home, job)
        super().__init__(job.out, home)

    def run(self) -> Run:
        return self._last


@pytest.mark.usefixtures("quick_scores")
@pytest.mark.nightly
def test_a_run_with_it_and_back(base: Path, tmp_path: Path) -> None:
    """Only what follows from it is computed; without it, the bytes are those of before."""
    plain, _ = corpus.run(corpus.job(base, out=tmp_path / "out"))
    with_it = enhancing_job(base, tmp_path / "out")
    done, counts = corpus.run(with_it)
    assert counts["filter"] == (0, 4)
    assert counts["resample"] == (4, 4)
    assert counts["transcribe"] == (0, 4)  # the original is heard
    old, new = ({r["id"]: r for r in corpus.utterances(v.path)} for v in (plain, done))
    assert {k: r["sha256"] for k, r in old.items()} != {k: r["sha256"] for k, r in new.items()}
    for key, row in new.items():
        assert row["num_samples"] == old[key]["num_samples"]
        assert row["text"] == old[key]["text"]
        assert row["dnsmos_ovrl_enhanced"] is not None
        assert row["dnsmos_ovrl"] is not None
    told = json.loads((done.path / "dataset.json").read_text())
    assert told["settings"]["enhance"]["use"] == QUIETER
    card = (done.path / "README.md").read_text()
    assert f"Enhanced: `{QUIETER}`; enhanced audio is packaged." in card
    assert corpus.run(with_it)[1]["resample"] == (0, 8)
    back, counts = corpus.run(corpus.job(base, out=tmp_path / "out"))
    assert all(computed == 0 for name, (computed, _) in counts.items() if name != "package")
    for name, data in corpus.content(plain.path).items():
        if name.startswith("wenet/") or name == "ledger.parquet":
            assert corpus.content(back.path)[name] == data, name


@pytest.mark.nightly
def test_the_better_clip_is_taken(base: Path, out: Path) -> None:
    always, _ = corpus.run(enhancing_job(base, out))
    better, _ = corpus.run(enhancing_job(base, out, keep_if_better=True))
    original, _ = corpus.run(enhancing_job(base, out, audio="original"))
    rows = [{r["id"]: r for r in corpus.utterances(v.path)} for v in (always, better, original)]
    assert len(rows[0]) == 4
    for key, row in rows[1].items():
        won = row["dnsmos_ovrl_enhanced"] > row["dnsmos_ovrl"]
        assert row["sha256"] == rows[0 if won else 2][key]["sha256"]
        assert rows[0][key]["sha256"] != rows[2][key]["sha256"]


@pytest.mark.nightly
def test_min_ovrl_drops_what_neither_clip_reaches(base: Path, out: Path) -> None:
    rows = corpus.utterances(corpus.run(enhancing_job(base, out))[0].path)
    limit = float(np.median([row["dnsmos_ovrl_enhanced"] for row in rows]))
    strict = enhancing_job(base, out, min_ovrl=limit)
    kept = {row["id"] for row in corpus.utterances(corpus.run(strict)[0].path)}
    assert kept == {row["id"] for row in rows if row["dnsmos_ovrl_enhanced"] >= limit}
    assert 0 < len(kept) < 4
    [ledger] = [corpus.ledger(out / "datasets/latest")]
    gone = [row for row in ledger if row["outcome"] == "dropped"]
    assert {(r["stage"], r["reason"], r["threshold"]) for r in gone} == {
        ("enhance", "low_dnsmos_ovrl", limit)
    }
    assert sum(row["samples"] for row in ledger) == sum(
        round(corpus.seconds_of(n) * corpus.RATES[n]) for n in range(4)
    )
    version = versions.newest(out)
    assert version is not None
    page = report.build(strict, "r", version)
    assert page.count(b'data-reason="enhance.low_dnsmos_ovrl"') >= len(gone)
    either = enhancing_job(base, out, min_ovrl=limit, keep_if_better=True)
    best = {r["id"]: max(r["dnsmos_ovrl"], r["dnsmos_ovrl_enhanced"]) for r in rows}
    kept = {row["id"] for row in corpus.utterances(corpus.run(either)[0].path)}
    assert kept == {name for name, score in best.items() if score >= limit}


NAMING = ("emilia", "hf_parquet", "lhotse_shar", "nemo", "speechbrain", "webdataset")


@pytest.mark.nightly
def test_every_format_names_the_audio_that_it_holds(base: Path, out: Path) -> None:
    """And, where it has measures, those of that audio."""
    job = enhancing_job(base, out, keep_if_better=True, formats=[*NAMING, "wenet"])
    version = corpus.run(job)[0].path
    rows = {row["id"]: row for row in corpus.utterances(version)}
    originals = corpus.utterances(corpus.run(enhancing_job(base, out, audio="original"))[0].path)
    assert {row["audio_is"] for row in originals} == {"original"}
    original = {row["id"]: row["sha256"] for row in originals}
    kinds = {key: row["audio_is"] for key, row in rows.items()}
    assert kinds == {
        key: "original" if row["sha256"] == original[key] else "enhanced"
        for key, row in rows.items()
    }
    assert {*kinds.values()} == {"original", "enhanced"}
    for use in NAMING:
        told = entries(version, use)
        assert {key: entry["audio_is"] for key, entry in told.items()} == kinds, use
    for key, entry in entries(version, "emilia").items():
        column = "dnsmos_ovrl" if kinds[key] == "original" else "dnsmos_ovrl_enhanced"
        assert entry["dnsmos"] == rows[key][column]
    assert verify.verify(version) == []


HOLDING = [*filter(enhanced.holds_both, shelves.names("formats"))]
BOTH: list[dict[str, Any]] = [{"use": use} for use in HOLDING]
BOTH += [{"use": "lhotse_shar", "index": True}, {"use": "webdataset", "energon": True}]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # lhotse leaves that to the GC
@pytest.mark.parametrize("use", BOTH, ids=str)
@pytest.mark.nightly
def test_both_clips_in_one_row(base: Path, out: Path, use: dict[str, Any]) -> None:
    ways, versions = {}, {}
    for audio in ("original", "enhanced", "both"):
        job = enhancing_job(base, out, audio=audio, formats=[use])
        versions[audio] = corpus.run(job)[0].path
        ways[audio] = corpus.utterances(versions[audio])
        assert verify.verify(versions[audio]) == []
    shas = {audio: {r["id"]: r["sha256"] for r in rows} for audio, rows in ways.items()}
    assert shas["both"] == shas["original"]
    assert {r["id"]: r["sha256_enhanced"] for r in ways["both"]} == shas["enhanced"]
    assert "sha256_enhanced" not in ways["enhanced"][0]
    clips = held(versions["both"], use)
    assert {key: pair[0] for key, pair in clips.items()} == shas["original"]
    assert {key: pair[1] for key, pair in clips.items()} == shas["enhanced"]


def held(version: Path, use: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Hashes of both clips by id, as a reader gets them."""
    home = version / use["use"] / "train"
    pairs: dict[str, tuple[str, str]] = {}
    if use["use"] == "webdataset":
        files = {}
        for path in home.glob("*.tar"):
            with tarfile.open(path) as tar:
                for member in tar:
                    if member.name.endswith(".wav") and (file := tar.extractfile(member)):
                        files[member.name] = sha256(io.BytesIO(file.read()))
        keys = {name.partition(".")[0] for name in files}
        return {key: (files[f"{key}.wav"], files[f"{key}.enhanced.wav"]) for key in keys}
    if use["use"] == "lhotse_shar":
        if use.get("index"):  # lhotse 2 reads it: tests.readers
            return {
                row["id"]: (row["sha256"], row["sha256_enhanced"])
                for row in corpus.utterances(version)
            }
        from lhotse import CutSet

        for cut in CutSet.from_shar(in_dir=str(home)):
            heard = (cut.load_audio(), cut.load_enhanced())
            pcm = ((one[0] * 32768).astype("<i2").tobytes() for one in heard)
            first, second = (hashlib.sha256(data).hexdigest() for data in pcm)
            pairs[cut.supervisions[0].id] = first, second
        return pairs
    if use["use"] == "hf_parquet":
        samples = [
            row for path in home.glob("*.parquet") for row in pq.read_table(path).to_pylist()
        ]
        samples = [{**row, **{n: row[n]["bytes"] for n in random_access.CLIPS}} for row in samples]
    else:
        samples = [*random_access.READERS[use["use"]](home)]
    for row in samples:
        first, second = (sha256(io.BytesIO(row[name])) for name in ("audio", "audio_enhanced"))
        pairs[row["id"]] = first, second
    return pairs


@pytest.mark.full
@pytest.mark.usefixtures("quick_scores")
def test_growth_costs_what_is_new(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    heard = tmp_path / "heard"
    job = enhancing_job(tmp_path, tmp_path / "out", heard=str(heard))
    corpus.run(job)
    corpus.add(tmp_path / "in", 3)
    _, counts = corpus.run(job)
    assert counts["resample"] == (2, 6)
    assert len(heard.read_text().splitlines()) == 4


@pytest.mark.nightly
def test_a_clip_that_kills_the_enhancer_falls_alone(tmp_path: Path) -> None:
    for number in (1, 2):
        corpus.add(tmp_path / "in", number)
    job = enhancing_job(tmp_path, tmp_path / "out", how="segv", seconds=corpus.seconds_of(2))
    pipeline.run_shard_stage(job, Executor(), job.out / "scratch")
    stage.run("filter", job, "shard-000000")
    stage.run("resample", job, "shard-000000", isolate=True)
    stage.run("transcribe", job, "shard-000000")
    found = {
        u.recording["path"]: (u.outcome.outcome, u.outcome.stage, u.outcome.reason)
        for u in ShardView(job, "shard-000000").transcribed()
    }
    assert found.pop("r02.wav") == ("failed", "enhance", "crashed")
    assert set(found.values()) == {("packaged", "package", "packaged")}


@pytest.mark.full
@pytest.mark.usefixtures("quick_scores")
def test_a_plan_counts_what_a_run_computes(four: Path, tmp_path: Path) -> None:
    before = corpus.job(four, out=tmp_path / "out")
    corpus.run(before)
    limit = None
    for options in ({}, {"gain": 0.2}, {"gain": 0.2, "hear": "enhanced"}, {"gain": 0.2}):
        least = limit if options == {"gain": 0.2} and before.transcribe.hear == "enhanced" else None
        job = enhancing_job(four, tmp_path / "out", min_ovrl=least, **options)
        told = planning.plan(job, before)
        published, counts = corpus.run(job)
        limit = float(
            np.median([r["dnsmos_ovrl_enhanced"] for r in corpus.utterances(published.path)])
        )
        for name in ("filter", "resample", "transcribe"):
            amount = told.stages[name]
            assert (amount.compute, amount.reuse) == counts[name], (options, name)
        before = job


@pytest.mark.full
@pytest.mark.usefixtures("quick_scores")
def test_prune_keeps_what_the_settings_need(four: Path, tmp_path: Path) -> None:
    """The enhanced clips of settings of now stay, those of former ones go."""
    out = tmp_path / "out"
    corpus.run(enhancing_job(four, out))
    earlier = {part.name for part in corpus.parts(out, "manifests/resample")}
    first, second = (enhancing_job(four, out, gain=gain) for gain in (0.3, 0.5))
    corpus.run(first)
    former = {part.name for part in corpus.parts(out, "manifests/resample")} - earlier
    kept = [
        KeptSettings(job, recipe.weights_of(job.transcribe.recognisers)) for job in (second, first)
    ]
    assert {p.name for p in unneeded(out, "shard-000000", kept[:1], None).manifests} == former
    assert not unneeded(out, "shard-000000", kept, None).manifests


# --- settings -------------------------------------------------------------------------------------


def read(base: Path, *sets: str) -> Job:
    found = settings.read(None, [str(base / "in")], str(base / "out"), list(sets))
    return checks.check_wishes(found)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["transcribe.hear=enhanced"], "transcribe.hear=enhanced needs enhanced clips"),
        (["package.audio=both"], "package.audio=both: the format wenet has one field of audio"),
        (["package.audio=both", "package.formats=[webdataset]"], "choose an enhancer"),
        (["enhance.use=separator_onnx"], "--set enhance.path=FILE"),
        (["enhance.use=deepfilter", "enhance.path=/nowhere"], "pip install"),
        (["enhance.use=gtcrn", "enhance.path=/nowhere"], "uttermill models fetch gtcrn"),
        (["enhance.use=denoise"], "no enhancer 'denoise'"),
        (["enhance.use=deepfilter", "enhance.limit=3"], "limit_db"),
    ],
)
@pytest.mark.full
def test_what_is_refused_before_a_worker_starts(four: Path, sets: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(four, "transcribe.backend.use=fake", *sets)
