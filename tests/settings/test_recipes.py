"""The ready settings files: the reader takes each, and every plug-in in it takes its settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.bench import _peer_juicer, peers
from uttermill.flows import settings
from uttermill.tasks import plugins
from uttermill.tasks.settings import Plugin

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
