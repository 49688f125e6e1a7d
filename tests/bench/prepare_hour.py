"""One hour of mixed mp3, flac and wav speech, without ASR: our line compared with a bare loop.

    python -m tests.bench.prepare_hour [FOLDER]

A bare loop is two spawned processes that decode, resample and write the same tar with the same
libraries and nothing else: no digest, no cut, no measure, no manifest, no verification. There are
two: `plain` is what one writes with soundfile, numpy, soxr and tarfile; `tuned` is as fast as we
know how, with our own decoding, mono and PCM, block by block. Ours runs as a real flow with a
Prefect server and a cluster of two workers that are already up. All in one run, A B C A B C; the
median ratios are what counts. Verification is reported apart.

Two corpora. `stereo` is what raw recordings are: podcasts and field recordings come as stereo at
44.1 or 48 kHz, and studio files in 24 bits. `light` is what corpora look like that somebody has
prepared already: one channel, 16 bits, in part at the target rate; there is little to decode, so
that everything else weighs most. Each with shards of the default size without ASR (15 minutes), and
with shards of a minute, as an hour has with ASR.
"""

from __future__ import annotations

import io
import multiprocessing
import statistics
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile as sf
import soxr
from prefect import flow

from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.demo.corpus import STORY, Line, encode, speak
from uttermill.flows.progress import Progress
from uttermill.flows.run.cluster_executor import ClusterExecutor
from uttermill.flows.run.execute import result_of
from uttermill.flows.run.task_run_groups import TaskRunObserver
from uttermill.flows.server.server import LocalServer, using
from uttermill.tasks import audio, pipeline
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings import Plugin, ShardSettings, Source, TranscribeSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.stages.pcm import to_int16, to_mono

ROUNDS = 3
HOUR = 3600.0
NOISE = 10 ** (-75 / 20)  # of full scale: a microphone's, different in each channel
DELAY = 13  # samples at 22.05 kHz by which the second channel hears the speaker later

#: Extension, subtype, rate in Hz, channels; a third of the corpus each.
CORPORA = {
    "stereo": (
        ("mp3", "MPEG_LAYER_III", 44100, 2),
        ("flac", "PCM_24", 48000, 2),
        ("wav", "PCM_16", 44100, 2),
    ),
    "light": (
        ("mp3", "MPEG_LAYER_III", 44100, 1),
        ("flac", "PCM_16", 16000, 1),
        ("wav", "PCM_16", 48000, 1),
    ),
}


def corpus(folder: Path, formats: Sequence[tuple[str, str, int, int]]) -> list[Path]:
    """About one hour: utterances of 5 to 25 s, a third of it in each format."""
    if not folder.is_dir():
        voices = speak([Line(text, "en-us", 150) for text in STORY])
        chance = np.random.default_rng(3)
        total, number = 0.0, 0
        building = folder.with_suffix(".building")
        building.mkdir(parents=True)
        while total < HOUR:
            parts: list[np.ndarray] = []
            while sum(map(len, parts)) < chance.uniform(5, 22) * 22050:
                parts.append(voices[chance.integers(len(voices))])
            speech = np.concatenate(parts) * np.float32(chance.uniform(0.3, 0.9))
            extension, subtype, rate, channels = formats[number % len(formats)]
            heard = [np.roll(speech, DELAY * channel) for channel in range(channels)]
            grid = soxr.resample(np.stack(heard, axis=1), 22050, rate, "HQ")
            if channels > 1:
                grid += NOISE * chance.standard_normal(grid.shape, np.float32)
            data = encode(np.clip(grid, -1, 1), rate, extension, subtype)
            (building / f"{number:04d}.{extension}").write_bytes(data)
            total += len(speech) / 22050
            number += 1
        building.rename(folder)
    return sorted(folder.iterdir())


def plain(path: Path) -> bytes:
    """A recording as 16-bit mono WAV at 16 kHz, the short way."""
    samples, rate = sf.read(path, dtype="float32", always_2d=True)
    samples = samples.mean(axis=1)
    if rate != 16000:
        samples = soxr.resample(samples, rate, 16000, "HQ")
    wav = io.BytesIO()
    sf.write(wav, samples, 16000, format="WAV", subtype="PCM_16")
    return wav.getvalue()


