"""One bad item costs one item: crashes, memory and hangs, all for real, in one run."""

import pytest

from tests.faults.command import Site, computed, packaged, quarantined, still_open, task_runs
from tests.helpers import corpus
from uttermill.tasks import pipeline

pytestmark = [pytest.mark.server, pytest.mark.cluster]

COUNT = 12
# By number of the recording. Each is in a work shard of its own, and one shard has none.
SEGV, MEMORY, HANG, DEAF = 2, 5, 9, 10
ITEM_TIMEOUT = 20.0  # s; on a busy machine MEMORY_LIMIT takes some of it to fill
MEMORY_LIMIT = "700MB"  # a worker begins with 200


def recording(number: int) -> str:
    return f"c/r{number:02d}.wav"


@pytest.mark.nightly
def test_poison_items_are_quarantined_and_all_others_packaged(site: Site) -> None:
    corpus.make(site.source, COUNT)
    settings = site.settings(
        "out",
        filter={
            "segmenter": {"use": "whole"},
            "filters": [
                {"use": "duration"},
                {
                    "use": "tests.plugins.fatal", "segv": corpus.seconds_of(SEGV),
                    "memory": corpus.seconds_of(MEMORY), "hang": corpus.seconds_of(HANG),
                },
            ],
        },
        transcribe={
            "backend": {
                "use": "tests.plugins.poison_asr", "how": "segv",
                "seconds": corpus.seconds_of(DEAF),
            }
        },
        cluster={
            "workers": 2, "memory_limit": MEMORY_LIMIT, "item_timeout": ITEM_TIMEOUT,
            "timeout_factor": 0.2,
        },
    )  # fmt: skip
    out = site.home / "out"
    first = site.done(settings)

    assert quarantined(out) == {
        recording(SEGV): ("filter", "crashed"),
        recording(MEMORY): ("filter", "out_of_memory"),
        recording(HANG): ("filter", "timeout"),
        recording(DEAF): ("transcribe", "crashed"),
    }
    poisoned = {SEGV, MEMORY, HANG, DEAF}
    assert packaged(out) == {recording(n) for n in range(COUNT) if n not in poisoned}
    # Two shared tries (one that hangs) and then one by one, for these four shards and no other.
    deaths = first.result["deaths"]
    assert deaths["isolated"] == len(poisoned)
    assert (deaths["deaths"], deaths["timeouts"]) == (2 * (len(poisoned) - 1), 1)
    states = {run["state_name"] for run in task_runs(site.api, out)}
    assert states == {"Completed"}

    again = site.done(settings)
    assert set(computed(again).values()) == {0}
    assert set(again.result["deaths"].values()) == {0}
    assert again.result["reasons"] == first.result["reasons"]
    assert site.command("verify", out).code == 0
    assert still_open(site.api, out) == []

    # `shard.retry` tries again what this takes out of the manifests: the four, and nothing else.
    assert pipeline.forget_quarantine(out) == len(poisoned)
    assert pipeline.forget_quarantine(out) == 0
