"""Shared fixtures. No test sees the user's Prefect: its home, profile, API or database."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers import authorities, prefect_database, shared_server, tiers

if TYPE_CHECKING:
    from tests.helpers.s3_server import S3
    from tests.helpers.shared_server import Server

#: Each starts runs of two workers, and a Prefect server.
MOST_PROCESSES = 4

#: Where temporary files lie if there is that much room, unless TMPDIR says where: a run syncs all
#: that it writes, which takes most of a small run on a disk and no time in memory.
MEMORY, ROOM = Path("/dev/shm"), 8 << 30


def in_memory() -> None:
    """For this process and those that it starts, among them the ones that share the tests."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


in_memory()  # before anything asks where they lie

# As workers have it, and before numpy starts its threads. Those of several processes on few cores
# mostly wait for each other, which costs CPU: a product of matrices takes five times as much.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# glibc has read it when a process that shares the tests began (`pytest_configure`); those that it
# starts have their memory as users have it.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("MALLOC_ARENA_MAX", None)

# Before anything imports Prefect, which reads its settings then; child processes inherit it.
for _name in [name for name in os.environ if name.startswith("PREFECT_")]:
    del os.environ[_name]
_HOME = tempfile.mkdtemp(prefix="uttermill-test-prefect-")
os.environ["PREFECT_HOME"] = _HOME
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "1"
authorities.trust_one(Path(_HOME))
# Of all servers of the tests, and what their clients send: a client need not be told. Tests of the
# password that we make remove it.
for _name in ("PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"):
    os.environ[_name] = "tests:of no value"
# Of the server: how long a run that found no free slot waits before it asks again; 30 s else.
os.environ["PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS"] = "2"


# Tests make jobs with plug-ins of theirs. Those about trust remove it.
os.environ["UTTERMILL_PLUGINS"] = "*"

ALL_KILLS = 60


def kills(config: pytest.Config) -> int:
    """How many kills the seeded plan has."""
    chosen: int | None = config.getoption("kills")
    return chosen or ALL_KILLS


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("uttermill")
    group.addoption(
        "--kills", type=int, default=None, metavar="N",
        help="how many kills -9 tests/faults/test_kills_seeded.py does "
        f"(by night {ALL_KILLS}, which is all; else none)",
    )  # fmt: skip
    group.addoption(
        "--kills-seed", type=int, default=6640, metavar="N", help="what its plan is drawn from"
    )


def pytest_collection(session: pytest.Session) -> None:
    """Searches for garbage among what modules define cost a third of the collection's CPU."""
    gc.disable()
    if worker := getattr(session.config, "workerinput", None):
        import_in_turn(session.config, worker)


def import_in_turn(config: pytest.Config, worker: dict[str, Any]) -> None:
    """Each process that shares the tests imports all their modules. Each begins elsewhere, so that
    on a fresh clone every module is compiled by one of them, not by all."""
    files = sorted(file for folder in config.args for file in Path(folder).rglob("test_*.py"))
    files = [file for file in files if not tiers.left_to_others(file, config.option.markexpr)]
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for file in tiers.turned(files, number, count):
        # Collection tells what is wrong with a module.
        with suppress(Exception, pytest.skip.Exception):
            name = file.resolve().relative_to(config.rootpath).with_suffix("")
            importlib.import_module(".".join(name.parts))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A third of the modules have no test of the full tier: it need not import them."""
    return tiers.left_to_others(collection_path, config.option.markexpr) or None


#: Dask leaves a connection to a scheduler that has gone to the garbage collector, which may come to
#: it in a later test.
DANGLING = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.hookimpl(tryfirst=True)  # before `-m` is applied, which is told of more markers here
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.choose(config, items)
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(DANGLING)


def pytest_collection_finish(session: pytest.Session) -> None:
    """A search is seldom worth its CPU: tests make few cycles, and hold large modules."""
    gc.freeze()
    gc.set_threshold(20_000, *gc.get_threshold()[1:])
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Whole files to each process; those that share a cluster to one of them, which starts it."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return tiers.unit(config.rootpath / nodeid.split("::", 1)[0])

    return ByFile(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes that share the tests: for the whole suite one for each core, and one more, as a
    test waits a sixth of its time, and one of a run a third; none for chosen files."""
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    cores = len(os.sched_getaffinity(0))
    return min(cores + 1, MOST_PROCESSES) if whole and cores > 1 else 0


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-profile", None):
        from tests.helpers import fuzz as fuzz  # which makes the profile that Hypothesis loads now
    config.add_cleanup(lambda: shutil.rmtree(_HOME, ignore_errors=True))  # the last thing
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        # Each thread of servers and databases would have a heap of its own, which stays when it
        # has ended: 60 MB after a few files of tests.
        os.environ["MALLOC_ARENA_MAX"] = "1"
        config.add_cleanup(shared_server.begin())


@pytest.fixture
def no_recipe_kept() -> Iterator[None]:
    """Processes keep recipes, which never change in one. Here they are worked out during the test
    and again after it: for tests that change what recipes follow from. The last of their fixtures:
    others keep recipes, too."""
    from uttermill.tasks.shard_store import recipe

    kept = (recipe.of_plugin, recipe.audio_recipes, recipe.weights_of)
    for function in kept:
        function.cache_clear()
    yield
    for function in kept:
        function.cache_clear()


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of the test start no process for a report or a forecast."""
    from tests.helpers import one_process

    one_process.holds(monkeypatch)


@pytest.fixture
def quick_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of enhanced clips whose scores may be any: the level of a window in place of
    DNSMOS, which takes a second for both clips of a recording."""
    import numpy as np

    from uttermill.tasks.filters import _dnsmos

    def windows(blocks: Iterable[Any], *_: Any, **__: Any) -> Iterator[Any]:
        level = float(np.sqrt(np.mean(np.square(np.concatenate(list(blocks))))))
        yield np.full((1, 3), 1 + 3 * min(1.0, level), np.float32)

    monkeypatch.setattr(_dnsmos, "windows", windows)


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real Prefect server on a new database; reach it within `flows.server.server.using(it.url)`.
    All processes that share the tests share it."""
    with shared_server.serving(prefect_database.shared(tmp_path_factory), Path(_HOME)) as server:
        yield server


@pytest.fixture(scope="session")
def empty_database(prefect_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the home of a server that a test starts itself; see `prefect_database.give`. The home of
    this process has it already."""
    return prefect_database.shared(tmp_path_factory)


@pytest.fixture
def prefect_api(prefect_server: Server) -> Iterator[Server]:
    """The same server; flows and clients of the test speak to it."""
    from uttermill.flows.server import history
    from uttermill.flows.server.server import using

    with using(prefect_server.url):
        yield prefect_server
        history.drain(timeout=10)  # else the events of a later test on another server come here


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """`cluster` in the settings of runs that neither kill workers nor need their own."""
    from tests.helpers.shared_cluster import serving

    with serving(tmp_path_factory.mktemp("cluster") / "scratch") as settings:
        yield settings


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A real S3 server with an empty bucket."""
    from tests.helpers.s3_server import serving

    with serving() as server:
        yield server
