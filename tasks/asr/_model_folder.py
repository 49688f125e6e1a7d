"""Models in a folder: the identity of their files, and what their card says."""

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..base.errors import ConfigError
from ..models import model_files
from ..recording import yaml_text

MOST_LIST = 1 << 26  # bytes; the largest tokenizers have 35 MB
_HEADER = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*\n", re.S)


def folder(model: str | None, recogniser: str, example: str) -> Path:
    """The folder that the setting `model` names. ConfigError when there is none; nothing is
    downloaded."""
    if model is None:
        raise ConfigError(
            f"transcribe.backend.model is missing: {recogniser} needs the folder of a model, for "
            f"example {example} from Hugging Face; models are never downloaded"
        )
    path = Path(model).expanduser()
    if not path.is_dir():
        raise ConfigError(
            f"transcribe.backend.model {model!r} is not a folder on this machine; models are never "
            f"downloaded: fetch one, for example {example} from Hugging Face, and give its folder"
        )
    return path


def checked(*files: Path) -> None:
    """Raises ConfigError if a list of words or settings, which is read whole, is too large."""
    for path in files:
        if path.is_file() and (size := path.stat().st_size) > MOST_LIST:
            raise ConfigError(
                f"{path} has {size} bytes, but a model's lists and settings have at most "
                f"{MOST_LIST}: download the model again"
            )


def identity(files: Iterable[Path]) -> str:
    """sha256 over names and contents of files, sorted by name. Includes weights that a graph keeps
    in separate files (`model.onnx.data`, `model.onnx_data`)."""
    whole = hashlib.sha256()
    for path in sorted(_with_data(files), key=lambda path: (path.name, str(path))):
        whole.update(f"{path.name} {model_files.sha256(path)}\n".encode())
    return whole.hexdigest()


def size(files: Iterable[Path]) -> int:
    """Bytes of the same files."""
    return sum(path.stat().st_size for path in _with_data(files))


def _with_data(files: Iterable[Path]) -> set[Path]:
    return {part for file in files for part in model_files.with_data(file)}


def text_of(path: Path) -> str:
    """A text file of a model, such as its tokens. Raises OSError, or ConfigError as `checked`."""
    checked(path)
    return path.read_text("utf-8")


def card(model: str | None) -> tuple[str | None, tuple[str, ...] | None]:
    """Licence and languages from the model card (README.md, as the Hugging Face Hub reads it) in
    the model's folder; None if the card is missing or does not say."""
    fields: object = None
    with suppress(OSError, ValueError, ConfigError):
        header = _HEADER.match(text_of(Path(model).expanduser() / "README.md") if model else "")
        fields = yaml_text.load(header[1], "the model card") if header else None
    if not isinstance(fields, dict):
        return None, None
    licence, languages = fields.get("license"), fields.get("language")
    listed = [languages] if isinstance(languages, str) else languages
    codes = tuple(map(str, listed)) if isinstance(listed, list) and listed else None
    return licence if isinstance(licence, str) else None, codes
