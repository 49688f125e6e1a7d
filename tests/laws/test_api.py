"""The door for plug-ins of users: `tasks.api`, and former names of modules."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tasks import api
from tasks.base import moved


def test_the_door_names_what_it_has() -> None:
    assert sorted(api.__all__) == sorted(set(api.__all__))
    assert [name for name in api.__all__ if not hasattr(api, name)] == []


def test_the_door_is_light() -> None:
    code = "import sys, tasks.api; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"prefect", "distributed", "librosa", "soundfile", "av", "onnxruntime"} & {
        *done.stdout.split()
    }


@pytest.mark.parametrize("former", moved.MOVED)
def test_a_former_name_gives_the_same_module_and_says_so(former: str) -> None:
    sys.modules.pop(former, None)
    with pytest.warns(FutureWarning, match=rf"{former} is {moved.MOVED[former]} now; plug-ins"):
        module = importlib.import_module(former)
    sys.modules.pop(former, None)
    today = importlib.import_module(moved.MOVED[former])
    assert module is today
    assert today.__spec__ is not None
    assert today.__spec__.name == moved.MOVED[former]


def test_a_part_of_a_package_that_moved(tmp_path: Path) -> None:
    plugin = tmp_path / "old_plugin.py"
    plugin.write_text(
        "from tasks.weights.registry import Model\nfrom tasks.errors import ItemError\n"
    )
    code = (
        "import old_plugin, tasks.base.errors, tasks.models.registry as registry\n"
        "assert old_plugin.ItemError is tasks.base.errors.ItemError\n"
        "assert old_plugin.Model is registry.Model\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "tasks.errors is tasks.base.errors now" in done.stderr


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tasks.errands")
