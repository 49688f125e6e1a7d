"""Who may import what: light imports, Prefect in one file, decoding in one place."""

import ast
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers import tiers
from uttermill.tasks.base import errors, shelves

ROOT = Path(__file__).parents[2]
HEAVY = ("prefect", "librosa", "soundfile", "onnxruntime", "faster_whisper", "av", "distributed")
PARQUET_WRITERS = {"write_table", "ParquetWriter", "write_to_dataset", "write_dataset"}


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class Loads(NamedTuple):
    """What a file imports, anywhere: its statements; the argument of each call of `import_module`
    or `__import__`; the Parquet writers that it uses."""

    plain: list[ast.Import]
    named: list[ast.ImportFrom]
    by_name: list[ast.expr]
    parquet: set[str]


@cache  # most rules look at all files: each is parsed once
def loads(source: str) -> Loads:
    plain, named, by_name, used = [], [], [], set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            plain.append(node)
        elif isinstance(node, ast.ImportFrom):
            named.append(node)
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in ("import_module", "__import__"):
                by_name.append(node.args[0])
    return Loads(plain, named, by_name, used & PARQUET_WRITERS)


@cache
def imports(path: Path) -> frozenset[str]:
    return frozenset(imported(path))


def imported(path: Path) -> Iterator[str]:
    """Top-level names of everything that is imported anywhere in a file; of ours, the folder's."""
    loaded = loads(path.read_text())
    yield from (top(alias.name) for node in loaded.plain for alias in node.names)
    for node in loaded.named:
        yield from (top(f"{origin(node, path)}.{alias.name}") for alias in node.names)
    for first in loaded.by_name:
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield top(first.value)


def top(module: str) -> str:
    return ours(module).split(".")[0]


def ours(module: str) -> str:
    """A module's name as its folder spells it, without the name that is installed."""
    return module.removeprefix("uttermill.")


def origin(node: ast.ImportFrom, path: Path) -> str:
    """The whole name of the module that `from … import` names in a file."""
    if not node.level:
        return ours(node.module or "")
    package = path.relative_to(ROOT).parts[: -node.level]
    return ".".join([*package, *filter(None, [node.module])])


def importers(folder: str, names: set[str]) -> set[str]:
    return {name_of(path) for path in modules(folder) if names & imports(path)}


#: Statements, and what they may not load.
LIGHT = {
    "import uttermill.tasks": {"av", "soundfile"},
    "import uttermill.tasks.audio, uttermill.tasks.settings, uttermill.tasks.base.schema": {*HEAVY},
    "import uttermill.tasks.asr.faster_whisper, uttermill.tasks.asr.fake":
        {"faster_whisper", "ctranslate2", "onnxruntime"},
    "import uttermill.tasks.asr.onnx_asr, uttermill.tasks.asr.sherpa_onnx":
        {"onnx_asr", "sherpa_onnx"},
    "import uttermill.tasks.scoring":  # libraries behind the languages
        {"whisper_normalizer", "unicode_rbnf", "opencc", "text_to_num", "regex"},
    "import uttermill.tasks.asr.moonshine as m; m.weights(m.Settings())":
        {"moonshine_voice", "requests", "onnxruntime"},
    "import uttermill.tasks.api":  # the door for plug-ins of users
        {"prefect", "distributed", "librosa", "soundfile", "av", "onnxruntime"},
    "import uttermill.tasks.pipeline, uttermill.flows.cli.command_line, uttermill.flows.settings":
        {"s3fs", "upath", "aiobotocore", "botocore", "aiohttp"},  # of local work
}  # fmt: skip


@pytest.mark.parametrize("statement", [*list(LIGHT)[:5], *map(tiers.full, list(LIGHT)[5:])])
def test_light_imports(statement: str) -> None:
    code = f"import sys; {statement}; print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "uttermill" in loaded
    assert not loaded & LIGHT[statement]


def test_only_one_file_of_tasks_knows_prefect() -> None:
    assert importers("tasks", {"prefect"}) == {"tasks/runs/prefect_tasks.py"}


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


def test_flows_write_no_parquet() -> None:
    found = {name_of(p): loads(p.read_text()).parquet for p in modules("flows")}
    assert {name: writes for name, writes in found.items() if writes} == {}


def test_control_parquet_writes_are_seen() -> None:
    seen = loads((ROOT / "tasks/storage/tables.py").read_text()).parquet
    assert seen == {"write_table", "ParquetWriter"}
    control = loads("from pyarrow.parquet import ParquetWriter as W")
    assert control.parquet == {"ParquetWriter"}


def test_the_formatter_lays_out_all_product_code() -> None:
    switched_off = "# fmt: "
    assert [
        name_of(p) for f in ("flows", "tasks") for p in modules(f) if switched_off in p.read_text()
    ] == []
    assert (
        switched_off in Path(__file__).parents[1].joinpath("runs/test_start.py").read_text()
    )  # a control


def test_tasks_do_not_know_flows_or_a_cluster() -> None:
    assert importers("tasks", {"flows"}) == set()
    assert importers("tasks", {"distributed", "dask"}) == set()


