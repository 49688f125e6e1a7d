"""Entries of lists that trainers read, as columns: a conversation about one audio (ms-swift,
LLaMA-Factory, ShareGPT), and an utterance of SpeechBrain."""

from __future__ import annotations

from collections.abc import Mapping

_ANSWERING = ("assistant", "gpt", "model")
_PARTS = ("audio_url", "audio", "path", "url")
#: What SpeechBrain's recipes replace by the folder of the data.
_DATA_ROOTS = ("{data_root}/", "$data_root/")
_WORDS = ("words", "wrd", "transcript")


def without_data_root(path: str) -> str:
    """A path of SpeechBrain's from the root of its list."""
    return path.partition("/")[2] if path.startswith(_DATA_ROOTS) else path


def conversation(entry: dict[str, object]) -> dict[str, object]:
    """An entry with one audio and one answer as `audio` and `text`; any other entry as it is.

    ValueError if it has several audios or answers: which belong together is not written there.
    """
    turns = entry.get("messages", entry.get("conversations"))
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        return entry
    audios = _listed(entry.get("audios", entry.get("audio")))
    answers: list[str] = []
    for turn in turns:
        content = turn.get("content", turn.get("value"))
        audios += _heard(content)
        if turn.get("role", turn.get("from")) in _ANSWERING and isinstance(content, str):
            answers.append(content)
    if not audios:
        return entry
    if len(audios) != 1 or len(answers) != 1:
        raise ValueError(
            f"a conversation with {len(audios)} audios and {len(answers)} answers: it does not say "
            "which text is said where; one of each is read"
        )
    others = {name: value for name, value in entry.items() if name not in _TAKEN}
    return {**others, "audio": audios[0], "text": answers[0]}


_TAKEN = ("messages", "conversations", "audios", "audio")


def _listed(value: object) -> list[object]:
    return [*value] if isinstance(value, list) else [value] if value else []


def _heard(content: object) -> list[object]:
    """The audio of a turn whose content is a list of parts."""
    parts = content if isinstance(content, list) else []
    return [
        next((part[name] for name in _PARTS if part.get(name)), None)
        for part in parts
        if isinstance(part, dict) and part.get("type") in ("audio", "audio_url", "input_audio")
    ]


def utterance(key: str, value: Mapping[str, object]) -> dict[str, object]:
    """An entry of SpeechBrain's JSON as a row. ValueError if its times count samples."""
    wav = value.get("wav")
    if isinstance(wav, dict) and ("start" in wav or "stop" in wav):
        raise ValueError("its start and stop count samples; write a list with times in seconds")
    audio = wav.get("file") if isinstance(wav, dict) else wav
    text = next((value[name] for name in _WORDS if isinstance(value.get(name), str)), None)
    row = {"id": key, **value, "wav": without_data_root(audio) if isinstance(audio, str) else audio}
    row.pop("length", None)  # of the file
    row.pop("duration", None)
    return row if text is None or "text" in value else {**row, "text": text}
