"""A run that would compute much again is refused before it starts, where the settings say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import corpus
from uttermill.flows import settings
from uttermill.flows.run import execute, plans, run_folder
from uttermill.tasks import pipeline, plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.shard_store import recipe


def test_a_run_over_the_limit_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.make(tmp_path / "in", 2)
    sets = ["transcribe.backend.use=fake", "shard.settle_seconds=0", "history=none"]

    def asked(*more: str) -> settings.PrepareSettings:
        return settings.read(None, [str(tmp_path / "in")], str(tmp_path / "out"), [*sets, *more])

    limited = "cluster.max_recompute_hours=0"
    with execute.opened(asked(limited)):
        pass  # all is new, and nothing is computed again
    with run_folder.record(tmp_path / "out", asked()) as run:
        _, stages = pipeline.run_here(asked().job())
        run.finish({"stages": stages})
    with execute.opened(asked(limited)):
        pass  # nothing is left to do
    changed = "resample.rate=8000"
    with (
        pytest.raises(ConfigError, match="of audio again that an earlier run has done") as told,
        execute.opened(asked(limited, changed)),
    ):
        pass
    assert "resample.rate" in str(told.value)
    assert "--set cluster.max_recompute_hours=null" in str(told.value)
    assert plans.make(asked(limited, changed))["refusal"] == str(told.value)
    assert "refusal" not in plans.make(asked(changed))
    for spared in ("cluster.max_recompute_hours=null", "cluster.max_recompute_hours=1"):
        with execute.opened(asked(spared, changed)):
            pass
    # An upgrade, which made PCM again unasked.
    monkeypatch.setattr(plugins.RESAMPLERS.load("soxr_hq"), "VERSION", 99)
    kept = [each for each in vars(recipe).values() if hasattr(each, "cache_clear")]
    for each in kept:
        each.cache_clear()
    again = r"again that an earlier run has done \(.*resample\.resampler"
    with pytest.raises(ConfigError, match=again), execute.opened(asked(limited)):
        pass
    monkeypatch.undo()
    for each in kept:
        each.cache_clear()
