"""What a short run starts and imports: nothing that it does not need."""

import gc
import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.flows import settings
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.run import execute, launch, plans, run_folder
from uttermill.flows.server import server
from uttermill.tasks import pipeline, plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins import loading
from uttermill.tasks.shard_store import recipe
from uttermill.tasks.storage import lock

#: Packages that take long to import, or that a part of a run is meant to do without.
WATCHED = {
    "av", "ctranslate2", "dask", "datasets", "distributed", "faster_whisper", "fastapi", "fsspec",
    "httpx", "huggingface_hub", "jinja2", "librosa", "llvmlite", "numba", "numpy", "onnxruntime",
    "pandas", "prefect", "psutil", "pyarrow", "pydantic", "rapidfuzz", "resampy", "rich",
    "samplerate", "scipy", "sklearn", "soundfile", "soxr", "sqlalchemy", "tokenizers", "torch",
    "yaml",
}  # fmt: skip
CLIENT = {
    "dask", "distributed", "jinja2", "numpy", "psutil", "pyarrow", "pydantic", "rich", "soxr",
    "yaml",
}  # fmt: skip
#: Distributed imports jinja2 and yaml; rapidfuzz compares texts, here for a recogniser.
WORKER = {
    "av", "dask", "distributed", "jinja2", "numpy", "psutil", "pyarrow", "pydantic", "rapidfuzz",
    "soundfile", "soxr", "yaml",
}  # fmt: skip

#: Runs the command and prints what this process has imported by then.
COMMAND = """
import json, sys
from uttermill.flows.cli.command_line import main
sys.argv[0] = "uttermill"
code = main()
print(json.dumps({"exit": code, "modules": sorted({m.split(".")[0] for m in sys.modules})}))
"""
FLAGS = [
    "--json",
    "--set=transcribe.backend.use=fake",
    "--set=shard.settle_seconds=0",
    "--set=cluster.workers=1",
    "--set=history=none",
]


def ran(home: Path, *more: str) -> tuple[dict[str, Any], set[str]]:
    """What `run --json` says, and the watched packages that its process imported."""
    command = [sys.executable, "-c", COMMAND, "run", f"--source={home / 'in'}"]
    done = subprocess.run(
        [*command, f"--out={home / 'out'}", *FLAGS, *more],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True,
    )  # fmt: skip
    told, imported = map(json.loads, done.stdout.splitlines())
    assert imported["exit"] == 0, done.stderr
    return told, WATCHED & set(imported["modules"])


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], set[str]]:
    home = tmp_path_factory.mktemp("start")
    corpus.make(home / "in", 4)
    return home, *ran(home)


@pytest.mark.quick
@pytest.mark.cluster
def test_a_run_without_prefect_imports_these(first: tuple[Path, dict[str, Any], set[str]]) -> None:
    home, told, imported = first
    assert told["utterances"]["packaged"] == 4
    assert "task_runs" not in told
    assert imported == CLIENT
    folder = run_folder.newest(home / "out")
    assert {path.name for path in folder.iterdir()} >= {
        "settings.json", "summary.json", "metrics.parquet", "report.html", "run.log",
        "left_aside.csv",
    }  # fmt: skip
    assert "not made on a worker" not in (folder / "run.log").read_text()


@pytest.mark.cluster
def test_a_worker_imports_these(tmp_path: Path) -> None:
    job = corpus.job(tmp_path, transcribe={"backend": {"use": "fake"}})

    def looked() -> tuple[list[str], tuple[int, ...], bool]:
        import sys

        main = sys.modules["__main__"].__file__ or ""
        assert main.endswith("flows/cluster/nodes.py"), main
        names = sorted({name.split(".")[0] for name in sys.modules})
        return names, gc.get_threshold(), gc.isenabled() and gc.get_freeze_count() > 0

    reached = loading.modules_of(job)
    with Cluster(ClusterSettings(workers=1), tmp_path / "scratch", engines=reached) as cluster:
        [(found, searches, frozen)] = cluster.client.run(looked).values()
    assert WATCHED & set(found) == WORKER
    assert searches[0] < 1000 * 700, "seldom only while it starts"
    assert frozen


def test_an_engine_that_settings_name_is_reached(tmp_path: Path) -> None:
    job = corpus.job(tmp_path, resample={"resampler": {"use": "librosa"}})
    found = loading.modules_of(job)
    assert {"resampy", "samplerate", "librosa.core.audio"} <= found.keys()
    assert list(found).index("resampy") < list(found).index("librosa.core.audio")
    assert "resampy" not in loading.modules_of(corpus.job(tmp_path))
    own = corpus.job(tmp_path, resample={"resampler": {"use": "resampy_kaiser_best"}})
    assert loading.modules_of(own)["resampy"] == "resample"


#: Of a run that starts no workers.
ALONE = CLIENT - {"dask", "distributed", "jinja2"}


