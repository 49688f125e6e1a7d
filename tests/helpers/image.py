"""infra/Dockerfile without Docker: its steps, in a folder that stands for the image's root.

COPY takes what .dockerignore lets through, RUN runs in a shell with the venv's commands first and
with the image's folders replaced by those below `root`. Users, base images and downloads are not
played.
"""

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

PLAYED = {"FROM", "ARG", "ENV", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD", "COMMENT"}
NOT_PLAYED = ("useradd ", "pip install --no-deps --require-hashes ")


@dataclass
class Image:
    """`root`: stands for `/`; `venv`: where its Python is, with `pip`."""

    context: Path
    root: Path
    venv: Path
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = "/"
    folders: set[str] = field(default_factory=set)  # of the image, that lie below `root`
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def build(self, dockerfile: Path) -> None:
        for name, value in steps(dockerfile):
            if name in ("ARG", "ENV"):
                self.env |= dict(word.split("=", 1) for word in shlex.split(value))
            elif name == "COPY":
                self.copy(*shlex.split(value))
            elif name == "RUN" and not value.startswith(NOT_PLAYED):
                self.run(["sh", "-ec", self.here(value)])
            elif name == "WORKDIR":
                self.cwd = value
                (self.root / value.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif name == "ENTRYPOINT":
                self.entrypoint = json.loads(value)
            elif name == "CMD":
                self.command = json.loads(value)

    def copy(self, *words: str) -> None:
        *sources, target = words
        place = self.root / target.lstrip("/")
        self.folders.add("/" + target.strip("/").split("/")[0])
        for source in sources:
            found = [name for name in sent(self.context) if Path(name).is_relative_to(source)]
            if not found:
                raise FileNotFoundError(f"COPY {source}: not there, or .dockerignore keeps it out")
            for name in found:
                tail = Path(name).relative_to(source)
                alone = str(tail) == "."
                to = place / Path(source).name if alone and target.endswith("/") else place / tail
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.context / name, to, follow_symlinks=False)

    def run(self, command: list[str], **more: str) -> str:
        """A command in the image; its output. AssertionError when it fails."""
        home = self.root / "home/uttermill"
        home.mkdir(parents=True, exist_ok=True)
        env = {name: self.here(value) for name, value in self.env.items()}
        done = subprocess.run(
            command, cwd=self.root / self.cwd.lstrip("/"), text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={"PATH": f"{self.venv}/bin:{os.defpath}", "HOME": str(home), **env, **more},
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}"
        return done.stdout

    def here(self, text: str) -> str:
        for folder in sorted(self.folders):
            text = text.replace(f"{folder}/", f"{self.root}{folder}/")
            text = text.replace(f"{folder}[", f"{self.root}{folder}[")
            text = text.replace(f" {folder} ", f" {self.root}{folder} ")
            if text.endswith(f" {folder}"):
                text = text.removesuffix(folder) + f"{self.root}{folder}"
        return text


def steps(dockerfile: Path) -> list[tuple[str, str]]:
    """(instruction, value) in order; AssertionError for one that is not played here."""
    from dockerfile_parse import DockerfileParser

    with dockerfile.open("rb+") as file:
        found = [(s["instruction"], s["value"]) for s in DockerfileParser(fileobj=file).structure]
    assert {name for name, _ in found} <= PLAYED, sorted({name for name, _ in found} - PLAYED)
    return [(name, value) for name, value in found if name != "COMMENT"]


def sent(context: Path) -> list[str]:
    """Files that a builder gets: what .dockerignore leaves, by Docker's own rules."""
    from docker.utils.build import exclude_paths

    lines = (context / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    names = exclude_paths(str(context), patterns)
    return sorted(n for n in names if (context / n).is_symlink() or (context / n).is_file())