def tuned(path: Path) -> bytes:
    """The same, the fast way."""
    with audio.open_stream(Locator(str(path))) as stream:
        samples = np.concatenate([to_mono(block, "mean") for block in stream.blocks()])
        rate = stream.rate
    if rate != 16000:
        samples = soxr.resample(samples, rate, 16000, "HQ")
    return audio.write_wav_bytes(to_int16(samples), 16000)


LOOPS = {"plain": plain, "tuned": tuned}


def bare(name: str, paths: list[Path], tar_path: Path) -> None:
    """Decode, resample, write: what nobody can do without."""
    with tarfile.open(tar_path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for path in paths:
            for suffix, data in (("txt", b"text"), ("wav", LOOPS[name](path))):
                info = tarfile.TarInfo(f"{path.stem}.{suffix}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def warm() -> None:
    """What a worker has done before its first task: the clock starts after it."""
    soxr.resample(np.zeros(1000, np.float32), 44100, 16000, "HQ")


def run_bare(name: str, paths: list[Path], folder: Path) -> float:
    """Wall seconds of two spawned processes, imports and start excluded."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        pool.apply(warm), pool.map(time.sleep, [0.3, 0.3])
        began = time.perf_counter()
        halves = [(name, paths[half::2], folder / f"{name}{half}.tar") for half in (0, 1)]
        pool.starmap(bare, halves, chunksize=1)
        return time.perf_counter() - began


@flow(name="bench", persist_result=False)
def ours(source: str, out: Path, scratch: Path, hours: float | None) -> dict[str, float]:
    """Wall seconds of shard..package, cluster up before; and of the verification in it."""
    job = Job(
        out=out,
        sources=(Source(kind="folder", path=source),),
        shard=ShardSettings(settle_seconds=0, hours=hours),
        transcribe=TranscribeSettings(backend=Plugin(use="none"), verdicts=()),
        scratch=scratch,
    )
    out.mkdir()
    settings = ClusterSettings(workers=2)
    with (
        Cluster(settings, scratch / "workers") as cluster,
        Progress() as progress,
    ):
        cluster.client.wait_for_workers(2)
        began = time.perf_counter()
        caller = ClusterExecutor(cluster, settings)
        ended = pipeline.run(job, caller, TaskRunObserver(job, progress, scratch))
        result = result_of(job, ended)
        wall = time.perf_counter() - began
    stages = {name: entry["seconds"] for name, entry in result["stages"].items()}
    return {"wall": wall, "verify": result["package_walls"]["verify"], **stages,
            **{f"package.{k}": v for k, v in result["package_walls"].items()}}  # fmt: skip


def compare(source: Path, paths: list[Path], hours: float | None) -> str:
    """Ratios of one corpus with shards of one size, as a line."""
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            loops = {name: run_bare(name, paths, home) for name in LOOPS}
            mine = ours(str(source), home / "out", home / "scratch", hours)
        for name, loop in loops.items():
            found[name].append((mine["wall"] - mine["verify"]) / loop)
        found["verify"].append(mine["verify"])
        parts = ", ".join(f"{k} {v:.2f}" for k, v in {**loops, **mine}.items())
        print(f"  {parts}", flush=True)
    middle = {name: statistics.median(values) for name, values in found.items()}
    return (
        f"{source.name}, shard.hours {hours or 'default'}: {middle['plain']:.2f} x plain, "
        f"{middle['tuned']:.2f} x tuned, and {middle['verify']:.2f} s of verification"
    )


def main() -> None:
    home = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir())
    with LocalServer() as server, using(server.wait_ready(), server.auth):
        for name, formats in CORPORA.items():
            source = home / f"uttermill-hour-{name}"
            paths = corpus(source, formats)
            for hours in (None, 1 / 60):
                print(compare(source, paths, hours), flush=True)


if __name__ == "__main__":
    main()