@pytest.mark.cluster
@pytest.mark.nightly
def test_what_needs_no_worker_starts_none(first: tuple[Path, dict[str, Any], set[str]]) -> None:
    """Nothing to do, then only another threshold: no workers and no Prefect, and a folder each."""
    home, before, _ = first
    count = len([*(home / "out/runs").iterdir()])
    again, imported = ran(home, "--set=history=auto")
    assert (again["new_version"], again["version"]) == (False, 1)
    assert imported <= ALONE, "no Prefect, whatever `history` says"
    assert sum(stage["items_computed"] for stage in again["stages"].values()) == 0
    assert again["utterances"] == before["utterances"]
    longest = max(corpus.seconds_of(n) for n in range(4))
    limit = f"--set=filter.filters=[{{use: duration, max: {longest - 0.01}}}]"
    told, imported = ran(home, limit)
    assert (told["new_version"], told["utterances"]["dropped"]) == (True, 1)
    assert imported <= ALONE
    stages = {name: stage["items_computed"] for name, stage in told["stages"].items()}
    assert {name: n for name, n in stages.items() if n} == {"package": 3}
    assert len([*(home / "out/runs").iterdir()]) == count + 2


@pytest.fixture
def no_flow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes what would have been started, and starts nothing."""
    started: list[str] = []

    def recorded(self: Any) -> None:
        started.append("workers")

    monkeypatch.setattr("uttermill.flows.run.execute.Body.start_workers", recorded)
    monkeypatch.setattr(server.LocalServer, "__init__", lambda _: started.append("server"))
    return started


def test_a_server_that_is_not_there(tmp_path: Path, no_flow: list[str]) -> None:
    source = corpus.make(tmp_path / "in", 1)
    sets = [flag.removeprefix("--set=") for flag in FLAGS[1:-1]]
    chosen = settings.read(None, [str(source)], str(tmp_path / "out"), [*sets, "history=server"])
    with pytest.raises(ConfigError, match=r"history: server needs .* PREFECT_API_URL"):
        launch.run(chosen)
    assert no_flow == []


def test_a_killed_run_is_told_from_one_that_failed(tmp_path: Path) -> None:
    """Prefect would show a killed run as running for ever: the next one has to tell it."""
    from uttermill.tasks.storage import write_atomic

    chosen = settings.read(None, [str(tmp_path)], str(tmp_path / "out"), [])
    assert not run_folder.was_killed(tmp_path / "out")
    with run_folder.record(tmp_path / "out", chosen):
        pass  # nothing is written of its end
    assert run_folder.was_killed(tmp_path / "out")
    with (
        pytest.raises(ValueError, match="it failed"),
        run_folder.record(tmp_path / "out", chosen) as run,
        run.failing(),
    ):
        raise ValueError("it failed")
    assert not run_folder.was_killed(tmp_path / "out")
    with run_folder.record(tmp_path / "out", chosen) as run:
        write_atomic(run.folder / "summary.json", b"{}")
    assert not run_folder.was_killed(tmp_path / "out")
    run_folder.write_prefect_note(run.place, "of Prefect")  # killed before Prefect knew its end
    assert run_folder.was_killed(tmp_path / "out")
    run_folder.close_prefect_note(run.place)
    assert not run_folder.was_killed(tmp_path / "out")
    assert run_folder.last_flow_runs(tmp_path / "out") == {"of Prefect": True}


#: Makes more cycles than set the collector off, within `importing` and after it.
COLLECTED = """
import gc
from uttermill.tasks.base.process_memory import importing
seen = []
gc.callbacks.append(lambda phase, info: seen.append(phase))
def cycles():
    for _ in range(5000):
        one = []; one.append(one)
    return len(seen)
if {off}: gc.disable()
with importing():
    import wave
    within = cycles()
print(within, bool(cycles()), gc.isenabled(), gc.get_freeze_count() > 0)
"""


@pytest.mark.parametrize(
    ("off", "told"), [(False, "0 True True True"), (True, "0 False False True")]
)
def test_imports_are_not_searched_for_garbage(off: bool, told: str) -> None:
    code = COLLECTED.replace("{off}", str(off))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        cwd=Path(__file__).parents[2], check=True,
    )  # fmt: skip
    assert done.stdout.split("\n")[0] == told


def test_a_scheduled_run_says_once_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, other, said = tmp_path / "out", ExitStack(), list[str]()
    corpus.make(tmp_path / "in", 1)
    monkeypatch.setattr(execute, "HELD_S", 0.0)

    def waits(sentence: str) -> None:
        said.append(sentence)
        other.close()

    sources = [{"kind": "folder", "path": str(tmp_path / "in")}]
    other.enter_context(lock.hold(out))
    with execute.opened(settings.parse({"sources": sources, "out": str(out)}), waits):
        (sentence,) = said
    assert sentence.startswith(f"another run holds {out}: ")
    assert sentence.endswith("; this run begins when that one has ended")


# A run that would compute much again is refused before it starts, where the settings say so.


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
