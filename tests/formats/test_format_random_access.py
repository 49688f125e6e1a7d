"""`mds`, `litdata` and `lance`: any clip by its number, with what its row says of it."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, published, random_access
from uttermill.flows import checks
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.formats import _samples
from uttermill.tasks.formats import lance as lance_format
from uttermill.tasks.settings import Plugin

TRAIN = [
    [published.row(0), published.row(1, language=None), published.row(2, speaker="")],
    [published.row(3, speaker="Ада 1"), published.row(4), published.row(5, text="")],
]
DEV = [[published.row(6, split="dev")]]
SAME = ("id", "text", "language", "speaker", "dataset", "source_id", "recording", "start", "end")
USES = ("mds", "litdata", "lance")


@pytest.mark.parametrize("audio", ["wav", "flac"])
@pytest.mark.parametrize("use", USES)
def test_every_clip_comes_back(tmp_path: Path, use: str, audio: str) -> None:
    published.publish(tmp_path, use, [*TRAIN, *DEV], audio=audio)
    for split, groups in (("train", TRAIN), ("dev", DEV)):
        wanted = [row for group in groups for row in group]
        samples = random_access.READERS[use](tmp_path / use / split)
        for sample, row in zip(samples, wanted, strict=True):
            assert {name: sample[name] for name in SAME} == {name: row[name] for name in SAME}
            seconds = sample["duration" if use == "lance" else "seconds"]
            assert int(seconds * published.RATE) == row["num_samples"]
            assert (sample["words"], sample["dnsmos_ovrl"], sample["snr"]) == (2, 3.25, None)
            assert published.sha256(io.BytesIO(sample["audio"])) == row["sha256"]


def test_a_table_of_lance_holds_neither_clock_nor_chance(tmp_path: Path) -> None:
    import lance

    for name in "ab":
        published.publish(tmp_path / name, "lance", [*TRAIN, *DEV])
    one, two = (corpus.content(tmp_path / name) for name in "ab")
    assert one == two
    assert sorted(name for name in one if name.startswith("lance/dev/")) == [
        "lance/dev/_versions/18446744073709551614.manifest", "lance/dev/data/000000000.lance"
    ]  # fmt: skip
    table = lance.dataset(str(tmp_path / "a/lance/train"))
    for name in "cd":
        lance.write_dataset(table.to_table(), str(tmp_path / name))
    theirs = [{*corpus.content(tmp_path / name)} for name in "cd"]
    assert theirs[0] != theirs[1], "control: the library itself draws names"


def test_lance_takes_rows_and_columns_in_any_order(tmp_path: Path) -> None:
    import lance

    published.publish(tmp_path, "lance", TRAIN)
    table = lance.dataset(str(tmp_path / "lance/train"))
    wanted = [row["id"] for group in TRAIN for row in group]
    assert table.take([4, 0, 5], columns=["id"])["id"].to_pylist() == [
        wanted[4], wanted[0], wanted[5]
    ]  # fmt: skip
    kept = table.to_table(columns=["id"], filter="speaker = 'Ада 1'")
    assert kept["id"].to_pylist() == [wanted[3]]


@pytest.mark.parametrize("use", ["mds", "litdata"])
def test_a_group_that_no_file_can_hold_is_refused(
    tmp_path: Path, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_samples, "LARGEST", 6000)
    with pytest.raises(ConfigError, match=rf"formats\.{use}: .*lower package\.tar_hours"):
        published.publish(tmp_path, use, TRAIN)


def test_without_pylance_a_run_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_format, "find_spec", lambda name: None)
    corpus.make(tmp_path / "in", 1)
    told: dict[str, Any] = {
        "sources": [{"kind": "folder", "path": str(tmp_path / "in")}],
        "out": str(tmp_path / "out"),
        "transcribe": {"backend": {"use": "fake"}},
        "package": {"formats": ["lance"]},
    }
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[lance\]'"):
        checks.check_wishes(PrepareSettings.model_validate(told))


@pytest.mark.full
def test_no_format_imports_pytorch(tmp_path: Path) -> None:
    """The libraries of MDS and LitData do; here, nothing needs them."""
    assert importlib.util.find_spec("torch"), "control: it could be imported"
    program = (
        "import sys; from pathlib import Path; from tests.helpers import published\n"
        "for use in ('mds', 'litdata', 'lance'):\n"
        f"    published.publish(Path({str(tmp_path)!r}) / use, use, [[published.row(0)]])\n"
        "print({'torch', 'litdata', 'streaming'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")


@pytest.mark.parametrize("use", USES)
def test_settings_are_those_of_encoded_audio(use: str) -> None:
    with pytest.raises(ConfigError, match="bit_rate is for opus and mp3"):
        plugins.resolve("formats", Plugin.model_validate({"use": use, "bit_rate": 32}))
