"""`kaldi`: what its validator asks, and its readers find; formats that are read in any order."""

import hashlib
import importlib.util
import io
import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import corpus, published, random_access
from tests.helpers.published import Row
from uttermill.flows import checks
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.formats import _samples, kaldi
from uttermill.tasks.formats import lance as lance_format
from uttermill.tasks.settings import Plugin

NAMES = {"wav.scp", "segments", "text", "utt2spk", "spk2utt", "utt2dur", "reco2dur", "utt2lang",
         "utt2id"}  # fmt: skip
SPEAKERS = ("b", "a", "a-b", "a b", "a_b", "", None, "Ада", "a", "d")
GROUPS: list[list[Row]] = [
    [published.row(n, speaker=speaker) for n, speaker in enumerate(SPEAKERS)],
    [published.row(20, text="two\n lines\tand \u2028 \u3000more"), published.row(21, text=" "),
     published.row(22, text="<s> a<s> #0 </s> #0x ##0"), published.row(23, dataset="d_x")],
    [published.row(24, text="")],
    [published.row(30, split="dev", language=None), published.row(31, split="dev", speaker="dev")],
]  # fmt: skip
SQUEEZED = {20: "two lines and more", 22: "< s > a<s> # 0 < /s > #0x ## 0"}
ROWS = {row["id"]: row for group in GROUPS for row in group}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp = tmp_path_factory.mktemp("kaldi")
    published.publish(tmp, "kaldi", GROUPS)
    return tmp


def lines(path: Path) -> list[str]:
    data = path.read_bytes()
    assert data.endswith(b"\n")
    assert b"\r" not in data
    return data.decode("utf-8")[:-1].split("\n")


def table(path: Path) -> dict[str, str]:
    """First field and the rest; sorted by bytes and unique, as every list must be."""
    pairs = [line.split(" ", 1) for line in lines(path)]
    keys = [key.encode() for key, _ in pairs]
    assert keys == sorted(set(keys)), f"{path.name} is not sorted, or has a key twice"
    return dict(pairs)


def validate(folder: Path) -> None:
    """After `egs/wsj/s5/utils/validate_data_dir.sh --no-feats` and `validate_text.pl`."""
    held = {name: table(folder / name) for name in NAMES}
    speakers = held["utt2spk"]
    by_speaker = subprocess.run(
        ["sort", "-k2", str(folder / "utt2spk")], env={**os.environ, "LC_ALL": "C"},
        capture_output=True, check=True,
    )  # fmt: skip
    assert by_speaker.stdout == (folder / "utt2spk").read_bytes()
    assert all(utterance.startswith(speaker) for utterance, speaker in speakers.items())
    back = {utt: spk for spk, utts in held["spk2utt"].items() for utt in utts.split(" ")}
    assert list(back.items()) == list(speakers.items())
    for name in ("text", "segments", "utt2dur", "utt2lang", "utt2id"):
        assert list(held[name]) == list(speakers), name
    for line in lines(folder / "text"):
        words = line.split(" ")
        assert all(words), "no empty text, no blank twice"
        assert not any(c.isspace() for c in line.replace(" ", ""))
    for word in ("<s>", "</s>", "#0"):  # exit status 1: nothing found
        found = subprocess.run(
            ["grep", "-q", "-w", word, str(folder / "text")], env={**os.environ, "LC_ALL": "C"}
        )
        assert found.returncode == 1, word
    recordings = set()
    for utterance, segment in held["segments"].items():
        recording, start, end = segment.split(" ")
        recordings.add(recording)
        assert 0 <= float(start) < float(end)
        assert float(end) - float(start) == pytest.approx(float(held["utt2dur"][utterance]))
    assert recordings == set(held["wav.scp"]) == set(held["reco2dur"])
    assert not any(path.startswith(("~", "/")) for path in held["wav.scp"].values())


@pytest.mark.parametrize("split", ["train", "dev"])
def test_the_folder_is_valid(home: Path, split: str) -> None:
    validate(home / "kaldi" / split)
    assert {path.name for path in (home / "kaldi" / split).iterdir()} == {*NAMES, "wav"}


