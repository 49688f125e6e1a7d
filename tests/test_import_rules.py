"""Who may import what: light imports, Prefect in one file, decoding in one place."""

from __future__ import annotations

import ast
import inspect
import pickle
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tasks import errors

ROOT = Path(__file__).parents[1]
HEAVY = ("prefect", "librosa", "soundfile", "onnxruntime", "faster_whisper", "av", "distributed")
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
        name_of(path)
        for path in modules(folder)
        if names & set(imported(ast.parse(path.read_text())))
    }


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
    found = importers("tasks", {"soundfile", "av"}) - filtering
    assert "tasks/audio/decoders.py" in found
    assert [name for name in found if not name.startswith("tasks/audio/")] == []
    assert importers("flows", {"soundfile", "av", "librosa", "soxr"}) <= {
        # The demo makes its own corpus, broken files included.
        "flows/demo/corpus.py",
        "flows/demo/encoding.py",
    }


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
    assert parquet_writes((ROOT / "tasks/listing/known.py").read_text()) == {"write_table"}
    assert parquet_writes("from pyarrow.parquet import ParquetWriter as W") == {"ParquetWriter"}


def test_the_formatter_lays_out_all_product_code() -> None:
    switched_off = "# fmt: "
    assert [
        name_of(p) for f in ("flows", "tasks") for p in modules(f) if switched_off in p.read_text()
    ] == []
    assert switched_off in Path(__file__).with_name("test_start.py").read_text()  # a control


def test_tasks_do_not_know_flows_or_a_cluster() -> None:
    assert importers("tasks", {"flows"}) == set()
    assert importers("tasks", {"distributed", "dask"}) == set()


#: Packages and modules, lowest first. A module imports from its own line only what is its own
#: package, and else from lines above: so no import climbs, and no two packages import each other.
LAYERS = (
    "tasks.environment tasks.json_types tasks.masking tasks.shelves tasks.lean",
    "tasks.errors",
    "tasks.schema tasks.settings",
    "tasks.job",
    "tasks.storage",
    "tasks.reviews",
    "tasks.weights",
    "tasks.recording",
    "tasks.audio",
    "tasks.speech tasks.scoring",
    "tasks.plugins",
    "tasks.served",
    "tasks.recipe",
    "tasks.checkpoints",
    "tasks.sources tasks.diarizers tasks.segmenters tasks.filters tasks.enhance "
    "tasks.resamplers tasks.asr "
    "tasks.text tasks.formats",
    "tasks.levels",
    "tasks.stages",
    "tasks.accounting tasks.places",
    "tasks.corpuswide",
    "tasks.dataset",
    "tasks.packaging",
    "tasks.listing",
    "tasks.shard tasks.filter tasks.resample tasks.transcribe tasks.package",
    "tasks.up_to_date tasks.results tasks.sweeping",
    "tasks.callers",
    "tasks.publishing tasks.shard_chain",
    "tasks.pipeline",
    "tasks.upkeep tasks.report tasks.estimating",
    "tasks.prefect_tasks tasks.preload",
    "flows.yaml_text flows.console_logs",
    "flows.progress",
    "flows.assignments flows.cluster",
    "flows.settings",
    "flows.checks",
    "flows.server",
    "flows.run",
    "flows.prepare flows.sample_costs",
    "flows.estimate flows.serve",
    "flows.demo flows.explore",
    "flows.cli",
)
LEVELS = {name: level for level, line in enumerate(LAYERS) for name in line.split()}


def package_of(module: str) -> str:
    """The entry of LAYERS that a module belongs to: its folder, or itself."""
    return ".".join(module.split(".")[:2])


def imports_of(module: str, source: str, known: Collection[str]) -> set[str]:
    """Our modules that a module imports anywhere, in functions and for types too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (named & {*known}) or {node.module}
    return (found & {*known}) - {module}


def climbs(module: str, imported: str) -> bool:
    """Whether an import leads upwards, or to a neighbour on the same line."""
    here, there = package_of(module), package_of(imported)
    return here != there and "." in there and LEVELS[there] >= LEVELS[here]


def trespasses(module: str, imported: str) -> bool:
    """Whether an import reaches a `_private` module from outside the folder that it lies in."""
    parts = imported.split(".")
    homes = [".".join(parts[:at]) for at, part in enumerate(parts) if part.startswith("_")]
    return any(not f"{module}.".startswith(f"{home}.") for home in homes if home)


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.fixture(scope="module")
def edges() -> set[tuple[str, str]]:
    sources = {dotted(p): p.read_text() for top in ("tasks", "flows") for p in modules(top)}
    return {(m, i) for m, text in sources.items() for i in imports_of(m, text, sources.keys())}


def test_every_module_has_a_layer(edges: set[tuple[str, str]]) -> None:
    named = {package_of(dotted(p)) for top in ("tasks", "flows") for p in modules(top)}
    assert named - {"tasks", "flows"} == LEVELS.keys()


def test_no_import_climbs(edges: set[tuple[str, str]]) -> None:
    # The root sets a variable before any module of its own is imported.
    assert {edge for edge in edges - {("tasks", "tasks.environment")} if climbs(*edge)} == set()


def test_private_modules_are_imported_by_their_own_folder(edges: set[tuple[str, str]]) -> None:
    assert {edge for edge in edges if trespasses(*edge)} == set()


def test_controls_of_the_layers() -> None:
    known = {"tasks.package", "tasks.storage", "tasks.filters", "tasks.levels", "tasks.sources"}
    lazy = "def f():\n    from tasks import package, storage\n    import tasks.levels.peak\n"
    assert imports_of("tasks.job", lazy, {*known, "tasks.levels.peak"}) == {
        "tasks.package",
        "tasks.storage",
        "tasks.levels.peak",
    }
    assert climbs("tasks.storage.copies", "tasks.package")
    assert climbs("tasks.filters.rms", "tasks.levels.peak")
    assert climbs("tasks.filters.rms", "tasks.sources"), "neighbours"
    assert not climbs("tasks.levels.peak", "tasks.filters.rms")
    assert not climbs("tasks.filters.rms", "tasks.filters._levels")
    assert trespasses("tasks.shard", "tasks.sources._paths")
    assert not trespasses("tasks.sources.tar", "tasks.sources._paths")
    assert not trespasses("tasks.scoring.normalisers.de", "tasks.scoring._plain")
    assert trespasses("tasks.scoring.rates", "tasks.scoring.normalisers._han")


EXAMPLES: dict[type[errors.MillError], tuple[object, ...]] = {
    errors.ItemError: ("decode_error", "it breaks", 77, 16000),
    errors.CorruptManifest: ("it is damaged", "/out/x.parquet"),
}


@pytest.mark.parametrize(
    "kind",
    [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.MillError)],
    ids=lambda c: c.__name__,
)
def test_errors_survive_pickling(kind: type[errors.MillError]) -> None:
    error = kind(*EXAMPLES.get(kind, ("one sentence",)))
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert str(back) == str(error)
    assert vars(back) == vars(error)
    assert isinstance(back, errors.MillError)
