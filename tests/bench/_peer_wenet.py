"""Runs WeNet's `tools/make_shard_list.py` without torchaudio's readers and writers.

    python _peer_wenet.py SCRIPT [its options]

torchaudio 2.9 and later read and write through torchcodec, whose wheel needs CUDA and FFmpeg's
libraries. Here soundfile reads instead, as torchaudio's own backends did before, or PyAV if
soundfile cannot; soundfile writes. The resampler is torchaudio's. On a machine without CUDA,
torchaudio's wheel for CUDA can be imported only after removing the compiled files in
`torchaudio/lib`.
"""

from __future__ import annotations

import runpy
import sys
from typing import IO, Any

import av
import numpy as np
import soundfile as sf
import torch
import torchaudio  # type: ignore[import-not-found]  # of the peers, not installed with ours


def load(path: str) -> tuple[Any, int]:
    """float32 [channels, samples] in [-1, 1], and the sample rate in Hz."""
    try:
        samples, rate = sf.read(path, dtype="float32", always_2d=True)
    except sf.LibsndfileError:
        return _by_ffmpeg(path)
    return torch.from_numpy(samples.T.copy()), rate


def _by_ffmpeg(path: str) -> tuple[Any, int]:
    with av.open(path) as container:
        stream = container.streams.audio[0]
        stream.codec_context.thread_count = 1
        resampler = av.AudioResampler("fltp", stream.layout.name, stream.rate)
        blocks = [
            made.to_ndarray()
            for frame in [*container.decode(stream), None]
            for made in resampler.resample(frame)
        ]
        return torch.from_numpy(np.concatenate(blocks, axis=1)), stream.rate


def save(file: IO[bytes], samples: Any, rate: int, **_: Any) -> None:
    """16-bit WAV; `samples`: int16 [channels, samples]."""
    sf.write(file, samples.numpy().T, rate, format="WAV", subtype="PCM_16")


if __name__ == "__main__":
    torchaudio.load, torchaudio.save = load, save
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
