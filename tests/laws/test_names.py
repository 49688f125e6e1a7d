"""File names in any script, of any bytes, through the whole line: kept or escaped reversibly."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.command import Site, differences
from tests.helpers import corpus, fuzz, hostile, tiers
from uttermill.flows import checks, settings
from uttermill.flows.run import run_folder
from uttermill.tasks import pipeline
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.recording.names import is_utf8, printable, recording_name, utterance_id
from uttermill.tasks.runs.executor import Published

ROOT = Path(__file__).parents[2]
NFC, NFD = unicodedata.normalize("NFC", "Café.wav"), unicodedata.normalize("NFD", "Café.wav")

NAMES: dict[str, bytes] = {
    "plain": b"plain.wav",
    "cyrillic": "Запись № 1.wav".encode(),
    "chinese": "广州话 录音.wav".encode(),
    "arabic": "تسجيل صوتي.wav".encode(),
    "emoji": "👩‍👩‍👧 🎙️.wav".encode(),
    "composed": NFC.encode(),
    "decomposed": NFD.encode(),
    "zero width": "a\u200bb\ufeff.wav".encode(),
    "right to left override": "a\u202egpj.wav".encode(),
    "space": b" two  spaces .wav",
    "newline": b"new\nline\r\n.wav",
    "separators": "a\u2028b\u2029c\x85d.wav".encode(),
    "tab and control": b"tab\tbell\x07escape\x1b[31m.wav",
    "quotes": b"'single' \"double\" `back` $(touch x).wav",
    "dash": b"--out=x.wav",
    "shell": b"a;b|c&d>e<f*?[g]{h}#!.wav",
    "json": b'{"key": "x"}, \\u0041 \\n.wav',
    "percent": b"%s %d %00 {0} {}.wav",
    "dots": b"a..b...wav",
    "backslash": b"back\\slash.wav",
    "literal escape": b"\\xff\\x5c.wav",
    "byte": b"\xff.wav",
    "bytes": b"\xb9\xe3\xd6\xdd \\xff.wav",  # GB 18030
    "surrogate in utf-8": b"\xed\xa0\x80.wav",
    "looks hashed": b"x~0123456789ab.wav~0123456789ab.wav",
    "255 bytes": b"n" * 251 + b".wav",
    "255 bytes of chinese": "长".encode() * 83 + b"xx.wav",
    "alike 1": b"take (1).wav",
    "alike 2": b"take [1].wav",
    "alike 3": b"take_1_.wav",
    "no ascii 1": "一.wav".encode(),
    "no ascii 2": "二.wav".encode(),
    "upper": b"PLAIN.WAV",
    "folder": "папка с пробелом/\n/\xff".encode("latin-1", "replace") + b"/x.wav",
}


def fill(folder: Path) -> dict[str, bytes]:
    """Name by name a recording; (name: path) of them."""
    paths = {}
    for number, (name, raw) in enumerate(NAMES.items()):
        path = os.path.join(os.fsencode(folder), raw)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(hostile.wav(number))
        paths[name] = path
    return paths


def as_tar(path: Path) -> None:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for number, raw in enumerate(NAMES.values()):
            info = tarfile.TarInfo(os.fsdecode(raw))
            data = hostile.wav(number)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def run(out: Path, *sources: dict[str, Any]) -> tuple[Published, dict[str, Any]]:
    """The whole line in this process, with what commands need to look at it."""
    chosen = settings.parse({
        "sources": list(sources), "out": str(out), "shard": {"settle_seconds": 0},
        "filter": {"segmenter": {"use": "whole"}, "duplicate_files": "keep"},
        "transcribe": {"backend": {"use": "fake"}},
    })  # fmt: skip
    job = checks.check(chosen)
    with run_folder.record(out, chosen) as record:
        published, stages = pipeline.run_here(job)
        record.finish({})
    return published, stages


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    tmp = tmp_path_factory.mktemp("names")
    paths = fill(tmp / "in")
    as_tar(tmp / "clips.tar")
    run(tmp / "out", *sources(tmp))
    return tmp, paths


def sources(tmp: Path) -> list[dict[str, Any]]:
    return [
        {"kind": "folder", "path": str(tmp / "in"), "name": "files"},
        {"kind": "tar", "path": str(tmp / "clips.tar"), "name": "members"},
    ]


def rows(tmp: Path, name: str, dataset: str) -> list[dict[str, Any]]:
    table = pq.read_table(tmp / "out/datasets/latest" / name).to_pylist()
    return [row for row in table if row["dataset"] == dataset]


@pytest.mark.full
def test_ids_are_safe_and_unique(done: tuple[Path, dict[str, bytes]]) -> None:
    tmp, paths = done
    for dataset in ("files", "members"):
        found = [row["id"] for row in rows(tmp, "utterances.parquet", dataset)]
        assert len(found) == len(set(found)) == len(paths)
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,100}", each) for each in found)
        assert not any(each.startswith("-") for each in found)


def original(shown: str) -> str:
    """The file name behind a `printable` one, as Python's file functions take it."""
    raw = shown.encode("utf-8", "surrogateescape")
    return os.fsdecode(
        re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), raw)
    )


