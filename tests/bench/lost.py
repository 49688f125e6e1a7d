"""What runs make of an OUT in which a file is lost: each kind of file, each kind of damage.

    python -m tests.bench.lost [KIND …] [--damage removed …] [--json]

A small OUT with two versions and a decision is made by the real command (fake recogniser, no
Prefect). One file of each kind, the newest, is then removed, cut to half, changed in one byte, or
replaced by the one of the version before. `plan` and two runs follow: one with nothing to do, and
one with a new recording. Both publish as if nothing had happened, or they say what has; `verify`
tells what no run reads. A line is `SILENT` where nobody said anything, or work was done again
without a word, and `PLAN` where `plan` foretold other work or another number of clips than the run
had: these are faults.

KIND selects kinds that contain this text. Reports, which take half of a run's time, are not made.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import Ended, Site
from tests.helpers import corpus, one_process
from uttermill.flows.run import report

RECORDINGS = 6
#: Each folder is one kind, too.
FOLDERS = (
    "runs", "audio", "manifests", "manifests/shard", "manifests/filter", "manifests/resample",
    "manifests/transcribe", "manifests/package", "manifests/package/facts", "decisions",
    "datasets", "datasets/v0001", "datasets/v0002", "datasets/v0002/wenet",
)  # fmt: skip
_VARIABLE = re.compile(r"[0-9a-f]{16,}|r[0-9]{6}-[0-9TZ.]+|(?<=shard-)[0-9]+|(?<![v0-9])[0-9]{6,}")

_TIMES = re.compile(r"[0-9]+:[0-9]{2}|[0-9.]+ s\b")


@dataclass
class Cell:
    """What became of one damage. `idle`, `growth`: exit codes; `said`: warnings and errors that an
    OUT without damage does not get; `verify`: exit code for the damaged version, or the newest;
    `healed`: the file has its bytes again; `published`: all other files of versions are as without
    damage; `again`: items that the idle run computed; `foretold`: what `plan` said of it, if the
    run did something else."""

    kind: str
    damage: str
    idle: int
    growth: int
    verify: int
    healed: bool
    published: bool
    said: list[str]
    again: int
    foretold: str

    @property
    def verdict(self) -> str:
        if any("Traceback" in line for line in self.said):
            return "TRACEBACK"
        if self.foretold:
            return "PLAN"
        if self.said or self.idle or self.growth:
            return "told"
        if self.again:
            return "SILENT"
        if self.published and (self.healed or not self.kind.startswith("datasets/")):
            return "healed" if self.healed else "not read"
        return "verify" if self.published and self.verify else "SILENT"


@dataclass
class Bench:
    """`whole`: an OUT with two versions; `older`: the same with one; `plain`: sentences of runs
    without damage; `grown`: datasets after the run with a new recording."""

    site: Site
    cluster: dict[str, Any]

    def __post_init__(self) -> None:
        self.home = self.site.home
        self.out, self.older, self.whole = (self.home / n for n in ("out", "older", "whole"))
        shape = {"formats": ["wenet", "kaldi"], "tar_hours": 0.001, "splits": {"test": 0.2}}
        self.settings = self.site.settings("out", package=shape, cluster=self.cluster)
        corpus.make(self.site.source, RECORDINGS)
        self.site.done(self.settings)
        copied(self.out, self.older)
        corpus.add(self.site.source, 0, seed=50)
        corpus.add(self.site.source, RECORDINGS)
        decisions = self.home / "decisions.jsonl"
        clip = next(iter(sorted(self._clips())))
        decisions.write_text(json.dumps({"id": clip, "decision": "drop"}) + "\n")
        ended = self.site.command("review", "import", str(decisions), "--out", str(self.out))
        assert ended.code == 0, ended
        self.site.done(self.settings)
        copied(self.out, self.whole)
        self.plain: set[str] = set()
        _, idle, growth, _ = self._runs("datasets/latest")
        assert (idle.code, growth.code) == (0, 0), (idle, growth)
        self.plain = {*said(idle), *said(growth)}
        self.grown = self.versions()

    def _clips(self) -> Iterator[str]:
        import pyarrow.parquet as pq

        table = pq.read_table(self.out / "datasets/latest/utterances.parquet")
        yield from table["id"].to_pylist()

    def kinds(self) -> dict[str, Path]:
        """The folders, and the newest file of each kind, relative to OUT."""
        files = (p.relative_to(self.whole) for p in sorted(self.whole.rglob("*")) if not p.is_dir())
        kinds = {kind_of(str(path)): path for path in files}
        return {f"{name}/": Path(name) for name in FOLDERS if (self.whole / name).is_dir()} | kinds

    def cell(self, kind: str, damage: str) -> Cell | None:
        """None if this damage does not apply."""
        path = self.kinds()[kind]
        copied(self.whole, self.out)
        if not DAMAGES[damage](self, path):
            return None
        version = "/".join(path.parts[:2]) if path.parts[0] == "datasets" else ""
        plan, idle, growth, verify = self._runs(version or "datasets/latest")
        told = [line for line in (*said(idle), *said(growth)) if line not in self.plain]
        stages = idle.result.get("stages", {}).values()
        return Cell(
            kind, damage, idle.code, growth.code, verify.code,
            healed=content(self.out / path) == content(self.whole / path),
            published=without(self.versions(), path) == without(self.grown, path),
            said=[*dict.fromkeys(told)],
            again=sum(stage["items_computed"] for stage in stages),
            foretold=otherwise(plan, idle),
        )  # fmt: skip

    def versions(self) -> dict[str, bytes]:
        return {f"datasets/{n}": data for n, data in corpus.content(self.out / "datasets").items()}

    def _runs(self, version: str) -> tuple[Ended, Ended, Ended, Ended]:
        plan = self.site.command("plan", self.settings)
        idle = self.site.run(self.settings)
        new = corpus.add(self.site.source, RECORDINGS + 1)
        growth = self.site.run(self.settings)
        new.unlink()
        return plan, idle, growth, self.site.command("verify", str(self.out / version))


def kind_of(path: str) -> str:
    """Files of one format, and of another version than the newest, are one kind."""
    path = re.sub(r"v0001/(?!dataset.json).*", "v0001/*", path)
    path = re.sub(r"kaldi/[^.]*$", "kaldi/*", path)
    return re.sub(r"(kaldi|wenet)/.*(\.[a-z0-9]+)", r"\1/*\2", _VARIABLE.sub("*", path))


def said(ended: Ended) -> list[str]:
    """Warnings and errors, without times, which are different in each run."""
    lines = [
        line
        for line in ended.stderr.splitlines()
        if line.startswith(("WARNING", "ERROR", "Traceback"))
    ]
    return [_TIMES.sub("0:00", line) for line in (*lines, ended.error) if line]


def otherwise(plan: Ended, run: Ended) -> str:
    """What `plan` said, if the run did something else; "" if it did the same. Clips that the run
    links although `plan` feared that their text would change are the same."""
    if run.code or plan.code:
        refused = bool(plan.code or plan.result.get("refusal"))
        return "" if refused == bool(run.code) else f"plan exit {plan.code}, run exit {run.code}"
    facts, at_most = [], "gone" in plan.result
    for name, stage in plan.result["stages"].items():
        did = run.result["stages"][name]["items_computed"]
        fewer = did < stage["compute"] and name != "package" and not at_most
        more = did > stage["compute"] and not (name == "package" and "lost" in plan.result)
        if more or fewer:
            facts.append(f"{name} {stage['compute']}, not {did}")
    clips, packaged = plan.result["version"]["clips_then"], run.result["utterances"]["packaged"]
    if clips < packaged or (clips > packaged and not at_most):
        facts.append(f"clips {clips}, not {packaged}")
    return ", ".join(facts)


def copied(source: Path, target: Path) -> None:
    """With its times and links, as a backup has them."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def content(path: Path) -> object:
    return corpus.content(path) if path.is_dir() else path.read_bytes() if path.is_file() else None


