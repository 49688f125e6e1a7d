"""The files of known models on this machine: where they are, whether their hashes are right, and
how a folder of the user's cache is created."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from ..base import environment
from ..base.errors import ConfigError
from ..storage import temporary
from ..storage.regular import fsync
from .registry import File, Model

State = Literal["ok", "missing", "damaged"]

PREFIX = ".making-"  # of a folder in the cache that is not published yet


def cache() -> Path:
    """Folder of fetched or joined models."""
    return environment.cache() / "uttermill" / "models"


def home(model: Model) -> Path | None:
    """The folder of a model's files; None if the package with them is not installed."""
    if model.package is None:
        return cache() / model.folder
    package = package_folder(model.package)
    return package / model.folder if package else None


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, without importing it; None if there is none."""
    spec = find_spec(name)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else None


def state(model: Model) -> State:
    """Whether all files of a model exist with the right hashes."""
    folder = home(model)
    if folder is None or not all((folder / file.name).is_file() for file in model.files):
        return "missing"
    right = all(sha256(folder / file.name) == file.sha256 for file in model.files)
    return "ok" if right else "damaged"


def sha256(path: Path) -> str:
    """The file's hash, in hex; cached until size or mtime change."""
    facts = path.stat()
    return _sha256(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def located(model: Model, asked_by: str, folder: str | None = None) -> Path:
    """A model's only file, checked. `asked_by`: the setting that needs it; `folder`: where the user
    keeps it, if not in the cache. ConfigError, naming the command that downloads it, if it is
    missing or a different one."""
    [file] = model.files
    place, remedy = home(model), f"run `{model.get}`"
    if folder is not None:
        place, remedy = Path(folder), f"correct that path, or leave it out and {remedy}"
    if place is None or not (place / file.name).is_file():
        lack = "not installed" if folder is None else f"not in {folder}"
        raise ConfigError(f"{asked_by} needs the model {model.name}, which is {lack}: {remedy}")
    path = place / file.name
    try:
        right = sha256(path) == file.sha256
    except OSError as error:
        raise ConfigError(f"{asked_by}: {path} cannot be read: {error.strerror}") from error
    if not right:
        raise ConfigError(
            f"{asked_by}: {path} is not the model {model.name} (its sha256 differs): {remedy}"
        )
    return path


def with_data(file: Path) -> tuple[Path, ...]:
    """A model file, and the external data of an ONNX graph (`model.onnx.data`,
    `model.onnx_data`)."""
    if file.suffix != ".onnx":
        return (file,)
    beside = file.parent.glob(f"{file.stem}.onnx?data*")
    return file, *sorted(path for path in beside if path.is_file())


def graph_and_list(model: str, lists: Sequence[str], needs: str, of: str) -> tuple[Path, Path]:
    """The only graph (.onnx) in the folder `model`, and the first of `lists` there. ConfigError if
    one is missing. `needs`: who needs which model; `of`: what the list has."""
    folder = Path(model).expanduser()
    graphs = sorted(folder.glob("*.onnx")) if model else []
    names = next((folder / name for name in lists if model and (folder / name).is_file()), None)
    if len(graphs) != 1 or names is None:
        lack = f"{model!r} has {len(graphs)} graphs and {names.name if names else 'no list'}"
        raise ConfigError(
            f"{needs}, which is never downloaded: give it `model`, a folder with one graph (.onnx) "
            f"and the list of its {of} ({' or '.join(lists)}){f'; {lack}' if model else ''}"
        )
    return graphs[0], names


def of_user(name: str, about: str, licence: str, asked_by: str, paths: Iterable[Path]) -> Model:
    """A model in a folder of the user's, for the data card."""
    files = tuple(File(path.name, sha256(path), path.stat().st_size) for path in paths)
    return Model(name, about, "a folder of the user's", licence, (asked_by,), files, "")


@contextmanager
def published(target: Path, complete: Callable[[Path], bool]) -> Iterator[Path]:
    """A folder to fill, which then becomes `target` by one rename, replacing one that is not
    `complete`. Its parent is scratch space. Of two processes that race, the second discards its
    copy."""
    models = target.parent
    models.mkdir(parents=True, exist_ok=True)
    with temporary.scratch(PREFIX, models) as scratch:
        unpublished = scratch / target.name
        unpublished.mkdir()
        yield unpublished
        fsync(unpublished)
        try:
            unpublished.rename(target)
        except OSError:
            if complete(target):  # another process was first
                return
            if not target.exists():
                raise
            target.rename(unpublished.with_name("damaged"))
            unpublished.rename(target)
    fsync(models)
