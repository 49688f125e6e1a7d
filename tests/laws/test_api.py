"""The door for plug-ins of users: `tasks.api`."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.full
def test_the_door_is_light() -> None:
    code = "import sys, uttermill.tasks.api; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"prefect", "distributed", "librosa", "soundfile", "av", "onnxruntime"} & {
        *done.stdout.split()
    }
