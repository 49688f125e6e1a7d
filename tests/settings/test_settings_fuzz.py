"""Any YAML tree, text or `--set`: settings, or a ConfigError of one sentence; nothing is run."""

import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import fuzz
from uttermill.flows import checks, settings
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings import StageSettings

MEMORY = 64 << 20


def names(model: Any, seen: set[Any] | None = None) -> set[str]:
    """Every name of a setting that the models know."""
    found = set(model.model_fields)
    for field in model.model_fields.values():
        if hasattr(field.annotation, "model_fields"):
            found |= names(field.annotation)
    return found


SHELVES = [name for shelf in shelves.SHELVES for name in shelves.names(shelf)]
OWN = {
    name
    for shelf in shelves.SHELVES
    for use in shelves.names(shelf)
    for name in getattr(plugins.load(shelf, use), "Settings", StageSettings).model_fields
}
KEYS = st.sampled_from(sorted(names(settings.PrepareSettings) | OWN | {"use", "kind", "path"}))
WORDS = st.sampled_from([
    *SHELVES, "local", "address", "class", "tls://h:1", "none", "grow", "mean", "auto", "", ".",
    "..", ".x", "a.", "a..b", "os.path", "uttermill.tasks.base.errors",
    "sys", "nan", "\ud800", "a\0b",
    "x" * 300,
    "tls://user:hunter2@h:1", "http://u:hunter2@h/?token=hunter2", "4GB", "-1", "1e400",
])  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | WORDS
    | st.text(max_size=8) | st.sampled_from([10**400, b"bytes", 0, 1, -1, 0.5])
)  # fmt: skip
TREES: Any = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(SCALARS, inner, max_size=2)
    ),
    max_leaves=12,
)  # fmt: skip
STAGES = ("shard", "filter", "resample", "transcribe", "package", "cluster")
RUNS = st.fixed_dictionaries({}, optional={name: st.dictionaries(KEYS, TREES, max_size=3) | TREES
                                           for name in STAGES})  # fmt: skip


def taken(data: Any, folder: str) -> settings.PrepareSettings | None:
    """What comes of a tree: settings that survive being kept, or None after one good sentence."""
    try:
        chosen = settings.parse(data)
        checks.check(chosen)
    except ConfigError as error:
        good_sentence(str(error))
        return None
    kept = chosen.model_dump_json()
    assert "hunter2" not in kept
    again = settings.parse(json.loads(kept))
    assert again.model_dump_json() == kept
    return chosen


def good_sentence(sentence: str) -> None:
    sentence.encode()
    assert sentence
    assert not set(sentence) & set("\r\n\0"), sentence
    assert len(sentence) < 5000
    assert "hunter2" not in sentence


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("settings"))


@pytest.mark.full
@fuzz.cases(400)
@given(RUNS)
def test_trees_of_stages(folder: str, stages: dict[str, Any]) -> None:
    base = {"sources": [{"path": folder}], "out": f"{folder}/out",
            "transcribe": {"backend": {"use": "fake"}}}  # fmt: skip
    taken({**base, **stages}, folder)


@fuzz.cases(200)
@given(TREES)
def test_any_tree(folder: str, tree: Any) -> None:
    if isinstance(tree, dict):
        tree = {**tree, "out": f"{folder}/out"}
    taken(tree, folder)


@fuzz.cases(200)
@given(st.dictionaries(KEYS, TREES, max_size=5), st.sampled_from(shelves.names("sources")))
def test_any_source(folder: str, options: dict[str, Any], kind: str) -> None:
    source = {"path": folder, **options, "kind": kind}
    taken({"sources": [source], "out": f"{folder}/out",
           "transcribe": {"backend": {"use": "fake"}}}, folder)  # fmt: skip


