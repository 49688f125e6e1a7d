"""Every file on every shelf, and every stage, against its contract; broken ones as controls."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from pydantic import Field

from tests.helpers import own_plugin
from uttermill.flows import checks
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks import plugins
from uttermill.tasks.base import schema, shelves
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.formats import PLACE
from uttermill.tasks.plugins.annotation_kinds import Events, Label
from uttermill.tasks.plugins.contracts import CONTRACTS, filled, lacking, members, misspelt
from uttermill.tasks.plugins.rules import Limit
from uttermill.tasks.publish.published_columns import LAYOUT_COLUMNS
from uttermill.tasks.settings import StageSettings, Threshold, roles
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import enhanced
from uttermill.tasks.stages import contract, filter, resample, transcribe
from uttermill.tasks.stages.contract import Stage, StageModule

ON_SHELVES = [(shelf, use) for shelf in shelves.SHELVES for use in shelves.names(shelf)]
OF_OUR_OWN = [
    ("filters", "tests.plugins.costly"),
    ("segmenters", "tests.plugins.leaky"),
    ("resamplers", "tests.plugins.gated_resampler"),
    ("asr", "tests.plugins.seen_asr"),
]
#: Parameters of what a contract declares as `Callable | None`.
CALLABLES = {
    "fingerprint": ["clip", "settings"],
    "reject": ["rows", "settings", "frozen"],
    "labelled": ["rows", "settings", "frozen"],
    "stream": ["blocks", "src_hz", "dst_hz", "settings"],
    "offsets": ["rows", "settings"],
    "listing": ["home", "split", "head"],
}
STAGES: dict[str, StageModule[Any]] = {
    "filter": filter,
    "resample": resample,
    "transcribe": transcribe,
}
ROLES = {"text": {"threshold"}, "formats": {"threshold", "transient"}}


def parameters(member: Any) -> list[str]:
    return [name for name in inspect.signature(member).parameters if name != "self"]


def faults(module: ModuleType, shelf: str) -> list[str]:
    """What is wrong with a module as a plug-in of a shelf."""
    contract = CONTRACTS[shelf].plugin
    found = [f"lacks {how}" for how in lacking(module, contract)]
    for name in members(contract):
        own, declared = getattr(module, name, None), getattr(contract, name, None)
        wanted = parameters(declared) if isinstance(declared, FunctionType) else CALLABLES.get(name)
        if own is not None and wanted is not None and parameters(own) != wanted:
            found.append(f"{name}{tuple(parameters(own))} instead of {name}{tuple(wanted)}")
        if isinstance(declared, bool) and own is not None and not isinstance(own, bool):
            found.append(f"{name} is not a bool")
    if not isinstance(getattr(module, "VERSION", 1), int):
        found.append("VERSION is not an int")
    settings = getattr(module, "Settings", StageSettings)
    if not issubclass(settings, StageSettings):
        return [*found, "Settings is not a StageSettings"]
    if shelf in ROLES:
        marked = {*roles(settings).values()}
        allowed = ROLES[shelf] | ({None, "transient"} if hasattr(module, "questions") else set())
        found += [f"a setting is {each}" for each in marked - allowed]
    return found


def undescribed(settings: type[StageSettings]) -> list[str]:
    """Settings that no page or form explains; `kind` names the plug-in."""
    return [
        name
        for name, field in settings.model_fields.items()
        if name != "kind" and not (field.description or "").strip()
    ]


@pytest.mark.parametrize(("shelf", "use"), [*ON_SHELVES, *OF_OUR_OWN])
def test_a_plugin_has_what_its_contract_asks(shelf: str, use: str) -> None:
    assert faults(plugins.module(shelf, use), shelf) == []
    loaded = plugins.load(shelf, use)
    for name in members(CONTRACTS[shelf].plugin):
        getattr(loaded, name)  # its own, or the default
    if shelf != "sources":  # those need a path
        assert isinstance(loaded.Settings().recipe(), dict)
    if (shelf, use) in ON_SHELVES:
        assert undescribed(loaded.Settings) == []
        assert [*misspelt(plugins.module(shelf, use), CONTRACTS[shelf].plugin)] == []


def test_control_a_setting_without_a_description_is_seen() -> None:
    class Bare(StageSettings):
        limit: float = Field(1.0, title="Limit")
        told: float = Field(1.0, description="Largest level kept, dB.")

    assert undescribed(Bare) == ["limit"]


@pytest.mark.parametrize("use", shelves.names("formats"))
def test_a_format_depends_on_columns_that_there_are(use: str) -> None:
    asked = plugins.FORMATS.load(use)
    unknown = set(asked.COLUMNS) - set(schema.UTTERANCES.names)
    assert not set(asked.COLUMNS) & set(LAYOUT_COLUMNS)
    unknown -= {
        "sha256_enhanced",
        "audio_is",
        "labels",
        "turns",
        *("sha256_left", "sha256_right"),
        *(field.name for field in schema.REFERENCE_WORDS),
        *map(enhanced.after, plugins.columns("filters", "dnsmos")),
    }
    assert unknown <= {
        PLACE,
        *(
            column
            for shelf in plugins.MEASURING
            for name in shelves.names(shelf)
            for column in plugins.columns(shelf, name)
        ),
    }


@pytest.mark.parametrize("use", shelves.names("asr"))
def test_a_recogniser_asks_for_a_rate_of_speech_or_none(use: str) -> None:
    rate = plugins.ASR.load(use).Backend.RATE
    assert rate is None or rate >= 8000


def test_a_filter_is_limited_by_its_settings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Settings(StageSettings):
        max: float | None = 2.0
        min_rest: int | None = None

    module = ModuleType("mine.loud")
    columns = dict.fromkeys(("loud", "loud_rest", "loud_free"), ("1", "told"))
    vars(module).update(VERSION=1, COLUMNS=columns, Settings=Settings, measure=lambda c, s: {})
    monkeypatch.setitem(sys.modules, "mine", ModuleType("mine"))
    monkeypatch.setitem(sys.modules, "mine.loud", module)
    loaded = plugins.FILTERS.load("mine.loud")
    rest = Limit("loud_rest", 3, None, "low_loud_rest", "high_loud_rest")
    chosen = Settings(min_rest=3)
    assert loaded.verdict(chosen) == (Limit("loud", None, 2.0, "low_loud", "high_loud"), rest)
    vars(loaded)["REASONS"] = {"loud": ("", "too_loud")}
    assert loaded.verdict(chosen) == (Limit("loud", None, 2.0, "", "too_loud"), rest)
    vars(loaded)["verdict"] = lambda settings: (rest,)
    assert loaded.verdict(chosen) == (rest,)


def own_filter(monkeypatch: pytest.MonkeyPatch, use: str, *columns: str) -> None:
    class Settings(StageSettings):
        max: float | None = Threshold(2.0, "told")

    module = ModuleType(use)
    told = dict.fromkeys(columns, ("1", "told"))
    vars(module).update(VERSION=1, COLUMNS=told, Settings=Settings, measure=lambda c, s: {})
    monkeypatch.setitem(sys.modules, "mine", ModuleType("mine"))
    monkeypatch.setitem(sys.modules, use, module)


def test_a_single_column_is_limited_whatever_its_module_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A filter in `my_filter.py` that measures `crest` took its limit, and never applied it."""
    own_filter(monkeypatch, "mine.my_filter", "crest")
    loaded = plugins.FILTERS.load("mine.my_filter")
    limit = Limit("crest", None, 1.0, "low_crest", "high_crest")
    assert loaded.verdict(loaded.Settings.model_validate({"max": 1})) == (limit,)


