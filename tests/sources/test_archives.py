"""Archives in a folder are read in place: what they hold, what is damaged, what is a bomb."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from tests.helpers import hostile, listed_apart
from tests.helpers.tiers import nightly
from tests.sources.test_sources import codes, ignored, listed, recs
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.recording import Ignored, Recording
from uttermill.tasks.recording.container import as_file
from uttermill.tasks.sources import _archives
from uttermill.tasks.storage import bounds

WAVS = {"b/two.wav": hostile.wav(2), "a.wav": hostile.wav(1), "../../up.wav": hostile.wav(3)}
TEXTS = {"a.txt": b"one", "b/two.srt": b"1\n00:00:00,000 --> 00:00:00,400\nsecond words\n"}
OTHERS = {"__MACOSX/._a.wav": b"x", "notes.pdf": b"x", "more.zip": b"PK\3\4"}
MEMORY = 400 << 20


def zipped(path: Path, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in {**WAVS, **TEXTS, **OTHERS}.items():
            archive.writestr(name, data)
    return path


def tarred() -> bytes:
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as archive:
        for name, data in {**WAVS, **TEXTS, **OTHERS}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return memory.getvalue()


def made(path: Path) -> Path:
    if path.suffix == ".zip":
        return zipped(path, zipfile.ZIP_STORED if "stored" in path.name else zipfile.ZIP_DEFLATED)
    data = tarred()
    if path.name.endswith("gz"):
        data = gzip.compress(data)
    elif path.name.endswith("zst"):
        data = pa.Codec("zstd").compress(data, asbytes=True)
    path.write_bytes(data)
    return path


def content(recording: Recording) -> bytes:
    with as_file(recording.locator) as file:
        file.seek(1)
        rest = file.read()
        file.seek(0)
        return file.read(1) + rest


NAMES = ["x.zip", "stored.zip", "x.tar", "x.tar.gz", "X.TGZ", "x.tar.zst"]


@pytest.mark.parametrize("name", NAMES)
def test_what_an_archive_holds_is_read_in_place(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    made(folder / "deep" / name)
    before = sorted(tmp_path.rglob("*"))
    items = listed("folder", folder)
    found = {r.path.partition("~")[0]: r for r in recs(items)}
    home = f"deep/{name}"
    assert [*found] == [f"{home}/up.wav", f"{home}/a.wav", f"{home}/b/two.wav"]
    assert found[f"{home}/a.wav"].text == "one"
    assert [s.text for s in found[f"{home}/b/two.wav"].segments or ()] == ["second words"]
    assert found[f"{home}/a.wav"].source_path == f"{folder}/{home}!a.wav"
    assert found[f"{home}/a.wav"].size == len(WAVS["a.wav"])
    assert [content(r) for r in found.values()] == [
        WAVS[n] for n in ("../../up.wav", "a.wav", "b/two.wav")
    ]
    assert ignored(items) == {
        f"{home}/a.txt": "read_as_text", f"{home}/b/two.srt": "read_as_text",
        f"{home}/notes.pdf": "extension", f"{home}/more.zip": "archive_in_archive",
        f"{home}/__MACOSX/._a.wav": "system_folder",
    }  # fmt: skip
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_may_be_the_whole_source_or_be_left_aside(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / name)
    assert len(recs(listed("folder", path))) == 3
    assert ignored(listed("folder", tmp_path, archives=False)) == {name: "extension"}


def test_speakers_are_in_paths_of_archives_too(tmp_path: Path) -> None:
    made(tmp_path / "x.zip")
    speakers = {r.speaker for r in recs(listed("folder", tmp_path, speaker="parent_folder"))}
    assert speakers == {"x.zip", "b"}


def damage(path: Path, inside: bytes) -> None:
    data = bytearray(path.read_bytes())
    at = data.index(inside)
    data[at + len(inside) // 2] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["x.zip", "stored.zip"])
def test_a_damaged_member_costs_itself(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / name)
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("a.wav")
        start = member.header_offset + 30 + len("a.wav")
    damage(path, path.read_bytes()[start : start + member.compress_size])
    wrong = []
    for recording in recs(listed("folder", tmp_path)):
        try:
            content(recording)
        except ItemError as error:
            wrong.append((recording.path, error.code, error.detail))
    [(where, code, detail)] = wrong
    assert (where, code) == (f"{name}/a.wav", "unreadable")
    assert "checksum" in detail


def test_a_compressed_tar_counts_up_to_its_damage(tmp_path: Path) -> None:
    path = made(tmp_path / "x.tar.gz")
    path.write_bytes(path.read_bytes()[:-2000])
    items = recs(listed("folder", tmp_path))
    assert [r.path.partition("~")[0] for r in items][-1] == "x.tar.gz!rest"
    assert items[-1].error is not None
    assert "stream is damaged" in items[-1].error[1]
    assert len(items) > 1
    for recording in items[:-1]:
        assert content(recording)
    (tmp_path / "x.tar.gz").unlink()
    whole = gzip.compress(tarred())
    (tmp_path / "y.tgz").write_bytes(whole[:-8] + b"\0" * 8)
    assert codes(listed("folder", tmp_path)) == {"y.tgz!rest": "truncated"}


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.tar.zst", "x.tar"])
@pytest.mark.parametrize("data", [b"", b"PK", b"nothing of the kind" * 99], ids=len)
def test_what_is_no_archive_is_one_failed_item(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    items = recs(listed("folder", tmp_path))
    assert [r.path for r in items] == [f"{name}!rest"] or (name != "x.zip" and items == [])


def test_encrypted_and_unknown_methods_fail_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good.wav", WAVS["a.wav"])
        archive.writestr("lzma.wav", WAVS["a.wav"], zipfile.ZIP_LZMA)
        archive.writestr("secret.wav", WAVS["a.wav"])
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\1\2")
    data[entry + 8] |= 1
    path.write_bytes(data)
    assert codes(listed("folder", tmp_path)) == {
        "x.zip/lzma.wav": "unsupported", "x.zip/secret.wav": "unsupported",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["x.zip", "x.tar"])
def test_names_in_another_encoding_are_read_by_the_setting(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "x.tar":
        with tarfile.open(path, "w", encoding="gbk", format=tarfile.GNU_FORMAT) as tar:
            for ending, sound in ((".wav", WAVS["a.wav"]), (".txt", "好".encode("gbk"))):
                info = tarfile.TarInfo(f"录音{ending}")
                info.size = len(sound)
                tar.addfile(info, io.BytesIO(sound))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("abcd.wav", WAVS["a.wav"])
            archive.writestr("abcd.txt", "好".encode("gbk"))
        data = path.read_bytes().replace(b"abcd.", "录音".encode("gbk") + b".")
        path.write_bytes(data)
    [recording] = recs(listed("folder", tmp_path, encoding="gbk"))
    assert (recording.path, recording.text) == (f"{name}/录音.wav", "好")
    assert recording.source_path == f"{path}!录音.wav"
    assert content(recording) == WAVS["a.wav"]


@pytest.mark.full
def test_bombs_are_refused_in_little_memory(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("bomb.wav", "w") as member:
            for _ in range(300):
                member.write(b"\0" * (1 << 20))
        archive.writestr("good.wav", WAVS["a.wav"])
    bomb = gzip.compress(hostile.member("x.bin", b"\0" * (1 << 20)))
    good = gzip.compress(hostile.member("good.wav", WAVS["a.wav"]))
    (tmp_path / "b.tar.gz").write_bytes(good + bomb * 300)
    with listed_apart.telling() as told:
        found = told({"kind": "folder", "path": str(tmp_path)})
    assert found["rows"] == {"good": 2, "expands": 2}
    assert found["took"] < MEMORY


def wrapped(path: Path, members: dict[str, bytes]) -> None:
    """An archive of these members."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return
    data = b"".join(hostile.member(name, data) for name, data in members.items()) + b"\0" * 1024
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("x.tar.gz", "tar"), ("x.zip", "folder"), nightly("x.tar", "tar"), nightly("x.tar", "folder"),
     nightly("x.tar.gz", "folder")],
)  # fmt: skip
def test_many_members_alike_are_one_line(tmp_path: Path, name: str, kind: str) -> None:
    many = _archives.MOST_ALIKE + 1
    empty = {f"e{number:04d}.wav": b"x" * (number % 50) for number in range(many)}
    good = {"a.wav": WAVS["a.wav"], "z.wav": WAVS["b/two.wav"], "z.txt": b"last"}
    other = {f"n{number:04d}.foo": b"" for number in range(many)}
    bad = {f"t{number:04d}.json": b"{" for number in range(many)}
    wrapped(tmp_path / name, {"a.wav": good.pop("a.wav"), **empty, **other, **bad, **good})
    items = listed(kind, tmp_path / name if kind == "tar" else tmp_path)
    sound = [r for r in recs(items) if r.error is None]
    assert [content(r) for r in sound] == [WAVS["a.wav"], WAVS["b/two.wav"]]
    assert sound[-1].text == "last"
    failing = {r.path: r.error for r in recs(items) if r.error}
    code, why = failing[f"{name}!empty"] or ("", "")
    assert code == "empty"
    assert why.startswith(f"{many:,} of its members, such as e0000.wav: they have fewer than 64 ")
    assert len(failing) == (2 if kind == "tar" else 1)  # a tar's .json belongs to its sample
    skipped = [item for item in items if isinstance(item, Ignored)]
    assert sum(item.members for item in skipped if item.path.endswith(".foo")) == many
    assert len(skipped) <= 3


