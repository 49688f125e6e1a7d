"""The peers' side of `tests.bench.peers`: each does the same job in its own way, in two processes.

    python -m tests.bench._peer_loops lhotse|hf|ffmpeg|decode SOURCE OUT

Each reads a folder and writes 16 kHz mono as its users do: lhotse a Shar folder of FLAC, HF
datasets the Arrow table of a `map` that decodes and resamples, ffmpeg (PyAV) tars of WAV. `decode`
only decodes files with FFmpeg. Prints the number of clips and their seconds.
"""

import io
import json
import multiprocessing
import sys
import tarfile
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

RATE = 16_000


def files(source: Path) -> list[Path]:
    return sorted(path for path in source.iterdir() if path.is_file())


def lhotse(source: Path, out: Path) -> tuple[int, float]:
    """Shar with FLAC, one folder for each process; without m4a, which its default reader does not
    open."""
    paths = [str(path) for path in files(source) if path.suffix != ".m4a"]
    halves = [(paths[half::2], str(out / str(half))) for half in (0, 1)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(_shar, halves, chunksize=1)
    return sum(n for n, _ in found), sum(s for _, s in found)


def _shar(half: tuple[list[str], str]) -> tuple[int, float]:
    from lhotse import CutSet, Recording

    paths, home = half
    Path(home).mkdir(parents=True)
    cuts = [Recording.from_file(path).to_cut() for path in paths]
    mono = CutSet.from_cuts(
        (cut.to_mono(mono_downmix=True) if cut.num_channels > 1 else cut).resample(RATE)
        for cut in cuts
    )
    mono.to_shar(home, fields={"recording": "flac"}, shard_size=200)
    kept = [cut.duration for cut in CutSet.from_shar(in_dir=home)]
    return len(kept), sum(kept)


def _decoded(path: str) -> dict[str, Any]:
    return {"path": Path(path).name, "pcm": _pcm(path)}


def hf(source: Path, out: Path) -> tuple[int, float]:
    """`Dataset.map` over paths with two processes. Its own Audio column needs torchcodec and system
    FFmpeg libraries, so the mapped function decodes with PyAV."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    table = Dataset.from_dict({"path": [str(path) for path in files(source)]})
    found = table.map(lambda row: _decoded(row["path"]), num_proc=2)
    found.save_to_disk(str(out), num_proc=2)
    sizes = [len(row) for batch in found.iter(200) for row in batch["pcm"]]
    return len(sizes), sum(sizes) / 2 / RATE


def _pcm(path: str) -> bytes:
    """A recording as int16 mono at 16 kHz, by FFmpeg's decoder and resampler, in one thread."""
    import av

    pieces = []
    with av.open(path) as container:
        stream = container.streams.audio[0]
        stream.codec_context.thread_count = 1
        resampler = av.AudioResampler("s16", "mono", RATE)
        for frame in container.decode(stream):
            pieces += [made.to_ndarray().tobytes() for made in resampler.resample(frame)]
        pieces += [made.to_ndarray().tobytes() for made in resampler.resample(None)]
    return b"".join(pieces)


def _tar(half: tuple[list[str], str]) -> tuple[int, float]:
    paths, name = half
    seconds = 0.0
    with tarfile.open(name, "w", format=tarfile.USTAR_FORMAT) as tar:
        for path in paths:
            pcm = _pcm(path)
            buffer = io.BytesIO()
            with wave.open(buffer, "wb") as writer:
                writer.setparams((1, 2, RATE, 0, "NONE", ""))
                writer.writeframes(pcm)
            info = tarfile.TarInfo(Path(path).stem + ".wav")
            info.size = buffer.tell()
            tar.addfile(info, io.BytesIO(buffer.getvalue()))
            seconds += len(pcm) / 2 / RATE
    return len(paths), seconds


def ffmpeg(source: Path, out: Path) -> tuple[int, float]:
    """A straightforward loop with FFmpeg and tar."""
    out.mkdir()
    paths = [str(path) for path in files(source)]
    halves = [(paths[half::2], str(out / f"{half}.tar")) for half in (0, 1)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(_tar, halves, chunksize=1)
    return sum(n for n, _ in found), sum(s for _, s in found)


def decode(source: Path, out: Path) -> tuple[int, float]:
    """Decode every file with FFmpeg, and nothing else."""
    import av

    seconds, paths = 0.0, files(source)
    for path in paths:
        with av.open(str(path)) as container:
            stream = container.streams.audio[0]
            stream.codec_context.thread_count = 1
            samples = sum(frame.samples for frame in container.decode(stream))
            seconds += samples / stream.rate
    return len(paths), seconds


LOOPS: dict[str, Callable[[Path, Path], tuple[int, float]]] = {
    "lhotse": lhotse,
    "hf": hf,
    "ffmpeg": ffmpeg,
    "decode": decode,
}

if __name__ == "__main__":
    kept, length = LOOPS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
    print(json.dumps({"kept": kept, "seconds": round(length, 1)}))
