"""Commands in a folder of a stranger import nothing of it, and take no settings from it."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers import tampered, tiers
from uttermill.flows.explore import sandbox
from uttermill.tasks.base import environment
from uttermill.tasks.base.errors import ConfigError

ROOT = Path(__file__).parents[2]
LIBRARIES = (
    "uttermill", "flows", "tasks", "sitecustomize", "usercustomize", "yaml", "numpy", "pyarrow",
    "duckdb", "prefect", "distributed", "dask", "soxr", "soundfile", "psutil", "pydantic",
    "tornado", "msgpack", "cloudpickle", "uvicorn", "rich", "librosa", "numba", "av", "pip",
    "strangers_plugin",
)  # fmt: skip
SCRIPT = "import sys\nfrom uttermill.flows.cli import main\nsys.exit(main())\n"
SELECT = "SELECT 1 AS one"


class Stranger:
    """A folder with a module of each name that Python programs import, which leaves a mark."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder, self.mark = home, home / "folder", home / "mark"
        self.folder.mkdir()
        body = (
            "import sys\n"
            f"with open({str(self.mark)!r}, 'a') as file:\n"
            "    print(__name__, sys.orig_argv, file=file)\n"
            "raise ImportError('of a stranger')\n"
        )
        for name in {*sys.stdlib_module_names, *LIBRARIES} - {*sys.builtin_module_names}:
            (self.folder / f"{name}.py").write_text(body)
        about = self.folder / "stranger-1.0.dist-info"  # plug-ins of libraries, by entry points
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
        groups = ("prefect.collections", "fsspec.specs", "numba_extensions", "pydantic", "dask")
        lines = [f"[{group}]\ninit = strangers_plugin:init\n" for group in groups]
        (about / "entry_points.txt").write_text("".join(lines))
        (home / "bin").mkdir()
        (home / "bin/uttermill").write_text(SCRIPT)  # as pip writes it

    def python(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Python in this folder, with variables of which none is about imports."""
        own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "UTTERMILL_P"))}
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, env={**own, **variables},
            capture_output=True, text=True,
        )  # fmt: skip

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.python(str(self.home / "bin/uttermill"), *words)

    def marks(self) -> str:
        return self.mark.read_text() if self.mark.exists() else ""


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    return Stranger(tmp_path)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tampered.make(tmp_path_factory.mktemp("strangers"))


def settings(out: Path, home: Path, **changes: object) -> str:
    data = yaml.safe_load((out.parent / "settings.yaml").read_text())
    data |= {"out": str(home / "out"), "cluster": {"workers": 1}, "history": "none", **changes}
    (home / "settings.yaml").write_text(yaml.safe_dump(data))
    return str(home / "settings.yaml")


@pytest.mark.parametrize("words", [("-c", "import json"), ("-m", "json.tool", "--help")])
def test_the_folder_is_poisonous(stranger: Stranger, words: tuple[str, ...]) -> None:
    """The control: what Python does by itself."""
    stranger.python(*words)
    assert stranger.marks()


def test_the_explorers_sandbox(
    stranger: Stranger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    duckdb.connect(str(tmp_path / "a.duckdb")).close()
    monkeypatch.chdir(stranger.folder)
    assert sandbox.answer(tmp_path / "a.duckdb", SELECT, lambda: None)["rows"] == [[1]]
    assert stranger.marks() == ""


def test_a_current_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    """It ended every command with a traceback, whatever places it named."""
    (tmp_path / "uttermill").write_text(SCRIPT)
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        ["sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh",
         sys.executable, str(tmp_path / "uttermill"), "schema"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "uttermill: the current folder cannot be found (No such file or directory): change to "
        "another one, and run again\n"
    )


@pytest.mark.cluster
def test_workers_and_isolated_processes(stranger: Stranger, out: Path, tmp_path: Path) -> None:
    """The doctor starts both."""
    done = stranger.command("doctor", settings(out, tmp_path))
    assert stranger.marks() == ""
    assert "Traceback" not in done.stderr + done.stdout
    assert "the recogniser fake" in done.stdout, done  # which was tried in an isolated one


@pytest.mark.cluster
@pytest.mark.server
@pytest.mark.nightly
def test_a_run_with_prefect(stranger: Stranger, out: Path, tmp_path: Path) -> None:
    done = stranger.command("run", settings(out, tmp_path, history="own"))
    assert stranger.marks() == ""
    assert done.returncode == 0, done.stderr


PATHS = {
    ".:{home}:./..": ["{home}"],
    "": [],
    "{home}": ["{home}"],
    ":{home}": ["{home}"],
    "{home}:": ["{home}"],
    "{folder}": ["{folder}"],  # by its whole name it is the user's wish
    ".:{folder}": ["{folder}"],
}


@pytest.mark.parametrize(("given", "way"), tiers.covering(PATHS, ["-m", "-c", "script", "-P"]))
def test_the_path_of_a_command(tmp_path: Path, given: str, way: str) -> None:
    """It has what PYTHONPATH names absolutely, and the installation; so have its children."""
    folder, home = tmp_path / "folder", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    code = (
        "from uttermill.flows import cli; cli._shut_out_current_folder()\n"
        "import sys, os, json, subprocess\n"
        "show = 'import sys, json; print(json.dumps(sys.path))'\n"
        "child = json.loads(subprocess.check_output([sys.executable, '-c', show]))\n"
        "print(json.dumps([sys.path, child]))\n"
    )
    (home / "shown.py").write_text(code)
    installed = str(ROOT / "infra/package")
    places = {"home": home, "folder": folder}
    path = os.pathsep.join([installed, given.format(**places)])
    wanted = [installed, *(place.format(**places) for place in PATHS[given])]
    words = {"-m": ["-m", "shown"], "-c": ["-c", code], "-P": ["-P", "-c", code]}
    if way == "-m" and str(home) not in wanted:
        pytest.skip("the module lies in home")
    done = subprocess.run(
        [sys.executable, *words.get(way, [str(home / "shown.py")])], cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    for paths in json.loads(done.stdout):
        assert [place for place in paths if place.startswith((str(tmp_path), installed))] == wanted
        assert all(map(os.path.isabs, paths))


@pytest.mark.nightly
def test_one_function_starts_python() -> None:
    """`environment.python`: no other makes the command line of a child."""
    also = {
        "flows/cli/process_setup.py",  # this process, again
        "flows/server/kept.py", "tasks/preload.py",  # names it
    }  # fmt: skip
    using = set()
    for folder in ("flows", "tasks"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
                    using.add(path.relative_to(ROOT).as_posix())
    assert using - also == {"tasks/base/environment.py"}


def test_a_childs_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", ".", "lib", "/usr/lib/a", "/srv/b"])
    variables = environment.of_child()
    assert variables["PYTHONPATH"] == "/usr/lib/a:/srv/b"
    assert variables["PYTHONSAFEPATH"] == "1"
    assert environment.python("-m", "x")[1:] == ["-P", "-m", "x"]


HARMFUL = {
    ".env": "PREFECT_API_URL=http://192.0.2.1/api",
    "prefect.toml": "",
    "pyproject.toml": "[tool.prefect.api]\nurl = 'http://192.0.2.1/api'",
}
HARMLESS = {
    ".env": "A=1\n# PREFECT_API_URL=x\n",
    "pyproject.toml": "[project]\nname = 'prefect'\n[tool.ruff]\n",
}


def test_numbas_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environment.check_current_folder(prefect=True)
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: .")
    with pytest.raises(ConfigError, match=r"holds \.numba_config\.yaml, from which numba"):
        environment.check_current_folder(prefect=False)


@pytest.mark.parametrize("name", HARMFUL)
def test_prefects_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(HARMFUL[name])
    environment.check_current_folder(prefect=False)
    with pytest.raises(ConfigError, match=f"holds {name}, from which Prefect would take settings"):
        environment.check_current_folder(prefect=True)
    if name in HARMLESS:
        (tmp_path / name).write_text(HARMLESS[name])
        environment.check_current_folder(prefect=True)
        (tmp_path / name).write_bytes(b"\xff")  # Prefect would fail with a traceback
        with pytest.raises(ConfigError):
            environment.check_current_folder(prefect=True)
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir()  # often a virtual environment
        environment.check_current_folder(prefect=True)


@pytest.mark.full
def test_commands_do_not_start_beside_them(tmp_path: Path, out: Path) -> None:
    stranger = Stranger(tmp_path)
    file = settings(out, tmp_path)
    (stranger.folder / ".env").write_text(HARMFUL[".env"])
    for words in (
        ["run", file],
        ["estimate", file],
        ["serve", file],
        ["demo", "--out", "/nowhere"],
    ):
        done = stranger.command(*words)
        assert done.returncode == 2
        assert "holds .env, from which Prefect would take settings and run code" in done.stderr
    (stranger.folder / ".numba_config.yaml").write_text("cache_dir: .")
    assert "from which numba would take" in stranger.command("status", str(out)).stderr