def test_members_alike_up_to_the_limit_are_named(tmp_path: Path) -> None:
    many = _archives.MOST_ALIKE
    wrapped(tmp_path / "x.tar.gz", {f"e{number:04d}.wav": b"" for number in range(many)})
    assert len({r.path for r in recs(listed("folder", tmp_path))}) == many


def test_a_listing_that_breaks_off_among_empty_members_is_two_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ALWAYS_BYTES", 1 << 20)
    monkeypatch.setattr(bounds, "FOLD", 1)
    empty = {f"e{number:04d}.wav": b"" for number in range(3_000)}
    wrapped(tmp_path / "x.tar.gz", {"a.wav": WAVS["a.wav"], **empty})
    items = listed("folder", tmp_path)
    assert [r.path for r in recs(items) if r.error is None] == ["x.tar.gz/a.wav"]
    assert codes(items) == {"x.tar.gz!empty": "empty", "x.tar.gz!rest": "expands"}


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.wav", WAVS["a.wav"])
        entry = archive.getinfo("a.wav")
        for number in range(3):
            other = zipfile.ZipInfo(f"b{number}.wav")
            other.header_offset, other.CRC = entry.header_offset, entry.CRC
            other.file_size, other.compress_size = entry.file_size, entry.compress_size
            archive.filelist.append(other)
    assert list(codes(listed("folder", tmp_path)).values()) == ["unreadable"] * 3


