"""Commands in the test's process, which has imported everything, start no other ones: each takes
two seconds of CPU, most of it for imports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from uttermill.flows.run import report
from uttermill.tasks.insight.estimating import asked_apart
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings.job import Job


def holds(patch: pytest.MonkeyPatch) -> None:
    """Reports are written and files asked for a forecast here. Not for files that crash readers."""
    patch.setattr(report, "write", _written)
    patch.setattr(asked_apart, "_answers", _answers)


def _written(job: Job, folder: Path) -> Path:
    report.make(job, folder)
    return folder / report.NAME


def _answers(asked: str, locators: Sequence[str]) -> list[Any]:
    return [asked_apart._answer(asked, Locator.loads(text)) for text in locators]
