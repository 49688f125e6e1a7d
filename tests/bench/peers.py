"""Uttermill compared with its peers: same inputs, CPU of all processes, wall time, memory, clips
kept.

    python -m tests.bench.peers [FOLDER] [--json] [--only ROW …] [--rounds N] [--python PEERS]
                                [--wenet DIR] [--applio DIR] [--juicer COMMAND] [--minutes M]

Inputs are made once in FOLDER from the corpus that `UTTERMILL_CORPUS` names. Each row runs ours and
its peers in turn, with two processes each, `--rounds` times; the medians count. Ours is the command
`uttermill run` with a Prefect home that already has a database, so that no row pays for creating
one. lhotse, HF datasets and FFmpeg (through PyAV) run in the interpreter PEERS (default: this one).
WeNet's `tools/make_shard_list.py` and Applio's preprocessing run from checkouts given by the user,
in PEERS, which then needs their packages: torch and torchaudio (see `_peer_wenet`); noisereduce,
wget and transformers. COMMAND is Data-Juicer's `dj-process` (see `_peer_juicer`). Rows with `asr`
compare Whisper base with faster-whisper's own ways (see `_peer_asr`); M: minutes of a long file.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import soundfile as sf

from tests.bench import _peer_asr, _peer_juicer
from tests.bench import _peer_inputs as inputs
from tests.bench._peer_measure import Cost, measured

#: No recogniser, no waiting for files to settle, two workers.
PLAIN = (
    "transcribe.backend.use=none",
    "transcribe.verdicts=[]",
    "shard.settle_seconds=0",
    "cluster.workers=2",
)
UNLIMITED = "filter.filters=[{use: silence}, {use: clipping}]"
ASR_PEERS = ("batched", "vad", "loop")
THRESHOLD = (
    "filter.filters=[{use: duration, max: 30}, {use: silence, max_fraction: 0.4}, "
    "{use: clipping}, {use: decode_faults}]"
)
APPLIO = (
    "filter.segmenter.use=applio",
    "filter.filters=[]",
    "resample.rate=40000",
    "resample.resampler.use=soxr_vhq",
    "resample.levels=[{use: highpass}, {use: applio}]",
)


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one program."""

    row: str
    who: str
    cost: Cost
    kept: int | None
    seconds: float | None
    wrong: float | None = None  # % of words, where texts were compared

    def told(self) -> dict[str, Any]:
        cost = {name: value for name, value in asdict(self.cost).items() if name != "said"}
        kept = {"kept": self.kept, "kept_s": self.seconds}
        return {"row": self.row, "who": self.who, **cost, **kept, "wrong_percent": self.wrong}