def test_large_members_and_lying_sizes(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.wav", b"RIFF" + b"\1\2" * 500_000)
    [recording] = recs(listed("folder", tmp_path))
    assert len(content(recording)) == 1_000_004
    data = path.read_bytes()
    entry = data.rindex(b"PK\1\2")
    path.write_bytes(data[: entry + 24] + (5000).to_bytes(4, "little") + data[entry + 28 :])
    [recording] = recs(listed("folder", tmp_path))
    with pytest.raises(ItemError, match="checksum"):
        content(recording)


def test_names_that_are_no_utf_8_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("aaa.wav", "bbb.wav", "ü.wav"):
            archive.writestr(name, WAVS["a.wav"])
    data = (
        path.read_bytes()
        .replace(b"aaa.wav", b"\xff\xfe\xff.wav")
        .replace(b"bbb.wav", b"\xb5\xb5\xb5.wav")
    )
    path.write_bytes(data)
    items = recs(listed("folder", tmp_path))
    assert len({r.path for r in items}) == 3
    assert any(r.source_path.endswith(r"x.zip!\xff\xfe\xff.wav") for r in items)
    assert all(content(r) == WAVS["a.wav"] for r in items)


@pytest.mark.nightly
def test_large_archives_have_64_bit_places(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(66_000):  # more than 16 bits count
            archive.writestr(f"{number}.txt", b"", zipfile.ZIP_STORED)
        with archive.open("a.wav", "w", force_zip64=True) as member:
            member.write(WAVS["a.wav"])
    path.write_bytes(b"#!/bin/sh" + path.read_bytes())  # as self-extracting archives begin
    [recording] = recs(listed("folder", tmp_path))
    assert content(recording) == WAVS["a.wav"]


@pytest.mark.parametrize("ending", ["tar.gz", "tar.zst"])
def test_compressed_shards_of_tars(tmp_path: Path, ending: str) -> None:
    made(tmp_path / f"x.{ending}")
    items = recs(listed("tar", tmp_path / f"x.{ending}"))
    assert {content(r) for r in items} == set(WAVS.values())


def test_kaldi_archives_are_read_by_their_offsets(tmp_path: Path) -> None:
    one, two = WAVS["a.wav"], WAVS["b/two.wav"]
    size = len(two).to_bytes(2, "little")
    ark = b"one " + one + b"two " + b"AUDIO\2" + size + two + b"feats \0BFM " + one[:50]
    (tmp_path / "wav.ark").write_bytes(ark)
    at = ark.index(b"AUDIO")
    places = {"one": 4, "two": at, "feats": ark.index(b"\0BFM"), "past": 9_999_999}
    lines = [f"{key} wav.ark:{place}" for key, place in places.items()]
    lines += ["gone no.ark:4", "cut wav.ark:4[0:9]", f"short wav.ark:{len(ark) - 50}"]
    (tmp_path / "wav.scp").write_text("\n".join([*lines, "piped flac -c -d a.flac |"]) + "\n")
    (tmp_path / "text").write_text("one hello\n")
    items = {r.path: r for r in recs(listed("kaldi", tmp_path))}
    assert content(items["one"]) == one
    assert content(items["two"]) == two
    assert (items["one"].text, items["one"].source_path) == ("hello", f"{tmp_path}/wav.ark:4")
    assert {k: r.error[0] for k, r in items.items() if r.error} == {
        "feats": "unsupported", "past": "unsupported", "gone": "missing", "cut": "unsupported",
        "short": "truncated", "piped": "unsupported",
    }  # fmt: skip
    assert items["piped"].error is not None
    assert "`wav-copy scp:wav.scp ark,scp:" in items["piped"].error[1]
