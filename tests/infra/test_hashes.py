"""`infra/requirements-hashed.txt`: versions of `constraints.txt`, each file known by its hash."""

import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from packaging import tags
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from tests.helpers import authorities

ROOT = Path(__file__).parents[2]
HASHED = ROOT / "infra/requirements-hashed.txt"
UV = Path(sysconfig.get_path("scripts")) / "uv"
EXTRAS = ("demo", "dnsmos", "s3")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")

PYTHONS = ((3, 11), (3, 12), (3, 13))
#: Wheels' platforms, and variables of markers.
PLATFORMS = {
    "linux x86_64": ([f"manylinux_2_{n}_x86_64" for n in (17, 26, 27, 28)], "x86_64"),
    "linux aarch64": ([f"manylinux_2_{n}_aarch64" for n in (17, 26, 27, 28)], "aarch64"),
    "macOS arm64": ([*tags.mac_platforms((14, 0), "arm64")], "arm64"),
}


@cache
def hashed() -> dict[str, tuple[Requirement, set[str]]]:
    """Each distribution's requirement and the hashes of its files, by its name."""
    blocks = re.split(r"\n(?=\w)", HASHED.read_text().replace("\\\n", ""))
    entries: dict[str, tuple[Requirement, set[str]]] = {}
    for block in blocks[1:]:
        line, *_ = block.split("--hash=", 1)
        requirement = Requirement(line)
        entries[canonicalize_name(requirement.name)] = requirement, set(HASH.findall(block))
    return entries


def constraints() -> dict[str, str]:
    lines = (ROOT / "infra/constraints.txt").read_text().splitlines()
    pins = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): f"=={version}" for name, version in pins}


def needed() -> set[str]:
    """All that the project needs here, with its usual extras, and what builds it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    ahead = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    ahead += [line for extra in EXTRAS for line in extras[extra]]
    names: set[str] = set()
    while ahead:
        requirement = Requirement(ahead.pop())
        name = canonicalize_name(requirement.name)
        if name == "uttermill":
            ahead += [line for extra in requirement.extras for line in extras[extra]]
        elif name not in names and (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            names.add(name)
            ahead += of(name, requirement.extras)
    return names


def of(name: str, extras: set[str]) -> Iterator[str]:
    """What an installed distribution requires, with some extras."""
    for line in requires(name) or ():
        marker = Requirement(line).marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield line.partition(";")[0]


def test_versions_are_those_of_the_constraints() -> None:
    pins = constraints()
    assert {name: str(r.specifier) for name, (r, _) in hashed().items()} == {
        name: pins.get(name) for name in hashed()
    }


def test_each_distribution_has_hashes_and_nothing_else_says_where_it_is() -> None:
    text = HASHED.read_text()
    assert text.count("==") - text.count(" == '") == len(hashed())
    assert [name for name, (_, hashes) in hashed().items() if not hashes] == []
    assert "--only-binary :all:" in text.splitlines()  # building one would run its code
    assert re.findall(r"://|--\S*(?:index|links)\S*|(?<!\S)/\S+| @ ", text) == []
    assert "torch" not in hashed()


def test_all_that_the_project_needs_is_there() -> None:
    environment: Any = default_environment()
    fits = {
        name
        for name, (requirement, _) in hashed().items()
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }
    assert needed() - fits == set(), "made again by the command at its top"


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Each distribution's files, by name and hash, as the index has them now."""
    made = tmp_path_factory.mktemp("lock") / "pylock.toml"
    command = HASHED.read_text().splitlines()[1].strip("# ")
    command = command.replace("-o infra/requirements-hashed.txt", f"-o {made}")
    command = command.replace("--generate-hashes", "--format pylock.toml")
    words = shlex.split(command.replace("uv ", f"{UV} ", 1))
    with authorities.trusted_as_ever():
        subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=250)
    packages: list[dict[str, Any]] = tomllib.loads(made.read_text())["packages"]
    assert {package["name"] for package in packages} == {*hashed()}
    return packages


def lacking(lock: list[dict[str, Any]], platform: str, python: tuple[int, int]) -> list[str]:
    """Distributions without a wheel for a platform among the files whose hashes are known."""
    platforms, machine = PLATFORMS[platform]
    version = ".".join(map(str, python))
    system = platform.startswith("macOS")
    about: Any = default_environment()
    about |= {
        "python_version": version, "python_full_version": f"{version}.9", "extra": "",
        "platform_machine": machine, "sys_platform": "darwin" if system else "linux",
        "platform_system": "Darwin" if system else "Linux",
    }  # fmt: skip
    fit = {*tags.cpython_tags(python, platforms=platforms)}
    fit |= {*tags.compatible_tags(python, f"cp{version.replace('.', '')}", platforms)}
    return [
        package["name"]
        for package in lock
        if Marker(package.get("marker", "python_version > '0'")).evaluate(about)
        and not any(
            wheel["hashes"]["sha256"] in hashed()[package["name"]][1]
            and fit & parse_wheel_filename(unquote(wheel["url"].rpartition("/")[2]))[3]
            for wheel in package["wheels"]
        )
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("python", PYTHONS, ids=lambda python: f"{python[0]}.{python[1]}")
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_platform_has_its_files(
    platform: str, python: tuple[int, int], lock: list[dict[str, Any]]
) -> None:
    assert lacking(lock, platform, python) == []


@pytest.mark.nightly
def test_what_is_installed_by_it_starts(tmp_path: Path) -> None:
    """As infra/Dockerfile does: by hashes, then uttermill with what is there."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin/python")
    install = [python, "-m", "pip", "install", "-q", "--no-compile"]
    by_hash = [*install, "--no-deps", "--require-hashes", "-r", str(HASHED)]
    with authorities.trusted_as_ever():
        subprocess.run(by_hash, check=True, timeout=700)
    here = [*install, "--no-index", "--no-build-isolation", f"{ROOT}[{','.join(EXTRAS)}]"]
    subprocess.run(here, check=True, timeout=100)
    subprocess.run([python, "-m", "pip", "check"], check=True)
    done = subprocess.run(
        [str(venv / "bin/uttermill"), "--version"], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("uttermill ")
