"""Every setting in dataset.json and back: a version is compared with today's settings, and `prune`
keeps the checkpoints of those that it was made with."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from tests.laws.test_setting_roles import PLUGIN_FIELDS, SHELVES, STAGES, TRANSIENT
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.base.schema import DATASET_FILE
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.settings import Plugin, Source, roles
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import recipe, whole_job
from uttermill.tasks.stages import stage
from uttermill.tasks.storage import versions

TWO = ({"use": "fake"}, {"use": "fake", "seed": 1})
#: Values of what says something only together with others.
TOGETHER: dict[str, dict[str, Any]] = {
    "transcribe.when": {"backends": TWO, "when": {"avg_logprob": {"max": -0.4}}},
    "transcribe.also_when": {"backends": TWO, "also_when": {"rms": {"max": -60.0}}},
    "transcribe.asr": {"backends": TWO, "asr": "rover"},
    "transcribe.hear": {"hear": "enhanced"},
    "transcribe.llm_text": {
        "llm_text": {
            "url": "http://h:8000/v1",
            "model": "m",
            "prompt": "Write.",
            "temperature": 0.5,
        }
    },
    "package.audio": {"audio": "both"},
}
#: Values above the defaults of other limits.
HIGHER = {"text.char_rate": {"max_alphabetic": 31.0, "max_syllabic": 31.0}}
#: Where a plug-in of a shelf stands in the settings.
PLACES: dict[str, tuple[str, str | None, bool]] = {
    "diarizers": ("speakers", None, False), "enhance": ("enhance", None, False),
    "segmenters": ("filter", "segmenter", False), "filters": ("filter", "filters", True),
    "resamplers": ("resample", "resampler", False), "levels": ("resample", "levels", True),
    "asr": ("transcribe", "backend", False), "text": ("transcribe", "verdicts", True),
    "formats": ("package", "formats", True),
}  # fmt: skip
SECOND = {"column": "english", "language": "en"}
SOURCES: dict[str, dict[str, Any]] = {
    "": {"name": "x", "licence": "CC0", "citation": "A. 2024", "language": "es",
         "expect_broken": True, "rttm": "/r.rttm",
         "track": 1, "channels": "apart", "follow_links": True, "speaker": "parent_folder"},
    "folder": {"system_folders": True, "texts": "none", "encoding": "cp1251",
               "archives": False, "include": ["*.wav"], "exclude": ["b*"],
               "labels": {"pattern": "(?P<emotion>[a-z]+)"}},
    "kaldi": {"root": "/r"},
    "lhotse": {"root": "/r", "labels": ["emotion"], "second_text": SECOND},
    "tar": {"root": "/r"},
    "table": {"root": "/r", "layout": "table", "columns": {"audio": "a", "text": "t"},
              "separator": ";", "header": True, "encoding": "cp1251",
              "labels": ["emotion"], "channel_names": {"agent": 1},
              "second_text": SECOND},
    "jsonl": {"root": "/r", "columns": {"audio": "a", "text": "t"}, "labels": ["emotion"],
              "channel_names": {"agent": 1}, "second_text": SECOND},
    "datajuicer": {"root": "/r", "text_key": "t", "audio_key": "a"},
    "hf_parquet": {"root": "/r", "audio_column": "a", "text_column": "t", "id_column": "i",
                   "speaker_column": "s", "language_column": "l", "labels": ["emotion"],
                   "second_text": SECOND},
}  # fmt: skip


def job_with(tmp: Path, **changes: Any) -> Job:
    changes.setdefault("enhance", Plugin(use="gtcrn"))
    return corpus.job(tmp, out=tmp / "out", **changes)


def kept(job: Job) -> Any:
    """Settings as a version has them, which are the job's own."""
    version = versions.numbered(job.out, 1)
    version.mkdir(parents=True)
    told = {"settings": whole_job.settings_of(job), "recipes": {"weights": "w"}, "files": {}}
    (version / DATASET_FILE).write_bytes(datacard.sealed(told))
    found = versions.described(version)["settings"]
    assert found == told["settings"], "else each run would take them for others"
    return found


def back_again(job: Job, stored: Any) -> None:
    """What `prune` reads has the same settings, and so the same recipes."""
    [read] = prune.settings_of(job.out, versions.all_of(job.out))
    again = whole_job.settings_of(read.job)
    names = prune.MODELS.keys() & stored.keys()
    assert names == prune.MODELS.keys()
    assert {name: again[name] for name in names} == {name: stored[name] for name in names}
    for name in stage.PER_SHARD:
        assert whole_job.of_stage(name, read.job, "w") == whole_job.of_stage(name, job, "w")


def test_every_setting_has_another_value() -> None:
    assert {name for name, entry in STAGES.items() if entry.other is None} == TOGETHER.keys()
    assert PLACES.keys() | {"sources"} == {*shelves.SHELVES}
    for kind in shelves.names("sources"):
        model = plugins.load("sources", kind).Settings
        assert {*SOURCES[""], *SOURCES[kind], "kind", "path"} == model.model_fields.keys()


@pytest.mark.parametrize("name", STAGES)
def test_of_a_stage(tmp_path: Path, name: str) -> None:
    where, _, field = name.partition(".")
    change = TOGETHER.get(name, {field: STAGES[name].other})
    job = job_with(tmp_path, **{where: change})
    stored = kept(job)
    plain = whole_job.settings_of(job_with(tmp_path))
    assert (stored != plain) == (STAGES[name].role != TRANSIENT)
    back_again(job, stored)


@pytest.mark.parametrize("name", PLUGIN_FIELDS)
def test_of_a_plugin(tmp_path: Path, name: str) -> None:
    shelf, _, use = name.partition(".")
    where, inner, several = PLACES[shelf]

    def with_plugin(tmp: Path, **options: Any) -> Job:
        plugin: Any = Plugin.model_validate({"use": use, **options})
        plugin = (plugin,) if several else plugin
        return job_with(tmp, **{where: plugin if inner is None else {inner: plugin}})

    for field in PLUGIN_FIELDS[name]:
        other = HIGHER.get(name, {}).get(field, SHELVES[name][field].other)
        job = with_plugin(tmp_path / field, **{field: other})
        stored, plain = kept(job), whole_job.settings_of(with_plugin(tmp_path / field))
        lasting = roles(plugins.load(shelf, use).Settings)[field] not in ("transient", "secret")
        assert (stored != plain) == lasting, field
        back_again(job, stored)


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind])
def test_of_a_source(tmp_path: Path, kind: str) -> None:
    told = {"kind": kind, "path": str(tmp_path)}
    plain = whole_job.settings_of(job_with(tmp_path, sources=[told]))["sources"]
    own = {**SOURCES[""], **SOURCES[kind]}
    for number, (field, value) in enumerate(own.items()):
        job = job_with(tmp_path / str(number), sources=[{**told, field: value}])
        stored = kept(job)
        role = roles(plugins.load("sources", kind).Settings)[field]
        lasting = role not in ("transient", "secret")
        assert (stored["sources"] != plain) == lasting, field
        again = Source.model_validate(stored["sources"][0])
        read = corpus.job(tmp_path, sources=[again.model_dump()])
        assert whole_job.settings_of(read)["sources"] == stored["sources"]


def test_control_a_setting_that_is_not_written_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_with(tmp_path, resample={"rate": 8000})
    lasting = recipe.lasting

    def forgetful(model: Any) -> Any:
        return {name: value for name, value in lasting(model).items() if name != "rate"}

    monkeypatch.setattr(recipe, "lasting", forgetful)
    with pytest.raises(AssertionError):
        back_again(job, kept(job))
