"""A synthetic OUT: checkpoints of all stages, made through the project's own functions.

Recordings have a minute and ten utterances each, and shards an hour. The audio is a sparse file of
the right size, which no step reads.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from uttermill.tasks import plugins, scoring
from uttermill.tasks.base.schema import RECORDINGS, AnyRow, TranscriptRow
from uttermill.tasks.publish.unchanged import UpToDate
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings import (
    FilterSettings,
    PackageSettings,
    Plugin,
    Source,
    TranscribeSettings,
)
from uttermill.tasks.settings.job import Done, Job
from uttermill.tasks.shard_store import blobs, manifest, recipe
from uttermill.tasks.shard_store.index import Index
from uttermill.tasks.shard_store.stored_shard import samples_of
from uttermill.tasks.stages import contract
from uttermill.tasks.stages.stage import PER_SHARD

Row = dict[str, Any]
RATE = 16_000
RECORDING, UTTERANCES = 60 * RATE, 10  # samples, utterances
SHARD = 60  # recordings
WORDS = "the of and to in is that it was for on are as with his they at be this from".split()  # noqa: SIM905


def job(out: Path, package: dict[str, Any] | None = None) -> Job:
    """Default filters and verdicts, the recogniser `fake`, and a format of almost no bytes."""
    source = out.parent / "sources"
    source.mkdir(parents=True, exist_ok=True)
    return Job(
        out=out,
        sources=(Source.model_validate({"kind": "folder", "path": str(source), "name": "c"}),),
        filter=FilterSettings(segmenter=Plugin(use="vad")),
        transcribe=TranscribeSettings(backend=Plugin(use="fake")),
        package=PackageSettings.model_validate(
            {
                "formats": ["tests.helpers.synthetic_format"],
                "max_removed_fraction": 1.0,
                **(package or {}),
            }
        ),
    )


def chained(job: Job) -> tuple[list[str], UpToDate]:
    """The shards of OUT, and the state of a run in which all stages up to transcribe have ended."""
    shards = manifest.shards(job.out)
    state = UpToDate(job, shards, Index(job.out))
    for shard in shards:
        if state.items(shard) is None:
            state.record([Done(stage, shard, 0, 1) for stage in PER_SHARD])
    return shards, state


def shards_for(utterances: int) -> int:
    return -(-utterances // (SHARD * UTTERANCES))


def make(job: Job, number: int, size: int = SHARD) -> str:
    """Commit all checkpoints of one shard of `size` recordings; returns its name."""
    chance = np.random.default_rng(number)
    name = f"shard-{number:06d}"
    recordings = [_recording(number, at, chance) for at in range(size)]
    manifest.commit(job.out, "shard", name, recordings, RECORDINGS, {})
    cuts = [row for each in recordings for row in _cuts(job, each, chance)]
    _commit(job, "filter", name, cuts)
    contents = {each["recording"]: samples_of(each, job.filter) for each in recordings}
    audio = _audio(job, cuts, contents)
    end = audio[-1]["offset"] + 2 * audio[-1]["num_samples"]
    blob = blobs.folder(job.out, name) / audio[0]["blob"]
    blob.parent.mkdir(parents=True, exist_ok=True)
    with blob.open("wb") as file:
        file.truncate(end)
    _commit(job, "resample", name, audio)
    _commit(job, "transcribe", name, [_transcript(job, row, chance) for row in audio])
    return name


def _commit(job: Job, stage: str, shard: str, rows: Sequence[AnyRow]) -> None:
    module = contract.find(stage)
    manifest.commit(job.out, stage, shard, rows, module.SCHEMA, module.meta(job))


def _recording(shard: int, at: int, chance: np.random.Generator) -> Any:
    path = f"{shard // 100:03d}/recording-{shard:06d}-{at:03d}.flac"
    known: Row = {
        "recording": f"c/{path}",
        "dataset": "c",
        "path": path,
        "source_path": f"/data/c/{path}",
        "locator": Locator(path).dumps(),
        "size": 2 * RECORDING,
        "guard": f"{shard}-{at}",
        "content": hashlib.sha256(path.encode()).hexdigest(),
        "header_rate": RATE,
        "header_channels": 1,
        "header_seconds": RECORDING / RATE,
        "format": "flac/pcm_16",
        "speaker": f"s{int(chance.zipf(1.3)) % 5000}" if at % 2 else None,
        "listed": recipe.digest(path),
        "present": True,
    }
    return {**dict.fromkeys(RECORDINGS.names), **known}


def _cuts(job: Job, recording: Any, chance: np.random.Generator) -> list[Row]:
    cut = recipe.cut_recipes(job.filter.segmenter)(samples_of(recording, job.filter), None)
    base = {"cut": cut, "recording": recording["recording"]}
    facts = {"decoded": RECORDING, "rate": RATE, "channels": 1, "decode_faults": 0}
    rows: list[Row] = [{**base, "kind": "recording", **facts, "faults": [], "notes": []}]
    columns = [c for p in job.filter.filters for c in plugins.FILTERS.load(p.use).COLUMNS]
    edges = np.sort(chance.choice(RECORDING // 1600, 2 * UTTERANCES, replace=False)) * 1600
    at = 0
    for start, end in edges.reshape(-1, 2).tolist():
        if start > at:
            rows.append({**base, "kind": "non_speech", "start": at, "end": start})
        values = dict(zip(columns, (chance.random(len(columns)) * 1e-3).tolist(), strict=True))
        values |= {"duration": (end - start) / RATE, "decode_faults": 0.0}
        if "decode_faults" not in columns:
            del values["decode_faults"]
        span = {"kind": "utterance", "start": start, "end": end, "measures": list(values.items())}
        rows.append({**base, **span})
        at = end
    if at < RECORDING:
        rows.append({**base, "kind": "non_speech", "start": at, "end": RECORDING})
    return rows


def _audio(job: Job, cuts: list[Row], contents: dict[str, str]) -> list[Row]:
    rows: list[Row] = []
    offset = 0
    for row in cuts:
        if row["kind"] != "utterance":
            continue
        start, end = row["start"], row["end"]
        made = recipe.audio_recipes(job.resample)(contents[row["recording"]])(start, end)
        known = {"audio": made, "recording": row["recording"], "start": start, "end": end}
        known |= {
            "rate": RATE,
            "num_samples": end - start,
            "offset": offset,
            "blob": "0" * 16 + ".pcm",
        }
        rows.append({**known, "sha256": hashlib.sha256(made.encode()).hexdigest()})
        offset += 2 * (end - start)
    return rows


def _transcript(job: Job, audio: Row, chance: np.random.Generator) -> TranscriptRow:
    words = max(1, round(2.5 * audio["num_samples"] / RATE))
    text = " ".join(WORDS[n] for n in chance.integers(0, len(WORDS), words).tolist())
    row: TranscriptRow = {
        "transcript": recipe.of_transcript(
            job.transcribe.backend,
            recipe.weights_of(job.transcribe.recognisers),
            audio["audio"],
            None,
        ),
        "audio": audio["audio"],
        "raw_text": text,
        "text": text,
        "normalised": text,
        "language": "en",
        "language_probability": 0.99,
        "avg_logprob": -0.2,
        "no_speech_probability": 0.01,
        "compression_ratio": 1.5,
        "detected_language": "en",
        "detected_probability": 0.99,
        "speech_seconds": audio["num_samples"] / RATE,
        "speech_after_text": 0.0,
    }
    return scoring.scored(row, None, None)
