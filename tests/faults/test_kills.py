"""Kill it anywhere, run it again: byte for byte what one quiet run gives."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.command import Site, differences, packaged, soon, still_open
from tests.faults.kills import end, gated, gated_site
from tests.helpers import corpus, tiers
from tests.helpers.shared_server import Server
from tests.plugins import gate
from uttermill.tasks.publish.upkeep.verify import verify

pytestmark = [pytest.mark.server, pytest.mark.cluster]

COUNT = 12
MIDDLE = corpus.seconds_of(5)  # 8 kHz, so it is resampled; neither first nor last of its shard
STAGES = ("shard", "filter", "resample", "transcribe", "package")
GATES = tuple(gate.name(stage, MIDDLE) for stage in STAGES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, prefect_server: Server) -> Site:
    made = gated_site(tmp_path_factory.mktemp("kills"), prefect_server.url)
    corpus.make(made.source, COUNT)
    return made


@pytest.fixture(scope="module")
def reference(site: Site) -> Path:
    """OUT of what nobody disturbs."""
    out = site.undisturbed(gated(site, "reference"))
    assert len(packaged(out)) == COUNT
    return out


@pytest.fixture(autouse=True)
def open_gates(site: Site) -> Iterator[None]:
    yield
    for left in site.gate.iterdir():
        left.unlink()


def sound(site: Site, out: Path, reference: Path) -> None:
    """What has to hold after the run that completes."""
    assert differences(out, reference) == []
    assert corpus.temps(out) == []
    assert not any(site.temp.glob("uttermill-*"))  # of killed runs neither
    assert os.readlink(out / "datasets/latest") == "v0001"
    assert verify(out / "datasets/latest") == []
    assert still_open(site.api, out) == []


def ready(site: Site) -> bool:
    """Whether a worker has loaded everything and is about to join."""
    return any(site.temp.rglob("worker-*/tmp"))


@pytest.mark.full
@pytest.mark.parametrize("gates", [GATES[1::3], tiers.nightly(GATES)], ids=["some", "all"])
def test_one_death_of_a_worker_in_stages_and_three_in_a_tar(
    site: Site, reference: Path, gates: tuple[str, ...]
) -> None:
    """A tar is written as a whole: it cannot be isolated, and is tried as often as what can."""
    for name in gates:
        (site.gate / f"{name}.kill").touch()
    of_tar = site.gate / f"{gates[-1]}.kill"
    out = f"deaths{len(gates)}"
    with site.start("run", gated(site, out), "--json") as run:
        for _ in range(2):
            assert soon(lambda: not of_tar.exists() or run.process.poll() is not None), run.stderr()
            of_tar.touch()
        # As if one of them had died while it wrote.
        (site.home / out / "manifests/filter/.half.tmp").touch()
        ended = run.end()
        assert run.none_left(), run.alive()
    assert ended.code == 0, ended.stderr
    assert list(site.gate.iterdir()) == []  # each of them happened
    assert ended.result["deaths"] == {"deaths": len(gates) + 2, "timeouts": 0, "isolated": 0}
    sound(site, site.home / out, reference)


@pytest.mark.nightly
def test_death_of_all_workers_at_their_start(site: Site, reference: Path) -> None:
    """As soon as they are seen, and when the first of the next ones has loaded everything."""
    with site.start("run", gated(replace(site, history="none"), "start"), "--json") as run:
        for come in (lambda: len(run.workers()) == 2, lambda: ready(site)):
            assert soon(come), run.stderr()
            assert end(run.workers()) == 2
        ended = run.end()
    assert ended.code == 0, ended.stderr
    assert ended.result["deaths"]["deaths"] or "all workers start again" in ended.stderr
    sound(site, site.home / "start", reference)


def test_death_between_the_rename_and_the_move_of_latest(site: Site, reference: Path) -> None:
    out = site.home / "moved"
    shutil.copytree(reference, out, symlinks=True)
    (out / "datasets/latest").unlink()
    # Nothing is left to compute, so that no gate is passed and Prefect is not told.
    ended = replace(site, history="none", environment={}).done(gated(site, "moved"))
    assert not ended.result["new_version"]
    sound(site, out, reference)


def test_control_the_comparison_sees_one_changed_byte(
    site: Site, reference: Path, tmp_path: Path
) -> None:
    for name in sorted(corpus.content(reference / "datasets/v0001")):
        copy = tmp_path / name.replace("/", "-")
        shutil.copytree(reference / "datasets", copy / "datasets", symlinks=True)
        assert differences(copy, reference) == []
        corpus.flip(copy / "datasets/v0001" / name, 20)
        assert differences(copy, reference) == [name]
        (copy / "datasets/v0001" / name).unlink()
        assert differences(copy, reference) == [name]
    (copy / "datasets/.staging").mkdir()
    assert any(".staging" in fault for fault in differences(copy, reference))
