"""Settings from files and command lines: defaults, `--set`, and errors that name the remedy."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.helpers import corpus
from uttermill.flows import checks, settings
from uttermill.flows.run import run_folder
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins import explaining
from uttermill.tasks.settings import FilterSettings, Plugin, TranscribeSettings


def recordings(tmp_path: Path) -> str:
    return str(corpus.make(tmp_path / "in", 1))


def test_source_on_the_command_line_expects_broken_files(tmp_path: Path) -> None:
    read = settings.read(None, [str(tmp_path)], str(tmp_path / "out"), [])
    assert read.sources[0].kind == "folder"
    assert read.sources[0].options == {"expect_broken": True}
    assert (read.resample.rate, read.package.formats) == (16000, (Plugin(use="wenet"),))
    assert read.filter.segmenter.use == "auto"
    assert read.transcribe.backend.use == "faster_whisper"


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (["filter.segmenter.use=vad"], {"use": "vad"}),
        # `use` replaces the whole mapping; further keys add to it
        (
            ["filter.segmenter.min_seconds=1", "filter.segmenter.use=vad",
             "filter.segmenter.max_seconds=20"],
            {"use": "vad", "max_seconds": 20},
        ),
        (["filter.segmenter={use: whole}"], {"use": "whole"}),
    ],
)  # fmt: skip
def test_set_of_a_plugin(assignments: list[str], expected: dict[str, Any]) -> None:
    data: dict[str, Any] = {"filter": {"segmenter": {"use": "auto", "min_seconds": 9}}}
    for assignment in assignments:
        settings.assign(data, [assignment])
    assert data["filter"]["segmenter"] == expected


def test_set_reaches_into_lists_by_name_and_number() -> None:
    data: dict[str, Any] = {"filter": {"filters": [{"use": "duration"}, {"use": "silence"}]}}
    settings.assign(data, ["filter.filters.silence.max_fraction=0.5"])
    settings.assign(data, ["filter.filters.0.max=20"])
    settings.assign(data, ["package.formats=[wenet, kaldi]"])
    assert data["filter"]["filters"] == [
        {"use": "duration", "max": 20}, {"use": "silence", "max_fraction": 0.5},
    ]  # fmt: skip
    assert data["package"]["formats"] == ["wenet", "kaldi"]


def test_set_reaches_plugins_with_dotted_names() -> None:
    """Those of one's own: the list had no entry `mine`."""
    data: dict[str, Any] = {
        "filter": {"filters": [{"use": "mine.loud"}, {"use": "mine.more.hum"}]},
        "package": {"formats": ["mine.lj", "wenet"]},
    }
    settings.assign(data, ["filter.filters.mine.loud.max=20"])
    settings.assign(data, ["filter.filters.mine.more.hum={use: silence}"])
    settings.assign(data, ["package.formats.mine.lj.audio=flac"])
    assert data["filter"]["filters"] == [{"use": "mine.loud", "max": 20}, {"use": "silence"}]
    assert data["package"]["formats"] == [{"use": "mine.lj", "audio": "flac"}, "wenet"]
    with pytest.raises(ConfigError, match=r"silense; did you mean silence\? it has silence, snr"):
        settings.assign(
            {"filter": {"filters": [{"use": "silence"}, "snr"]}}, ["filter.filters.silense.min=1"]
        )
    with pytest.raises(ConfigError, match="the list has no entry mine"):
        settings.assign(data, ["filter.filters.mine.quiet.max=20"])


def test_set_changes_one_setting_of_a_default_plugin(tmp_path: Path) -> None:
    read = settings.read(
        None, [str(tmp_path)], "o",
        ["filter.filters.duration.max=5", "transcribe.backend.beam_size=1"],
    )  # fmt: skip
    default = FilterSettings().filters
    assert [p.use for p in read.filter.filters] == [p.use for p in default]
    assert read.filter.filters[0].options == {"max": 5}
    assert read.transcribe.backend.use == "faster_whisper"
    assert read.transcribe.backend.options == {"beam_size": 1}


