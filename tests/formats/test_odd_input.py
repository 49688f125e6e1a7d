"""What corpora bring, in every format and profile: hostile texts and names, masses, gaps."""

import json
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.formats import test_format_csv
from tests.helpers import corpus, published, tiers
from tests.helpers.format_entries import entries
from tests.helpers.published import Row
from uttermill.flows import checks
from uttermill.flows.cli import queries
from uttermill.tasks import audio, plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.formats import PLACE
from uttermill.tasks.formats.metadata_csv import PROFILES
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin

TEXTS = (
    'a|b, "quoted" ; \\ it\'s', "tab\tand\nline\r\nbreak\u2028end", "四 \U00020bb7\U0001f600",
    "{data_root} <audio> %s $HOME", "\"", "id1\tb|c\n", " edges ", "None", "5",
)  # fmt: skip
SPEAKERS = (
    'b|o\nb, "jr"', "b\to\\b", "\U00020bb7", "a/../b", "{x}", "-", "Ада 1", "None", "7"
)  # fmt: skip
CHAT = ("ms_swift", "llama_factory", "qwen_audio")
CHOICES: list[dict[str, Any]] = [
    *({"use": use} for use in shelves.names("formats")),
    {"use": "lhotse_shar", "index": True},
    {"use": "webdataset", "energon": True},
    *({"use": "metadata_csv", "profile": name} for name in PROFILES if name != "ljspeech"),
    *({"use": "chat_jsonl", "profile": name} for name in CHAT[1:]),
]
Told = Iterator[tuple[str, str, object]]  # id, text, speaker or None where the format has none


def groups() -> list[list[Row]]:
    """Two groups of train and one of dev."""
    made = [
        published.row(n, text=text, speaker=speaker, recording=f"d/r{n}.wav")
        for n, (text, speaker) in enumerate(zip(TEXTS, SPEAKERS, strict=True))
    ]
    return [made[:4], made[4:], [published.row(20, split="dev", text=TEXTS[0], speaker="zoe")]]


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text("utf-8").split("\n") if line]


def wenet(home: Path, chosen: dict[str, Any]) -> Told:
    for path in home.glob("wenet/train/*.tar"):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".txt") and (file := tar.extractfile(member)):
                    yield member.name.removesuffix(".txt"), file.read().decode(), None


def listed(home: Path, chosen: dict[str, Any]) -> Told:
    """Of a format that names a clip's text and speaker."""
    names = {"wenet_raw": ("txt", ""), "speechbrain": ("words", "spk_id")}
    text, speaker = names.get(chosen["use"], ("text", "speaker"))
    for name, entry in entries(home, chosen["use"]).items():
        yield name, entry[text], entry[speaker] if speaker else None


def kaldi(home: Path, chosen: dict[str, Any]) -> Told:
    folder = home / "kaldi/train"
    text, speaker, name = (
        dict(line.split(" ", 1) for line in lines(folder / list_))
        for list_ in ("text", "utt2spk", "utt2id")
    )
    assert [*text] == sorted(text, key=str.encode) == [*speaker]
    for key in text:
        yield name[key], text[key], speaker[key]


def metadata_csv(home: Path, chosen: dict[str, Any]) -> Told:
    for clip in test_format_csv.READERS[chosen.get("profile", "ljspeech")](home, "train"):
        yield clip.path.stem, clip.text, clip.speaker


def chat_jsonl(home: Path, chosen: dict[str, Any]) -> Told:
    for line in map(json.loads, lines(home / "chat_jsonl/train.jsonl")):
        asked, told = line["messages"]
        [path] = line.get("audios") or [asked["content"][0]["audio_url"]]
        yield Path(path).stem, told["content"], None


def textgrid(home: Path, chosen: dict[str, Any]) -> Told:
    for path in sorted((home / "textgrid/train").rglob("*.TextGrid")):
        whole = path.read_bytes().decode()
        [quoted] = re.findall(r'name = "text".*?text = "((?:[^"]|"")*)"', whole, re.S)
        yield path.stem, quoted.replace('""', '"'), None


def duplex(home: Path, chosen: dict[str, Any]) -> Told:
    for line in map(json.loads, lines(home / "duplex/train.jsonl")):
        [(text, _, _)] = json.loads((home / f"duplex/{line['path'][:-4]}.json").read_bytes())[
            "alignments"
        ]
        yield Path(line["path"]).stem, text, None


READERS: dict[str, Callable[[Path, dict[str, Any]], Told]] = {
    "wenet": wenet, "kaldi": kaldi, "metadata_csv": metadata_csv, "chat_jsonl": chat_jsonl,
    "textgrid": textgrid, "duplex": duplex,
}  # fmt: skip


def as_told(text: str, chosen: dict[str, Any]) -> str:
    """A text as the format has to give it back: its words and signs, if not its blanks."""
    if chosen["use"] == "metadata_csv":
        profile = chosen.get("profile", "ljspeech")
        kept = text if profile in test_format_csv.QUOTED else text.replace("|", " ")
        return " ".join(kept.split())
    if chosen["use"] == "kaldi":
        return " ".join(text.split())
    if chosen["use"] == "chat_jsonl" and chosen.get("profile") != "qwen_audio":
        return text.replace("<audio>", "< audio>")
    return text


