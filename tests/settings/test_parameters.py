"""What parameters from a form or an API may say: no module, file, server or cluster that the
settings file does not name, and no folder outside those that it names."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import cloudpickle  # type: ignore[import-untyped]
import pytest
import yaml
from prefect.utilities.callables import parameter_schema
from pydantic import BaseModel, Field

from tests.bench import _peer_juicer, peers
from uttermill.flows import flow_parameters, serve, settings
from uttermill.flows.flow_parameters import takes_text
from uttermill.flows.prepare import prepare
from uttermill.flows.serve import ServedSettings
from uttermill.flows.settings import PrepareSettings, parse
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings import Plugin, StageSettings
from uttermill.tasks.settings.base import form

Data = dict[str, Any]
STRANGE = "tests.plugins.never_imported"


@pytest.fixture
def data(tmp_path: Path) -> Data:
    for name in ("in", "in/deep", "beside", "lists"):
        (tmp_path / name).mkdir()
    (tmp_path / "lists" / "a.jsonl").touch()
    return {
        "sources": [
            {"kind": "folder", "path": str(tmp_path / "in"), "name": "a"},
            {"kind": "jsonl", "name": "b",
             "path": str(tmp_path / "lists" / "a.jsonl"),
             "root": str(tmp_path / "in")},
            {"kind": "tar", "path": "s3://bucket/tars", "name": "c"},
        ],
        "out": str(tmp_path / "out"),
        "filter": {
            "filters": [{"use": "duration", "min": 1}, {"use": "tests.plugins.gated_filter"}]
        },
        "transcribe": {
            "backends": [
                {"use": "openai_api", "url": "http://one/v1", "api_key_env": "ONE", "model": "m"},
                {"use": "openai_api", "url": "http://two/v1", "model": "m", "api_key_env": "TWO"},
            ],
            "llm_text": {"url": "http://one/v1", "model": "m"},
        },
        "package": {"splits": {"test": {"list": "/lists/test.txt"}, "dev": 0.1}},
        "cluster": {"workers": 2},
    }  # fmt: skip


def refused(data: Data, change: Callable[[Data], object], *allow: str) -> str:
    """The sentence that refuses changed parameters; empty if they are taken."""
    policy = pickle.loads(pickle.dumps(flow_parameters.policy(parse(copy.deepcopy(data)), allow)))
    given = copy.deepcopy(data)
    change(given)
    try:
        policy.check(parse(given))
    except ConfigError as error:
        return str(error)
    return ""


def put(place: str, value: object) -> Callable[[Data], None]:
    def change(data: Data) -> None:
        at: Any = data
        *path, last = [int(key) if key.isdigit() else key for key in place.split(".")]
        for key in path:
            at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
        if isinstance(at, list) and last == len(at):
            at.append(value)
        else:
            at[last] = value

    return change


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("sources.0.name", "other"), ("sources.0.licence", "CC0"), ("sources.0.language", "de"),
        ("sources.0.expect_broken", True), ("sources.1.columns", {"audio": "x"}),
        ("filter.filters.0.min", 2), ("filter.filters", [{"use": "silence"}, {"use": "dnsmos"}]),
        ("filter.segmenter", {"use": "vad", "max_seconds": 9}), ("resample.rate", 8000),
        ("transcribe.backends.0.prompt", "Hello."), ("transcribe.backends.1.model", "other"),
        ("transcribe.backends", [{"use": "fake"}, {"use": "none"}]), ("transcribe.llm_text", None),
        ("transcribe.llm_text.prompt", "Write it."), ("transcribe.when", {"avg_logprob": {}}),
        ("transcribe.backends.0.api_key_env", None),
        ("package.formats", ["wenet", {"use": "nemo", "audio": "flac"}]),
        ("package.splits", {"dev": 0.2}), ("package.weights", {"a": 0.5}),
        ("cluster.workers", 9), ("cluster.memory_limit", "3GB"), ("cluster.gpus", [0]),
        ("history", "none"), ("enhance", {"use": "deepfilter"}),
    ],
)  # fmt: skip
def test_numbers_choices_and_words_may_change(data: Data, place: str, value: object) -> None:
    assert refused(data, put(place, value)) == ""


def test_the_file_itself_is_taken(data: Data) -> None:
    assert refused(data, lambda given: None) == ""
    assert refused(data, lambda given: given["sources"].reverse()) == ""
    assert refused(data, lambda given: given["transcribe"]["backends"].reverse()) == ""


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("sources.0", {"kind": STRANGE, "path": "x"}),
        ("filter.segmenter", {"use": STRANGE}),
        ("filter.segmenter", {"use": "aligned", "backend": {"use": STRANGE}}),
        ("filter.segmenter", {"use": "tests.plugins.gated_filter"}),  # of another shelf in the file
        ("filter.filters.2", {"use": STRANGE}),
        ("speakers", {"use": STRANGE}),
        ("enhance", {"use": STRANGE}),
        ("resample.resampler", {"use": STRANGE}),
        ("resample.levels", [{"use": "peak"}, {"use": STRANGE}]),
        ("transcribe.backends.2", {"use": STRANGE}),
        ("transcribe.verdicts", [{"use": STRANGE}]),
        ("package.formats", [STRANGE]),
        ("package.formats", [{"use": "os.path"}]),
    ],
)
def test_no_other_module_is_imported(data: Data, place: str, value: object) -> None:
    sentence = refused(data, put(place, value))
    assert " names the module " in sentence
    assert "--trust-parameters" in sentence
    assert STRANGE not in sys.modules


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("cluster", {"kind": "class", "class_name": "distributed.LocalCluster"}),
        ("cluster", {"kind": "address", "address": "tcp://evil:8786"}),
        ("cluster.options", {"n_workers": 1}),
        ("cluster.class_packages", ["subprocess"]),
        ("cluster.address", "tcp://evil:8786"),
        ("cluster.tls", {"ca_file": "/a", "cert": "/b", "key": "/c"}),
        ("package.splits.test.list", "/etc/passwd"),
        ("package.splits.more", {"list": "/etc/passwd"}),
        ("transcribe.backends.0.url", "http://evil/v1"),
        ("transcribe.backends.0.api_key_env", "AWS_SECRET_ACCESS_KEY"),
        ("transcribe.backends.0.api_key_env", "TWO"),  # the key of one to the server of the other
        ("transcribe.backends.0", {"use": "openai_api", "url": "http://one/v1", "api_key": "k"}),
        ("transcribe.backends.0.ca_file", "/tmp/ca.pem"),
        ("transcribe.llm_text.url", "http://evil/v1"),
        ("transcribe.llm_text.api_key_env", "ONE"),
        ("transcribe.verdicts", [{"use": "llm_label", "url": "http://evil/v1", "model": "m"}]),
        ("transcribe.verdicts", [{"use": "llm_label", "second": {"url": "http://evil/v1"}}]),
        ("transcribe.backends.0", {"use": "faster_whisper", "model": "/tmp/model"}),
        ("transcribe.backends.0", {"use": "onnx_asr", "model": "/tmp/model"}),
        ("transcribe.backends.0", {"use": "ctc", "model": "../model"}),
        ("filter.segmenter", {"use": "aligned", "backend": {"use": "ctc", "model": "/tmp/m"}}),
        ("speakers", {"use": "segments", "path": "/tmp/model"}),
        ("enhance", {"use": "separator_onnx", "path": "/tmp/model"}),
        ("resample.levels", [{"use": "ffmpeg", "graph": "highpass=f=80"}]),
    ],
)
def test_no_other_file_server_or_cluster(data: Data, place: str, value: object) -> None:
    assert "differs from the settings file; the settings file decides" in refused(
        data, put(place, value)
    )


def test_what_the_file_has_may_not_be_switched_off_in_the_cluster(data: Data) -> None:
    tls = {"ca_file": "/a", "cert": "/b", "key": "/c"}
    data["cluster"] = {"kind": "address", "address": "tls://h:1", "tls": tls}
    assert refused(data, put("cluster.workers", 3)) == ""
    for change in (put("cluster", {}), put("cluster.tls", None), put("cluster.tls.key", "/d")):
        assert refused(data, change).startswith("cluster")


# Folders


def test_sources_stay_below_those_of_the_file(data: Data, tmp_path: Path) -> None:
    inside, beside = tmp_path / "in", tmp_path / "beside"
    (inside / "out").symlink_to(beside)
    (beside / "in").symlink_to(inside)
    for path, taken in (
        (inside, True), (inside / "deep", True), (inside / "deep" / "..", True),
        (inside / "not there yet", True), (beside / "in" / "deep", True),
        (tmp_path, False), (beside, False), (inside / "out", False),
        (inside / ".." / "beside", False),
        (f"{inside}2", False), ("/", False), ("/etc", False), (tmp_path / "lists", False),
        (f"file://{inside}", False), ("", False), ("x\0y", False),
    ):  # fmt: skip
        for field in ("path", "root"):
            source = {"kind": "jsonl", "path": str(inside / "x.jsonl"), field: str(path)}
            if field == "path" and not path:
                continue  # no settings at all
            sentence = refused(data, put("sources.0", source))
            assert (sentence == "") == (taken or not path), (path, field, sentence)
    rttm = {"kind": "folder", "path": str(inside), "rttm": "/etc/passwd"}
    assert "sources.0.rttm: /etc/passwd is not below" in refused(data, put("sources.0", rttm))
    assert "--allow FOLDER" in refused(data, put("sources.0", rttm))
    followed = {"kind": "folder", "path": str(inside), "follow_links": True}
    assert "sources.0.follow_links differs" in refused(data, put("sources.0", followed))
    assert refused(data, put("sources.0", {**followed, "follow_links": False})) == ""


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("s3://bucket/tars", True), ("s3://bucket/tars/x.tar", True), ("s3://bucket/tars/", True),
        ("s3://bucket/tars/a/../b", True),
        ("s3://bucket", False), ("s3://bucket/tars2", False), ("s3://bucket/tars/../x", False),
        ("s3://other/tars", False), ("http://bucket/tars", False), ("memory://bucket/tars", False),
        ("s3://bucket/tars/x::file:///etc/passwd", False), ("s3://bucket/tars/%2e%2e/x", False),
        ("simplecache::s3://bucket/tars", False), ("s3://bucket/tars/x?versionId=1", False),
    ],
)  # fmt: skip
def test_urls_stay_below_those_of_the_file(data: Data, url: str, taken: bool) -> None:
    sentence = refused(data, put("sources.0", {"kind": "tar", "path": url}))
    assert (sentence == "") == taken, sentence


def test_results_stay_below_out(data: Data, tmp_path: Path) -> None:
    out, beside = tmp_path / "out", tmp_path / "beside"
    out.mkdir()
    (out / "link").symlink_to(beside)
    for path, taken in (
        (out, True), (out / "again", True), (f"{out}2", False), (beside, False),
        (out / "link", False), (tmp_path, False), (tmp_path / "in", False),
        ("s3://bucket/tars", False),
    ):  # fmt: skip
        assert (refused(data, put("out", str(path))) == "") == taken, path


def test_further_folders_are_allowed_for_both(data: Data, tmp_path: Path) -> None:
    more = str(tmp_path / "beside")
    for change in (put("out", f"{more}/out"), put("sources.0.path", f"{more}/x")):
        assert refused(data, change)
        assert refused(data, change, more) == ""
        assert refused(data, change, f"{more}/other")


# The rule over all settings, present and future


def models(top: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and all in its fields."""

    def inner(annotation: Any) -> Iterator[type[BaseModel]]:
        if isinstance(annotation, type) and issubclass(annotation, StageSettings):
            yield from models(annotation)
        for each in get_args(annotation):
            yield from inner(each)

    yield top
    for field in top.model_fields.values():
        yield from inner(field.annotation)


