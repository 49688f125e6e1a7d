"""`estimate`, then `run`: one real Prefect server, spawned workers, fake recogniser."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter

from tests.helpers import corpus
from tests.helpers.shared_server import Server
from uttermill.flows import cli
from uttermill.flows.run import estimates
from uttermill.flows.server import artifacts
from uttermill.flows.server.server import using
from uttermill.flows.settings import SampleSettings
from uttermill.tasks.base.schema import METRICS

pytestmark = [pytest.mark.cluster, pytest.mark.server]

COUNT = 12


@dataclass
class Both:
    """An estimate on lent workers, and the run with the same settings after it on its own."""

    home: Path
    out: Path
    estimate: dict[str, Any]
    run: dict[str, Any]
    data: dict[str, Any]


def settings_of(home: Path) -> dict[str, Any]:
    source = {"kind": "folder", "path": str(home / "in"), "name": "c", "expect_broken": True}
    return {
        "sources": [source], "out": str(home / "out"),
        "shard": {"settle_seconds": 0.0, "hours": 0.001},
        "filter": {"segmenter": {"use": "whole"}, "filters": list(corpus.FILTERS)},
        "transcribe": {"backend": {"use": "fake"}},
        "cluster": {"workers": 2, "performance_report": True},
    }  # fmt: skip


@pytest.fixture(scope="module")
def both(
    prefect_server: Server, shared_cluster: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Both:
    from uttermill.flows import settings
    from uttermill.flows.run import launch

    home = tmp_path_factory.mktemp("estimate")
    corpus.make(home / "in", COUNT)
    (home / "in" / "page.wav").write_text("<html>not found</html>")
    data = settings_of(home)
    chosen = settings.parse(data)
    with using(prefect_server.url):
        lent = settings.parse({**data, "cluster": shared_cluster})
        told = launch.estimate(lent, SampleSettings(fraction=0.1, least=5))
        there = {p.name for p in (home / "out").iterdir()}
        assert "datasets" not in there, "an estimate publishes nothing"
        return Both(home, home / "out", told, launch.run(chosen), data)


def test_the_dataset_is_that_of_a_run_without_an_estimate(both: Both) -> None:
    from uttermill.flows import settings

    alone = settings.parse({**both.data, "out": str(both.home / "alone")})
    published, _ = corpus.run(alone.job())
    assert corpus.content(published.path) == corpus.content(Path(both.run["dataset"]))


def test_the_forecast_holds(both: Both) -> None:
    told = both.estimate
    hours = both.run["seconds"]["packaged"] / 3600
    assert told["hours"]["kept"]["low"] <= hours + 1e-6
    assert told["hours"]["kept"]["expected"] == pytest.approx(hours, rel=0.02)
    grown = estimates.bytes_used(both.out) - told["used_bytes"]
    assert told["disk_bytes"]["expected"] == pytest.approx(grown, rel=0.25)
    assert told["fits"] is True
    wall = told["wall_seconds"]
    assert 0 < wall["low"] <= wall["expected"] <= wall["high"]
    assert told["workers"] == {"CPU": 2}
    kept = json.loads(Path(told["estimate"]).read_text())
    assert {name: kept[name] for name in told if name != "estimate"} == {
        name: value for name, value in told.items() if name != "estimate"
    }


def test_the_forecast_stands_in_prefect(both: Both, prefect_server: Server) -> None:
    which = ArtifactFilter.model_validate({"key": {"any_": [artifacts.KEY]}})
    with using(prefect_server.url), get_client(sync_client=True) as client:
        texts = [str(found.data) for found in client.read_artifacts(artifact_filter=which)]
    mine = [text for text in texts if f"5 of {COUNT} recordings tried" in text]
    assert len(mine) == 1
    kept = both.estimate["hours"]["kept"]["expected"]
    assert f"| hours kept | {kept:,.2f} h |" in mine[0]


def test_every_call_has_a_row(both: Both) -> None:
    folder = max((both.out / "runs").glob("*/summary.json")).parent
    table = pq.read_table(folder / "metrics.parquet")
    assert table.schema.equals(METRICS, check_metadata=True)
    rows = table.to_pylist()
    counts = {(r["stage"], r["step"]) for r in rows}
    assert counts == {(s, "run") for s in ("filter", "resample", "transcribe")} | {
        ("package", step) for step in ["facts", "gather", "write", "link"]
    }
    for name in ("filter", "resample", "transcribe"):
        mine = [r for r in rows if r["stage"] == name]
        # What passes is converted in the pass of `filter`.
        assert sum(r["items_computed"] for r in mine) == (0 if name == "resample" else COUNT - 5)
        assert len(mine) == both.run["stages"][name]["shards_run"]
    for row in rows:
        assert row["error"] is None
        assert row["wall_seconds"] > 0
        assert 0 <= row["cpu_seconds"] < 60
        assert row["rss_peak"] >= row["rss_before"] > 10_000_000
        assert (row["attempts"], row["deaths"], row["gpu"]) == (1, 0, None)
        assert row["queue_seconds"] >= 0
    assert {r["worker"] for r in rows} == {"cpu-0", "cpu-1"}
    assert both.run["stragglers"] == []
    published = Path(both.run["dataset"])
    assert not list(published.rglob("metrics*")), "no clock in a dataset"


def test_the_report_shows_workers(both: Both) -> None:
    folder = max((both.out / "runs").glob("*/summary.json")).parent
    page = (folder / "report.html").read_text()
    assert 'id="workers"' in page
    assert "cpu-0" in page


def test_dasks_report_is_written_and_needs_no_network(both: Both) -> None:
    folder = max((both.out / "runs").glob("*/summary.json")).parent
    page = (folder / "dask-performance.html").read_text()
    assert "<script" in page
    assert '<script src="http' not in page
    assert '<script type="text/javascript" src="http' not in page


def test_the_estimate_is_no_run(both: Both) -> None:
    """What looks at OUT sees its last run, whatever was estimated since."""
    from uttermill.flows.run import run_folder

    folder = Path(both.estimate["estimate"]).parent
    assert (folder / "metrics.parquet").is_file()
    assert not (folder / "settings.json").exists()
    assert run_folder.newest(both.out) != folder


def test_wrong_numbers_are_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--fraction", "0"], ["--fraction", "1.5"], ["--least", "0"]):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["estimate", "x.yaml", *wrong])
        assert stopped.value.code == 2


def test_a_new_format_is_written_whole(tmp_path: Path) -> None:
    from uttermill.flows.estimate import linked

    corpus.make(tmp_path / "in", 2)
    job = corpus.job(tmp_path)
    assert linked(job) == 0.0, "nothing is published"
    published, _ = corpus.run(job)
    assert linked(job) == pytest.approx(published.summary["seconds"]["packaged"])
    other = corpus.job(tmp_path, package={"formats": ("wenet", "lhotse_shar")})
    assert linked(other) == 0.0