def test_every_source_path_leads_to_its_file(done: tuple[Path, dict[str, bytes]]) -> None:
    tmp, paths = done
    for name in ("utterances.parquet", "ledger.parquet"):
        shown = [row["source_path"] for row in rows(tmp, name, "files")]
        assert sorted(os.fsencode(original(each)) for each in shown) == sorted(paths.values())
        members = [row["source_path"] for row in rows(tmp, name, "members")]
        head = f"{tmp}/clips.tar!"
        assert all(each.startswith(head) for each in members)
        back = {os.fsencode(original(each.removeprefix(head))) for each in members}
        assert back == {os.path.normpath(raw) for raw in NAMES.values()}


def test_names_that_are_text_are_kept_to_the_letter(done: tuple[Path, dict[str, bytes]]) -> None:
    tmp, _ = done
    names = {row["recording"] for row in rows(tmp, "ledger.parquet", "files")}
    assert {f"files/{NFC}", f"files/{NFD}"} <= names
    for raw in NAMES.values():
        shown = os.fsdecode(raw)
        assert f"files/{recording_name(shown)}" in names
        if is_utf8(shown) and "~" not in shown:
            assert f"files/{shown}" in names


def test_what_is_published_is_text(done: tuple[Path, dict[str, bytes]]) -> None:
    tmp, paths = done
    version = tmp / "out/datasets/latest"
    assert verify(version.resolve()) == []
    json.loads((version / "dataset.json").read_bytes().decode("utf-8"))
    for listing in version.rglob("data.list"):
        lines = listing.read_bytes().decode("utf-8").splitlines()
        assert all((version / line).is_file() for line in lines)
    held = set()
    for path in version.rglob("*.tar"):
        with tarfile.open(path) as tar:
            held |= {member.name.rpartition(".")[0] for member in tar}
    assert len(held) == 2 * len(paths)


@pytest.mark.full
@pytest.mark.parametrize("command", tiers.few(["status", "ledger"], "ledger"))
def test_commands_print_json(done: tuple[Path, dict[str, bytes]], command: str) -> None:
    tmp, paths = done
    ended = subprocess.run(
        [sys.executable, "-m", "uttermill.flows.cli", command, str(tmp / "out"), "--json"],
        cwd=ROOT, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    found = json.loads(ended.stdout.decode("utf-8"))
    if command == "ledger":
        assert found["recordings"] == {"in": 2 * len(paths), "failed": 0}
    else:
        assert all(not stage["items_to_compute"] for stage in found["stages"].values())


def test_a_rerun_computes_nothing(done: tuple[Path, dict[str, bytes]]) -> None:
    tmp, _ = done
    published, stages = run(tmp / "out", *sources(tmp))
    assert not published.new
    assert not any(stage["items_computed"] for stage in stages.values())


RAW = st.binary(min_size=1, max_size=40) | st.lists(
    st.sampled_from([b"\\", b"\\xff", b"x5c", b"\xff", "é".encode(), "e\u0301".encode(), b"~",
                     b"0123456789ab", b"a", b"\n", b"!"]), min_size=1, max_size=8,
).map(b"".join)  # fmt: skip


@pytest.mark.full
@fuzz.cases(300)
@given(RAW)
def test_what_is_shown_gives_the_name_back(raw: bytes) -> None:
    name = os.fsdecode(raw)
    shown = printable(name)
    shown.encode()
    assert original(shown) == name
    if is_utf8(name) and not re.search(r"\\x[0-9a-f]{2}", name):
        assert shown == name


@fuzz.cases(300)
@given(RAW, RAW)
def test_two_names_never_become_one(one: bytes, other: bytes) -> None:
    names = [recording_name(os.fsdecode(raw)) for raw in (one, other)]
    shown = [printable(os.fsdecode(raw)) for raw in (one, other)]
    made = [utterance_id("d", name, 0.0, 1.0) for name in names]
    assert (names[0] == names[1]) == (shown[0] == shown[1]) == (one == other)
    assert (made[0] == made[1]) == (one == other)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,100}", each) for each in made)


#: Python takes an ASCII locale for what it is only if it is told to, as it takes one in Latin-1.
OTHER_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.cluster
@pytest.mark.nightly
def test_names_and_ids_are_the_same_in_every_locale(tmp_path: Path) -> None:
    site = Site(tmp_path, api="", history="none")
    for number, name in enumerate((b"m\xc3\xbcll.wav", b"\xc3\x9f.wav", b"lat\xfc.wav")):
        made = corpus.add(site.source, number)
        made.rename(made.with_name(os.fsdecode(name)))
    site.undisturbed(site.settings("here"))
    elsewhere = Site(tmp_path, api="", history="none", environment=OTHER_LOCALE)
    ended = elsewhere.apart("run", site.settings("there"))
    assert ended.code == 0, ended.stderr
    assert differences(tmp_path / "here", tmp_path / "there") == []


# Utterance ids: what every reader of tars takes, and apart for whatever is apart.


@given(st.text(), st.text(), st.floats(0, 3.6e5), st.floats(0, 3.6e5))
def test_any_name_gives_a_safe_id_that_ustar_holds(
    path: str, key: str, start: float, end: float
) -> None:
    made = utterance_id("d" * 40, path, start, end, key)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", made)
    assert len(f"{made}.wav") <= 100


def test_names_that_cleaning_makes_alike_stay_apart() -> None:
    made = {utterance_id("d", f"{chr(0x4E00 + n)}.wav", 0, 5) for n in range(20_000)}
    assert len(made) == 20_000
    # As many names of equal length as a large corpus has need more than 32 bits.
    assert {len(name.split("-")[1]) for name in made} == {16}