def every() -> Iterator[tuple[str, type[BaseModel], str]]:
    tops = {"": PrepareSettings} | {
        f"{shelf}.{use}": plugins.load(shelf, use).Settings
        for shelf in shelves.SHELVES
        for use in shelves.names(shelf)
    }
    for name, top in tops.items():
        for model in models(top):
            for field in model.model_fields:
                yield f"{name}.{model.__name__}.{field}", model, field


#: What a name or a description of a setting says that names a file, an address or code.
NAMES = re.compile(
    r"(^|_)(path|root|file|folder|dir|url|address|env|module|class|package|packages|list|rttm|cert|"
    r"key|host|command|graph|graphs|model|options)(_|$)"
)
SAYS = re.compile(r"\b(file|folder|path|URL|address|dotted|module|PEM|variable)\b")
#: Names of columns, of keys of a list, and of a model on the server that the file names.
HARMLESS = {"text_key", "audio_key", "model"}


def test_what_looks_like_a_file_an_address_or_code_is_no_word() -> None:
    suspects = {
        place
        for place, model, field in every()
        if form(model, field) == "words"
        and (NAMES.search(field) or SAYS.search(str(model.model_fields[field].description)))
        and not (field in HARMLESS or field.endswith("_column") or model.__name__.startswith("Col"))
    }
    assert suspects <= {".PackageSettings.splits"}


