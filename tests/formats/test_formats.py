"""The contract of formats, over every file of the shelf: a new one is tested at once."""

import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, published, tiers
from tests.laws.test_setting_roles import SHELVES
from tests.publish.test_verify import reseal
from uttermill.tasks import plugins, storage
from uttermill.tasks.base import shelves
from uttermill.tasks.base.schema import ClipRow
from uttermill.tasks.formats import Hashes, Output, OutputShard, _clips, _tars, nemo
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.publish.output_shards import format_shards, layout
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.runs.executor import Published
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import blobs
from uttermill.tasks.storage import versions

FORMATS = [*shelves.names("formats")]
PACKAGE = {"tar_hours": 2.5 / 3600}  # two groups of six short recordings
SAFE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9]+)*")
SILENT = ("ctm", "textgrid")  # they hold no audio
#: Without times of words a CTM is empty; `asr/test_reference_words.py` has some.
WITH_CONTENT = [use for use in FORMATS if use != "ctm"]


def package(*formats: Any, **more: Any) -> dict[str, Any]:
    return {**PACKAGE, "formats": formats, **more}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six recordings and one version of them in all formats; never changed."""
    tmp = tmp_path_factory.mktemp("formats")
    corpus.make(tmp / "in", 6)
    corpus.run(corpus.job(tmp, package=package(*FORMATS)))
    return tmp


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three recordings and one version of them; never changed."""
    tmp = tmp_path_factory.mktemp("three")
    corpus.make(tmp / "in", 3)
    corpus.run(corpus.job(tmp))
    return tmp


