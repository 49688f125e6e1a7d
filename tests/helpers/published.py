"""What a format makes of rows, without a run: for tests that read it by another library."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import soundfile as sf

from uttermill.tasks import plugins, storage
from uttermill.tasks.base.schema import ADDED, UTTERANCES
from uttermill.tasks.formats import Hashes, Output, OutputShard
from uttermill.tasks.publish.output_shards import format_shards, layout
from uttermill.tasks.settings import PackageSettings, Plugin
from uttermill.tasks.shard_store.blobs import Pcm

RATE = 16000
MEASURES = {"dnsmos_ovrl": 3.25, "snr": None, "silence_fraction": 0.5, "duration": 9.0}
TEXTS = (
    "plain words", "广州话 录音", "مرحبا بالعالم", "👩‍👩‍👧 emoji 🎙", 'say "it\'s" \\ / ok',
    "élève e\u0301",
)  # fmt: skip

Row = dict[str, Any]  # of utterances.parquet, as a test changes it


def pcm(number: int) -> Pcm:
    """0.13 s and more, of full scale, a length of its own for each; int16 [n]."""
    samples = np.random.default_rng(number).integers(-32768, 32768, 2101 + 37 * number)
    samples[:2] = -32768, 32767
    return samples.astype(np.int16)


def row(number: int, **changes: Any) -> Row:
    """A clip without a speaker, the only one of its recording."""
    samples = pcm(number)
    facts = {
        "id": f"d-r{number:02d}-{number:016x}-00000500-00000900", "source_id": f"key {number}",
        "dataset": "d", "split": "train", "recording": f"d/r{number:02d}.wav", "start": 0.5,
        "end": 0.9, "num_samples": len(samples), "sample_rate": RATE,
        "text": TEXTS[number % len(TEXTS)], "text_source": "reference",
        "language": "en", "avg_logprob": -0.25, "words": 2,
        "sha256": hashlib.sha256(samples.tobytes()).hexdigest(),
    }  # fmt: skip
    return {**dict.fromkeys(UTTERANCES.names), **MEASURES, **facts, **changes, "number": number}


def turn(speaker: str, start: float, end: float, text: str | None, **more: Any) -> Row:
    """A turn of a clip, whose words last equally long."""
    said = (text or "").split()
    step = (end - start) / max(len(said), 1)
    words = [
        {"word": f" {word}", "start": start + n * step, "end": start + (n + 1) * step,
         "probability": 0.5}
        for n, word in enumerate(said)
    ]  # fmt: skip
    facts: Row = {"number": int(speaker[-1]), "start": start, "end": end, "backchannel": False}
    facts |= {"channel": None, "text": text, "words": words if text else None}
    return {"speaker": speaker, **facts, **more}


def publish(
    home: Path, use: str, groups: Sequence[Sequence[Row]], noted: Hashes | None = None,
    **settings: Any,
) -> list[OutputShard]:  # fmt: skip
    """Write these groups, each of one split, and read them back as `verify` does; `noted` gets what
    `write` noted."""
    fields = [*UTTERANCES, *(pa.field(name, pa.float64()) for name in MEASURES)]
    flat = [each for group in groups for each in group]
    fields += [ADDED.field("turns")] if "turns" in flat[0] else []
    table = pa.Table.from_pylist(flat, schema=pa.schema(fields))
    home.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, home / "utterances.parquet")
    plugin = Plugin.model_validate({"use": use, **settings})
    module, checked = plugins.FORMATS.resolve(plugin)
    whole = format_shards.with_places(table, format_shards.places([plugin], table.select))
    numbers = {each["id"]: each["number"] for each in flat}
    made: list[OutputShard] = []
    at = 0
    for index, group in enumerate(groups):
        split = group[0]["split"]
        rows, at = whole.slice(at, len(group)), at + len(group)
        number = sum(shard.split == split for shard in made)
        names = module.files(split, number, format_shards.visible(module, rows), checked)
        shard = OutputShard(use, split, number, index, len(group), tuple(names))
        given = format_shards.rows_for(module, rows, "id")
        hashes: Hashes = {}
        out = Output(home, hashes)
        module.write(shard, given, lambda row: pcm(numbers[row["id"]]), out, checked)
        assert hashes == {name: storage.hashed(home / name) for name in hashes}
        if noted is not None:
            noted |= hashes
        for known in ({}, hashes):
            given = format_shards.rows_for(module, rows)
            assert module.check(shard, given, Output(home, known), checked) == []
        assert all((home / name).is_file() for name in names)
        made.append(shard)
    module.finish(made, home, checked)
    return made


def sha256(file: Any) -> str:
    """Of the int16 PCM of a path or a file object, by libsndfile."""
    samples, rate = sf.read(file, dtype="int16")
    assert rate == RATE
    assert samples.ndim == 1
    return hashlib.sha256(samples.tobytes()).hexdigest()


def laid_out(
    table: pa.Table,
    settings: PackageSettings,
    generation: int,
    before: pa.Table | None = None,
    before_settings: dict[str, Any] | None = None,
) -> list[layout.ShardClips]:
    """Groups of all rows of `table` (columns id, split, num_samples, sample_rate). `before`: the
    previous version's utterances, in its order."""
    clips = layout.clips_of(table, settings)
    then = None
    if before is not None:
        now = pc.index_in(before["id"], table["id"]).fill_null(-1).to_numpy().astype(np.int64)
        groups = layout.published_shards([before])
        then = layout.Before(groups, now)
    return layout.lay_out_clips(clips, settings, generation, then, before_settings)