PIECES = st.sampled_from([
    "sources:", "out: o", "- ", "{", "}", "[", "]", ": ", "\n", "  ", "&a ", "*a", "? ", "|", ">",
    "!!python/name:os.x", "!!binary ", "%YAML 9.9", "---", "...", "2001-99-99", "0o8", "1:99", "'",
    '"', "#", "<<: ", "=", "\t", "~", "null", ".inf", "\u2028", "!!set ", "!!timestamp ", "!!int x",
    "!!float y",
])  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=20).map("".join)


@fuzz.cases(300)
@given(TEXTS.map(str.encode) | st.binary(max_size=80))
def test_any_text_as_a_file(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "s.yaml")
        path.write_bytes(data)
        one_sentence(lambda: settings.read(str(path), [], str(Path(home, "out")), []))


DOTTED = st.lists(KEYS | st.sampled_from(["0", "9", "", "duration", "-1"]), max_size=4).map(
    ".".join
)


@fuzz.cases(400)
@given(
    st.lists(st.tuples(DOTTED, TEXTS | WORDS | st.just("fake")).map("=".join) | TEXTS, max_size=4)
)
@pytest.mark.nightly
def test_any_assignments(folder: str, sets: list[str]) -> None:
    sets = [each for each in sets if not each.startswith("out")]
    one_sentence(lambda: settings.read(None, [folder], f"{folder}/out", sets))


def one_sentence(read: Any) -> None:
    try:
        read()
    except ConfigError as error:
        sentence = str(error)
    else:
        return
    good_sentence(sentence)


@pytest.mark.parametrize(
    ("key", "value"),
    [("sources.0.licence", "\ud800"), ("sources.0.language", "a\udcff"),
     ("transcribe.backend.language", "\ud800"), ("cluster.options", {"a": "\ud800"}),
     ("cluster.options", {"a": b"\xff"}), ("cluster.options", {"a": float("nan")}),
     ("cluster.options", {1: 2}), ("cluster.options", {"\ud800": 2}),
     ("cluster.memory_limit", "\ud800"), ("cluster.item_timeout", float("inf")),
     ("cluster.options", {"a": {1}})],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(folder: str, key: str, value: Any) -> None:
    data: dict[str, Any] = {
        "sources": [{"path": folder}], "out": f"{folder}/out", "cluster": {},
        "transcribe": {"backend": {"use": "fake"}},
    }  # fmt: skip
    place: Any = data
    *above, last = key.split(".")
    for step in above:
        place = place[int(step)] if step.isdigit() else place[step]
    place[last] = value
    assert taken(data, folder) is None


@pytest.mark.parametrize(
    "tag",
    ["!!python/object/apply:os.mkdir [{path}]", "!!python/object/new:os.mkdir [{path}]",
     "!!python/object/apply:subprocess.check_call [[mkdir, {path}]]", "!!python/name:os.system ''",
     "!!python/module:os ''", "!!python/object:uttermill.tasks.base.errors.MillError {{}}"],
)  # fmt: skip
def test_tags_are_refused_and_never_run(tag: str, tmp_path: Path) -> None:
    text = tag.format(path=tmp_path / "made")
    path = tmp_path / "s.yaml"
    path.write_text(f"sources: {text}\nout: o\n")
    with pytest.raises(ConfigError, match="not YAML") as caught:
        settings.read(str(path), [], None, [])
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="not YAML"):
        settings.read(None, [str(tmp_path)], "o", [f"resample.rate={text}"])
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "text",
    ["sources: &a [*a]\n", "sources: &a {x: *a}\n",
     "sources: " + "[" * 1000, "sources: " + "{a: " * 1000,
     "sources: [" + "x, " * 200_000 + "]", "x" * (3 << 20)],
    ids=["circle", "circle of mappings", "deep", "deep mappings", "long", "large"],
)  # fmt: skip
def test_bombs_are_refused_in_little_memory(text: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError) as caught:
            settings.read(str(path), [], None, [])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("assignment", ["use=fake", "filter.filters.²=x", "=x", "use", "a..use=x"])
def test_assignments_that_a_deep_run_found(folder: str, assignment: str) -> None:
    with pytest.raises(ConfigError):
        settings.read(None, [folder], f"{folder}/out", [assignment])