@pytest.fixture(scope="module")
def grown(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two versions in all formats, the second with one recording more."""
    tmp = tmp_path_factory.mktemp("grown")
    shutil.copytree(made / "in", tmp / "in")
    one = corpus.run(corpus.job(tmp, package=package(*FORMATS)))[0]
    corpus.add(tmp / "in", 6)
    two = corpus.run(corpus.job(tmp, package=package(*FORMATS)))[0]
    return one.path, two.path


def packaged(made: Path, out: Path, *formats: Any) -> Published:
    """The next version in `out`, from what `made` has computed."""
    if not out.exists():
        shutil.copytree(made / "out", out, ignore=shutil.ignore_patterns("datasets"))
    return corpus.run(corpus.job(made, out=out, package=package(*formats)))[0]


@pytest.fixture(scope="module")
def alone(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """One version with one format: whoever damages it repairs it."""
    tmp = tmp_path_factory.mktemp("alone")
    return cache(lambda use: packaged(made, tmp / use, use).path)


def shards_of(version: Path, use: str) -> list[OutputShard]:
    """The output shards of a published version, as `verify` makes them."""
    table = pq.read_table(version / "utterances.parquet")
    plugin = datacard.formats_of(versions.described(version))[use]
    module, settings = plugins.FORMATS.resolve(plugin)
    whole = format_shards.with_places(table, format_shards.places([plugin], table.select))
    found = []
    for index, group in enumerate(layout.published_shards([table])):
        split, number, _, first, count, *_ = group
        rows = format_shards.visible(module, whole.slice(first, count))
        files = tuple(module.files(split, number, rows, settings))
        found.append(OutputShard(use, split, number, index, count, files))
    return found


def of_format(version: Path, use: str) -> list[str]:
    return [name for name in corpus.content(version) if name.split("/")[0] == use]


@pytest.mark.full
@pytest.mark.parametrize("use", FORMATS)
def test_every_file_belongs_to_one_piece_or_is_a_list(made: Path, use: str) -> None:
    version = made / "out/datasets/v0001"
    found = [path for shard in shards_of(version, use) for path in shard.files]
    assert len(found) == len(set(found))
    assert set(found) <= set(of_format(version, use))
    assert all(SAFE.fullmatch(part) for name in of_format(version, use) for part in name.split("/"))


@pytest.mark.full
@pytest.mark.parametrize("use", FORMATS)
def test_alone_it_is_what_it_is_among_others(
    made: Path, alone: Callable[[str], Path], use: str
) -> None:
    """Equal bytes at another time, in another OUT, and as the first format."""
    one = corpus.content(alone(use))
    among = corpus.content(made / "out/datasets/v0001")
    assert {name: one[name] for name in of_format(alone(use), use)} == {
        name: data for name, data in among.items() if name.split("/")[0] == use
    }
    rows = corpus.utterances(alone(use))
    assert {row["shard"] for row in rows} == {shard.path for shard in shards_of(alone(use), use)}


@pytest.mark.full
@pytest.mark.parametrize("use", FORMATS)
def test_growth_links_what_stayed(grown: tuple[Path, Path], use: str) -> None:
    one, two = grown
    old = shards_of(one, use)
    new = shards_of(two, use)
    assert len(old) == 2
    assert len(new) == 3
    for before, after in zip(old, new, strict=False):
        assert [(one / path).stat().st_ino for path in before.files] == [
            (two / path).stat().st_ino for path in after.files
        ]


@pytest.mark.full
def test_both_versions_are_whole(grown: tuple[Path, Path]) -> None:
    assert [verify(version) for version in grown] == [[], []]


@pytest.mark.parametrize("kills", [6, tiers.nightly(40)])
@pytest.mark.nightly
def test_a_kill_leaves_half_of_no_format(made: Path, tmp_path: Path, kills: int) -> None:
    """SIGKILL amid writes of a run that publishes all formats; the next run has the same bytes."""
    asked = package(*FORMATS)
    words = [*map(str, (made, tmp_path, kills, 5)), json.dumps(asked)]
    command = [sys.executable, "-m", "tests.helpers.killed", *words]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    ended = json.loads(done.stdout.splitlines()[-1])["ended"]
    assert [*ended.values()] == [signal.SIGKILL] * kills
    for at in ended:
        job = corpus.job(made, out=tmp_path / f"at{at}", package=asked)
        assert [fault for path in versions.all_of(job.out) for fault in verify(path)] == [], at
        again = corpus.run(job)[0].path
        assert corpus.content(again) == corpus.content(made / "out/datasets/v0001"), at
        assert corpus.temps(job.out) == []


def kinds(version: Path, use: str) -> dict[str, str]:
    """One file of each kind: of each suffix, in a shard and among the lists."""
    held = {path for shard in shards_of(version, use) for path in shard.files}
    found: dict[str, str] = {}
    for name in of_format(version, use):
        found.setdefault(f"{name in held} {name.rpartition('.')[2]}", name)
    return found


@pytest.mark.full
@pytest.mark.parametrize("use", WITH_CONTENT)
def test_a_flipped_byte_is_found(alone: Callable[[str], Path], use: str) -> None:
    version = alone(use)
    assert verify(version) == []
    for name in kinds(version, use).values():
        at = random.Random(name).randrange((version / name).stat().st_size)
        corpus.flip(version / name, at)
        assert any(name in fault for fault in verify(version)), f"byte {at} of {name}"
        corpus.flip(version / name, at)


@pytest.mark.full
@pytest.mark.parametrize("use", WITH_CONTENT)
def test_other_samples_or_texts_are_found_without_a_hash(
    alone: Callable[[str], Path], use: str
) -> None:
    """Damage from before the hash was taken: a shard is read back against its rows."""
    version = alone(use)
    plugin = Plugin(use=use)
    module, settings = plugins.FORMATS.resolve(plugin)
    table = pq.read_table(version / "utterances.parquet")
    table = format_shards.with_places(table, format_shards.places([plugin], table.select))
    shard = shards_of(version, use)[0]
    rows = table.slice(0, shard.clips).to_pylist()
    hashes: Hashes = {}
    assert module.check(shard, rows, Output(version, hashes), settings) == []
    assert {path for path in shard.files if path.endswith(".tar")} <= set(hashes)
    assert hashes == {path: storage.hashed(version / path) for path in hashes}
    other = {"sha256": hashlib.sha256(b"").hexdigest(), "text": "other words", "num_samples": 1}
    for name in set(other) & set(module.COLUMNS):
        changed = [{**rows[0], name: other[name]}, *rows[1:]]
        assert faults(module, shard, changed, version, settings), name
    assert faults(module, shard, [*rows[1:], rows[0]], version, settings), "another order"
    for path in (path for path in hashes if path.endswith(".tar")):
        whole = (version / path).read_bytes()
        (version / path).write_bytes(twice(whole))
        found = faults(module, shard, rows, version, settings)
        assert any("is in no row" in fault for fault in found), "a member too much"
        (version / path).write_bytes(whole)
    for path in shard.files:
        os.rename(version / path, version / "gone")
        assert faults(module, shard, rows, version, settings), f"{path} is missing"
        os.rename(version / "gone", version / path)


@pytest.mark.full
@pytest.mark.parametrize("audio", [{}, {"audio": "flac"}])
@pytest.mark.parametrize("use", ["webdataset", "nemo", "lhotse_shar"])
def test_any_flip_after_the_write_is_found_in_a_tar(
    tmp_path: Path, use: str, audio: dict[str, str]
) -> None:
    """Though nobody hashes a tar once more whose members are compared to the last byte."""
    rows = [published.row(n) for n in range(3)]
    [shard] = published.publish(tmp_path, use, [rows], {}, **audio)
    module, settings = plugins.FORMATS.resolve(Plugin.model_validate({"use": use, **audio}))
    rows = corpus.utterances(tmp_path)
    known: Hashes = {shard.path: storage.hashed(tmp_path / shard.path)}
    chance = random.Random(f"{use} {audio}")
    size = known[shard.path][1]
    places = {0, 124, 150, 513, size - 1, *(chance.randrange(size) for _ in range(150))}
    for at in sorted(places):
        corpus.flip(tmp_path / shard.path, at)
        assert faults(module, shard, rows, tmp_path, settings, dict(known)), f"byte {at}"
        corpus.flip(tmp_path / shard.path, at)
    assert faults(module, shard, rows, tmp_path, settings, dict(known)) == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("use", "settings", "ending"),
    [("emilia", {"audio": "mp3"}, ".mp3"), ("hf_parquet", {}, ".parquet"),
     ("hf_parquet", {"audio": "flac"}, ".parquet"), ("lhotse_shar", {}, ".gz"),
     ("metadata_csv", {"audio": "flac", "profile": "f5"}, ".flac"),
     ("mds", {}, ".mds"), ("mds", {"audio": "flac"}, ".mds"), ("litdata", {}, ".bin"),
     ("litdata", {"audio": "opus"}, ".bin"), ("lance", {}, ".lance"),
     ("lance", {"audio": "flac"}, ".lance"),
     ("chat_jsonl", {"audio": "flac"}, ".flac")],
)  # fmt: skip
def test_what_a_library_encodes_is_compared_with_what_was_written(
    tmp_path: Path, use: str, settings: dict[str, str], ending: str
) -> None:
    """Headers and footers that no reader looks at, and what stands behind the end."""
    hashes: Hashes = {}
    rows = [published.row(n) for n in range(3)]
    [shard] = published.publish(tmp_path, use, [rows], hashes, **settings)
    plugin = Plugin.model_validate({"use": use, **settings})
    module, own = plugins.FORMATS.resolve(plugin)
    table = pq.read_table(tmp_path / "utterances.parquet")
    places = format_shards.places([plugin], table.select)
    told = format_shards.with_places(table, places).to_pylist()
    path = next(path for path in shard.files if path.endswith(ending))
    whole = (tmp_path / path).read_bytes()
    assert hashes[path] == storage.hashed(tmp_path / path)
    chance = random.Random(use)
    for at in {0, 5, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(60))}:
        corpus.flip(tmp_path / path, at)
        assert faults(module, shard, told, tmp_path, own, dict(hashes)), f"byte {at}"
        corpus.flip(tmp_path / path, at)
    (tmp_path / path).write_bytes(whole + b"\0")
    assert faults(module, shard, told, tmp_path, own, dict(hashes)), "a byte too much"
    (tmp_path / path).write_bytes(whole)
    assert faults(module, shard, told, tmp_path, own, dict(hashes)) == []


def twice(tar: bytes) -> bytes:
    """A tar with its first member once more behind the last one."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as file:
        members = file.getmembers()
        end = members[-1].offset_data + -(-members[-1].size // 512) * 512
    whole = tar[:end] + tar[: members[1].offset] + bytes(1024)
    return whole + bytes(-len(whole) % tarfile.RECORDSIZE)


def faults(
    module: Any,
    shard: OutputShard,
    rows: Any,
    home: Path,
    settings: Any,
    known: Hashes | None = None,
) -> list[str]:
    try:
        found: list[str] = module.check(shard, rows, Output(home, known or {}), settings)
    except Exception as error:
        return [str(error)]
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    "chosen",
    [
        {"use": "emilia", "audio": "mp3"},
        *(tiers.nightly({"use": use}) for use in FORMATS if use not in SILENT),
    ],
)
def test_a_damaged_blob_is_in_no_version(
    three: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, chosen: dict[str, str]
) -> None:
    """Found in writing; its recording is converted again."""
    whole = packaged(three, tmp_path / "whole", chosen)
    shutil.copytree(three / "out", tmp_path / "out", symlinks=True)
    shutil.rmtree(tmp_path / "out/datasets")  # one of the formats is published already
    [blob] = (tmp_path / "out/audio").rglob("*.pcm")
    corpus.flip(blob, blob.stat().st_size // 2)
    found = corpus.run(corpus.job(three, out=tmp_path / "out", package=package(chosen)))[0]
    assert "does not match its manifest" in caplog.text
    assert verify(found.path) == []
    for name in of_format(whole.path, chosen["use"]):
        assert (found.path / name).read_bytes() == (whole.path / name).read_bytes()


@pytest.mark.full
def test_a_bad_read_of_a_sound_blob_costs_a_second_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.make(tmp_path / "in", 3)
    reading, given = blobs.reading, iter([True])

    @contextmanager
    def flipped(out: Path, rows: Iterable[ClipRow]) -> Iterator[Callable[[ClipRow], blobs.Pcm]]:
        def pcm(row: ClipRow) -> blobs.Pcm:
            samples = stored(row).copy()
            samples[0] ^= next(given, False)
            return samples

        with reading(out, rows) as stored:
            yield pcm

    monkeypatch.setattr(blobs, "reading", flipped)
    made = corpus.run(corpus.job(tmp_path))[0]
    assert "it is written once more" in caplog.text
    assert verify(made.path) == []


@pytest.mark.full
@pytest.mark.parametrize("flips", [1, tiers.nightly(3)])
@pytest.mark.parametrize("use", FORMATS)
def test_random_damage_under_a_right_hash_is_no_traceback(
    alone: Callable[[str], Path], tmp_path: Path, use: str, flips: int
) -> None:
    version = tmp_path / "v0001"
    shutil.copytree(alone(use), version)
    for name in kinds(version, use).values():
        size = (version / name).stat().st_size
        for at in random.Random(name).sample(range(size), min(size, flips)):
            corpus.flip(version / name, at)
            reseal(version)
            verify(version)
            corpus.flip(version / name, at)


SETTINGS = [
    (name.partition(".")[2], field, entry.other)
    for name, fields in SHELVES.items()
    if name.startswith("formats.")
    for field, entry in fields.items()
    if entry.role == "threshold" and entry.other is not None
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("use", "field", "value"),
    [SETTINGS[0], *(tiers.nightly(*one) for one in SETTINGS[1:])],
)
def test_another_setting_writes_that_format_anew(
    made: Path, tmp_path: Path, use: str, field: str, value: Any
) -> None:
    with_it, other = {"use": use, field: value}, "nemo" if use == "wenet" else "wenet"
    packaged(made, tmp_path / "out", other, use)
    two = packaged(made, tmp_path / "out", other, with_it)
    assert two.new
    assert (two.written, two.linked) == (2, 2)
    assert verify(two.path) == []
    fresh = packaged(made, tmp_path / "fresh", other, with_it).path
    assert {name: (two.path / name).read_bytes() for name in of_format(two.path, use)} == {
        name: (fresh / name).read_bytes() for name in of_format(fresh, use)
    }


@pytest.mark.nightly
def test_a_renumbered_piece_is_linked_unless_its_number_is_in_it(
    made: Path, tmp_path: Path
) -> None:
    shutil.copytree(made / "in", tmp_path / "in")
    one, _ = corpus.run(corpus.job(tmp_path, package=package(*FORMATS)))
    rows = corpus.utterances(one.path)
    first = rows[0]["shard"]
    for row in rows:
        if row["shard"] == first:
            os.unlink(row["source_path"])
    two, _ = corpus.run(corpus.job(tmp_path, package=package(*FORMATS, max_removed_fraction=1)))
    moved = 0
    for use in FORMATS:
        before, (after,) = shards_of(one.path, use)[1], shards_of(two.path, use)
        same = [(one.path / a).stat().st_ino == (two.path / b).stat().st_ino
                for a, b in zip(before.files, after.files, strict=True)]  # fmt: skip
        numbered = plugins.FORMATS.load(use).NUMBERED
        assert same == [not numbered] * len(same), use
        moved += numbered
    assert two.written == moved
    assert verify(two.path) == []


def test_ids_and_texts_of_all_formats_agree(made: Path) -> None:
    """The groups are the same in all formats, so that they can be compared file by file."""
    version = made / "out/datasets/v0001"
    clips: dict[str, list[int]] = defaultdict(list)
    for use in FORMATS:
        clips[use] = [shard.clips for shard in shards_of(version, use)]
    assert len({tuple(found) for found in clips.values()}) == 1


@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 1 << 15, 100_000])
def test_tars_are_those_of_python(tmp_path: Path, length: int) -> None:
    """To the byte, and both readers find the same."""
    members = {"a.txt": b"text", "x" * 96 + ".wav": bytes(range(256)) * 4, "z.bin": b"z" * length}
    hashes: Hashes = {}
    with _tars.Tar(Output(tmp_path, hashes), "ours.tar") as tar:
        for name, data in members.items():
            tar.add(name, data[:7], memoryview(data)[7:])
    assert hashes == {"ours.tar": storage.hashed(tmp_path / "ours.tar")}
    with tarfile.open(tmp_path / "python.tar", "w", format=tarfile.USTAR_FORMAT) as python:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            python.addfile(info, io.BytesIO(data))
    assert (tmp_path / "ours.tar").read_bytes() == (tmp_path / "python.tar").read_bytes()
    found = list(_tars.read(tmp_path / "ours.tar"))
    assert {member.name: bytes(member.data) for member in found} == members
    assert all(member.plain for member in found)


def test_names_fit_into_a_header() -> None:
    long = "d" * 99
    assert _tars.key("short-id") == "short-id"
    assert len(_tars.key(long)) <= 95
    assert _tars.key(long) != _tars.key(long + "d")
    with pytest.raises(ValueError, match="does not fit"):
        _tars.header("n" * 101, 1)
    row: Any = {"id": "talk-sub1"}
    assert "-sub" not in nemo.member(row, "wav")


def test_plain_names_stand_for_plugins() -> None:
    read = corpus.job(Path("x"), package={"formats": ["wenet", {"use": "webdataset"}]})
    assert read.package.formats == (Plugin(use="wenet"), Plugin(use="webdataset"))


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 24000, 44100, 48000])
def test_durations_survive_truncation(rate: int) -> None:
    counts = [*range(1, 3 * rate, 7), *range(29 * rate, 30 * rate, 11)]
    assert any(int(n / rate * rate) < n for n in counts), "control: the quotient alone does not"
    for n in counts:
        seconds = _clips.duration(n, rate)
        assert int(seconds * rate) == n == round(seconds * rate)
        assert abs(seconds - n / rate) < 1e-9