def test_relative_paths_are_kept_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "settings.yaml"
    path.write_text("sources: [{kind: jsonl, path: a.jsonl, root: wavs}]\nout: o\n")
    read = settings.read(str(path), [], None, [])
    assert (read.out, read.sources[0].path) == (str(tmp_path / "o"), str(tmp_path / "a.jsonl"))
    assert read.sources[0].options == {"root": str(tmp_path / "wavs")}
    with run_folder.record(tmp_path / "o", settings.PrepareSettings(sources=read.sources, out="o")):
        monkeypatch.chdir("/")
        assert run_folder.settings_of(tmp_path / "o") == read


def test_a_path_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a\udcff"
    folder.mkdir()
    read = settings.read(None, [str(folder)], str(tmp_path / "o"), ["transcribe.backend.use=fake"])
    with pytest.raises(ConfigError, match=r"a\\xff.*not valid UTF-8"):
        checks.check(read)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("package.formats=[wenet, wenet]", ["package.formats", "twice"]),
        ("filter.segmnter.use=vad", ["filter.segmnter", "segmenter", "filters"]),
        ("resample.rate=fast", ["resample.rate must be a whole number"]),
        ("cluster.kind=cloud", ["cluster.kind", "local"]),
        ("nonsense", ["key.key=value"]),
    ],
)
def test_bad_settings_are_one_sentence(tmp_path: Path, assignment: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        settings.read(None, [str(tmp_path)], str(tmp_path / "out"), [assignment])
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("filter.filters=[{use: duration}, {use: duration}]", ["twice"]),
        ("transcribe.backend={use: faster_whisper, model: /no/such/model}", ["/no/such/model"]),
        ("package.formats=[zip]", ["zip", "wenet"]),
    ],
)
def test_check_refuses_before_anything_starts(
    tmp_path: Path, assignment: str, words: list[str]
) -> None:
    sets = ["transcribe.backend.use=fake", assignment]
    with pytest.raises(ConfigError) as caught:
        checks.check(settings.read(None, [recordings(tmp_path)], str(tmp_path / "out"), sets))
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not (tmp_path / "out" / "runs").exists()


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        checks.check(settings.read(str(path), [], None, []))
    return str(caught.value)


def test_all_typos_are_named_at_once(tmp_path: Path) -> None:
    sentence = refused(tmp_path, f"""
        sources: [{{kind: folder, path: {tmp_path}, langauge: en}}]
        out: {tmp_path}/o
        resmaple: {{rate: 8000}}
        filter: {{filters: [{{use: silence, max_fractoin: 0.5}}, {{use: duratoin}}]}}
        transcribe: {{backend: {{use: fake, sed: 1}}, langauge_by: clip}}
    """)  # fmt: skip
    assert "resmaple: no such setting; did you mean resample?" in sentence
    assert "filter.filters.silence.max_fractoin: no such setting; did you mean max_fr" in sentence
    assert "no filter 'duratoin'; did you mean duration? known: " in sentence
    assert "transcribe.backend.sed: no such setting; did you mean seed?" in sentence
    assert "transcribe.langauge_by: no such setting; did you mean language_by?" in sentence


def test_typos_of_nested_recognisers_are_named_with_the_others(tmp_path: Path) -> None:
    sentence = refused(tmp_path, f"""
        sources: [{{kind: folder, path: {tmp_path}, langauge: en}}]
        out: {tmp_path}/o
        filter: {{segmenter: {{use: aligned, backend: {{use: fake, sede: 1}}}}}}
        transcribe: {{backends: [{{use: fake, sed: 1}}, {{use: faster_whisper, modle: a}}]}}
    """)  # fmt: skip
    assert "sources.folder.langauge: no such setting; did you mean language?" in sentence
    assert "filter.segmenter.backend.sede: no such setting; did you mean seed?" in sentence
    assert "transcribe.backends.fake.sed: no such setting; did you mean seed?" in sentence
    assert "transcribe.backends.faster_whisper.modle: no such setting; did you" in sentence


