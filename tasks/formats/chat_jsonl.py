"""Audio with questions and answers, one JSON object per line, for speech language models.

chat_jsonl/<split>.jsonl                     lines, whose paths are relative to this folder
chat_jsonl/<split>/wav/000000000/<id>.wav    16-bit mono (or .flac); a folder per shard
chat_jsonl/dataset_info.json                 llama_factory: what its `dataset_dir` has to hold

A line of `ms_swift` and `llama_factory`:
    {"messages": [{"role": "user", "content": "<audio>prompt"},
                  {"role": "assistant", "content": answer}, …], "audios": [path, …]}
of `qwen_audio` (Qwen2-Audio and later):
    {"messages": [{"role": "user", "content": [{"type": "audio", "audio_url": path},
                                               {"type": "text", "text": prompt}]},
                  {"role": "assistant", "content": answer}, …]}

A clip gives a line for each task; with `turns`, clips of one recording that follow one another are
the turns of one line. Prompts and answers may name columns of `utterances.parquet`, as {language};
a clip that has no value there gives no line for the task. The answer of the task `translation` is
{second_text}, which a source keeps by its setting of that name. The answer of the task `dialogue`,
and {turns}, are the turns of a clip, a line each: `S1: words`, by who speaks first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from string import Formatter
from typing import Literal, NamedTuple

import pyarrow as pa
from pydantic import model_validator

from ..base.json_types import JsonObject
from ..base.masking import json_line
from ..base.schema import UTTERANCES_FILE, AnyRow, ClipRow, ClipTurnRow
from ..settings import Threshold
from ..storage import tables, write_atomic
from . import OutputShard, _clips, _lists

VERSION = 1
COLUMNS = _clips.FILE_COLUMNS
LISTS = (".jsonl",)
ORDER = ("recording", "start", "end", "id")
BATCH = 4096  # rows
PROMPTS = {
    "asr": "Transcribe the audio into text.",
    "caption": "Describe the audio.",
    "dialogue": "Transcribe the conversation. Begin each turn with its speaker.",
    "translation": "Translate the speech into the language {second_language}.",
    "speaker_count": "How many people speak in the audio? Answer with a number.",
}
ANSWERS = {
    **{"asr": "{text}", "dialogue": "{turns}", "translation": "{second_text}"},
    "speaker_count": "{speakers}",
}
_COLUMN = re.compile(r"[a-z][a-z0-9_]*")
#: What both trainers read as the place of audio, an image or a film, anywhere in a text.
_PLACE = re.compile(r"<(?=(?:audio|image|video)>)")

Task = Literal["asr", "caption", "dialogue", "translation", "speaker_count"]
Run = list[tuple[str, ClipRow]]  # clips that follow one another, with their paths
#: How each profile's trainer reads the files.
TRAINERS = {
    "ms_swift": "ms-swift: swift sft --dataset THAT_LIST",
    "llama_factory": "LLaMA-Factory: dataset_dir chat_jsonl, media_dir chat_jsonl, dataset {split}",
    "qwen_audio": "Qwen2-Audio: processor.apply_chat_template(line['messages']) for each line",
}
DATASET_INFO = {
    "formatting": "sharegpt",
    "columns": {"messages": "messages", "audios": "audios"},
    "tags": {
        **{"role_tag": "role", "content_tag": "content"},
        **{"user_tag": "user", "assistant_tag": "assistant"},
    },
}


class Settings(_clips.AudioSettings):
    profile: Literal["ms_swift", "llama_factory", "qwen_audio"] = Threshold(
        "ms_swift",
        "Schema of the lines: ms-swift's, LLaMA-Factory's, or the messages of Qwen2-Audio.",
    )
    tasks: tuple[Task, ...] = Threshold(
        ("asr",),
        "Tasks that each clip is a turn of: asr, caption, dialogue, translation, speaker_count.",
        min_length=1,
    )
    prompts: dict[Task, str] = Threshold(
        {}, "Another prompt for a task; it may name columns, as {language}."
    )
    caption: str = Threshold(
        "", "The answer of the task caption, with columns: 'A voice in {language}.'"
    )
    turns: int = Threshold(1, "Most clips of one recording that are turns of one line.", ge=1)
    max_gap: float = Threshold(
        2.0, "A longer pause between two clips begins another line, in seconds.", ge=0
    )

    @model_validator(mode="after")
    def _check(self) -> Settings:
        if len({*self.tasks}) != len(self.tasks):
            raise ValueError("tasks lists a task twice: list each once")
        if "caption" in self.tasks and not self.caption:
            raise ValueError("the task caption needs the setting caption, the text of the answer")
        for template in (*self.prompts.values(), self.caption):
            _columns_of(template)
        return self


def _columns_of(template: str) -> list[str]:
    """Names of the columns in a prompt or an answer; ValueError if it is not one."""
    parsed = [*Formatter().parse(template)]
    fields = [(name, more, kind) for _, name, more, kind in parsed if name is not None]
    if any(not _COLUMN.fullmatch(name) or more or kind for name, more, kind in fields):
        raise ValueError(
            f"{template!r}: put only the name of a column into braces; write {{{{ for a brace"
        )
    return [name for name, _, _ in fields]


class Question(NamedTuple):
    prompt: str
    answer: str

    @property
    def columns(self) -> list[str]:
        return [*_columns_of(self.prompt), *_columns_of(self.answer)]

    def prompt_and_answer(self, row: AnyRow) -> tuple[str, str] | None:
        """Prompt and answer for a clip; None if it lacks a column that they name."""
        values = {name: _shown(row[name]) for name in self.columns}
        if not all(values.values()):
            return None
        return self.prompt.format_map(values), self.answer.format_map(values)


def _shown(value: object) -> str:
    """A column's value; turns that have words, a line each; who speaks first is S1."""
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, list):
        return "" if value is None else str(value)
    numbers: dict[int, int] = {}
    turns: list[ClipTurnRow] = [turn for turn in value if turn["text"]]
    lines = (
        f"S{numbers.setdefault(turn['number'], len(numbers) + 1)}: {turn['text']}" for turn in turns
    )
    return "\n".join(lines)


