"""Damaged sound files of every kind: an ItemError or samples, in bounded memory and time.

They are decoded in processes of their own: what kills one is a finding, not the end of pytest.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import fuzz, mutated

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
CASES = 1500
SEED = 20
GROWTH = 600 << 20  # bytes of peak memory that all cases of a batch may add


def batch(seed: int, first: int, count: int, folder: Path) -> dict[str, Any]:
    """Outcomes of a range of cases; a dead process is a finding that names its case."""
    command = [
        sys.executable,
        "-m",
        "tests.helpers.mutated",
        *map(str, (seed, first, count, folder)),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=600 + count, check=False)
    if done.returncode:
        at = (folder / "at").read_text() if (folder / "at").exists() else "none"
        words = done.stderr.decode(errors="replace")[-2000:]
        what = f"its process ended with {done.returncode}: {words}"
        return {"findings": [{"case": at, "what": what}], "outcomes": {}, "grown": 0}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("part", range(2))
@pytest.mark.nightly
def test_damaged_files_cost_one_item_each(part: int, tmp_path: Path) -> None:
    count = fuzz.count(CASES // 2)
    found = batch(SEED, part * count, count, tmp_path)
    assert found["findings"] == []
    assert sum(found["outcomes"].values()) == count
    assert found["grown"] < GROWTH
    # The damage is neither so light that all of it is overlooked, nor so heavy that none decodes.
    assert count * 0.1 < found["outcomes"]["good"] < count * 0.9


def test_control_a_dead_process_is_a_finding(tmp_path: Path) -> None:
    found = batch(SEED, 0, -1, tmp_path / "no such folder")
    assert found["findings"][0]["case"] == "none"
    assert "ended with 1" in found["findings"][0]["what"]


def test_cases_are_the_same_each_time() -> None:
    assert mutated.damaged(3, 41) == mutated.damaged(3, 41)
    assert mutated.damaged(3, 41) != mutated.damaged(4, 41)
    kinds = {mutated.damaged(1, number)[0] for number in range(len(mutated.KINDS))}
    assert kinds == set(mutated.KINDS)