def label(chosen: dict[str, Any]) -> str:
    return "-".join(map(str, chosen.values()))


#: `ctm` holds words alone, which `test_timed_words.py` reads back.
@pytest.mark.parametrize("chosen", [one for one in CHOICES if one["use"] != "ctm"], ids=label)
def test_hostile_texts_and_names_come_back(tmp_path: Path, chosen: dict[str, Any]) -> None:
    """No clip runs into another, no text is cut, and no two people become one."""
    made = groups()
    published.publish(tmp_path, made_for(chosen), made, **settings(chosen))
    wanted = {row["id"]: row for group in made[:2] for row in group}
    read = READERS.get(chosen["use"], listed)
    told = {name: (text, who) for name, text, who in read(tmp_path, chosen)}
    assert told.keys() == wanted.keys()
    lossy = chosen["use"] in ("metadata_csv", "kaldi")
    for name, (text, _) in told.items():
        assert (" ".join(text.split()) if lossy else text) == as_told(wanted[name]["text"], chosen)
    people = [who for _, who in told.values()]
    assert people == [None] * len(people) or len({*people}) == len(SPEAKERS)


def made_for(chosen: dict[str, Any]) -> str:
    return str(chosen["use"])


def settings(chosen: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chosen.items() if name != "use"}


@pytest.mark.full
@pytest.mark.parametrize("chosen", tiers.few(CHOICES, CHOICES[0]), ids=label)
def test_a_version_may_lack_any_split(tmp_path: Path, chosen: dict[str, Any]) -> None:
    """One recording is on one side alone, and so may all be on the side that is not `train`."""
    published.publish(tmp_path / "dev", made_for(chosen), groups()[2:], **settings(chosen))
    corpus.make(tmp_path / "in", 1)
    package = {"formats": [chosen], "splits": {"dev": 0.1, "test": 0.1}}
    version = corpus.run(corpus.job(tmp_path, package=package))[0].path
    assert verify(version) == []
    [split] = set(pq.read_table(version / "utterances.parquet")["split"].to_pylist())
    others = [name for name in ("train", "dev", "test") if name != split]
    names = corpus.content(version)
    assert not [n for n in names if any(f"/{other}" in n for other in others)]
    if plugins.FORMATS.load(chosen["use"]).listing:
        for other in others:
            with pytest.raises(ConfigError, match=f"has no split '{other}'"):
                queries.data_list(version, None, use=chosen["use"], split=other)


@pytest.fixture(scope="module")
def many_rows() -> pa.Table:
    """70,000 clips of a tenth as many recordings."""
    count = 70_000
    fields = {name: pa.array([value] * count) for name, value in published.row(0).items()}
    fields["id"] = pa.array([f"d-{n:06d}" for n in range(count)])
    fields["recording"] = pa.array([f"d/{n // 10}.wav" for n in range(count)])
    fields[PLACE] = pa.array([n % 10 for n in range(count)])
    fields["num_samples"] = pa.array([1600] * count)
    return pa.table(fields)


@pytest.mark.parametrize("chosen", CHOICES, ids=label)
@pytest.mark.parametrize("number", [70, tiers.nightly(0)])
def test_no_folder_gets_a_hundred_thousand_files(
    chosen: dict[str, Any], number: int, many_rows: pa.Table
) -> None:
    module, own = plugins.FORMATS.resolve(Plugin.model_validate(chosen))
    columns = {*module.COLUMNS, "id", "recording", PLACE, "num_samples"}
    chosen_rows = many_rows.select([n for n in many_rows.column_names if n in columns])
    files = module.files("train", number, chosen_rows, own)
    assert len({*files}) == len(files)
    assert max(Counter(path.rpartition("/")[0] for path in files).values()) <= 65_000


@pytest.mark.parametrize(
    ("chosen", "codec"),
    [
        (choice, codec)
        for choice in ({"use": use} for use in shelves.names("formats"))
        for codec in ("flac", "opus", "mp3")
        if codec in repr(plugins.FORMATS.load(choice["use"]).Settings.model_fields.get("audio"))
    ],
    ids=str,
)
def test_a_codec_that_is_missing_is_said_before_the_run(
    tmp_path: Path, chosen: dict[str, Any], codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A libsndfile without MPEG, an FFmpeg without Opus."""
    asked = {**chosen, "audio": codec}
    if chosen["use"] == "metadata_csv":
        asked["profile"] = "hf_audiofolder"
    corpus.make(tmp_path / "in", 1)
    more = {
        "speakers": {"use": "channels"},
        "filter": {"segmenter": {"use": "dialogue"}, "filters": []},
    }
    wishes = corpus.wishes(
        tmp_path, package={"formats": [asked]}, **(more if chosen["use"] == "duplex" else {})
    )
    checks.check_wishes(wishes)
    monkeypatch.setattr(audio, "encodes", lambda suffix: suffix != codec)
    with pytest.raises(ConfigError, match=f"no encoder for {codec}"):
        checks.check_wishes(wishes)
