"""An OUT that somebody else has written into: names in its files, and links, lead nowhere else."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, tampered, tiers
from uttermill.tasks.base.errors import ConfigError, MillError, UnsafePlace
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.shard_store import blobs, manifest
from uttermill.tasks.storage import containment, place

WAYS = {**tampered.IN_FILES, **tampered.LINKS}
BY_DAY = ("split of utterances",)


def refused(out: Path, *sets: str) -> str | None:
    """Why a run is refused; None if it ends well."""
    try:
        tampered.run(out, *sets)
    except MillError as error:
        return str(error)
    return None


@pytest.mark.full
@pytest.mark.parametrize("way", tiers.few(WAYS, *BY_DAY))
def test_nothing_outside_is_touched(
    out: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus.add(out.parent / "in", 3)
    WAYS[way](out)
    beside = {p: tampered.tree(p) for p in out.parent.iterdir() if p.is_dir() and p != out}
    before = tampered.tree(out)
    codes = tampered.look(out)
    assert tampered.tree(out) == before, "looking changes nothing"
    assert set(codes) <= {0, 1, 2, 3}
    shown = capsys.readouterr().out
    assert "years of work" not in shown
    lists = [json.loads(line) for line in shown.splitlines() if line.startswith('{"paths"')]
    assert not any(".." in path for each in lists for path in each["paths"])
    more = f"sources=[{{kind: folder, path: {out.parent / 'in'}, name: c}}]"
    words = "a link|out of its folder|holds no dataset.json"
    if way == "a table":  # a link is not what was published, wherever it leads
        words = "utterances.parquet of v0001 is not the file that was published"
    for sets in ((), (more,)):  # a night with nothing new, and one that makes another version
        why = refused(out, *sets)
        assert why is None or re.search(words, why)
    for path, known in beside.items():
        assert tampered.tree(path) == known


@pytest.mark.full
@pytest.mark.parametrize("name", tiers.few(tampered.NAMES, tampered.NAMES[0], tampered.LONG))
def test_a_row_with_such_a_name_is_damage(
    out: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told, and its items are computed again, in a run."""
    tampered.blob_named(name)(out)
    path = tampered.part_of(out, "resample")
    assert manifest.read(out, "resample", tampered.SHARD) == []
    assert "names files that no run writes" in caplog.text
    assert path.exists(), "reading leaves it"
    assert tampered.run(out)["resample"] == (3, 0)
    assert not path.exists()
    assert verify(out / "datasets/v0001") == []


@pytest.mark.parametrize(
    "name",
    [
        *tampered.NAMES[:-2], "/a", "a//b", "a/", "a/../b", "./a", "a/\x7f", "a/b\r",
        "\udcff\ud800", "/".join(["x"] * 3000),
    ],
)  # fmt: skip
def test_names_that_lead_out(tmp_path: Path, name: str) -> None:
    for home in (tmp_path, place("s3://bucket/out")):
        with pytest.raises(UnsafePlace):
            containment.inside(home, name)


@pytest.mark.parametrize("name", ["a", "v0001/wenet/train/a b é.tar", "..a", "a..", ".plan", "-x"])
def test_names_that_stay_inside(tmp_path: Path, name: str) -> None:
    assert containment.inside(tmp_path, name) == tmp_path / name
    assert str(containment.inside(place("s3://bucket/out"), name)).endswith(f"/out/{name}")


def test_no_link_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "home").symlink_to(tmp_path)
    assert containment.inside(tmp_path / "home", "real/a") == tmp_path / "home/real/a"
    for name in ("link", "link/a", "home/real/a"):
        with pytest.raises(UnsafePlace, match="is a link"):
            containment.inside(tmp_path, name)


@pytest.mark.full
@pytest.mark.parametrize("moved", tiers.few(["", *containment.OUT_FOLDERS], ""))
def test_a_larger_disk(out: Path, moved: str) -> None:
    """OUT itself, or one of its folders, may be a link of the user's own."""
    here, there = out / moved if moved else out, out.parent / "disk"
    here.rename(there)
    here.symlink_to(there)
    # A version is named by its real place, from which no way leads to another folder of OUT.
    assert set(tampered.look(out)) == ({0, 2} if moved == "datasets" else {0})
    assert tampered.run(out)["filter"] == (0, 3)
    assert here.is_symlink()


def test_the_link_of_another_user(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (out / "audio").rename(out.parent / "disk")
    (out / "audio").symlink_to(out.parent / "disk")
    os.lchown(out / "audio", 4242, 4242)
    with pytest.raises(ConfigError, match="that another user made"):
        containment.check(out)


@pytest.mark.parametrize("name", ["manifests/filter", "manifests/package/facts", "datasets/v0001"])
def test_a_file_in_the_place_of_a_folder(out: Path, name: str) -> None:
    containment.check(out)
    shutil.rmtree(out / name)
    (out / name).write_text("")
    with pytest.raises(ConfigError, match=f"{name} is a file, where OUT has a folder; remove it"):
        containment.check(out)


def test_blobs_are_read_from_their_folder(out: Path) -> None:
    row: Any = {"blob": "../../../victim/thesis.txt", "offset": 0, "num_samples": 4, "sha256": ""}
    with pytest.raises(UnsafePlace):
        blobs.read(out, tampered.SHARD, row)
    assert not blobs.present(row, blobs.sizes(out, tampered.SHARD))