UNIT = "an amount of memory needs a unit, such as 4GB"


@pytest.mark.parametrize(
    ("yaml", "sentence"),
    [
        ("resample: {mono: loud}", "resample.mono must be 'mean' or 'first' or a whole number"),
        ("resample: {rate: 100}", "resample.rate must be at least 4000"),
        ("resample: 16000", "resample must be a mapping of settings"),
        ("filter: {filters: 3}", "filter.filters must be a list"),
        ("filter: {filters: [silence]}",
         "filter.filters.0 must be a mapping of settings, such as {use: silence}"),
        ("transcribe: {backend: {use: fake, language: no}}",
         'transcribe.backend.language must be text (put it in quotes: "no", say, since YAML reads '
         "a bare no, off or false as false)"),
        ("transcribe: {backend: {use: faster_whisper, model: 3}}",
         "transcribe.backend.model must be text (put it in quotes)"),
        ("filter: {filters: [{min: 3}]}", "filter.filters.0.use is required"),
        ("filter: {segmenter: {use: [a]}}", "filter.segmenter.use must be text"),
        ("package: {formats: []}", "package.formats needs at least 1 entry"),
        ("package: {formats: [[3]]}", "package.formats.0 must be a mapping of settings"),
        ("package: {refit: perhaps}", "package.refit must be true or false"),
        ("cluster: {gpus: 7}", "cluster.gpus must be"),
        ("transcribe: {backend: {use: faster_whisper, prompt: 3}}",
         "transcribe.backend.prompt must be text or a mapping of settings"),
        ("filter: {filters: [{use: duration, min: long}]}",
         "filter.filters.duration.min must be a number"),
        ("filter: {filters: [{use: duration, min: 300ms}]}",
         "filter.filters.duration.min must be a number without a unit"),
        ("shard: {hours: 30 min}", "shard.hours must be a number without a unit"),
        ("cluster: {cache_gb: 2GB}", "cluster.cache_gb must be a number without a unit"),
        ("cluster: {workers: 2x}", "cluster.workers must be a whole number without a unit"),
        ("cluster: {memory_limit: 4}", f"cluster.memory_limit: {UNIT}"),
        ("cluster: {memory_limit: 4.5}", f"cluster.memory_limit: {UNIT}"),
        ("cluster: {memory_limit: '4'}", f"cluster.memory_limit: {UNIT}"),
        ("package: {memory: 2000000000}", f"package.memory: {UNIT}"),
        ("package: {memory: '4'}", f"package.memory: {UNIT}"),
        ("package: {memory: yes}", "package.memory must be text"),
        ("package: {memory: 4XB}", "package.memory must be a size, such as 500MB or 4GB"),
        ("cluster: {memory_limit: -4GB}",
         "cluster.memory_limit: it must be auto or a size, such as 500MB or 4GB"),
        ("cluster: {memory_limit: 4XB}",
         "cluster.memory_limit: it must be auto or a size, such as 500MB or 4GB"),
        ("sources: [small]",
         "sources.0 must be a mapping of settings, such as {kind: folder, path: small}"),
        ("sources: small", "sources must be a list, such as [{kind: folder, path: small}]"),
        ("sources: []", "sources needs at least 1 entry"),
        ("sources: [{path: small, language: no}]",
         'sources.folder.language must be text (put it in quotes: "no", say, since YAML reads a '
         "bare no, off or false as false)"),
        ("sources: [{path: small, name: yes}]",
         'sources.folder.name must be text (put it in quotes: "yes", say, since YAML reads a bare '
         "yes, on or true as true)"),
        ("sources: [{path: small, name: a b}]",
         "sources.folder.name must be at most 40 characters: letters A to Z, digits, _ and -"),
        ("sources: [{path: small, name: 2024}]",
         "sources.folder.name must be text (put it in quotes)"),
        ("filter: {filters: [{use: duration, min: 5, max: 2}]}",
         "filter.filters.duration: min (5) is above max (2), so nothing can pass"),
        ("filter: {filters: [{use: duration, max: 0.05}]}",
         "filter.filters.duration: min (0.1) is above max (0.05), so nothing can pass"),
        ("filter: {filters: [{use: silence, min_fraction: 0.99}]}",
         "filter.filters.silence: min_fraction (0.99) is above max_fraction (0.98), so"),
        ("filter: {segmenter: {use: vad, min_seconds: 40}}",
         "filter.segmenter"),
    ],
)  # fmt: skip
def test_messages_name_settings_and_no_types(tmp_path: Path, yaml: str, sentence: str) -> None:
    head = f"sources: [{{kind: folder, path: {tmp_path}}}]\n" if "sources: " not in yaml else ""
    said = refused(tmp_path, f"{head}out: {tmp_path}/o\n{yaml}")
    assert said.startswith(sentence)
    for word in ("Input", "instance", "dict", "tuple", "str", "function", "[", "Plugin"):
        assert word not in said or word in sentence, said