class Bench:
    def __init__(self, args: argparse.Namespace) -> None:
        self.home = Path(args.folder)
        self.home.mkdir(parents=True, exist_ok=True)
        self.args = args
        self.environment = {"PREFECT_HOME": str(self.home / "prefect"), "PYTHONWARNINGS": "ignore"}
        self.results: list[Result] = []

    def ours(self, row: str, who: str, source: Path, out: Path, sets: Sequence[str]) -> Result:
        """`uttermill run`; without a server's database, one run before makes it."""
        result = self._ours(row, who, source, out, sets)
        self.results.append(result)
        return result

    def _ours(
        self, row: str, who: str, source: Path, out: Path, sets: Sequence[str], **more: Any
    ) -> Result:
        command = [sys.executable, "-m", "uttermill.flows.cli", "run", "--json"]
        command += ["--source", str(source), "--out", str(out)]
        command += [f"--set={each}" for each in (*PLAIN, *sets)]
        cost = measured(command, self.environment, **more)
        told = _last_json(cost.said)
        kept = told.get("utterances", {}).get("packaged")
        return Result(row, who, cost, kept, told.get("seconds", {}).get("packaged"))

    def peer(self, row: str, who: str, source: Path, out: Path, **more: Any) -> Result:
        result = self._peer(row, who, source, out, **more)
        self.results.append(result)
        return result

    def _peer(self, row: str, who: str, source: Path, out: Path, **more: Any) -> Result:
        if who == "wenet":
            return self._wenet(row, source, out, **more)
        if who == "applio":
            return self._applio(row, source, out, **more)
        if who == "Data-Juicer":
            return self._juicer(row, source, out, **more)
        module = "_peer_asr" if who in ASR_PEERS else "_peer_loops"
        loop = [self.args.python, "-m", f"tests.bench.{module}", who, str(source), str(out)]
        cost = measured(loop, {"HF_DATASETS_CACHE": str(out.parent / "hf-cache")}, **more)
        told = _last_json(cost.said)
        return Result(row, who, cost, told.get("kept"), told.get("seconds"))

    def _wenet(self, row: str, source: Path, out: Path, **more: Any) -> Result:
        lists = out.parent / "wenet-lists"
        shutil.rmtree(lists, ignore_errors=True)
        lists.mkdir()
        names = {path.stem: path for path in sorted(source.iterdir())}
        (lists / "wav.scp").write_text("".join(f"{k} {p}\n" for k, p in names.items()))
        (lists / "text").write_text("".join(f"{k} a\n" for k in names))
        options = ["--resample", "16000", "--num_threads", "2", "--num_utts_per_shard", "60"]
        segments = lists / "segments"
        segments.write_text("".join(f"{k} {k} 0 {inputs.HOUR_SECONDS}\n" for k in names))
        mended = Path(__file__).with_name("_peer_wenet.py")
        script = [self.args.python, str(mended), "tools/make_shard_list.py", *options]
        script += ["--segments", str(segments), str(lists / "wav.scp"), str(lists / "text")]
        cost = measured([*script, str(out), str(lists / "data.list")],
                        folder=Path(self.args.wenet), **more)  # fmt: skip
        kept = sum(_members(tar) for tar in out.glob("*.tar"))
        return Result(row, "wenet", cost, kept, None)

    def _applio(self, row: str, source: Path, out: Path, **more: Any) -> Result:
        """Automatic cuts with the high-pass and without noise reduction, at 40 kHz."""
        script = [self.args.python, "rvc/train/preprocess/preprocess.py", str(out), str(source)]
        script += ["40000", "2", "Automatic", "True", "False", "0.5", "3.0", "0.3", "none"]
        cost = measured(script, folder=Path(self.args.applio), **more)
        return Result(row, "applio", cost, len([*out.glob("sliced_audios/*.wav")]), None)

    def _juicer(self, row: str, source: Path, out: Path, **more: Any) -> Result:
        command = [self.args.juicer, "--config", str(_peer_juicer.recipe(source, out))]
        cost = measured(command, _peer_juicer.ENVIRONMENT, folder=out, **more)
        return Result(row, "Data-Juicer", cost, len(_peer_juicer.kept(out)), None)


def _members(tar: Path) -> int:
    import tarfile

    try:
        with tarfile.open(tar) as opened:
            return sum(name.endswith(".wav") for name in opened.getnames())
    except tarfile.TarError:
        return 0


def _last_json(said: str) -> dict[str, Any]:
    for line in reversed(said.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}


def hour(bench: Bench, scratch: Path, row: str = "hour") -> None:
    """One hour, 240 files of five kinds; then the same again, and with another threshold."""
    source = inputs.made(bench.home, "hour", inputs.hour())
    out = scratch / "ours"
    bench.ours(row, "ours", source, out, ())
    bench.ours("nothing to do", "ours", source, out, ())
    bench.ours("threshold", "ours", source, out, (THRESHOLD,))
    bench.ours(row, "ours, no history", source, scratch / "plain", ("history=none",))
    for who in ("ffmpeg", "hf", "lhotse", *(["wenet"] if bench.args.wenet else [])):
        bench.peer(row, who, source, scratch / who)


def without_m4a(bench: Bench, scratch: Path) -> None:
    """The hour without its m4a files, which lhotse's default reader does not open."""
    whole = inputs.made(bench.home, "hour", inputs.hour())

    def make(home: Path) -> None:
        for path in whole.iterdir():
            if path.suffix != ".m4a":
                (home / path.name).hardlink_to(path)

    source = inputs.made(bench.home, "hour-without-m4a", make)
    bench.ours("without m4a", "ours", source, scratch / "ours", ())
    bench.ours("without m4a", "ours, no history", source, scratch / "plain", ("history=none",))
    bench.peer("without m4a", "lhotse", source, scratch / "lhotse")


