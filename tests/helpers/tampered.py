"""A small OUT with all that commands look at, and ways in which somebody may tamper with it."""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.helpers import corpus
from uttermill.flows import cli, settings
from uttermill.flows.explore import clip
from uttermill.flows.explore.corpus import Corpus
from uttermill.flows.run import report, run_folder
from uttermill.tasks import pipeline
from uttermill.tasks.base.errors import MillError
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.shard_store.recipe import digest
from uttermill.tasks.storage import tables

SHARD = "shard-000000"
SECRET = "years of work\n" * 2000


def make(tmp: Path) -> Path:
    """An OUT with two runs and a version in several formats; returns it. Its settings lie beside
    it, `settings.yaml`, and a folder that is nobody's business but the user's, `victim`."""
    corpus.make(tmp / "in", 3)
    data = {
        "sources": [{"kind": "folder", "path": str(tmp / "in"), "name": "c"}],
        "out": str(tmp / "out"),
        "shard": {"settle_seconds": 0},
        "transcribe": {"backend": {"use": "fake"}},
        "package": {
            "formats": [
                "wenet",
                "kaldi",
                "wenet_raw",
                "nemo",
                "speechbrain",
                "metadata_csv",
                "chat_jsonl",
            ]
        },
    }
    (tmp / "settings.yaml").write_text(yaml.safe_dump(data))
    run(tmp / "out")
    victim = tmp / "victim"
    victim.mkdir()
    for name in ("thesis.txt", f"{16 * '0'}.pcm", f"000000-{16 * '0'}.parquet", ".draft.tmp"):
        (victim / name).write_text(SECRET)
    (victim / ".staging").mkdir()
    (victim / ".staging/draft.txt").write_text(SECRET)
    shutil.copytree(tmp / "out/datasets/v0001", victim / "v0001", symlinks=True)
    return tmp / "out"


def run(out: Path, *sets: str) -> dict[str, tuple[int, int]]:
    """A run in this process, with what it leaves in OUT/runs; items computed and reused."""
    manifest._parts.clear()  # of another process
    chosen = settings.read(str(out.parent / "settings.yaml"), [], None, [f"out={out}", *sets])
    with run_folder.record(out, chosen) as record:
        published, stages = pipeline.run_here(chosen.job())
        record.finish({"stages": stages, "dataset": str(published.path)})
    return corpus.counts(stages)


def looking(out: Path) -> list[list[str]]:
    """Commands that look at an OUT."""
    file = str(out.parent / "settings.yaml")
    return [
        ["status", str(out)],
        ["plan", file, "--set", f"out={out}", "--set", "filter.measure_all=true"],
        ["ledger", str(out)],
        ["ledger", str(out), "--items"],
        ["what-if", str(out), "--set", "transcribe.close_wer=0.5"],
        ["prune", str(out), "--keep", "1", "--keep-recipes"],
        ["verify", str(out)],
        ["verify", str(out / "datasets/latest"), "--deep"],
        ["review", "export", str(out)],
        *(["list", str(out), "--format", use] for use in ("wenet", "kaldi", "wenet_raw")),
        *(["list", str(out), "--format", use] for use in ("nemo", "speechbrain")),
        *(["list", str(out), "--format", use] for use in ("metadata_csv", "chat_jsonl")),
    ]


def look(out: Path) -> list[int]:
    """Run them all, and what the explorer and the report read; their exit codes."""
    manifest._parts.clear()
    codes = [cli.main([*words, "--json"]) for words in looking(out)]
    home = out.parent / "scratch"
    home.mkdir(exist_ok=True)
    with suppress(MillError, duckdb.Error):
        explored = Corpus(out, home)
        try:
            items = explored.items()
            for row in explored.rows(f"SELECT * FROM {items.name}"):
                with suppress(MillError):
                    clip._tar(explored, items, row["item"])
                    explored.utterance(row["recording"], row["id"])
        finally:
            explored.close()
    shutil.rmtree(home)
    with suppress(MillError, OSError):
        report.page(run_folder.settings_of(out).job(), run_folder.newest(out))
    return codes


Tree = dict[str, tuple[int, int, bytes]]