@pytest.mark.parametrize("split", ["train", "dev"])
def test_segments_cut_the_very_samples(home: Path, split: str) -> None:
    """By cutting times off, as Kaldi's `extract-segments` does, and by rounding them."""
    folder = home / "kaldi" / split
    texts, ids = table(folder / "text"), table(folder / "utt2id")
    waves = {
        key: sf.read(home / path, dtype="int16") for key, path in table(folder / "wav.scp").items()
    }
    for key, segment in table(folder / "segments").items():
        recording, *span = segment.split(" ")
        samples, rate = waves[recording]
        low, high = (int(float(time) * np.float32(rate)) for time in span)
        assert [low, high] == [round(float(time) * rate) for time in span]
        row = ROWS[ids[key]]
        assert hashlib.sha256(samples[low:high].tobytes()).hexdigest() == row["sha256"]
        assert texts[key] == SQUEEZED.get(row["number"], row["text"])
    kept = {key for key, row in ROWS.items() if row["split"] == split and row["text"].strip()}
    assert set(ids.values()) == kept
    assert {kaldi.listing(home, split, "/data")[0].split(" ")[1]} == {
        f"/data/kaldi/{split}/wav/000000000.wav"
    }


def test_speakers_are_kept_apart(home: Path) -> None:
    folder = home / "kaldi/train"
    ids, speakers = table(folder / "utt2id"), table(folder / "utt2spk")
    named: dict[str, set[str]] = {}
    for key, speaker in speakers.items():
        row = ROWS[ids[key]]
        who = row["speaker"] or row["id"]
        named.setdefault(who, set()).add(speaker)
        assert key == (f"{speaker}-{row['id']}" if row["speaker"] else row["id"])
    assert all(len(found) == 1 for found in named.values())
    assert len({name for found in named.values() for name in found}) == len(named)
    assert named["a"] == {"d_a"}
    assert named["a_b"] == {"d_a_b"}
    assert table(folder / "utt2lang")[next(iter(ids))] == "en"
    assert "und" in table(home / "kaldi/dev/utt2lang").values()


WORDS = st.text("ab_-", min_size=1, max_size=3)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(WORDS, st.none() | WORDS, WORDS), unique=True, min_size=1, max_size=12))
def test_any_names_are_sorted_by_utterance_and_speaker(
    clips: list[tuple[str, str | None, str]],
) -> None:
    rows = [
        {"id": f"{dataset}-{stem}-{number:016x}", "dataset": dataset, "speaker": speaker}
        for number, (dataset, speaker, stem) in enumerate(clips)
    ]
    plain = pa.Table.from_pylist(
        rows, schema=pa.schema(dict.fromkeys(("id", "dataset", "speaker"), pa.string()))
    )
    named = kaldi.with_names(plain, kaldi.reserved_names(plain))
    pairs = sorted(zip(named["utterance"].to_pylist(), named["name"].to_pylist(), strict=True))
    assert len({utterance for utterance, _ in pairs}) == len(clips)
    assert [spk for spk, _ in groupby(pairs, lambda pair: pair[1])] == sorted(
        {spk for _, spk in pairs}
    )


@settings(deadline=None)
@given(st.integers(0, 4 * 10**9), st.integers(4000, 192000))
def test_times_lead_back_to_their_samples(sample: int, rate: int) -> None:
    seconds = float(kaldi.time(sample, rate))
    assert int(seconds * rate) == round(seconds * rate) == sample


@pytest.mark.full
def test_lhotse_reads_the_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lhotse import CutSet
    from lhotse.kaldi import load_kaldi_data_dir

    monkeypatch.chdir(home)
    recordings, supervisions, _ = load_kaldi_data_dir(Path("kaldi/train"), published.RATE)
    ids = table(home / "kaldi/train/utt2id")
    cuts = CutSet.from_manifests(recordings, supervisions).trim_to_supervisions()
    seen = set()
    for cut in cuts:
        (supervision,) = cut.supervisions
        row = ROWS[ids[supervision.id]]
        exact = (cut.load_audio()[0].astype(np.float64) * 32768).astype("<i2")
        assert hashlib.sha256(exact.tobytes()).hexdigest() == row["sha256"]
        seen.add(row["id"])
    assert seen == set(ids.values())


def test_a_group_too_long_for_a_wav_file_is_refused() -> None:
    rows = pa.table({"num_samples": [2**30, 2**30]})
    with pytest.raises(ConfigError, match=r"package\.tar_hours"):
        kaldi.files("train", 0, rows, kaldi.Settings())


# `mds`, `litdata` and `lance`: any clip by its number, with what its row says of it.


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
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[lance\]'"):
        checks.check_wishes(corpus.wishes(tmp_path, package={"formats": ["lance"]}))


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
