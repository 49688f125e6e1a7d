"""Files that the newest version has lost: the next run makes them again with the same bytes, and
says so; commands name them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.helpers import corpus, tiers
from tests.helpers.sounding import ogg_pages, whole
from uttermill.flows.cli import queries
from uttermill.flows.cli.show import runs
from uttermill.flows.run import plans
from uttermill.flows.settings import read as settings_read
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.insight import comparing
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.publish import package
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.publish.published import load
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import FilterSettings, Plugin, ResampleSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.storage import versions

TAR = {"tar_hours": 3.0 / 3600, "splits": {"test": 0.3}}
TARS, LIST = "wenet/train/shards_000000001.tar", "wenet/train/data.list"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lost")
    corpus.make(home / "in", 12)
    corpus.run(corpus.job(home, package=TAR))
    return home


@pytest.fixture
def home(first: Path) -> Path:
    """Each test leaves OUT as it was, which is what it tests."""
    return first


def newest(home: Path) -> Path:
    return home / "out/datasets/v0001"


@pytest.mark.full
@pytest.mark.parametrize(
    "names",
    tiers.few([(TARS,), (LIST,), ("README.md", "croissant.json"), (TARS, LIST)], (TARS, LIST)),
)
@pytest.mark.parametrize("cut", [False, True], ids=["gone", "cut"])
def test_what_is_lost_is_made_again(
    home: Path, names: tuple[str, ...], cut: bool, caplog: pytest.LogCaptureFixture
) -> None:
    version, whole = newest(home), corpus.content(newest(home))
    for name in names:
        (version / name).write_bytes(b"") if cut else (version / name).unlink()
    assert versions.lost(version) == sorted(names)
    if any(name.startswith("wenet/train/") for name in names):
        with pytest.raises(RunError, match=r"v0001 lacks wenet/.*; the next run makes"):
            queries.data_list(version, None)
    again, _ = corpus.run(corpus.job(home, package=TAR))
    assert (again.path, again.new, again.restored) == (version, False, sorted(names))
    assert f"{names[0]} of {version} is gone or cut short" in caplog.text
    assert corpus.content(version) == whole
    assert verify(version) == []
    assert [path.name for path in version.parent.iterdir() if path.name.startswith(".")] == []
    quiet, _ = corpus.run(corpus.job(home, package=TAR))
    assert (quiet.new, quiet.restored) == (False, [])


@pytest.mark.parametrize("name", ["utterances.parquet", "ledger.parquet", "splits.parquet"])
def test_a_lost_table_is_refused_with_the_remedy(home: Path, name: str) -> None:
    """The next version continues it."""
    version = newest(home)
    aside = home / name
    shutil.move(version / name, aside)
    with pytest.raises(RunError, match=rf"^{name} of v0001 is not the file .* restore the file"):
        corpus.run(corpus.job(home, package=TAR))
    shutil.move(aside, version / name)
    assert not corpus.run(corpus.job(home, package=TAR))[0].new


def test_a_changed_byte_of_a_table_is_refused_before_any_work(home: Path) -> None:
    name = "ledger.parquet"  # `plan` reads the other one
    path, new = newest(home) / name, corpus.add(home / "in", 50)
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    before = [*corpus.parts(home / "out")]
    settings = ("transcribe.backend.use=fake", "shard.settle_seconds=0")
    try:
        told = plans.make(settings_read(None, [str(home / "in")], str(home / "out"), settings))
        with pytest.raises(RunError) as raised:
            corpus.run(corpus.job(home, package=TAR))
    finally:
        path.write_bytes(whole)
        new.unlink()
    assert str(raised.value).startswith(f"{name} of v0001 is not the file that was published")
    assert told["refusal"] == str(raised.value)
    assert [*corpus.parts(home / "out")] == before


@pytest.mark.parametrize("change", ["a digit", "the one of another version"])
def test_another_dataset_json_is_refused(home: Path, change: str) -> None:
    """A count in it, or a size of a file, would be believed."""
    path = newest(home) / "dataset.json"
    whole = path.read_bytes()
    facts = json.loads(whole)
    if change == "a digit":
        count = b'"failed": %d' % facts["recordings"]["failed"]
        path.write_bytes(whole.replace(count, b'"failed": 7', 1))
    else:
        path.write_bytes(datacard.sealed({**facts, "version": 2}))
    assert path.read_bytes() != whole
    words = r"^dataset.json of v0001 is not the file .* restore the file"
    with pytest.raises(RunError, match=words):
        corpus.run(corpus.job(home, package=TAR))
    with pytest.raises(RunError, match=words):  # what a plan says of it
        package.lost(newest(home))
    path.write_bytes(whole)
    assert not corpus.run(corpus.job(home, package=TAR))[0].new


def test_a_version_that_is_gone_is_made_again_and_said(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    version, aside = newest(home), home / "aside"
    shutil.copytree(version, aside, symlinks=True)
    whole = corpus.content(version)
    shutil.rmtree(version)
    job = corpus.job(home, package=TAR)
    [gone] = planning.plan(job, job).gone
    assert gone == f"{version} is gone, which was the newest"
    again, _ = corpus.run(job)
    assert caplog.text.count(f"{gone}; what was in there is made again") == 1
    assert corpus.content(again.path) == corpus.content(aside) == whole
    caplog.clear()
    corpus.run(job)
    assert "gone" not in caplog.text


def test_without_any_checkpoint_a_plan_counts_each_recording_once(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It added what it expects of new recordings to the published clips."""
    shutil.copytree(home / "out", tmp_path / "out", symlinks=True)
    job = corpus.job(home, out=tmp_path / "out", package=TAR)
    shutil.rmtree(job.out / "manifests")
    plan = planning.plan(job, job)
    assert plan.clips == (12, 12)
    assert plan.gone == [f"all checkpoints of {job.out / 'datasets/v0001'} are gone"]
    assert (plan.stages["filter"].compute, plan.stages["package"].compute) == (12, 12)
    again, _ = corpus.run(job)
    assert (again.new, again.summary["utterances"]["packaged"]) == (False, 12)
    assert plan.gone[0] in caplog.text


