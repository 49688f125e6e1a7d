"""A night asks for the names of new clips only, and chooses what looking at all of them would."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.helpers import synthetic_out, tiers
from tests.publish.test_split_answers import rows
from uttermill.tasks import storage
from uttermill.tasks.publish import previous_version, row_digests, seeded_hash
from uttermill.tasks.publish.choosing import (
    corpus_clips,
    corpus_rejections,
    next_version,
    split_input,
    splits,
)
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.publish.outcomes import shard_batches
from uttermill.tasks.publish.outcomes.shard_batches import DIGESTS, ShardBatch
from uttermill.tasks.settings import PackageSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import whole_job
from uttermill.tasks.storage import versions

SPLITS = {"splits": {"dev": 0.05, "test": {"hours": 0.3}}}


class Chose(NamedTuple):
    """What was chosen, and how many clips were asked for their names."""

    told: next_version.Choice
    files: dict[str, bytes]
    said: list[str]
    asked: int


def corpora() -> tuple[pa.Table, pa.Table]:
    """Clips that overlap in recordings, speakers and samples; and a night later: some are gone,
    some are new, some have another speaker, text or samples."""
    chance = np.random.default_rng(5)
    first = rows(chance, 700)
    stayed = first.slice(50).to_pylist()
    for row in stayed[::40]:
        row["speaker"] = f"s{chance.integers(9)}-{chance.integers(50)}"
    for row in stayed[7::40]:
        row["sha256"] = stayed[int(chance.integers(len(stayed)))]["sha256"]
    second = pa.concat_tables([pa.Table.from_pylist(stayed, first.schema), rows(chance, 300, 650)])
    return first.take(chance.permutation(len(first))), second.take(chance.permutation(len(second)))


class Nights(NamedTuple):
    """A job, the clips of two of its nights, and what it says."""

    job: Job
    first: pa.Table
    second: pa.Table
    caplog: pytest.LogCaptureFixture


@pytest.fixture
def nights(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Nights:
    return Nights(synthetic_out.job(tmp_path / "out", SPLITS), *corpora(), caplog)


def groups(job: Job, table: pa.Table, size: int = 150) -> list[ShardBatch]:
    """As if workers had judged `size` clips at a time."""
    found = []
    for at in range(0, len(table), size):
        some = table.slice(at, size).combine_chunks()
        some = some.append_column("blob", pa.array(["0" * 16 + ".pcm"] * len(some)))
        keys = seeded_hash.keys(str(job.package.seed), some["id"].to_pylist())
        nothing = np.zeros(len(some), np.uint64)
        columns = [keys[:, 0], keys[:, 1], row_digests.of_rows(some), some["num_samples"]]
        columns += [some["sample_rate"], nothing, nothing]
        held = {"rows.arrow": some, "digests.arrow": pa.table(columns, DIGESTS.names)}
        digest = hashlib.sha256(repr(some.to_pylist()).encode()).hexdigest()[:16]
        home = shard_batches.home(job.out) / digest
        home.mkdir(parents=True, exist_ok=True)
        files = {}
        for name, each in held.items():
            data = shard_batches.arrow_bytes(each)
            (home / name).write_bytes(data)
            files[name] = hashlib.sha256(data).hexdigest()[:16]
        slices = [[0, 0, 0]] * shard_batches.SLICES  # of an empty ledger
        facts = {"files": files, "slices": slices, "rows": len(some), "ledger": 0, "changed": []}
        (home / "facts.json").write_text(json.dumps(facts))
        found.append(ShardBatch(home, (f"shard-{at}",)))
    return found


def choose(job: Job, table: pa.Table, caplog: pytest.LogCaptureFixture) -> Chose:
    asked = 0

    class Counted(split_input.Candidates):
        def finish(self) -> None:
            nonlocal asked
            asked = self._added
            super().finish()

    scratch = job.out.parent / "scratch"
    storage.of(scratch).clear(scratch)
    shard_batches.list_in(scratch, groups(job, table))
    caplog.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(split_input, "Candidates", Counted)
        told = next_version.choose(job, scratch)
    names = (corpus_clips.CHOSEN, splits.FILE, corpus_rejections.FILE)
    files = {name: (scratch / name).read_bytes() for name in names if (scratch / name).exists()}
    return Chose(told, files, [each.message for each in caplog.records], asked)


def publish(job: Job, table: pa.Table, caplog: pytest.LogCaptureFixture) -> Chose:
    """Choose, and note the version as package does."""
    chose = choose(job, table, caplog)
    scratch, number = job.out.parent / "scratch", len(versions.all_of(job.out)) + 1
    version = versions.numbered(job.out, number)
    version.mkdir(parents=True)
    files = synthetic_out.save_tables(scratch, version)
    settings = whole_job.settings_of(job)
    described = {"frozen": {}, "settings": settings, "files": files, "splits": {}}
    (version / "dataset.json").write_bytes(datacard.sealed(described))
    clips, split, names, _ = corpus_clips.chosen(scratch)
    parts: list[tuple[str, str | bytes]] = []
    for index, name in enumerate(names):
        own = clips.take(split == index)
        digests = pa.table([own.high, own.low, own.content], schema=previous_version.DIGESTS)
        parts.append((name, previous_version.tell(digests, [(name, number, len(digests))], [])))
    seal = versions.described(version)[datacard.SEAL]
    previous_version.save(job.out, parts, [], chose.told.firsts, seal, job.package.seed)
    return chose


def asking(job: Job, **package: Any) -> Job:
    """The same job with other settings of package."""
    asked = {**job.package.model_dump(), **package}
    return replace(job, package=PackageSettings.model_validate(asked))


def both(job: Job, table: pa.Table, caplog: pytest.LogCaptureFixture) -> tuple[Chose, Chose]:
    """Chosen by what is new, and by looking at all clips."""
    night = choose(job, table, caplog)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            next_version,
            "staying",
            lambda _job, _groups, _newest, left, _: next_version.no_clips(len(left)),
        )
        plain = choose(job, table, caplog)
    assert night._replace(asked=0) == plain._replace(asked=0)
    return night, plain


@pytest.mark.full
@pytest.mark.parametrize(
    ("then", "now"),
    [
        pytest.param({}, {}, id="same settings"),
        pytest.param({}, {"splits": {"dev": 0.1, "more": 0.2}}, id="other fractions"),
        pytest.param({"weights": {"b": 0.5}}, {"weights": {"b": 0.5}}, id="weights"),
        pytest.param({"weights": {"b": 0.5}}, {"weights": {"b": 0.8}}, id="a higher weight"),
    ],
)
def test_a_night_looks_at_new_clips_only(
    then: dict[str, Any], now: dict[str, Any], nights: Nights
) -> None:
    job, first, second, caplog = nights
    one = publish(asking(job, **then), first, caplog)
    assert one.asked == len(first)
    night, plain = both(asking(job, **now), second, caplog)
    assert plain.asked == len(second)
    assert 300 < night.asked < 700
    kept, _, names, _ = corpus_clips.chosen(job.out.parent / "scratch")
    assert {"train", "dev", "test"} <= set(names)
    assert len(kept.high) < len(second), "some join two splits"
    # And the night after, of which nothing is new: only what was not packaged is asked for.
    publish(asking(job, **now), second, caplog)
    again, _ = both(asking(job, **now), second, caplog)
    assert again.asked == len(second) - len(kept.high)


@pytest.mark.full
@pytest.mark.parametrize(
    ("then", "now"),
    [
        tiers.nightly({}, {"weights": {"b": 0.5}}),
        ({"weights": {"b": 0.5}}, {"weights": {"b": 0.4}}),
        ({}, {"max_hours_per_speaker": 0.1}),
        ({}, {"resplit": True}),
        tiers.nightly({}, {"seed": 7}),
        ({"splits": {}}, {}),
    ],
)
def test_all_clips_are_looked_at_where_settings_may_drop_any(
    then: dict[str, Any], now: dict[str, Any], nights: Nights
) -> None:
    job, first, second, caplog = nights
    publish(asking(job, **then), first, caplog)
    night, plain = both(asking(job, **now), second, caplog)
    assert night.asked == plain.asked == len(second)


def test_lists_see_all_clips(nights: Nights, tmp_path: Path) -> None:
    job, first, second, caplog = nights
    publish(job, first, caplog)
    path = tmp_path / "list.txt"
    path.write_text(f"{second['id'][0]}\nnone\n")
    night, _ = both(asking(job, splits={"dev": 0.1, "fix": {"list": str(path)}}), second, caplog)
    assert night.asked == len(second)


def test_the_first_clip_of_a_split_may_go(nights: Nights) -> None:
    """Splits are named in the order of their first clips; without one of them all are looked at."""
    job, first, second, caplog = nights
    told = publish(job, first, caplog).told.firsts
    assert list(told.values()) == sorted(told.values())
    for name in told:
        gone = second.filter(pc.not_equal(second["id"], told[name]))
        night, _ = both(job, gone, caplog)
        assert night.asked == len(gone)


@pytest.mark.full
@pytest.mark.parametrize("change", ["cut short", "without firsts", "of another version"])
def test_without_notes_all_clips_are_looked_at(change: str, nights: Nights) -> None:
    job, first, second, caplog = nights
    publish(job, first, caplog)
    place = previous_version.home(job.out) / "version.json"
    told = json.loads(place.read_text())
    if change == "without firsts":
        del told["firsts"]
    elif change == "of another version":
        told["sealed"] = "another"
    place.write_text("" if change == "cut short" else json.dumps(told))
    night, _ = both(job, second, caplog)
    assert night.asked == len(second)
