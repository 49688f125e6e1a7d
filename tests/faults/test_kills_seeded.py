"""Kill it anywhere, run it again: kills with -9, of whatever runs, in every stage.

    pytest tests/faults/test_kills_seeded.py --kills 4              one of each victim
    pytest tests/faults/test_kills_seeded.py -m nightly             the whole plan
    pytest tests/faults/test_kills_seeded.py --kills 30 --kills-seed 1

Every few seconds a kill; the plan follows from `--kills-seed`, what it hits from the machine.
"""

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.conftest import kills
from tests.faults.command import Site, Started, differences, packaged, soon, still_open
from tests.faults.kills import (
    ANY,
    MOMENTS,
    VICTIMS,
    Kill,
    Striker,
    Tally,
    Watch,
    database,
    gated,
    gated_site,
    leftovers,
    plan,
    strays,
    unbalanced,
    with_own_server,
)
from tests.helpers import corpus
from tests.helpers.shared_server import Server
from uttermill.flows.run import run_folder
from uttermill.flows.settings import parse
from uttermill.tasks.storage import temporary

pytestmark = [pytest.mark.server, pytest.mark.cluster]

COUNT = 12
PACE = 0.03  # s an item, in every stage: so wide is what a kill has to hit
FRESH_OUTS = 3  # for a kill that came after the end of its run


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chain" in metafunc.fixturenames:
        count, seed = kills(metafunc.config), metafunc.config.getoption("kills_seed")
        asked = metafunc.config.getoption("kills") is not None
        marks = [] if asked else [pytest.mark.nightly]
        chains = [
            pytest.param(chain, marks=marks, id=f"chain{number:02d}")
            for number, chain in enumerate(plan(count, seed))
        ]
        metafunc.parametrize("chain", chains)


@pytest.fixture(scope="module")
def tally(pytestconfig: pytest.Config) -> Iterator[Tally]:
    count, seed = kills(pytestconfig), pytestconfig.getoption("kills_seed")
    tally = Tally()
    yield tally
    if tally.chains == len(plan(count, seed)):  # else some were not chosen, or failed
        assert tally.kills == count
        assert count < 2 * len(MOMENTS) or tally.missed() == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, prefect_server: Server) -> Site:
    made = gated_site(tmp_path_factory.mktemp("seeded"), prefect_server.url)
    corpus.make(made.source, COUNT)
    return made


@pytest.fixture(scope="module")
def alone(site: Site) -> Site:
    return with_own_server(site)


@pytest.fixture(scope="module")
def reference(site: Site) -> Path:
    """OUT of what nobody disturbs."""
    out = site.undisturbed(gated(site, "reference"))
    assert len(packaged(out)) == COUNT
    return out


@pytest.fixture(scope="module")
def quiet(site: Site, reference: Path) -> float:
    """Seconds of the run that nobody disturbs, for kills at any moment of it."""
    Watch(site, PACE)
    ended = site.done(gated(site, "quiet"))
    assert differences(site.home / "quiet", reference) == []
    assert ended.result["deaths"] == {"deaths": 0, "timeouts": 0, "isolated": 0}
    return ended.seconds


