"""Who may import what: light imports, Prefect in one file, decoding in one place."""

from __future__ import annotations

import ast
import inspect
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks import errors

ROOT = Path(__file__).parents[1]
HEAVY = ("prefect", "librosa", "soundfile", "onnxruntime", "faster_whisper", "av", "distributed")
#: Audio's own helpers, and the module that warms every library on purpose.
DECODERS = {"tasks/audio/decoders.py", "tasks/audio/ffmpeg.py", "tasks/audio/like_first.py",
            "tasks/audio/encoding.py", "tasks/audio/frames.py", "tasks/audio/codecs.py",
            "tasks/preload.py"}  # fmt: skip
PARQUET_WRITERS = {"write_table", "ParquetWriter", "write_to_dataset", "write_dataset"}


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(tree: ast.AST) -> Iterator[str]:
    """Top-level names of everything that is imported anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value.split(".")[0]


def importers(folder: str, names: set[str]) -> set[str]:
    return {
        name_of(path) for path in modules(folder)
        if names & set(imported(ast.parse(path.read_text())))
    }  # fmt: skip


@pytest.mark.parametrize("module", ["tasks", "tasks.settings", "tasks.errors", "tasks.schema"])
def test_light_imports(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & set(HEAVY)


def test_control_heavy_import_is_seen() -> None:
    code = "import sys, tasks.audio; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & set(HEAVY) == {"soundfile", "av"}


def test_only_one_file_of_tasks_knows_prefect() -> None:
    assert importers("tasks", {"prefect"}) == {"tasks/prefect_tasks.py"}


def test_only_audio_decodes() -> None:
    filtering = {"tasks/levels/ffmpeg.py"}  # FFmpeg's filters on samples; it decodes nothing
    assert importers("tasks", {"soundfile", "av"}) <= DECODERS | filtering
    assert "tasks/audio/decoders.py" in importers("tasks", {"soundfile"})
    assert importers("flows", {"soundfile", "av", "librosa", "soxr"}) <= {
        # The demo makes its own corpus, broken files included.
        "flows/demo/corpus.py",
        "flows/demo/encoding.py",
    }  # fmt: skip


def parquet_writes(source: str) -> set[str]:
    """Names of Parquet writers that a file uses."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
    return found & PARQUET_WRITERS


def test_flows_write_no_parquet() -> None:
    found = {name_of(p): parquet_writes(p.read_text()) for p in modules("flows")}
    assert {name: writes for name, writes in found.items() if writes} == {}


def test_control_parquet_writes_are_seen() -> None:
    assert parquet_writes((ROOT / "tasks/shard.py").read_text()) == {"write_table"}
    assert parquet_writes("from pyarrow.parquet import ParquetWriter as W") == {"ParquetWriter"}


def test_tasks_do_not_know_flows_or_a_cluster() -> None:
    assert importers("tasks", {"flows"}) == set()
    assert importers("tasks", {"distributed", "dask"}) == set()


EXAMPLES: dict[type[errors.MillError], tuple[object, ...]] = {
    errors.ItemError: ("decode_error", "it breaks", 77, 16000),
    errors.CorruptManifest: ("it is damaged", "/out/x.parquet"),
}


@pytest.mark.parametrize(
    "kind", [c for _, c in inspect.getmembers(errors, inspect.isclass)
             if issubclass(c, errors.MillError)], ids=lambda c: c.__name__,
)  # fmt: skip
def test_errors_survive_pickling(kind: type[errors.MillError]) -> None:
    error = kind(*EXAMPLES.get(kind, ("one sentence",)))
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert str(back) == str(error)
    assert vars(back) == vars(error)
    assert isinstance(back, errors.MillError)
