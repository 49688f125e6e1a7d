"""`chat_jsonl`: every line is of its trainer's schema, and asks what the settings say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import corpus, published, talks, tiers
from tests.helpers.published import Row
from uttermill.flows import checks
from uttermill.flows.cli import queries
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.formats import chat_jsonl
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin

#: Lhotse and webdataset leave the files that they read to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

PROFILES = ("ms_swift", "llama_factory", "qwen_audio")
TEXTS = (
    "plain words", 'say "it\'s"\nnew line\u2028end', "四 \U00020bb7\U0001f600",
    "a tag <audio> and <image>", "five",
)  # fmt: skip
Turn = tuple[Path, str, str]  # audio, prompt, answer


def rows() -> list[list[Row]]:
    """Two groups of train and one of dev."""
    made = [published.row(n, text=text) for n, text in enumerate(TEXTS)]
    return [made[:3], made[3:], [published.row(6, split="dev")]]


def tagged(line: dict[str, Any], home: Path) -> Iterator[Turn]:
    """As ms-swift and LLaMA-Factory check it: as many `<audio>` as files, roles in turn."""
    assert [*line] == ["messages", "audios"]
    texts = [message["content"] for message in line["messages"]]
    assert sum(text.count("<audio>") for text in texts) == len(line["audios"])
    assert not any(tag in text for text in texts for tag in ("<image>", "<video>"))
    for number, path in enumerate(line["audios"]):
        asked, told = line["messages"][2 * number : 2 * number + 2]
        assert (asked["role"], told["role"]) == ("user", "assistant")
        assert asked["content"].startswith("<audio>")
        yield home / path, asked["content"].removeprefix("<audio>"), told["content"]


def qwen(line: dict[str, Any], home: Path) -> Iterator[Turn]:
    """As the README of Qwen2-Audio loops over a conversation."""
    assert [*line] == ["messages"]
    for asked, told in zip(line["messages"][::2], line["messages"][1::2], strict=True):
        assert (asked["role"], told["role"]) == ("user", "assistant")
        audio, text = asked["content"]
        assert (audio["type"], text["type"]) == ("audio", "text")
        yield home / audio["audio_url"], text["text"], told["content"]


def read(home: Path, split: str, profile: str) -> list[list[Turn]]:
    reader = qwen if profile == "qwen_audio" else tagged
    lines = (home / "chat_jsonl" / f"{split}.jsonl").read_text("utf-8").splitlines()
    return [[*reader(json.loads(line), home / "chat_jsonl")] for line in lines]


@pytest.mark.parametrize("audio", ["wav", "flac"])
@pytest.mark.parametrize("profile", PROFILES)
def test_every_clip_comes_back(tmp_path: Path, profile: str, audio: str) -> None:
    *train, dev = rows()
    published.publish(tmp_path, "chat_jsonl", [*train, dev], profile=profile, audio=audio)
    for split, wanted in (("train", [*train[0], *train[1]]), ("dev", dev)):
        turns = [turn for [turn] in read(tmp_path, split, profile)]
        assert [path.stem for path, _, _ in turns] == [row["id"] for row in wanted]
        assert [published.sha256(path) for path, _, _ in turns] == [r["sha256"] for r in wanted]
        assert {prompt for _, prompt, _ in turns} == {chat_jsonl.PROMPTS["asr"]}
        texts = [row["text"] for row in wanted]
        if profile != "qwen_audio":
            texts = [t.replace("<audio", "< audio").replace("<image", "< image") for t in texts]
        assert [answer for _, _, answer in turns] == texts


def test_llama_factory_finds_the_files_by_its_description(tmp_path: Path) -> None:
    published.publish(tmp_path, "chat_jsonl", rows(), profile="llama_factory")
    root = tmp_path / "chat_jsonl"
    described = json.loads((root / "dataset_info.json").read_text())
    assert [*described] == ["train", "dev"]
    for entry in described.values():
        assert (root / entry["file_name"]).is_file()
        assert entry["formatting"] == "sharegpt"
        assert entry["columns"] == {"messages": "messages", "audios": "audios"}
        assert entry["tags"]["user_tag"] == "user"


def test_tasks_ask_of_columns_and_leave_out_who_lacks_them(tmp_path: Path) -> None:
    group = [
        published.row(0, text="yes", dnsmos_ovrl=3.0),
        published.row(1, text="", dnsmos_ovrl=2.5),
        published.row(2, text="no", dnsmos_ovrl=None),
    ]
    published.publish(
        tmp_path, "chat_jsonl", [group], tasks=["caption", "asr"],
        prompts={"asr": "Write down this {language}."},
        caption="Quality {dnsmos_ovrl} of {{5}}, in {language}",
    )  # fmt: skip
    turns = [turn for [turn] in read(tmp_path, "train", "ms_swift")]
    assert [(path.stem[:5], prompt, answer) for path, prompt, answer in turns] == [
        ("d-r00", "Describe the audio.", "Quality 3 of {5}, in en"),
        ("d-r00", "Write down this en.", "yes"),
        ("d-r01", "Describe the audio.", "Quality 2.5 of {5}, in en"),
        ("d-r02", "Write down this en.", "no"),
    ]


def test_a_column_that_no_clip_will_have_is_refused_before_the_run(tmp_path: Path) -> None:
    """It was refused at the end, after all stages had run."""
    corpus.make(tmp_path / "in", 1)

    def checked(*filters: str, **chat: Any) -> None:
        chosen = {"filters": [{"use": use} for use in filters]}
        formats = {"formats": [{"use": "chat_jsonl", **chat}]}
        checks.check_wishes(corpus.wishes(tmp_path, filter=chosen, package=formats))

    caption = {"tasks": ["caption"], "caption": "A peak of {peak} dBFS in {language}, {speaker}."}
    with pytest.raises(ConfigError, match="chat_jsonl: no clip has the column 'peak'"):
        checked("duration", **caption)
    with pytest.raises(ConfigError, match="no clip has the column 'turns'"):
        checked("duration", tasks=["asr", "dialogue"])
    with pytest.raises(ConfigError, match="no clip has the column 'speakers'"):
        checked("duration", tasks=["speaker_count"])
    checked("duration", "peak", **caption)
    checked("duration", tasks=["asr"])


def test_the_number_of_speakers_is_asked_where_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(published.MEASURES, "speakers", None)
    group = [published.row(0, speakers=2.0), published.row(1, speakers=None)]
    published.publish(tmp_path / "yes", "chat_jsonl", [group], tasks=["speaker_count"])
    [[turn]] = read(tmp_path / "yes", "train", "ms_swift")
    assert turn[2] == "2"


def test_a_dialogue_is_asked_turn_by_turn(tmp_path: Path) -> None:
    turns = [
        published.turn("call#2", 0.0, 0.05, "good morning"),
        published.turn("call#1", 0.02, 0.03, "", backchannel=True),
        published.turn("call#1", 0.06, 0.1, "hello"),
        published.turn("call#2", 0.1, 0.12, "well"),
    ]
    untold = [published.turn("call#1", 0.0, 0.1, None)]
    made = [published.row(0, turns=turns), published.row(1, turns=untold)]
    published.publish(tmp_path, "chat_jsonl", [made], tasks=["dialogue"])
    [[(path, asked, told)]] = read(tmp_path, "train", "ms_swift")
    assert path.stem == made[0]["id"], "a clip whose turns have no words is not asked about"
    assert asked == chat_jsonl.PROMPTS["dialogue"]
    assert told == "S1: good morning\nS2: hello\nS1: well"


@pytest.mark.parametrize("profile", PROFILES)
def test_clips_of_one_recording_are_turns(tmp_path: Path, profile: str) -> None:
    """In order of time, up to the number asked for, and not across a pause or another recording."""

    def at(number: int, start: float, recording: str = "a", text: str = "") -> Row:
        times = {"start": start, "end": start + 1.0, "recording": f"d/{recording}.wav"}
        return published.row(number, **times, text=text or f"{recording} at {start:g}")

    groups = [
        [at(0, 1.5), at(1, 0.0), at(2, 8.0)],
        [at(3, 2.6, "b"), at(4, 3.0), at(5, 4.5), at(7, 6.0, text=" ").copy()],
    ]
    groups[1][3]["text"] = None
    published.publish(tmp_path, "chat_jsonl", groups, profile=profile, turns=3, max_gap=1.0)
    told = [[answer for _, _, answer in turns] for turns in read(tmp_path, "train", profile)]
    assert told == [["a at 0", "a at 1.5", "a at 3"], ["a at 4.5"], ["a at 8"], ["b at 2.6"]]
    sums = {row["text"]: row["sha256"] for group in groups for row in group}
    for turns in read(tmp_path, "train", profile):
        assert all(published.sha256(path) == sums[answer] for path, _, answer in turns)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tasks": ["caption"]}, "the task caption needs the setting caption"),
        ({"tasks": ["asr", "asr"]}, "lists a task twice"),
        ({"prompts": {"asr": "{text.__class__}"}}, "put only the name of a column into braces"),
        ({"prompts": {"asr": "{0}"}}, "put only the name of a column into braces"),
        ({"caption": "open {"}, "Single .{. encountered"),
        ({"prompts": {"dance": "x"}}, "prompts"),
    ],
)
def test_bad_settings_are_refused_early(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plugins.resolve("formats", Plugin.model_validate({"use": "chat_jsonl", **settings}))


@pytest.mark.full
@pytest.mark.parametrize("profile", tiers.few(PROFILES, next(iter(PROFILES))))
def test_a_list_has_full_paths(tmp_path: Path, profile: str) -> None:
    corpus.make(tmp_path / "in", 6)
    formats = [{"use": "chat_jsonl", "profile": profile}]
    package = {"formats": formats, "splits": {"dev": 0.3}, "tar_hours": 2.0 / 3600}
    version = corpus.run(corpus.job(tmp_path, package=package))[0].path
    reader = qwen if profile == "qwen_audio" else tagged
    lines = queries.data_list(version, None, use="chat_jsonl", split="*")["paths"]
    paths = [path for line in lines for path, _, _ in reader(json.loads(line), Path("/no"))]
    assert len(paths) == 6
    assert all(path.is_relative_to(version) and path.is_file() for path in paths)
    [line, *_] = queries.data_list(version, "s3://b", use="chat_jsonl", split="dev")["paths"]
    assert '"s3://b/chat_jsonl/dev/wav/' in line


# Windows of conversations, published by a whole run, through the libraries that read them.

COUNT = 2


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("talks")
    for number in range(COUNT):
        talks.add(home, number)
    published, _ = corpus.run(talks.job(home))
    return published.path


def windows(version: Path) -> dict[str, dict[str, Any]]:
    table = corpus.utterances(version)
    return {row["id"]: row for row in table}


@pytest.mark.full
def test_a_window_has_everything(version: Path) -> None:
    assert len(windows(version)) == COUNT
    for row in windows(version).values():
        number = int(Path(row["recording"]).stem[-1])
        assert [turn["text"] for turn in row["turns"]] == [
            talks.text_of(number, turn) for turn in range(len(talks.TURNS))
        ]
        assert [turn["speaker"][0] for turn in row["turns"]] == [who for *_, who in talks.TURNS]
        words = [word["word"].strip() for word in row["reference_words"]]
        assert words == row["text"].split()
        assert row["tagging_length"] == "long"
        assert len(row["tagging_voice"]) == 3
        assert len(row["moods_words"]) == len(words)
    assert verify(version) == []


@pytest.mark.full
def test_webdataset_reads_turns(version: Path) -> None:
    import webdataset

    tars = sorted(map(str, (version / "webdataset" / "train").glob("*.tar")))
    samples = [*webdataset.WebDataset(tars, shardshuffle=False)]
    wanted = windows(version)
    assert {sample["__key__"] for sample in samples} == {*wanted}
    for sample in samples:
        told, row = json.loads(sample["json"]), wanted[sample["__key__"]]
        assert [(turn["speaker"], turn["text"]) for turn in told["turns"]] == [
            (turn["speaker"], turn["text"]) for turn in row["turns"]
        ]
        assert np.allclose(told["tagging_voice"], row["tagging_voice"])


def test_datasets_reads_the_chats(version: Path, tmp_path: Path) -> None:
    """As the trainers that it is for: Hugging Face's reader of JSON lines."""
    import soundfile as sf
    from datasets import load_dataset

    home = version / "chat_jsonl"
    files = str(home / "train.jsonl")
    lines = load_dataset("json", data_files=files, split="train", cache_dir=str(tmp_path))
    wanted = windows(version)
    assert len(lines) == len(wanted)
    for line in lines:
        [audio] = line["audios"]
        row = wanted[Path(audio).stem]
        assert sf.info(home / audio).frames == row["num_samples"]
        (asked, told) = line["messages"]
        assert (asked["role"], told["role"]) == ("user", "assistant")
        number = int(Path(row["recording"]).stem[-1])
        names = {"a": "S1", "b": "S2"}
        assert told["content"].split("\n") == [
            f"{names[who]}: {talks.text_of(number, turn)}"
            for turn, (*_, who) in enumerate(talks.TURNS)
            if not row["turns"][turn]["backchannel"]
        ]