def test_control_suspects_are_seen() -> None:
    found = {field for _, model, field in every() if form(model, field) is None}
    assert {"url", "api_key_env", "ca_file", "graph", "path", "list"} <= found
    assert all(NAMES.search(f"x_{name}") for name in ("path", "url", "ca_file", "api_key_env"))


def test_only_texts_are_marked_and_only_sources_and_out_are_places() -> None:
    places: dict[str, set[str]] = {}
    for _, model, field in every():
        mark = form(model, field)
        if mark in ("words", "read", "write"):
            entry = model.model_fields[field]
            assert takes_text(entry.annotation, entry.metadata), (model, field)
        if mark in ("read", "write"):
            places.setdefault(mark, set()).add(field)
    assert places == {"read": {"path", "root", "rttm"}, "write": {"out"}}


def test_a_new_text_is_the_files_unless_it_is_marked() -> None:
    class Grown(StageSettings):
        where: str = "here"
        many: tuple[str, ...] = ()
        keyed: dict[str, int] = Field({})
        anything: Any = None
        number: int = 0

    free = {n for n, f in Grown.model_fields.items() if takes_text(f.annotation, f.metadata)}
    assert free == {"where", "many", "keyed", "anything"}


# The flow that `serve` hands to the runner


@pytest.mark.nightly
def test_the_guarded_flow_looks_before_it_runs(data: Data) -> None:
    chosen = parse(copy.deepcopy(data))
    served = ServedSettings("settings.yaml", (), chosen)
    guarded = serve.guarded(flow_parameters.policy(chosen), served)
    there = cloudpickle.loads(cloudpickle.dumps(guarded))
    for flow in (guarded, there):
        assert parameter_schema(flow) == parameter_schema(prepare)
        assert not flow.should_validate_parameters
        assert flow.on_crashed_hooks == prepare.on_crashed_hooks
        given = copy.deepcopy(data)
        given["cluster"] = {"kind": "class", "class_name": "distributed.LocalCluster"}
        with pytest.raises(ConfigError, match=r"cluster.* differs from the settings file"):
            flow.fn(**given)
        with pytest.raises(ConfigError, match="names the module"):
            flow.fn(**{**data, "speakers": {"use": STRANGE}})
    assert prepare.should_validate_parameters, "the flow of work pools stays as it is"