def short(bench: Bench, scratch: Path) -> None:
    """3,000 clips of 4 s, FLAC at 16 kHz."""
    source = inputs.made(bench.home, "short", inputs.short())
    bench.ours("short", "ours", source, scratch / "ours", ())
    bench.ours("short", "ours, no history", source, scratch / "plain", ("history=none",))
    for who in ("lhotse", *(["wenet"] if bench.args.wenet else [])):
        bench.peer("short", who, source, scratch / who)


def long(bench: Bench, scratch: Path) -> None:
    """One MP3 of three hours: as one utterance, and cut by VAD; beside FFmpeg's way to the same
    clip at 16 kHz, and its decode alone."""
    source = inputs.made(bench.home, "long", inputs.long)
    whole = ("history=none", "filter.segmenter.use=whole", UNLIMITED)
    bench.ours("long, whole", "ours, no history", source, scratch / "whole", whole)
    bench.ours("long, VAD", "ours, no history", source, scratch / "vad", ("history=none",))
    bench.peer("long, whole", "ffmpeg", source, scratch / "ffmpeg")
    bench.peer("long, whole", "decode", source, scratch / "decode")


def applio(bench: Bench, scratch: Path) -> None:
    """96 recordings, cut and levelled as by Applio."""
    source = inputs.made(bench.home, "voices", inputs.voices)
    bench.ours("applio", "ours, no history", source, scratch / "ours", ("history=none", *APPLIO))
    if bench.args.applio:
        theirs = scratch / "applio"
        bench.peer("applio", "applio", source, theirs)
        bench.results.append(_same_slices(bench.results[-1], source, scratch / "ours", theirs))


