"""Lists that trainers read: conversations about one audio, SpeechBrain's, and tables of Excel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile as sf

from tests.helpers import corpus
from uttermill.flows import settings
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.recording import Recording
from uttermill.tasks.settings import Source

TEXTS = ["the first text", "a second one", "and a third"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lists")
    (home / "wav").mkdir()
    for number in range(len(TEXTS)):
        sf.write(home / f"wav/{number}.wav", corpus.speech(number + 1, 0.5, 16000), 16000)
    return home


def entries(path: Path) -> list[tuple[str, str | None, str | None]]:
    """(path, text, speaker) of each recording of a list, as `--source` reads it; of a line that
    cannot be used, what is wrong with it in place of the text."""
    job = settings.read(None, [str(path)], str(path.parent / "out"), ()).job()
    [dataset] = plugins.datasets(job.sources)
    listed = [*dataset.source.recordings(dataset.settings)]
    return [
        (r.path, r.error[1] if r.error else r.text, r.speaker)
        for r in listed
        if isinstance(r, Recording)
    ]


def written(folder: Path, name: str, lines: list[object], whole: bool) -> Path:
    path = folder / name
    path.write_text(json.dumps(lines) if whole else "\n".join(map(json.dumps, lines)))
    return path


def swift(number: int, *more: str) -> dict[str, object]:
    said = {"role": "assistant", "content": TEXTS[number]}
    return {
        "messages": [{"role": "user", "content": "<audio>Write it down."}, said],
        "audios": [f"wav/{number}.wav", *more],
    }


def share_gpt(number: int) -> dict[str, object]:
    said = {"from": "gpt", "value": TEXTS[number]}
    return {
        "conversations": [{"from": "human", "value": "<audio>Write it down."}, said],
        "audios": [f"wav/{number}.wav"],
    }


def qwen(number: int) -> dict[str, object]:
    asked = [{"type": "audio", "audio_url": f"wav/{number}.wav"}, {"type": "text", "text": "?"}]
    said = {"role": "assistant", "content": TEXTS[number]}
    return {"messages": [{"role": "user", "content": asked}, said]}


@pytest.mark.parametrize("entry", [swift, share_gpt, qwen])
@pytest.mark.parametrize("whole", [True, False])
def test_a_conversation_about_one_audio_is_its_text(
    folder: Path, entry: Callable[[int], dict[str, object]], whole: bool
) -> None:
    lines: list[object] = [entry(number) for number in range(len(TEXTS))]
    ending = "json" if whole else "jsonl"
    path = written(folder, f"list.{ending}", lines, whole)
    assert entries(path) == [(f"wav/{n}.wav", text, None) for n, text in enumerate(TEXTS)]


@pytest.mark.parametrize("kind", ["jsonl", "table"])
def test_what_follows_a_list_is_not_lost_in_silence(folder: Path, kind: str) -> None:
    lines = [json.dumps([{"audio": f"wav/{n}.wav", "text": TEXTS[n]}]) for n in range(2)]
    path = folder / "lists.json"
    path.write_text("\n".join(lines))
    module, chosen = plugins.resolve_source(Source(kind=kind, path=str(path)))
    listed = [r for r in module.recordings(chosen) if isinstance(r, Recording)]
    assert [r.path for r in listed] == ["wav/0.wav", "lists.json:2"]
    assert "what follows" in (listed[1].error or ("", ""))[1]


def test_which_of_two_audios_a_text_belongs_to_is_not_guessed(folder: Path) -> None:
    lines: list[object] = [swift(0), swift(1, "wav/2.wav")]
    rows = entries(written(folder, "two.jsonl", lines, whole=False))
    assert ("wav/0.wav", TEXTS[0], None) in rows
    [(_, wrong, _)] = [row for row in rows if row[0] != "wav/0.wav"]
    assert "2 audios and 1 answers" in (wrong or "")


def test_speechbrains_json_and_csv(folder: Path) -> None:
    home = folder / "speechbrain"
    home.mkdir()
    utterances = {
        f"utt{n}": {
            "wav": f"{{data_root}}/wav/{n}.wav",
            "length": 1.0,
            "words": text,
            "spk_id": "s",
        }
        for n, text in enumerate(TEXTS)
    }
    (home / "train.json").write_text(json.dumps(utterances, indent=1))
    expected = [(text, "s") for text in TEXTS]
    assert [row[1:] for row in entries(home / "train.json")] == expected  # audio a folder above
    rows = [f"u{n},1.0,$data_root/wav/{n}.wav,s,{text}" for n, text in enumerate(TEXTS)]
    (folder / "train.csv").write_text("\n".join(["ID,duration,wav,spk_id,wrd", *rows]))
    assert [row[1:] for row in entries(folder / "train.csv")] == expected


def test_times_in_samples_are_refused(folder: Path) -> None:
    part = {"file": "wav/0.wav", "start": 0, "stop": 8000}
    (folder / "parts.json").write_text(json.dumps({"a": {"wav": part, "words": "one"}}))
    with pytest.raises(ConfigError, match=r"no entry can be read: .*count samples"):
        entries(folder / "parts.json")


@pytest.mark.parametrize("mark", ["sep=;", '"sep=;"', "SEP=;"])
def test_excel_names_the_separator_in_the_first_line(folder: Path, mark: str) -> None:
    rows = [f"wav/{n}.wav;{text};s" for n, text in enumerate(TEXTS)]
    (folder / "excel.csv").write_text("\r\n".join([mark, "file;text;speaker", *rows]))
    expected = [(f"wav/{n}.wav", text, "s") for n, text in enumerate(TEXTS)]
    assert entries(folder / "excel.csv") == expected


def test_an_answer_in_parts_and_ms_swifts_response(folder: Path) -> None:
    parted = qwen(0)
    parted["messages"][1]["content"] = [{"type": "text", "text": TEXTS[0]}]  # type: ignore[index]
    answered = {"query": "<audio>?", "response": TEXTS[1], "audios": ["wav/1.wav"]}
    for number, entry in enumerate((parted, answered)):
        path = written(folder, f"{number}.jsonl", [entry], whole=False)
        assert entries(path) == [(f"wav/{number}.wav", TEXTS[number], None)]


def test_a_folder_names_lists_of_trainers(folder: Path) -> None:
    utterances = {f"utt{n}": {"wav": f"wav/{n}.wav", "words": text} for n, text in enumerate(TEXTS)}
    (folder / "train.json").write_text(json.dumps(utterances))
    module, settings = plugins.resolve_source(Source(kind="folder", path=str(folder)))
    note = next(note for note in module.notes(settings) if note.startswith("train.json"))
    assert "train.json names recordings and is not read; `--source" in note