def _questions(settings: Settings) -> list[Question]:
    answers = {"caption": settings.caption, **ANSWERS}
    prompts = PROMPTS | settings.prompts
    return [Question(prompts[task], answers[task]) for task in settings.tasks]


def snippet(settings: Settings) -> tuple[str, str]:
    return _lists.snippet("jsonl", TRAINERS[settings.profile])


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return _clips.files(f"chat_jsonl/{split}/wav", number, rows, settings.audio)


def needs(settings: Settings) -> list[str]:
    return [*dict.fromkeys(name for one in _questions(settings) for name in one.columns)]


check_weights = _clips.check_weights
write, check = _clips.write, _clips.check


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    questions, asked, root = _questions(settings), needs(settings), home / "chat_jsonl"
    if settings.turns > 1:
        runs_of_splits = _in_time(shards, home, asked)
    else:
        alone = _lists.clips(shards, home, [*dict.fromkeys(("id", *asked))])
        runs_of_splits = ((split, ([clip] for clip in clips)) for split, clips in alone)
    described: JsonObject = {}  # how LLaMA-Factory reads the file of each split
    for split, runs in runs_of_splits:
        described[split] = {"file_name": f"{split}.jsonl", **DATASET_INFO}
        with (root / f"{split}.jsonl").open("w", encoding="utf-8", newline="\n") as file:
            for run in runs:
                file.writelines(_lines(run, questions, settings))
    if settings.profile == "llama_factory":
        entries = json.dumps(described, indent=1)
        write_atomic(root / "dataset_info.json", f"{entries}\n".encode())


def _in_time(
    shards: Sequence[OutputShard], home: Path, asked: list[str]
) -> Iterator[tuple[str, Iterator[Run]]]:
    """Each split, with the clips of each recording in order of time. Holds the `asked` columns of
    all clips in memory."""
    table = tables.read(home / UTTERANCES_FILE, columns=[*dict.fromkeys((*ORDER, *asked))])
    paths = pa.array([path for shard in shards for path in shard.files], pa.large_string())
    table = table.append_column("path", paths)
    start = 0
    for split, members in groupby(shards, lambda shard: shard.split):
        count = sum(shard.clips for shard in members)
        part, start = table.slice(start, count), start + count
        in_order = tables.take(part, tables.order_by(part, ORDER))
        batches = in_order.to_batches(max_chunksize=BATCH)
        rows = (row for batch in batches for row in batch.to_pylist())
        recordings = groupby(rows, lambda row: row["recording"])
        yield split, ([(row["path"], row) for row in clips] for _, clips in recordings)


def _lines(run: Run, questions: list[Question], settings: Settings) -> Iterator[str]:
    for question in questions:
        turns: list[tuple[str, str, str]] = []
        end = 0.0
        for path, row in run:
            asked = question.prompt_and_answer(row)
            pause = settings.turns > 1 and row["start"] - end > settings.max_gap
            if turns and (pause or asked is None or len(turns) == settings.turns):
                yield _line(turns, settings.profile)
                turns = []
            if asked is not None:
                turns.append((path.removeprefix("chat_jsonl/"), *asked))
            end = row["end"] if settings.turns > 1 else 0.0
        if turns:
            yield _line(turns, settings.profile)


def _line(turns: list[tuple[str, str, str]], profile: str) -> str:
    messages: list[JsonObject] = []
    for path, prompt, answer in turns:
        if profile == "qwen_audio":
            audio = {"type": "audio", "audio_url": path}
            content: object = [audio, {"type": "text", "text": prompt}]
        else:
            content, answer = "<audio>" + _PLACE.sub("< ", prompt), _PLACE.sub("< ", answer)
        messages += [{"role": "user", "content": content}, {"role": "assistant", "content": answer}]
    audios = {} if profile == "qwen_audio" else {"audios": [path for path, _, _ in turns]}
    return json_line({"messages": messages, **audios}) + "\n"


def listing(home: Path, split: str, head: str) -> list[str]:
    lines: list[JsonObject] = [
        json.loads(line) for line in _lists.lines(home, f"chat_jsonl/{split}.jsonl")
    ]
    for line in lines:
        if "audios" in line:
            line["audios"] = [_lists.under(head, f"chat_jsonl/{path}") for path in line["audios"]]
        else:
            for message in line["messages"][::2]:
                audio = message["content"][0]
                audio["audio_url"] = _lists.under(head, f"chat_jsonl/{audio['audio_url']}")
    return [json_line(line) for line in lines]