def _same_slices(result: Result, source: Path, ours: Path, theirs: Path) -> Result:
    """How many of Applio's clips are as long as ours to 15 ms, file by file; lengths at 40 kHz.

    Applio numbers files in the order in which the folder lists them.
    """
    listed = [Path(name).stem for _, _, names in os.walk(source) for name in names]
    rows = pq.read_table(ours / "datasets/latest/utterances.parquet").to_pylist()
    mine: dict[str, Counter[int]] = defaultdict(Counter)
    for row in rows:
        mine[Path(row["source_path"]).stem][row["num_samples"] // 600] += 1
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for path in theirs.glob("sliced_audios/*.wav"):
        found[listed[int(path.stem.split("_")[1])]][sf.info(path).frames // 600] += 1
    same = sum((mine[name] & found[name]).total() for name in listed)
    return replace(result, who="slices of the same length", kept=same)


def juicer(bench: Bench, scratch: Path) -> None:
    """Short clips by Data-Juicer's three audio filters: 16 kHz audio from us, a list from it."""
    source = inputs.made(bench.home, "juicer", inputs.short(inputs.JUICER_FILES))
    ours, theirs = scratch / "ours", scratch / "juicer"
    bench.ours("Data-Juicer's filters", "ours, no history", source, ours, _peer_juicer.OURS)
    if bench.args.juicer:
        bench.peer("Data-Juicer's filters", "Data-Juicer", source, theirs)
        both = _peer_juicer.kept(theirs) & _peer_juicer.kept_by_ours(ours)
        bench.results.append(replace(bench.results[-1], who="kept by both", kept=len(both)))


def broken(bench: Bench, scratch: Path) -> None:
    """40 files, one of them corrupt: who keeps how many, with which exit code."""
    source = inputs.made(bench.home, "broken", inputs.broken)
    bench.ours("one corrupt of 40", "ours", source, scratch / "ours", ("history=none",))
    for who in ("ffmpeg", "hf", "lhotse", *(["wenet"] if bench.args.wenet else [])):
        bench.peer("one corrupt of 40", who, source, scratch / who)


def killed(bench: Bench, scratch: Path) -> None:
    """The hour, killed with -9 at 60 % of its wall time, and the same command once more: what the
    second one costs, keeps and exits with."""
    source = inputs.made(bench.home, "hour", inputs.hour())
    plain = ("history=none",)
    full = bench._ours("", "", source, scratch / "full", plain).cost.wall
    bench._ours("", "", source, scratch / "ours", plain, kill_after=0.6 * full)
    bench.ours("again after kill -9", "ours", source, scratch / "ours", plain)
    for who in ("ffmpeg", "hf", "lhotse", *(["wenet"] if bench.args.wenet else [])):
        full = bench._peer("", who, source, scratch / f"{who}-full").cost.wall
        bench._peer("", who, source, scratch / who, kill_after=0.6 * full)
        bench.peer("again after kill -9", who, source, scratch / who)


def asr_long(bench: Bench, scratch: Path) -> None:
    """Two long files: the whole line with its default cutting, faster-whisper's batched pipeline
    and its loop with VAD."""
    minutes = bench.args.minutes
    home = inputs.made(bench.home, f"asr-long-{minutes:g}", _peer_asr.long_files(minutes))
    _heard(bench, scratch, "asr-long", home, _peer_asr.OURS, ("batched", "vad"))


def asr_clips(bench: Bench, scratch: Path) -> None:
    """60 clips, each one utterance, beside faster-whisper's loop."""
    home = inputs.made(bench.home, "asr-clips", _peer_asr.clips)
    _heard(bench, scratch, "asr-clips", home, _peer_asr.WHOLE, ("loop",))


def _heard(
    bench: Bench, scratch: Path, row: str, home: Path, sets: Sequence[str], peers: Sequence[str]
) -> None:
    def add(result: Result, texts: Callable[[Path], dict[str, str]], out: Path) -> None:
        heard = texts(out) if not result.cost.exit else {}
        bench.results[-1] = replace(result, wrong=_peer_asr.wrong_percent(home, heard))

    source, out = home / "audio", scratch / "ours"
    add(bench.ours(row, "ours, no history", source, out, sets), _peer_asr.heard_by_ours, out)
    for who in peers:
        out = scratch / who
        add(bench.peer(row, who, source, out), _peer_asr.heard_by_peer, out)


ROWS: Mapping[str, Callable[[Bench, Path], None]] = {
    "hour": hour,
    "without-m4a": without_m4a,
    "short": short,
    "long": long,
    "applio": applio,
    "juicer": juicer,
    "broken": broken,
    "killed": killed,
    "asr-long": asr_long,
    "asr-clips": asr_clips,
}


def table(results: Sequence[Result]) -> str:
    """Markdown; medians over rounds, with the range of CPU where there were several."""
    lines = [
        "| row | who | CPU s | wall s | MB at once | MB in one process | kept | exit | wrong % |",
        "|---" * 9 + "|",
    ]
    groups: dict[tuple[str, str], list[Result]] = {}
    for each in results:
        groups.setdefault((each.row, each.who), []).append(each)
    for (row, who), some in groups.items():
        cpus = sorted(each.cost.cpu for each in some)
        spread = f" ({cpus[0]:.1f} to {cpus[-1]:.1f})" if len(cpus) > 1 else ""
        wall, peak, most = (
            statistics.median(getattr(each.cost, name) for each in some)
            for name in ("wall", "peak_mb", "most_mb")
        )
        last = some[-1]
        wrong = "" if last.wrong is None else last.wrong
        cells = (row, who, f"{statistics.median(cpus):.1f}{spread}", f"{wall:.1f}", f"{peak:.0f}",
                 f"{most:.0f}", last.kept, last.cost.exit, wrong)  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers")
    parser.add_argument("folder", nargs="?", default=f"{tempfile.gettempdir()}/uttermill-peers")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=[*ROWS])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--wenet")
    parser.add_argument("--applio")
    parser.add_argument("--juicer")
    parser.add_argument("--minutes", type=float, default=10.7, help="of each long file")
    bench = Bench(parser.parse_args())
    with tempfile.TemporaryDirectory(dir=bench.home) as warm:
        few = inputs.made(bench.home, "few", inputs.hour(5))
        bench._ours("", "", few, Path(warm) / "out", ())  # makes Prefect's database
    for _ in range(bench.args.rounds):
        for name in bench.args.only:
            with tempfile.TemporaryDirectory(dir=bench.home) as scratch:
                ROWS[name](bench, Path(scratch))
            for each in bench.results:
                if each.cost.exit:
                    print(f"{each.row}, {each.who}: {each.cost.said[-600:]}", file=sys.stderr)
    if bench.args.json:
        print(json.dumps({"results": [each.told() for each in bench.results]}))
    else:
        print(table(bench.results))


if __name__ == "__main__":
    main()
