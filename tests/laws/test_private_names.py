"""Private names of libraries that flows/ uses, and foreign state that it restores."""

import ast
import inspect
import logging
import multiprocessing.popen_spawn_posix
import multiprocessing.spawn
import os
import re
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from prefect.logging.handlers import PrefectConsoleHandler

from uttermill.flows import cli
from uttermill.flows.cluster import local
from uttermill.flows.server import server

ROOT = Path(__file__).parents[2]

#: Name, its package, and what uses it.
PRIVATE = [
    ("multiprocessing.spawn:get_preparation_data", "python", "flows/cluster/local.py"),
    ("distributed:SpecCluster._start", "distributed", "flows/cluster/local.py"),
    ("distributed:Status.closing_gracefully", "distributed", "flows/cluster/local.py"),
    ("prefect.server.api.server:create_app", "prefect", "flows/server/door.py"),
]


@pytest.mark.full
@pytest.mark.parametrize(("name", "package", "user"), PRIVATE, ids=[n for n, _, _ in PRIVATE])
def test_the_installed_libraries_have_the_private_names(name: str, package: str, user: str) -> None:
    try:
        resolve_name(name)
    except (AttributeError, ImportError):
        found = version(package) if package != "python" else "this one"
        pytest.fail(f"{name} is gone from {package} {found}: {user} needs another way")


def test_each_private_name_is_used_where_the_list_says() -> None:
    for name, _, user in PRIVATE:
        assert name.rpartition(".")[2].rpartition(":")[2] in (ROOT / user).read_text(), (name, user)


def test_multiprocessing_looks_its_function_up_at_each_start() -> None:
    assert "spawn.get_preparation_data(" in inspect.getsource(multiprocessing.popen_spawn_posix)


def test_workers_alone_are_spawned_without_the_main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    # A process that shares tests with others (pytest-xdist) has none of its own.
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    original = multiprocessing.spawn.get_preparation_data
    main = set(original("x")) & set(local.MAIN_KEYS)
    assert main, "control: this process has a main module"
    with local.without_main():
        with local.without_main():
            pass
        prepared = multiprocessing.spawn.get_preparation_data
        workers = prepared("Dask Worker process (from Nanny)")
        assert {name: workers[name] for name in local.MAIN_KEYS if name in workers} == {
            "init_main_from_name": "uttermill.flows.cluster.nodes"
        }
        assert set(prepared("a user's own process")) & set(local.MAIN_KEYS) == main
    assert multiprocessing.spawn.get_preparation_data is original


def test_dask_names_its_workers_so() -> None:
    import distributed.nanny

    assert re.search(r'name="[^"]*Nanny', inspect.getsource(distributed.nanny))


def test_prefects_handlers_are_quiet_for_a_while_only() -> None:
    handler = PrefectConsoleHandler()
    handler.setLevel(logging.DEBUG)
    logger = logging.getLogger("tests.private_names")
    logger.addHandler(handler)
    try:
        with server.quiet():
            assert (handler.level, len(handler.filters)) == (logging.WARNING, 1)
            assert not logging.raiseExceptions
        assert (handler.level, handler.filters) == (logging.DEBUG, [])
        assert logging.raiseExceptions
    finally:
        logger.removeHandler(handler)


def test_a_command_restores_environment_signals_and_logging(tmp_path: Path, capsys: Any) -> None:
    def state() -> Any:
        logger = logging.getLogger("uttermill")
        return dict(os.environ), signal.getsignal(signal.SIGTERM), logger.level, logger.handlers[:]

    before = state()
    assert cli.main(["status", str(tmp_path)]) == 2
    assert "is not the OUT of a run" in capsys.readouterr().err
    assert state() == before


READING = re.compile(r"\b(environb?|getenvb?|putenv|unsetenv|expandvars)\b")


def users_of_the_environment(top: str) -> set[str]:
    """Paths below `flows` or `tasks` whose code, not its comments, names os's environment."""
    found = set()
    for path in (ROOT / top).rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        names |= {a.name for node in nodes if isinstance(node, ast.ImportFrom) for a in node.names}
        if any(map(READING.fullmatch, names)):
            found.add(path.relative_to(ROOT / top).as_posix())
    return found


def test_the_environment_is_read_in_three_folders_of_flows() -> None:
    used = users_of_the_environment("flows")
    assert {path.split("/")[0] for path in used} == {"cli", "cluster", "server"}


@pytest.mark.nightly
def test_one_module_of_tasks_reads_the_environment() -> None:
    assert users_of_the_environment("tasks") == {"base/environment.py"}