def tree(folder: Path) -> Tree:
    """Mode, mtime, and bytes or target of everything below a folder, by name."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = b""
        if path.is_symlink():
            data = os.fsencode(os.readlink(path))
        elif path.is_file():
            data = path.read_bytes()
        found[path.relative_to(folder).as_posix()] = status.st_mode, status.st_mtime_ns, data
    return found


# Ways to tamper: each takes OUT; outside of it, beside it, lies `victim`.


def part_of(out: Path, stage: str) -> Path:
    (path,) = (out / "manifests" / stage / SHARD).glob("*.parquet")
    return path


def with_rows(out: Path, stage: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Other rows in a manifest, under the name that their bytes have."""
    path = part_of(out, stage)
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), target)
    name = hashlib.sha256(target.getvalue()).hexdigest()[:16]
    path.unlink()
    path.with_name(f"000000-{name}.parquet").write_bytes(target.getvalue())


def blob_named(name: str) -> Callable[[Path], None]:
    def tamper(out: Path) -> None:
        with_rows(out, "resample", lambda rows: rows[0].update(blob=name, offset=0))
        shutil.rmtree(out / "datasets")
        shutil.rmtree(out / "manifests/package")

    return tamper


def outcome_named(column: str, name: str) -> Callable[[Path], None]:
    """In what a run keeps of its verdicts, sealed as it seals them; the version is to be made."""

    def tamper(out: Path) -> None:
        (home,) = (out / "manifests/package/facts").iterdir()
        table = pa.ipc.open_file(home / "rows.arrow").read_all()
        place = table.schema.get_field_index(column)
        values = pa.array([name] * len(table), pa.string())
        table = table.set_column(place, table.schema.field(place), values)
        tables.write_arrow(home / "rows.arrow", [table])
        facts = json.loads((home / "facts.json").read_text())
        data = (home / "rows.arrow").read_bytes()
        facts["files"]["rows.arrow"] = hashlib.sha256(data).hexdigest()[:16]
        (home / "facts.json").write_text(json.dumps(facts))
        shutil.rmtree(out / "datasets")

    return tamper


def facts_name(out: Path) -> None:
    (home,) = (out / "manifests/package/facts").iterdir()
    facts = json.loads((home / "facts.json").read_text())
    facts["files"]["../../../../../victim/thesis.txt"] = 16 * "0"
    (home / "facts.json").write_text(json.dumps(facts))


def index_names(out: Path) -> None:
    """In the list of OUT's files."""
    path = out / "manifests/index.json"
    noted = json.loads(path.read_text())
    del noted["sha256"]
    noted["files"] = ["audio/../../victim/0.pcm", "/etc/passwd", f"manifests/x\0/{SHARD}/a.parquet"]
    path.write_text(json.dumps({**noted, "sha256": digest(noted)}))