def test_of_several_alike_the_one_at_fault_is_named(tmp_path: Path) -> None:
    sentence = refused(tmp_path, f"""
        sources: [{{path: a}}, {{path: b, langauge: en}}, {{kind: jsonl, path: c, rot: d}}]
        out: {tmp_path}/o
        transcribe: {{backends: [{{use: fake}}, {{use: fake, sed: 1}}, {{use: none, sed: 1}}]}}
    """)  # fmt: skip
    assert "sources.1.langauge: no such setting; did you mean language?" in sentence
    assert "sources.jsonl.rot: no such setting; did you mean root?" in sentence
    assert "transcribe.backends.1.sed: no such setting; did you mean seed?" in sentence
    assert "transcribe.backends.none.sed: no such setting" in sentence


def test_every_pattern_is_told_in_words() -> None:
    root = Path(settings.__file__).parents[1]
    code = [p.read_text("utf-8") for top in ("tasks", "flows") for p in (root / top).rglob("*.py")]
    used = {each for text in code for each in re.findall(r'pattern=r?"([^"]*)"', text)}
    assert used == explaining.PATTERNS.keys()


def test_the_home_folder_in_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "settings.yaml"
    path.write_text(
        "sources: [{kind: jsonl, path: ~/a.jsonl, root: ~/wavs}]\nout: ~/out\n"
        "transcribe: {backend: {use: faster_whisper, model: ~/whisper}}\n"
    )
    read = settings.read(str(path), [], None, ["package.splits.test.list=~/test.txt"])
    home = str(tmp_path)
    assert (read.sources[0].path, read.sources[0].options["root"]) == (
        f"{home}/a.jsonl", f"{home}/wavs",
    )  # fmt: skip
    assert read.out == f"{home}/out"
    assert read.transcribe.backend.options["model"] == f"{home}/whisper"
    assert read.job().package.splits["test"].list == f"{home}/test.txt"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("assignment", "key", "uses"),
    [
        ("filter.filters+={use: snr}", "filters",
         ["duration", "silence", "clipping", "decode_faults", "snr"]),
        ("filter.filters+=[{use: snr}, {use: peak}]", "filters",
         ["duration", "silence", "clipping", "decode_faults", "snr", "peak"]),
    ],
)  # fmt: skip
def test_set_adds_to_a_list(tmp_path: Path, assignment: str, key: str, uses: list[str]) -> None:
    read = settings.read(None, [str(tmp_path)], "o", [assignment, "package.formats+=kaldi"])
    assert [p.use for p in getattr(read.filter, key)] == uses
    assert [p.use for p in read.package.formats] == ["wenet", "kaldi"]
    again = settings.read(
        None, [str(tmp_path)], "o",
        ["filter.filters+={use: snr}", "filter.filters.snr.min=3",
         "filter.filters.silence.min_longest=1"],
    )  # fmt: skip
    assert again.filter.filters[-1].options == {"min": 3}
    assert again.filter.filters[1].options == {"min_longest": 1}
    with pytest.raises(ConfigError, match=r"resample\.rate is not a list"):
        settings.read(None, [str(tmp_path)], "o", ["resample.rate+=3"])