def test_plans_name_what_is_lost() -> None:
    assert "lacks a.tar and 1 more" in runs.lost({"lost": ["a.tar", "b.tar"]})


# What a run makes of damaged recordings: nothing damaged is packaged unless it is asked for.

DAMAGED = {"use": "decode_faults"}
WINDOWS = {"use": "applio", "mode": "simple"}  # of 3 s, in recordings of any length


def holed(folder: Path) -> None:
    """30 s of Opus without one page near its middle, and as much without damage."""
    folder.mkdir(parents=True)
    data = whole("opus", seconds=30.0)
    pages = ogg_pages(data)
    del pages[len(pages) // 2]
    (folder / "holed.opus").write_bytes(b"".join(pages))
    (folder / "sound.opus").write_bytes(data)


def job(tmp: Path, **limits: Any) -> Job:
    filters = ({**DAMAGED, **limits}, {"use": "duration", "min": 0.0})
    chosen = {"segmenter": WINDOWS, "filters": filters}
    return corpus.job(tmp, filter=chosen, transcribe={"backend": {"use": "fake"}, "verdicts": ()})


def outcomes(version: Path, path: str) -> list[tuple[float, float, str]]:
    rows = corpus.ledger(version)
    found = [r for r in rows if r["recording"].endswith(path)]
    return sorted((r["start"], r["end"], f"{r['stage']}.{r['reason']}") for r in found)


@pytest.mark.full
def test_utterances_that_touch_a_hole_are_dropped(tmp_path: Path) -> None:
    holed(tmp_path / "in")
    published, _ = corpus.run(job(tmp_path))
    whole_ones = outcomes(published.path, "sound.opus")
    assert {reason for _, _, reason in whole_ones} == {"package.packaged"}
    found = outcomes(published.path, "holed.opus")
    dropped = [(start, end) for start, end, reason in found if reason == "filter.damaged"]
    kept = [(start, end) for start, end, reason in found if reason == "package.packaged"]
    assert 1 <= len(dropped) <= 3
    assert len(kept) >= 6
    assert min(kept)[0] < min(dropped)[0] < max(dropped)[1] < max(kept)[1]
    assert max(kept)[1] == pytest.approx(30.0, abs=0.1)  # what follows has its time

    rows = corpus.utterances(published.path)
    assert {row["decode_faults"] for row in rows} == {0.0}
    for row in rows:  # of the recording, known for its cuts, too
        assert row["duration_difference"] == pytest.approx(0.0, abs=0.1)

    details = [r["detail"] for r in corpus.ledger(published.path)
               if r["reason"] == "damaged"]  # fmt: skip
    assert all(" s missing (" in d or "CRC" in d for d in details)

    loose, counts = corpus.run(job(tmp_path, max=None))
    assert {r for _, _, r in outcomes(loose.path, "holed.opus")} == {"package.packaged"}
    assert counts["filter"][0] == 0  # measured once
    assert counts["resample"][0] == counts["transcribe"][0] == len(dropped)


def without(tmp: Path, **protecting: Any) -> Job:
    """A job whose list of filters says nothing of damage."""
    texts = {"backend": {"use": "fake"}, "verdicts": ()}
    listed = ({"use": "duration", "min": 0.0},)
    settings = {"segmenter": WINDOWS, "filters": listed, **protecting}
    package = {"max_failed_fraction": 1.0, "max_removed_fraction": 1.0}
    return corpus.job(tmp, filter=settings, transcribe=texts, package=package)


def test_damage_is_kept_by_name_with_the_default_list(tmp_path: Path) -> None:
    default = FilterSettings(damaged="keep")
    assert [plugin.use for plugin in default.all_filters] == [p.use for p in default.filters]
    assert default.all_filters[-1].options == {"max": None}
    stated = FilterSettings(damaged="keep", filters=(Plugin.model_validate({**DAMAGED, "max": 2}),))
    assert stated.all_filters == stated.filters  # a limit that is given goes first


@pytest.mark.full
def test_what_was_measured_without_damage_is_judged_by_the_faults(tmp_path: Path) -> None:
    """An OUT of a release whose list of filters let damage in: nothing is decoded again."""
    holed(tmp_path / "in")
    corpus.run(without(tmp_path))
    for part in corpus.parts(tmp_path / "out", "manifests/filter"):
        table = pq.read_table(part)
        rows = table.to_pylist()
        for row in rows:
            row["measures"] = [(k, v) for k, v in row["measures"] or [] if k != "decode_faults"]
        meta = json.loads(table.schema.metadata[b"uttermill"])
        del meta["measures"]["decode_faults"]
        metadata = {**table.schema.metadata, b"uttermill": json.dumps(meta).encode()}
        schema = table.schema.with_metadata(metadata)
        pq.write_table(pa.Table.from_pylist(rows, schema), part)
    again, counts = corpus.run(without(tmp_path, filters=({"use": "duration", "min": 0.001},)))
    assert counts["filter"][0] == counts["resample"][0] == counts["transcribe"][0] == 0
    assert "filter.damaged" in {r for _, _, r in outcomes(again.path, "holed.opus")}


@pytest.mark.full
def test_each_protection_is_turned_off_by_its_name(tmp_path: Path) -> None:
    corpus.add(tmp_path / "in", 5)
    rate = 16000
    broken = corpus.speech(1, 3.0, rate).astype(np.float32)
    broken[rate], broken[2 * rate] = np.nan, np.inf
    sf.write(tmp_path / "in" / "nan.wav", broken, rate, "FLOAT")
    one = corpus.speech(2, 3.0, rate)
    sf.write(tmp_path / "in" / "opposed.wav", np.hstack([one, -0.999 * one]), rate)
    strict, _ = corpus.run(without(tmp_path))
    assert outcomes(strict.path, "nan.wav") == [(0.0, 3.0, "filter.non_finite")]
    assert outcomes(strict.path, "opposed.wav") == [(0.0, 3.0, "resample.channels_cancel")]

    lax = without(tmp_path, non_finite="silence")
    loose, _ = corpus.run(replace(lax, resample=ResampleSettings(channels_cancel="keep")))
    assert outcomes(loose.path, "nan.wav") == [(0.0, 3.0, "package.packaged")]
    assert outcomes(loose.path, "opposed.wav") == [(0.0, 3.0, "package.packaged")]
    again, _ = corpus.run(without(tmp_path))  # and on again
    assert outcomes(again.path, "nan.wav") == [(0.0, 3.0, "filter.non_finite")]
    assert outcomes(again.path, "opposed.wav") == [(0.0, 3.0, "resample.channels_cancel")]


# A run after which files of the newest version were damaged, wherever the damage lies: a tar is
# made again; for a table, on which the next version builds, one sentence says what to do.


PACKAGE = {"tar_hours": 2.0 / 3600, "max_removed_fraction": 1.0, "max_failed_fraction": 1.0}


class Grown:
    """An OUT with one version, whose sources have a recording more; and what the next one is."""

    def __init__(self, home: Path) -> None:
        self.home = home
        corpus.make(home / "in", 16)
        (home / "in" / "copy.wav").write_bytes((home / "in" / "r01.wav").read_bytes())
        self.one = self.run()
        corpus.add(home / "in", 20)
        self.expected = corpus.content(self.run())

    @property
    def out(self) -> Path:
        return self.home / "out"

    def run(self) -> Path:
        chosen = corpus.filters({"use": "duplicate"}, min=0.8)
        return corpus.run(corpus.job(self.home, package=PACKAGE, filter=chosen))[0].path

    def back(self) -> None:
        """As after the first version."""
        shutil.rmtree(self.out / "datasets" / "v0002", ignore_errors=True)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    return Grown(tmp_path_factory.mktemp("damaged"))


@pytest.mark.full
def test_a_damaged_tar_is_made_again(grown: Grown, caplog: pytest.LogCaptureFixture) -> None:
    grown.back()
    victim = sorted(grown.one.rglob("*.tar"))[0]
    corpus.flip(victim, 700)
    two = grown.run()
    corpus.flip(victim, 700)
    assert corpus.content(two) == grown.expected
    assert f"{victim} is damaged or gone" in caplog.text
    assert verify(two) == []


def test_a_damaged_table_is_not_compared_or_given_to_programs(grown: Grown) -> None:
    grown.back()
    table = grown.one / "utterances.parquet"
    dataset = load(grown.one)
    readers = (
        lambda: dataset.utterances,
        lambda: comparing.compare(dataset, dataset),
        lambda: comparing.since(grown.one, grown.one, None),
    )
    for read in readers:
        corpus.flip(table, 200)
        with pytest.raises(RunError, match="is not the file that was"):
            read()
        corpus.flip(table, 200)
        read()
    with pytest.raises(ConfigError, match=r"holds no dataset\.json"):
        load(table)