def described(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Another dataset.json, sealed as a run seals it."""
    path = out / "datasets/v0001/dataset.json"
    known = json.loads(path.read_text())
    change(known)
    path.write_bytes(datacard.sealed(known))


def version_files(out: Path) -> None:
    """In dataset.json."""
    entry = {"sha256": hashlib.sha256(SECRET.encode()).hexdigest(), "bytes": len(SECRET)}
    outside = ("../../../victim/thesis.txt", str(out.parent / "victim/thesis.txt"), "a/../../x")
    described(out, lambda known: known["files"].update(dict.fromkeys(outside, entry)))


def published_columns(**values: str) -> Callable[[Path], None]:
    def tamper(out: Path) -> None:
        path = out / "datasets/v0001/utterances.parquet"
        table = pq.read_table(path)
        for name, value in values.items():
            place = table.schema.get_field_index(name)
            column = pa.array([value] * len(table), pa.string())
            table = table.set_column(place, table.schema.field(place), column)
        pq.write_table(table, path)
        data = path.read_bytes()
        entry = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        described(out, lambda known: known["files"].update({path.name: entry}))

    return tamper


def split_named(out: Path) -> None:
    name = "../../../../victim"
    described(out, lambda known: known["splits"].update({name: known["splits"]["train"]}))
    (out.parent / "victim/data.list").write_text("outside\n")


def list_lines(out: Path) -> None:
    version = out / "datasets/v0001"
    outside = "../../../victim/thesis.txt"
    (version / "wenet/train/data.list").write_text(f"{outside}\n")
    (version / "kaldi/train/wav.scp").write_text(f"a {outside}\n")
    (version / "wenet_raw/train/data.list").write_text(f'{{"key": "a", "wav": "{outside}"}}\n')
    (version / "nemo/train/tarred_audio_manifest.json").write_text(
        '{"shard_id": "0/../../../../victim/x"}\n'
    )
    line = f'"a": {{"wav": "{{data_root}}/{outside}"}}'
    (version / "speechbrain/train.json").write_text(f"{{\n{line}\n}}\n")
    (version / "metadata_csv/train/metadata.csv").write_text(f"{outside}|a|a\n")
    (version / "chat_jsonl/train.jsonl").write_text(f'{{"audios": ["{outside}"]}}\n')


def linked(name: str, target: str, keep: bool = False) -> Callable[[Path], None]:
    """A link in place of a file or folder of OUT, or of each that matches; `keep`: what was there
    lies where the link leads."""

    def tamper(out: Path) -> None:
        for place in [*out.glob(name)] or [out / name]:
            goal = out.parent / target
            if keep:
                shutil.move(place, goal)
            elif place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
            place.symlink_to(goal)

    return tamper


LONG = f"{300 * 'x'}.pcm"
NAMES: Sequence[str] = (
    "../../../victim/thesis.txt", "/etc/passwd", "a\0b.pcm", "..\\..\\x.pcm", "", ".", "..", LONG,
    f"../{SHARD}/{16 * '0'}.pcm", f"{16 * '0'}.pcm\n",
)  # fmt: skip
IN_FILES = {
    "blob of a manifest": blob_named(NAMES[0]),
    "blob of an outcome": outcome_named("blob", "../../../victim/thesis.txt"),
    "shard of an outcome": outcome_named("work_shard", "../../victim"),
    "facts of outcomes": facts_name,
    "index": index_names,
    "files of dataset.json": version_files,
    "splits of dataset.json": split_named,
    "shard of utterances": published_columns(shard="../../../victim/thesis.txt"),
    "split of utterances": published_columns(split="../../../../victim"),
    "id of utterances": published_columns(id="../../../../../victim/thesis"),
    "lines of lists": list_lines,
}
LINKS = {
    "latest": linked("datasets/latest", "victim/v0001"),
    "a version": linked("datasets/v0001", "victim/v0001"),
    "a format": linked("datasets/v0001/wenet", "victim"),
    "a list": linked("datasets/v0001/wenet/train/data.list", "victim/thesis.txt"),
    "a tar": linked("datasets/v0001/wenet/train/*.tar", "victim/thesis.txt"),
    "a table": linked("datasets/v0001/utterances.parquet", "elsewhere.parquet", keep=True),
    "dataset.json": linked("datasets/v0001/dataset.json", "elsewhere.json", keep=True),
    "staging": linked("datasets/.staging", "victim"),
    "leftovers": linked("datasets/.pruned-v0000", "victim"),
    "shard of audio": linked(f"audio/{SHARD}", "victim"),
    "a blob": linked(f"audio/{SHARD}/*.pcm", "victim/thesis.txt"),
    "a stage": linked("manifests/resample", "victim"),
    "a stage that is kept elsewhere": linked("manifests/resample", "elsewhere", keep=True),
    "shard of a stage": linked(f"manifests/filter/{SHARD}", "victim"),
    "a listing": linked(f"manifests/shard/{SHARD}/*.parquet", "victim/thesis.txt"),
    "a part": linked(f"manifests/transcribe/{SHARD}/*.parquet", "elsewhere.parquet", keep=True),
    "package": linked("manifests/package", "victim"),
    "outcomes": linked("manifests/package/facts", "victim"),
    "audio": linked("audio", "victim"),
    "manifests": linked("manifests", "victim"),
    "datasets": linked("datasets", "victim"),
    "decisions": linked("reviews.jsonl", "victim/thesis.txt"),
}
