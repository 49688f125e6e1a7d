"""`import uttermill`, from a wheel, in a project that has its own `flows/` and `tasks.py`."""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import uttermill
from tests.helpers import corpus
from tests.helpers.shared_server import Server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "flows/python.md"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the product, built from a copy, because a build writes into its folder."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("flows", "tasks", "infra"):
        shutil.copytree(
            ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(copy / "dist"), str(copy)], check=True)
    [built] = (copy / "dist").glob("*.whl")
    return built


@pytest.mark.full
def test_one_name_is_installed_with_all_its_files(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"uttermill"}
    for top in ("flows", "tasks"):
        here = {path.relative_to(ROOT) for path in (ROOT / top).rglob("*.py")}
        assert {f"uttermill/{path.as_posix()}" for path in here} <= {*names}
    assert "uttermill/files/slurm/run.sbatch" in names


def test_each_file_of_infra_is_in_the_package() -> None:
    linked = {path.name for path in (ROOT / "infra/package/uttermill/files").iterdir()}
    own = {"package", "check_wheels.py"}  # the links themselves; a tool of the tests
    assert linked == {path.name for path in (ROOT / "infra").iterdir()} - own


@pytest.mark.full
def test_the_page_runs_in_a_project_with_its_own_flows_and_tasks(
    wheel: Path, tmp_path: Path
) -> None:
    site, project = tmp_path / "site", tmp_path / "project"
    zipfile.ZipFile(wheel).extractall(site)
    corpus.make(project / "in")
    (project / "flows").mkdir()
    (project / "flows/__init__.py").write_text("raise RuntimeError('not ours')\n")
    (project / "tasks.py").write_text("raise RuntimeError('not ours')\n")
    first, second, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    script = f"{first}\n{second}\nprint(uttermill.__file__)\n"
    (project / "job.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "job.py"],
        cwd=project, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    version, packaged, _ = lines[0].split()
    assert (version, int(packaged) > 0) == ("1", True)
    assert lines[-1] == str(site / "uttermill/__init__.py")
    assert sum("(" in line and line.endswith("16000") for line in lines) > 0
    assert json.loads((project / "out/datasets/latest/dataset.json").read_text())["version"] == 1


@pytest.mark.nightly
def test_a_result_and_its_tables(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus.make(tmp_path / "in")
    given = {
        "sources": [{"kind": "folder", "path": str(tmp_path / "in"), "name": "a"}],
        "out": str(tmp_path / "out"),
        "transcribe": {"backend": {"use": "fake"}},
        "package": {"max_failed_fraction": 1.0},
        "cluster": {"workers": 1},
        "history": "none",
    }
    with caplog.at_level(logging.INFO, "uttermill"):
        result = uttermill.prepare(given)
    assert result.new_version
    assert any("shard" in record.message for record in caplog.records)
    dataset = result.load()
    assert dataset.utterances.num_rows == result.utterances["packaged"]
    failed = dataset.query(
        "SELECT count(DISTINCT recording) AS n FROM ledger WHERE outcome = 'failed'"
    )
    assert failed.to_pylist() == [{"n": result.recordings["failed"]}]
    clips = [*dataset.clips()]
    assert [len(clip.samples) for clip in clips] == [clip.row["num_samples"] for clip in clips]
    assert dataset.clip(clips[0].row["id"]).samples.tolist() == clips[0].samples.tolist()
    with pytest.raises(uttermill.ConfigError, match="no clip 'x'"):
        dataset.clip("x")
    again = uttermill.prepare(given)
    assert (again.version, again.new_version) == (1, False)


@pytest.mark.server
@pytest.mark.nightly
def test_the_pages_subflow_runs(
    prefect_api: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.make(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    *_, block = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    scope: dict[str, Any] = {}
    # Prefect asks for the file of a flow.
    (tmp_path / "mine.py").write_text(block)
    exec(compile(block, str(tmp_path / "mine.py"), "exec"), scope)
    assert scope["nightly"]()["version"] == 1


def test_bad_settings_and_a_missing_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(uttermill.ConfigError, match="packge"):
        uttermill.prepare({"sources": [], "out": str(tmp_path), "packge": {}})
    with pytest.raises(uttermill.ConfigError, match=r"holds no dataset\.json"):
        uttermill.load(tmp_path)
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        _ = uttermill.nonesuch
