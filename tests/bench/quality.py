"""CPU time of the costly measures, compared with straightforward implementations of the same
numbers.

    python -m tests.bench.quality [folder of recordings]
    UTTERMILL_CORPUS=… python -m tests.bench.quality --opinions [clips]

One thread each, CPU seconds, the two ways in turn on each clip, so that they meet the same
machine. Without a folder, the clips are espeak-ng's, of 3 to 30 s. The folder's files that
libsndfile reads are taken, from 2 to 40 s long, at most forty, spread over the folder.

`--opinions`: DNSMOS beside DistillMOS on so many clips of the corpus (20) with noise, clipping,
low-pass filters, codecs and rooms: how both follow what was done, and what each limit keeps.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile as sf
import soxr
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tests.bench import _opinions
from tests.helpers.corpus import speech
from tests.helpers.plain_quality import plain_dnsmos, plain_nmf_snr, single_threaded
from uttermill.flows.demo.corpus import ENGLISH, Line, speak
from uttermill.flows.demo.voice import RATE as VOICE_RATE
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import dnsmos, nmf_snr, snr

MOST = 40  # clips
MOST_SCORED = 12  # of them by DNSMOS, which takes a second for each
Floats = NDArray[np.float32]


def clips(folder: str | None) -> Iterator[tuple[Floats, int]]:
    """Mono samples and their rate."""
    if folder is None:
        lines = [Line(text, "en-us", 130 + 2 * i) for i, text in enumerate(ENGLISH)]
        said = np.concatenate(speak(lines))
        room = np.random.default_rng(0).normal(0, 1e-3, len(said))
        heard = soxr.resample(said + room, VOICE_RATE, 16_000).astype(np.float32)
        at = 0
        for seconds in (3, 5, 7, 9, 11, 14, 17, 20, 25, 30):
            start = at % (len(heard) - 30 * 16_000)
            yield heard[start : start + seconds * 16_000], 16_000
            at += seconds * 16_000
        return
    found = []
    for path in sorted(Path(folder).rglob("*")):
        try:
            if path.is_file() and 2 <= sf.info(path).duration <= 40:
                found.append(path)
        except (sf.SoundFileError, TypeError):  # TypeError: headerless
            continue
    for path in found[:: max(len(found) // MOST, 1)][:MOST]:
        try:
            samples, rate = sf.read(path, dtype="float32", always_2d=True)
        except sf.SoundFileError:
            continue
        yield samples.mean(axis=1), rate


def took(call: Callable[..., Any], *given: Any) -> float:
    began = time.process_time()
    call(*given)
    return time.process_time() - began


def line(name: str, seconds: float, ours: float, plain: float | None) -> str:
    ratio = "" if plain is None else f"; the plain way {plain:.2f} s, {plain / ours:.2f} x as long"
    return f"{name}: {seconds:.0f} s in {ours:.2f} s, {seconds / ours:.0f} x real time{ratio}"


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def main() -> None:
    warnings.simplefilter("ignore")  # librosa's about short clips
    if sys.argv[1:2] == ["--opinions"]:
        count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
        for line_of_report in _opinions.report(Path(os.environ["UTTERMILL_CORPUS"]), count):
            print(line_of_report, flush=True)
        return
    chosen = list(clips(sys.argv[1] if len(sys.argv) > 1 else None))
    reference = single_threaded()
    warm = speech(0, 1.0, 16_000)[:, 0].astype(np.float32)
    plain_nmf_snr(warm)
    modules: list[Any] = [nmf_snr, snr, dnsmos]
    for module in modules:
        module.measure(Clip.of(warm, 16_000), module.Settings())

    seconds = sum(len(samples) / rate for samples, rate in chosen)
    ours = plain = detector = 0.0
    for samples, rate in chosen:
        plain += took(plain_nmf_snr, samples)
        clip = Clip.of(samples, rate)
        ours += took(nmf_snr.measure, clip, nmf_snr.Settings())
        detector += took(snr.measure, clip, snr.Settings())
    print(line("nmf_snr", seconds, ours, plain))
    print(line("snr, with the voice detector", seconds, detector, None))

    seconds = ours = every = plain = 0.0
    for samples, rate in chosen[:: max(len(chosen) // MOST_SCORED, 1)][:MOST_SCORED]:
        wide = samples if rate == 16_000 else soxr.resample(samples, rate, 16_000)
        wide = wide.clip(-1, 1)
        clip = Clip.of(wide, 16_000)
        plain += took(plain_dnsmos, reference, wide)
        # The same windows as the reference; without `compat`, long clips have more of them.
        ours += took(dnsmos.measure, clip, dnsmos.Settings(compat="emilia"))
        every += took(dnsmos.measure, clip, dnsmos.Settings())
        seconds += clip.seconds
    print(line("dnsmos, compat emilia", seconds, ours, plain))
    print(line("dnsmos", seconds, every, plain))


if __name__ == "__main__":
    main()