# The ready settings files: the reader takes each, and every plug-in in it takes its settings.


RECIPES = sorted((Path(__file__).parents[2] / "infra/recipes").glob("*.yaml"))


def used(read: settings.PrepareSettings) -> Iterator[tuple[str, Plugin]]:
    yield "segmenters", read.filter.segmenter
    yield from (("filters", plugin) for plugin in read.filter.filters)
    yield "enhance", read.enhance
    yield "resamplers", read.resample.resampler
    yield from (("levels", plugin) for plugin in read.resample.levels)
    yield "asr", read.transcribe.backend
    yield from (("text", plugin) for plugin in read.transcribe.verdicts)


def test_the_four_are_there() -> None:
    names = {"asr-wenet", "tts-emilia", "voice-applio", "datajuicer-audio"}
    assert names <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_accepted(path: Path) -> None:
    read = settings.read(str(path), [], None, [])
    for shelf, plugin in used(read):
        plugins.resolve(shelf, plugin)
    for source in read.sources:
        plugins.resolve_source(source)
    for plugin in read.package.formats:
        plugins.FORMATS.resolve(plugin)


def test_the_benchmark_gives_data_juicer_and_us_the_same_limits(tmp_path: Path) -> None:
    read = settings.read(None, ["in"], "out", [*peers.PLAIN, *_peer_juicer.OURS])
    duration, size, ratio = (
        plugins.FILTERS.resolve(plugin)[1].model_dump() for plugin in read.filter.filters
    )
    (tmp_path / "clips").mkdir()
    recipe = yaml.safe_load(_peer_juicer.recipe(tmp_path / "clips", tmp_path / "home").read_text())
    theirs = {name: limits for each in recipe["process"] for name, limits in each.items()}
    assert theirs["audio_duration_filter"].items() >= {
        ("min_duration", duration["min"]),
        ("max_duration", duration["max"]),
    }
    assert theirs["audio_nmf_snr_filter"]["min_snr"] == ratio["min"]
    assert theirs["audio_size_filter"].items() >= {("min_size", "1KB"), ("max_size", "1TB")}
    assert (size["min"], size["max"]) == (2**10, 2**40)
