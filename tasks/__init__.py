"""uttermill's library: the five stages, without Prefect and without a cluster."""

import sys
from importlib.util import find_spec

if sys.platform == "win32" or find_spec("fcntl") is None:  # before a module fails that needs it
    raise ImportError(
        "uttermill runs on Linux and macOS; on Windows, use WSL: `wsl --install`, and install "
        "uttermill in the Linux there"
    )

from .base import environment

environment.no_telemetry()  # before any module can import ONNX Runtime, in workers too