#: Folders, and the modules that stand beside them, lowest first. A module imports from its own line
#: and from lines above: no import climbs. Folders of one line import each other in one direction.
LAYERS = (
    "tasks.base",
    "tasks.settings tasks.storage",
    "tasks.recording tasks.audio tasks.models tasks.speech tasks.scoring",
    "tasks.plugins tasks.api",
    "tasks.shard_store tasks.accounting tasks.sources tasks.diarizers tasks.segmenters "
    "tasks.filters tasks.enhance tasks.resamplers tasks.levels tasks.asr tasks.text tasks.formats",
    "tasks.stages",
    "tasks.publish tasks.insight",
    "tasks.runs tasks.pipeline tasks.preload",
    "flows",
)
MOST_FILES = (
    30  # of one folder, beside plug-ins: each is a file on its shelf, however many there are
)
LEVELS = {name: level for level, line in enumerate(LAYERS) for name in line.split()}


def package_of(module: str) -> str:
    """The entry of LAYERS that a module belongs to: its folder, or itself."""
    return "flows" if module.startswith("flows") else ".".join(module.split(".")[:2])


def imports_of(module: str, path: Path, source: str, known: Collection[str]) -> set[str]:
    """Our modules that a module imports anywhere, in functions and for types too."""
    loaded = loads(source)
    found = {ours(alias.name) for node in loaded.plain for alias in node.names}
    for node in loaded.named:
        named = {f"{origin(node, path)}.{alias.name}" for alias in node.names}
        found |= (named & {*known}) or {origin(node, path)}
    for argument in loaded.by_name:
        if (module, ast.unparse(argument)) not in BY_NAME:
            found |= nameable(argument, known) or set()
    return (found & {*known}) - {module}


#: Calls of `import_module` that lead upwards, or to a module that only the caller knows; why each
#: may: by module and argument.
BY_NAME = {
    ("tasks.plugins.loading", "use if dotted else f'uttermill.tasks.{shelf}.{use}'"): (
        "plug-ins use `tasks.plugins`, which finds them by the names that settings give"
    ),
    ("tasks.stages.contract", "f'uttermill.tasks.stages.{name}'"): (
        "stages use `tasks.stages.contract`, which finds them by name as `tasks.plugins` plug-ins"
    ),
    ("tasks.runs.libraries", "name"): "the same modules, to see which of them kills who loads it",
    ("tasks.preload", "name"): "the modules that `tasks.plugins.loading` lists for a job",
    ("flows.cluster.settings", "module"): "a cluster class of a library, which settings name",
}


def nameable(argument: ast.expr, known: Collection[str]) -> set[str] | None:
    """Our modules that such an argument can name; None if the code does not tell."""
    if isinstance(argument, ast.Constant):
        return {ours(str(argument.value))} & {*known}
    if isinstance(argument, ast.IfExp):
        either = [nameable(branch, known) for branch in (argument.body, argument.orelse)]
        return None if None in either else set[str]().union(*(names or () for names in either))
    if not isinstance(argument, ast.JoinedStr):
        return None
    parts = [
        re.escape(str(each.value)) if isinstance(each, ast.Constant) else "[a-z][a-z0-9_]*"
        for each in argument.values
    ]
    return {name for name in known if re.fullmatch(ours("".join(parts)), name)}


def circles(edges: Collection[tuple[str, str]]) -> set[frozenset[str]]:
    """Groups of modules that import each other, directly or by way of others."""
    onwards: dict[str, set[str]] = {}
    for module, imported in edges:
        onwards.setdefault(module, set()).add(imported)
    reached: dict[str, set[str]] = {}
    for module in onwards:
        seen: set[str] = set()
        left = [*onwards[module]]
        while left:
            if (at := left.pop()) not in seen:
                seen.add(at)
                left += onwards.get(at, ())
        reached[module] = seen
    return {
        frozenset({other for other in there if module in reached.get(other, ())})
        for module, there in reached.items()
        if module in there
    }


def climbs(module: str, imported: str) -> bool:
    """Whether an import leads upwards."""
    return imported != "tasks" and LEVELS[package_of(imported)] > LEVELS[package_of(module)]


def trespasses(module: str, imported: str) -> bool:
    """Whether an import reaches a `_private` module from outside the folder that it lies in."""
    parts = imported.split(".")
    homes = [".".join(parts[:at]) for at, part in enumerate(parts) if part.startswith("_")]
    return any(not f"{module}.".startswith(f"{home}.") for home in homes if home)


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.fixture(scope="module")
def edges() -> set[tuple[str, str]]:
    paths = {dotted(path): path for top in ("tasks", "flows") for path in modules(top)}
    return {
        (module, imported)
        for module, path in paths.items()
        for imported in imports_of(module, path, path.read_text(), paths.keys())
    }


def test_every_module_has_a_layer(edges: set[tuple[str, str]]) -> None:
    named = {package_of(dotted(p)) for top in ("tasks", "flows") for p in modules(top)}
    assert named - {"tasks"} == LEVELS.keys()