def without(files: dict[str, bytes], path: Path) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not Path(name).is_relative_to(path)}


# Each damages a file of OUT, and says whether it did.


def removed(bench: Bench, path: Path) -> bool:
    where = bench.out / path
    shutil.rmtree(where) if where.is_dir() and not where.is_symlink() else where.unlink()
    return True


def cut(bench: Bench, path: Path) -> bool:
    where = bench.out / path
    if where.is_dir() or not where.stat().st_size:
        return False
    replaced(where, where.read_bytes()[: where.stat().st_size // 2])
    return True


def flipped(bench: Bench, path: Path) -> bool:
    where = bench.out / path
    if where.is_dir() or not where.stat().st_size:
        return False
    data = bytearray(where.read_bytes())
    data[len(data) // 2] ^= 0x5A
    replaced(where, bytes(data))
    return True


def older(bench: Bench, path: Path) -> bool:
    """From before the newest version; of a file that was not there then, its folder's, or that of
    the version before."""
    where, then = bench.out / path, bench.older / path
    if "v0002" in path.parts:
        then = bench.older / str(path).replace("v0002", "v0001")
    if not then.exists() and path.parts[0] == "manifests":
        where, then = where.parent, then.parent
    if not then.exists() or content(then) == content(where):
        return False
    if where.is_symlink() or where.is_file():
        where.unlink()
    copied(then, where)
    return True


def replaced(path: Path, data: bytes) -> None:
    """Another file of the same name: links to the old one keep its bytes."""
    path.unlink()
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Bench, Path], bool]] = {
    "removed": removed, "cut": cut, "flipped": flipped, "older": older,
}  # fmt: skip


@contextmanager
def opened(home: Path, cluster: dict[str, Any] | None = None) -> Iterator[Bench]:
    """A bench in this folder; `cluster`: settings of workers that are there."""
    from tests.helpers.shared_cluster import serving

    with pytest.MonkeyPatch.context() as patch, ExitStack() as scope:
        one_process.holds(patch)
        patch.setattr(report, "write", lambda job, folder: folder / report.NAME)
        if cluster is None:
            cluster = scope.enter_context(serving(home / "scratch", workers=1))
        yield Bench(Site(home, "", history="none"), cluster)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lost")
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--damage", nargs="+", choices=[*DAMAGES], default=[*DAMAGES])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    faults = 0
    with tempfile.TemporaryDirectory() as home, opened(Path(home)) as bench:
        for kind in bench.kinds():
            if options.kinds and not any(text in kind for text in options.kinds):
                continue
            for damage in options.damage:
                cell = bench.cell(kind, damage)
                if cell is None:
                    continue
                faults += cell.verdict.isupper()
                if options.json:
                    print(json.dumps(asdict(cell) | {"verdict": cell.verdict}), flush=True)
                    continue
                codes = f"{cell.idle}, {cell.growth}, {cell.verify}"
                same = "same" if cell.published else "other"
                foretold = [f"plan: {cell.foretold}"] if cell.foretold else []
                words = " / ".join([*foretold, *cell.said]).replace(str(bench.home), "…")
                print(
                    f"{kind} | {damage} | {cell.verdict} | {codes} | {same} | {words}", flush=True
                )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