@pytest.fixture(autouse=True)
def open_gates(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "site" in request.fixturenames:
        for left in request.getfixturevalue("site").gate.iterdir():
            left.unlink()


def sound(site: Site, out: Path) -> None:
    """What has to hold after a run that ended well."""
    assert soon(lambda: not strays(site), 5.0, every=0.2), strays(site)
    assert differences(out, site.home / "reference") == []
    assert unbalanced(site, out) == []
    assert leftovers(site, out) == []
    assert os.readlink(out / "datasets/latest") == "v0001"
    if site.api:
        assert still_open(site.api, out) == []


def suffered(striker: Striker, name: str, left: list[Kill], held: bool = False) -> list[Kill]:
    """One OUT through as many of the kills as come before a run's end; those that are left.
    `held`: the stage of a kill waits for it, so that it cannot come too late."""
    site = striker.site
    settings = gated(site, name)
    without_server = False

    def held_for(run: Started, kill: Kill, watch: Watch) -> bool:
        hold = site.gate / f"{kill.moment}.hold"
        hold.touch()  # of the moment `any`, which no gate has, it holds nothing
        try:
            return striker.strike(run, replace(kill, items=1), watch)
        finally:
            hold.unlink()

    while True:
        watch = Watch(site, PACE)
        with site.start("run", settings, "--json") as run:
            while left and (held_for if held else striker.strike)(run, left[0], watch):
                kill, *left = left
                without_server = without_server or kill.victim == "server"
                if kill.victim == "run":
                    gone(site, run, kill)
                    break
            else:
                ended = run.end()
                assert ended.code == 0, ended.stderr
                assert run.none_left(), run.alive()
                striker.seconds = min(striker.seconds, ended.seconds)
                break
    if without_server:  # the next run closes what Prefect still has as running
        assert not site.done(gated(site, name)).result["new_version"]
    sound(site, site.home / name)
    if not striker.tally.chains:  # once is enough
        usual = replace(site, history="none", environment={})
        again = usual.done(gated(usual, name))
        assert not again.result["new_version"]
        sound(site, site.home / name)
    return left


def gone(site: Site, run: Started, kill: Kill) -> None:
    """All of a killed run ends by itself; an impatient user does not wait for that."""
    if kill.patient:
        assert run.none_left(60.0), run.alive()


def test_kills(
    site: Site,
    alone: Site,
    reference: Path,
    tally: Tally,
    chain: tuple[Kill, ...],
    request: pytest.FixtureRequest,
) -> None:
    name = request.node.callspec.id
    own = any(kill.victim == "server" for kill in chain)
    whenever = any(kill.moment == ANY for kill in chain)
    quiet = request.getfixturevalue("quiet") if whenever else 0.0
    striker = Striker(alone if own else site, tally, quiet)
    left = list(chain)
    try:
        for fresh in range(FRESH_OUTS):
            left = suffered(striker, f"{name}-{fresh}", left, held=fresh > 0)
            if not left:
                break
            # A run is not equally long every time: sooner, then.
            left = [replace(kill, delay=kill.delay / 2) for kill in left]
        assert not left, "these kills came too late every time"
        if own:
            assert whole(alone)
    except BaseException as error:
        error.add_note(
            f"the plan was {'; '.join(map(str, chain))}\n"
            f"again: pytest tests/faults/test_kills_seeded.py --kills {kills(request.config)} "
            f"--kills-seed {request.config.getoption('kills_seed')} -k {name}"
        )
        raise
    tally.chains += 1


@pytest.mark.nightly
def test_a_kill_that_comes_late_is_waited_for(
    site: Site, reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process may get no core between a moment and its kill, until the run has ended."""
    waited = Striker._waited

    def late(self: Striker, run: Started, kill: Kill, watch: Watch) -> bool:
        come = waited(self, run, kill, watch)
        soon(lambda: run.process.poll() is not None, 30.0)
        return come

    monkeypatch.setattr(Striker, "_waited", late)
    bare = replace(site, api="", history="none")
    kill = Kill("run", "publish", 1, 0.5, patient=True)
    assert suffered(Striker(bare, Tally(), 0.0), "late", [kill]) == [kill], "control"
    assert suffered(Striker(bare, Tally(), 0.0), "held", [kill], held=True) == []


def whole(alone: Site) -> bool:
    """Whether the database of killed servers is sound, and has no run that goes on."""
    with closing(sqlite3.connect(database(alone))) as opened:
        sane = opened.execute("pragma integrity_check").fetchall()
        going = opened.execute(
            "select name, state_type from flow_run where state_type in ('RUNNING', 'PENDING') "
            "union all "
            "select name, state_type from task_run where state_type in ('RUNNING', 'PENDING')"
        ).fetchall()
    assert sane == [("ok",)]
    assert going == []
    return True


# The plan


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(20))
def test_the_plan_hits_everybody_everywhere(seed: int) -> None:
    chains = plan(60, seed)
    kills = [kill for chain in chains for kill in chain]
    assert len(kills) == 60
    assert {(k.victim, k.moment) for k in kills} == {(v, m) for v in VICTIMS for m in MOMENTS}
    assert plan(60, seed) == chains != plan(60, seed + 1)
    few = [kill for chain in plan(len(VICTIMS), seed) for kill in chain]
    assert {kill.victim for kill in few} == set(VICTIMS)
    assert len({kill.moment for kill in few}) == len(VICTIMS)
    for chain in chains:
        moments = [MOMENTS.index(kill.moment) for kill in chain]
        assert moments == sorted(set(moments))


@pytest.mark.quick
def test_a_temporary_file_in_the_record_of_a_killed_run_goes(tmp_path: Path) -> None:
    settings = parse({"sources": [{"kind": "folder", "path": str(tmp_path)}], "out": str(tmp_path)})
    left = tmp_path / "runs/killed/.settings.tmp"
    left.parent.mkdir(parents=True)
    left.touch()
    with run_folder.record(tmp_path, settings) as run:
        run.finish({})
    assert list((tmp_path / "runs").rglob("*.tmp")) == []
    assert (run.folder / "summary.json").exists()


@pytest.mark.parametrize("moment", ["before its lock", "half removed", "while a worker writes"])
def test_scratch_of_a_killed_run_goes(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "uttermill-run-killed"
    left.mkdir()
    if moment == "half removed":
        (left / temporary.LOCK).write_bytes(temporary.MARK)
    elif moment == "before its lock":
        os.utime(left, (0, 0))
    else:
        left.rmdir()
    with run_folder.scratch() as scratch:
        assert not left.exists()
        if moment == "while a worker writes":
            until = time.monotonic() + 0.3

            def write() -> None:
                while time.monotonic() < until:
                    with suppress(OSError):
                        (scratch / "workers").mkdir(exist_ok=True)
                        (scratch / "workers" / uuid4().hex).touch()

            writer = threading.Thread(target=write)
            writer.start()
    if moment == "while a worker writes":
        writer.join()
    assert list(tmp_path.iterdir()) == []


def test_scratch_of_a_living_run_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "uttermill-run-made-just-now").mkdir()
    with run_folder.scratch() as one, run_folder.scratch() as other:
        assert one.exists()
        assert len(list(tmp_path.iterdir())) == 3
        assert other.exists()