def test_no_import_climbs(edges: set[tuple[str, str]]) -> None:
    # The root sets a variable before any module of its own is imported.
    assert {edge for edge in edges if edge[0] != "tasks" and climbs(*edge)} == set()


def test_exceptions_are_those_of_the_code() -> None:
    """Each call by a name that climbs, or that the code does not tell, has its reason; no other."""
    sources = {dotted(p): p.read_text() for top in ("tasks", "flows") for p in modules(top)}
    found = set()
    for module, source in sources.items():
        for argument in loads(source).by_name:
            names = nameable(argument, sources.keys())
            if names is None or any(climbs(module, name) for name in names):
                found.add((module, ast.unparse(argument)))
    assert found <= BY_NAME.keys()
    calls = {(m, ast.unparse(node)) for m, text in sources.items() for node in loads(text).by_name}
    assert calls >= BY_NAME.keys()


def test_no_circle_of_modules(edges: set[tuple[str, str]]) -> None:
    assert circles(edges) == set()


def test_no_circle_of_folders(edges: set[tuple[str, str]]) -> None:
    folders = {(package_of(module), package_of(imported)) for module, imported in edges}
    assert circles({(here, there) for here, there in folders if here != there}) == set()


def test_ten_layers_at_most_and_no_crowded_folder() -> None:
    assert len(LAYERS) <= 10
    crowded = {}
    for folder in {path.parent for top in ("tasks", "flows") for path in modules(top)}:
        shelf = folder.name if folder.parent == ROOT / "tasks" else ""
        plugins = shelves.names(shelf) if shelf in shelves.SHELVES else []
        count = len([*folder.glob("*.py")]) - len(plugins)
        if count > MOST_FILES:
            crowded[str(folder.relative_to(ROOT))] = count
    assert crowded == {}


#: `import … from "./x.js"`, `export … from "./x.js"`, `import "./x.js"` and `import("./x.js")`.
SCRIPT_IMPORT = re.compile(r"""(?:\bfrom|\bimport\s*\(?)\s*["'](\.[^"']+)["']""")


def script_edges(scripts: Collection[Path]) -> set[tuple[str, str]]:
    """(importing, imported) of JavaScript modules, as whole paths."""
    return {
        (str(path), str((path.parent / imported).resolve()))
        for path in scripts
        for imported in SCRIPT_IMPORT.findall(path.read_text())
    }


def test_no_circle_of_scripts(tmp_path: Path) -> None:
    scripts = {path for top in ("tasks", "flows") for path in (ROOT / top).rglob("*.js")}
    edges = script_edges(scripts)
    web = ROOT / "flows/explore/web"
    assert (str(web / "clip.js"), str(web / "clips.js")) in edges
    assert {imported for _, imported in edges} <= {*map(str, scripts)}
    assert circles(edges) == set()

    one, two, three = (tmp_path / name for name in ("one.js", "two.js", "three.js"))  # a control
    one.write_text('import {\n  a,\n} from "./two.js";\n')
    two.write_text('const a = () => import("./three.js");\nexport { a };\n')
    three.write_text("export * from './one.js';\n")
    found = circles(script_edges({one, two, three}))
    assert found == {frozenset(map(str, (one, two, three)))}


def test_private_modules_are_imported_by_their_own_folder(edges: set[tuple[str, str]]) -> None:
    assert {edge for edge in edges if trespasses(*edge)} == set()


def test_controls_of_the_layers() -> None:
    known = {"tasks.publish", "tasks.storage", "tasks.filters", "tasks.levels", "tasks.sources"}
    lazy = "def f():\n    from tasks import publish, storage\n    import tasks.levels.peak\n"
    assert imports_of(
        "tasks.settings.job", ROOT / "tasks/settings/job.py", lazy, {*known, "tasks.levels.peak"}
    ) == {"tasks.publish", "tasks.storage", "tasks.levels.peak"}
    named = 'def f():\n    import_module("tasks.publish")\n    m.import_module(f"tasks.{x}.peak")\n'
    assert imports_of(
        "tasks.settings.job", ROOT / "tasks/settings/job.py", named, {*known, "tasks.levels.peak"}
    ) == {"tasks.publish", "tasks.levels.peak"}
    assert circles({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")}) == {
        frozenset("abc")
    }
    assert climbs("tasks.storage.urls", "tasks.publish")
    assert climbs("tasks.base.errors", "tasks.storage"), "a folder's modules stand with it"
    assert not climbs("tasks.filters.rms", "tasks.sources"), "neighbours"
    assert not climbs("tasks.levels.peak", "tasks.filters.rms")
    assert not climbs("tasks.filters.rms", "tasks.filters._derived")
    assert trespasses("tasks.stages.shard", "tasks.sources._paths")
    assert not trespasses("tasks.sources.tar", "tasks.sources._paths")
    assert not trespasses("tasks.scoring.normalisers.en", "tasks.scoring._plain")
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
