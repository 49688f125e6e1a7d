"""The calls of `package` with data of every clip or recording in memory: CPU seconds, memory.

    python -m tests.bench.whole_corpus [10000000] [--splits | --select] [--json]

Runs `next_version.choose`, `ledger.layout.plan` and `package.gather` for a first version, then for
a night in which every 300th shard batch is new, each in a process of its own. Their inputs are made
here: digests of clips of 1 to 9 s and of recordings of ten clips, as workers would have written
them, and the notes on the previous version. Nothing is published. With `--select`, clips have rows
and texts, among which splits, weights and `char_duration` choose, and `splits.parquet` is written;
the ledger is left out. `--splits`: the same with splits only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.bench import _scale_out, plan_million
from tests.bench._measured import MIB
from tests.bench.scale import in_process
from uttermill.tasks import corpus, package
from uttermill.tasks.base import schema
from uttermill.tasks.base.schema import LEDGER_FILE
from uttermill.tasks.publish import previous_version, seeded_hash
from uttermill.tasks.publish.choosing import next_version
from uttermill.tasks.publish.choosing.next_version import Choice
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.publish.ledger import layout as ledger_layout
from uttermill.tasks.publish.ledger import ledger_index as ledger_notes
from uttermill.tasks.publish.ledger.ledger_index import Written
from uttermill.tasks.publish.outcomes import recording_digests, shard_batches
from uttermill.tasks.publish.outcomes.shard_batches import DIGESTS, ShardBatch
from uttermill.tasks.publish.output_shards.layout import PlannedShard
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import whole_job
from uttermill.tasks.storage import tables

CLIPS = 4800  # of a group: eight shards of an hour
RATE = 16_000


def make(job: Job, number: int) -> ShardBatch:
    """The digests of a group, and its rows where clips are selected; its other files are never
    read here."""
    chance = np.random.default_rng(number)
    home = shard_batches.home(job.out) / f"{number:08d}"
    home.mkdir(parents=True)
    codes = {
        name: chance.integers(0, 2**64, CLIPS, np.uint64) for name in ("high", "low", "content")
    }
    columns = {
        **codes,
        "samples": chance.integers(RATE, 9 * RATE, CLIPS),
        "rate": np.full(CLIPS, RATE, np.int32),
        "account": codes["low"],
        "accounted": codes["low"],
        "dataset": pa.array(["c"] * CLIPS).dictionary_encode(),
    }
    held = {"accounts.arrow": _accounts(chance)}
    if job.package.splits:
        rows = plan_million.part(number * CLIPS, CLIPS)
        rows = rows.append_column("blob", pa.array(["0" * 16 + ".pcm"] * CLIPS))
        keys = seeded_hash.keys(str(job.package.seed), rows["id"].to_pylist())
        columns |= {"high": keys[:, 0], "low": keys[:, 1]}
        columns["samples"] = rows["num_samples"].to_numpy()
        seconds = columns["samples"] / RATE
        held |= {"rows.arrow": rows, "heard.arrow": _heard(rows, seconds, chance)}
    held["digests.arrow"] = pa.table(columns, schema=DIGESTS)
    files = {}
    for name, table in held.items():
        data = shard_batches.arrow_bytes(table)
        (home / name).write_bytes(data)
        files[name] = hashlib.sha256(data).hexdigest()[:16]
    counts = {"rows": CLIPS, "ledger": 2 * CLIPS, "slices": [(0, 0, 0)] * shard_batches.SLICES}
    facts = {"files": files, "changed": [], **counts}
    (home / "facts.json").write_text(json.dumps(facts))
    return ShardBatch(home, (f"shard-{number:06d}",))


def _heard(rows: pa.Table, seconds: NDArray[np.float64], chance: np.random.Generator) -> pa.Table:
    """Texts of about fourteen characters a second, of which one in a hundred is far too short."""
    rate = chance.normal(14, 2, CLIPS) * np.where(chance.random(CLIPS) < 0.01, 0.1, 1)
    length = np.maximum(seconds * rate, 1).astype(int).tolist()
    columns: dict[str, Any] = {name: rows[name] for name in ("id", "dataset", "recording")}
    columns |= {"seconds": seconds, "text": [("word " * n)[:n] for n in length]}
    columns |= {name: pa.array([True] * CLIPS) for name in ("kept", "published")}
    columns |= {"language": pa.array(["en"] * CLIPS), "native_rate": pa.array([RATE] * CLIPS)}
    blank = {field.name: pa.nulls(CLIPS, field.type) for field in corpus.ROW}
    return pa.table({**blank, **columns}).select(corpus.ROW.names).cast(corpus.ROW)


def _accounts(chance: np.random.Generator) -> pa.Table:
    count = CLIPS // 10
    keys, digests = chance.integers(0, 2**64, (2, count), np.uint64)
    columns = [np.sort(keys), digests, np.full(count, 20), np.zeros(count, bool)]
    return pa.table([*columns, columns[-1]], schema=recording_digests.ACCOUNTS)


def gather(job: Job, scratch: Path, chosen: Choice, digest: str) -> dict[str, Any]:
    """`package.gather` after these, with the counts of a ledger of one part."""
    told = {"sums": [], "recordings": {"c": (CLIPS, 0)}, "broken": {}}
    every = (each.table("accounts.arrow") for each in shard_batches.listed(scratch))
    table = pa.concat_tables(every).replace_schema_metadata({"told": json.dumps(told)})
    name = f"{LEDGER_FILE}/part-00000.parquet"
    noted = Written(name, ("", 0), ledger_notes.save(job.out, table), [], told)
    ledger_notes.note(scratch, 0, [noted])
    found = package.gather(job, scratch, scratch.parent / "staging", chosen, digest)
    return {
        name: getattr(found, name)
        for name in ("fingerprint", "parts", "needed", "balance", "ledger", "firsts")
    }


def publish(job: Job, scratch: Path, gathered: dict[str, Any], frozen: dict[str, Any]) -> None:
    """What the next version looks up of this one."""
    told: list[tuple[str, str | bytes]] = []
    for part in gathered["parts"]:
        planned = json.loads((scratch / f"parts/{part.number}.json").read_text())
        members = [PlannedShard(**each) for each in planned["members"]]
        with pa.memory_map(str(scratch / f"parts/{part.number}.arrow")) as file:
            digests = pa.ipc.open_file(file).read_all().select(previous_version.DIGESTS.names)
        runs = [(each.split, each.generation, each.clips) for each in members]
        told.append((part.name, previous_version.tell(digests, runs, [])))
    version = job.out / "datasets" / "v0001"
    version.mkdir(parents=True)
    files = _scale_out.save_tables(scratch, version)
    tables.write_parquet(version / schema.UTTERANCES_FILE, [schema.UTTERANCES.empty_table()])
    described = {
        "fingerprint": gathered["fingerprint"],
        "balance": gathered["balance"],
        "settings": whole_job.settings_of(job),
        "formats": {"tests.bench._scale_format": 1},
        "frozen": frozen,
        "recordings": {"in": 1},
        "files": files,
    }
    (version / "dataset.json").write_bytes(datacard.sealed(described))
    seal = json.loads((version / "dataset.json").read_text())[datacard.SEAL]
    ledger, firsts = gathered["ledger"], gathered["firsts"]
    previous_version.save(job.out, told, ledger, firsts, seal, job.package.seed)


def steps(job: Job, scratch: Path, clips: int) -> Iterator[tuple[str, int, float, int]]:
    groups = [make(job, number) for number in range(-(-clips // CLIPS))]
    more = max(1, len(groups) // 300)
    for name in ("first version", "night"):
        shard_batches.list_in(scratch, groups)
        count = CLIPS * len(groups)
        chosen, cpu, rss = in_process(next_version.choose, job, scratch)
        yield f"{name}: choose", count, cpu, rss
        digest = ""
        if not job.package.splits:
            planned, cpu, rss = in_process(ledger_layout.plan, job, scratch)
            digest = planned.fingerprint
            yield f"{name}: ledger", count, cpu, rss
        gathered, cpu, rss = in_process(gather, job, scratch, chosen, digest)
        yield f"{name}: gather", count, cpu, rss
        if name == "first version":
            publish(job, scratch, gathered, chosen.frozen)
            groups += [make(job, number) for number in range(len(groups), len(groups) + more)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--select", action="store_true")
    parser.add_argument("--splits", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="whole-") as folder:
        home = Path(folder)
        scratch = home / "scratch"
        scratch.mkdir()
        job = _scale_out.job(home / "out")
        if options.splits:
            job = _scale_out.job(home / "out", {"splits": {"dev": 0.02, "test": 0.02}})
        elif options.select:
            verdicts = (*job.transcribe.verdicts, Plugin(use="char_duration"))
            transcribe = job.transcribe.model_copy(update={"verdicts": verdicts})
            job = replace(job, package=plan_million.SETTINGS, transcribe=transcribe)
        for name, clips, cpu, rss in steps(job, scratch, options.clips):
            found: dict[str, Any] = {"step": name, "clips": clips, "cpu_seconds": round(cpu, 2)}
            found["rss_mb"] = round(rss / MIB)
            print(json.dumps(found) if options.json else _line(**found), flush=True)


def _line(step: str, clips: int, cpu_seconds: float, rss_mb: int) -> str:
    return f"{step:<24}{clips:>12,} clips {cpu_seconds:>9.2f} CPU s {rss_mb:>7} MB"


if __name__ == "__main__":
    main()