def test_a_limit_that_no_column_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own_filter(monkeypatch, "mine.two_of_them", "crest", "rest")
    with pytest.raises(
        ConfigError, match=r"max of 'mine\.two_of_them' limits none.*\(crest, rest\)"
    ):
        plugins.FILTERS.load("mine.two_of_them")


def test_a_limit_that_no_annotation_has_is_refused_with_the_names_of_those_that_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It named columns alone, `()` where a filter has none."""
    own_filter(monkeypatch, "mine.pauses")
    module = sys.modules["mine.pauses"]
    declared = {"pauses": Events("quiet parts", ("pause",)), "pauses_end": Label("its end", ("a",))}
    monkeypatch.setattr(module, "ANNOTATIONS", declared, raising=False)
    with pytest.raises(ConfigError, match=r"pauses: min_share and max_share; pauses_end: allowed_"):
        plugins.FILTERS.load("mine.pauses")


def without(shelf: str, use: str, member: str) -> str:
    """Name of a module like a plug-in that lacks one member."""
    name = f"broken.{shelf}_{use}_{member}"
    broken = ModuleType(name)
    vars(broken).update({k: v for k, v in vars(plugins.module(shelf, use)).items() if k != member})
    sys.modules.setdefault("broken", ModuleType("broken"))
    sys.modules[name] = broken
    return name


def required() -> Iterator[tuple[str, str, str]]:
    for shelf, kind in CONTRACTS.items():
        for member in sorted(kind.plugin.__abstractmethods__):
            yield shelf, shelves.names(shelf)[0], member


@pytest.mark.parametrize(("shelf", "use", "member"), [*required()])
def test_control_a_module_that_lacks_a_member_is_refused(shelf: str, use: str, member: str) -> None:
    name = without(shelf, use, member)
    written = members(CONTRACTS[shelf].plugin)[member]
    with pytest.raises(ConfigError) as caught:
        plugins.load(shelf, name)
    assert f"{name!r} is not a {CONTRACTS[shelf].noun}" in str(caught.value)
    assert f"lacks {written}" in str(caught.value)


def test_a_misspelt_member_is_named_before_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = own_plugin.copied("tasks/filters/peak.py")
    (tmp_path / "my_peak").mkdir()
    (tmp_path / "my_peak/a.wav").touch()
    (tmp_path / "my_peak/slips.py").write_text(
        f"{written}\n\ncostly = True\nHALF = 0.5\n\ndef wants_gpus(settings):\n    return True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    wish = {
        "sources": [{"kind": "folder", "path": str(tmp_path / "my_peak")}],
        "out": str(tmp_path / "out"),
        "filter": {"filters": [{"use": "my_peak.slips"}]},
        "transcribe": {"backend": {"use": "fake"}},
    }
    checks.check_wishes(PrepareSettings.model_validate(wish))
    said = [line for line in caplog.messages if "my_peak.slips" in line]
    assert [(line.split()[1], line.split()[-1]) for line in said] == [
        ("costly", "COSTLY?"),
        ("wants_gpus", "wants_gpu?"),
    ]


@pytest.mark.parametrize("shelf", shelves.SHELVES)
def test_control_other_parameters_are_a_fault(shelf: str) -> None:
    use = shelves.names(shelf)[0]
    whole = plugins.module(shelf, use)
    named = {"verdict"} if shelf == "text" else CONTRACTS[shelf].plugin.__abstractmethods__
    member = next(name for name in named if isinstance(vars(whole)[name], FunctionType))
    broken = sys.modules[without(shelf, use, member)]
    setattr(broken, member, lambda clips: clips)
    assert faults(broken, shelf)
    assert faults(whole, shelf) == []


def test_what_a_module_leaves_out_has_a_default() -> None:
    duration = plugins.FILTERS.load("duration")
    assert duration.AFTER_ALL
    assert not duration.COSTLY
    assert duration.fingerprint is None
    assert not duration.wants_gpu(duration.Settings())
    assert duration.identity(duration.Settings()) is None
    assert plugins.TEXT.load("language").VERSION == 0
    with pytest.raises(AttributeError):
        duration.no_such_member  # type: ignore[attr-defined]  # noqa: B018


def absent(stage: ModuleType) -> list[str]:
    return [name for name in members(StageModule) if not hasattr(stage, name)]


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_has_what_its_contract_asks(name: str) -> None:
    module = sys.modules[f"uttermill.tasks.stages.{name}"]
    assert absent(module) == []
    for member in members(StageModule):
        declared = getattr(StageModule, member)
        if isinstance(declared, FunctionType):
            assert parameters(getattr(module, member))[: len(parameters(declared))] == (
                parameters(declared)
            )
    found = contract.find(name)
    assert found.rounds(Job(Path("out"))) >= 1
    assert found.BATCHED in (True, False)


def test_control_a_stage_without_failures_is_seen() -> None:
    broken = ModuleType("broken")
    vars(broken).update({k: v for k, v in vars(filter).items() if k != "failure"})
    assert absent(broken) == ["failure"]
    assert filled(broken, Stage).rounds(Job(Path("out"))) == 1