def test_a_missing_source_and_an_unwritable_out_are_refused(tmp_path: Path) -> None:
    gone = settings.read(
        None, [str(tmp_path / "gone")], str(tmp_path / "o"), ["transcribe.backend.use=fake"]
    )
    with pytest.raises(ConfigError, match="gone"):
        checks.check(gone)
    (tmp_path / "file").write_text("")
    blocked = settings.read(
        None,
        [recordings(tmp_path)],
        str(tmp_path / "file" / "out"),
        ["transcribe.backend.use=fake"],
    )
    with pytest.raises(ConfigError, match="cannot be written"):
        checks.check(blocked)


def test_a_settings_file_is_the_same_as_flags(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"sources: [{{kind: folder, path: {tmp_path}, expect_broken: true}}]\nout: o\n")
    assert settings.read(str(path), [], None, []) == settings.read(None, [str(tmp_path)], "o", [])
    path.write_text("sources: [")
    with pytest.raises(ConfigError, match="not YAML"):
        settings.read(str(path), [], None, [])


def test_settings_of_a_plugin_are_checked_once_for_each_way_to_write_them() -> None:
    """Plug-ins with `1`, `1.0` and `true` are equal, and a plug-in may refuse one of them."""
    one, whole, yes = (Plugin.model_validate({"use": "duration", "min": n}) for n in (1, 1.0, True))
    assert one == whole == yes
    first = plugins.FILTERS.resolve(one)[1]
    assert plugins.FILTERS.resolve(one.model_copy())[1] is first
    assert plugins.FILTERS.resolve(whole)[1] is not first
    assert plugins.FILTERS.resolve(yes)[1] is not first
    with pytest.raises(ConfigError, match="min"):
        plugins.FILTERS.resolve(Plugin.model_validate({"use": "duration", "min": "soon"}))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"out: a\nout: b\n", "is not YAML: the key out is given twice (line 2, column 1)"),
        (b"out: a\nshard: {hours: 1, hours: 2}", "the key hours is given twice"),
        (b"out: \xff", "is not text in UTF-8"),
        (b"", "is empty; `uttermill init` writes one"),
        (b'{"info": 1, "items": []}', "none of its keys (info, items) is a setting"),
        (None, "is a folder, not a settings file; for the recordings in it, give --source"),
    ],
    ids=["twice", "twice-inside", "bytes", "empty", "another", "folder"],
)
def test_a_file_that_holds_no_settings(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    path = tmp_path / "settings.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        settings.read(str(path), [], None, [])


def test_a_merged_mapping_may_be_overridden(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "settings.yaml"
    path.write_text(
        f"sources: [&s {{path: {tmp_path}/in, name: a}}, {{<<: *s, name: b}}]\nout: {tmp_path}/out"
    )
    found = settings.read(str(path), [], None, [])
    assert [each.name for each in plugins.datasets(found.job().sources)] == ["a", "b"]


def test_the_default_recogniser_beside_a_list_says_nothing() -> None:
    """A form sends it, whatever the deployment's list is."""
    several = [{"use": "fake"}, {"use": "fake", "seed": 1}]
    listed = TranscribeSettings.model_validate({"backends": several})
    for backend in ("faster_whisper", {"use": "faster_whisper"}, Plugin(use="fake"), "fake"):
        both = {"backend": backend, "backends": several}
        assert TranscribeSettings.model_validate(both) == listed
    with pytest.raises(ValidationError, match="backend is the first of backends"):
        TranscribeSettings.model_validate({"backend": {"use": "moonshine"}, "backends": several})
