"""SpeechBrain's JSON manifests, one for each split, and one WAV file a clip.

speechbrain/<split>.json                      `DynamicItemDataset.from_json`, an entry a line
speechbrain/<split>/wav/000000000/<id>.wav    16-bit mono; a folder per shard

An entry, under the clip's id: `wav` (`{data_root}` is the version's folder), `words`, `length` and
`duration` (both s: SpeechBrain's templates sort by the one, its recipes by the other), `spk_id`,
and `language` where it is known, and what `package.publish` names. SpeechBrain formats every text
of an entry, so braces in them are doubled. A clip without a named speaker has the speaker
`unknown`.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from .. import storage
from ..base.json_types import JsonObject
from ..base.schema import UTTERANCES_FILE, AnyRow, ClipRow
from ..settings import StageSettings
from ..storage import tables
from . import OutputShard, _clips, _lists

VERSION = 1
LISTS = (".json",)
COLUMNS = _clips.FILE_COLUMNS
LISTED = ("id", "text", "language", "speaker", "num_samples", "sample_rate", "audio_is")
LISTS_ANNOTATIONS = True
ROOT = "{data_root}"
UNKNOWN = "unknown"
SNIPPET = (
    "python",
    """\
import os

import soundfile
from speechbrain.dataio.dataset import DynamicItemDataset

clips = DynamicItemDataset.from_json(
    "speechbrain/{split}.json", replacements={{"data_root": os.getcwd()}}
)
clips.set_output_keys(["id", "wav", "words"])
for clip in clips:
    samples, rate = soundfile.read(clip["wav"])
    print(clip["id"], len(samples) / rate, clip["words"])
""",
)
Settings = StageSettings  # none


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return _clips.files(f"speechbrain/{split}/wav", number, rows)


write, check = _clips.write, _clips.check


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    columns, more = tables.schema(home / UTTERANCES_FILE).names, _lists.published(home)
    listed = [*(name for name in LISTED if name in columns), *more]
    for split, clips in _lists.clips(shards, home, listed):
        path = home / "speechbrain" / f"{split}.json"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            before = "{\n"
            for wav, row in clips:
                entry = json.dumps(_entry(wav, row, more), ensure_ascii=False)
                file.write(f"{before}{json.dumps(row['id'])}: {entry}")
                before = ",\n"
            file.write("\n}\n")


def _entry(path: str, row: ClipRow, more: Sequence[str]) -> JsonObject:
    columns: AnyRow = row
    seconds = _clips.duration(row["num_samples"], row["sample_rate"])
    entry: JsonObject = {
        "wav": f"{ROOT}/{path}",
        "duration": seconds,
        "length": seconds,
        "words": escaped(row["text"]),
        "spk_id": escaped(row["speaker"] or UNKNOWN),
    }
    entry |= _clips.audio_is(columns) | {name: _escaped(columns[name]) for name in more}
    return entry | ({"language": escaped(row["language"])} if row["language"] else {})


def escaped(text: str) -> str:
    """A text that `str.format` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _escaped(value: object) -> object:
    """`escaped`, of all texts in a value."""
    match value:
        case str():
            return escaped(value)
        case list():
            return [_escaped(item) for item in value]
        case dict():
            return {name: _escaped(item) for name, item in value.items()}
    return value


def listing(home: Path, split: str, head: str) -> list[str]:
    """One manifest, with the folder filled in. UnsafePlace if a file lies outside the version."""
    folder = json.dumps(escaped(head), ensure_ascii=False)[1:-1]
    lines = _lists.lines(home, f"speechbrain/{split}.json")
    entries = [line.rstrip(",") for line in lines if line not in ("{", "}")]
    for line in entries:
        for entry in json.loads(f"{{{line}}}").values():
            storage.check_name(entry["wav"].removeprefix(f"{ROOT}/"))
    wav = f'"wav": "{ROOT}/', f'"wav": "{folder}/'
    entries = [line.replace(*wav, 1) for line in entries]
    return ["{", *(f"{entry}," for entry in entries[:-1]), *entries[-1:], "}"]
