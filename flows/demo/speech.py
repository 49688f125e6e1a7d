"""Speaks lines with espeak-ng, in a child process; returns samples."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.base.errors import ConfigError

SCALE = np.float32(32768)  # of int16

Samples = NDArray[np.float32]  # (frames,) or (frames, channels), -1..1


@dataclass(frozen=True, slots=True)
class Line:
    """One utterance for espeak-ng; speed in words a minute, pitch 0..99."""

    text: str
    voice: str
    speed: int
    pitch: int = 50


def speak(lines: list[Line]) -> list[Samples]:
    """Samples of each line, mono at RATE; ConfigError when there is no voice."""
    if find_spec("espeakng_loader") is None:
        raise ConfigError("the demo needs a voice: pip install 'uttermill[demo]'")
    script = Path(__file__).with_name("voice.py")
    child = subprocess.run(
        [sys.executable, "-P", str(script)],  # -P: modules in this folder must not shadow libraries
        input=json.dumps([asdict(line) for line in lines]).encode(),
        capture_output=True,
        check=False,
    )
    if child.returncode:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ConfigError(
            f"espeak-ng cannot speak ({reason or f'exit {child.returncode}'}): pip install "
            "--force-reinstall espeakng-loader"
        )
    said: list[Samples] = []
    rest = memoryview(child.stdout)
    for _ in lines:
        size = int.from_bytes(rest[:8], "little")
        said.append(np.frombuffer(rest[8 : 8 + size], np.dtype("<i2")).astype(np.float32) / SCALE)
        rest = rest[8 + size :]
    return said
