"""croissant.json of a version: its files and columns in the vocabulary of MLCommons Croissant 1.1.

https://docs.mlcommons.org/croissant/docs/croissant-spec.html. It is made from dataset.json and the
files' digests, and is as deterministic; `mlcroissant validate --jsonld croissant.json` accepts it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

import pyarrow as pa

from ...base.json_types import DatasetJson, JsonObject, PublishedEntry
from ...base.schema import UTTERANCES_FILE, about
from . import card_header

FILE = "croissant.json"
SPEC = "http://mlcommons.org/croissant/1.1"
TERMS = """citeAs column containedIn equivalentProperty extract field fileObject fileProperty
    fileSet format includes jsonPath key md5 parentField path recordSet references regex repeated
    replace samplingRate separator source subField transform""".split()  # noqa: SIM905
#: The JSON-LD context: what the names in the file mean. TERMS are Croissant's own.
CONTEXT: JsonObject = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{term: f"cr:{term}" for term in TERMS},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "isLiveDataset": "cr:isLiveDataset",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
PARQUET, TAR = "application/x-parquet", "application/x-tar"
#: Media types of files with audio, by the ends of their names.
ENCODINGS = {
    ".tar": TAR,
    ".parquet": PARQUET,
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".mp3": "audio/mpeg",
    ".opus": "audio/ogg",
    ".ark": "application/octet-stream",
}


def text(facts: DatasetJson, columns: pa.Schema, files: Mapping[str, PublishedEntry]) -> bytes:
    """The whole file. `columns`: the schema of utterances.parquet; `files`: the digests of the
    version's other files, by path."""
    cited = [citation for citation in facts["citations"].values() if citation]
    described: JsonObject = {
        "@context": dict(sorted(CONTEXT.items())),
        "@type": "sc:Dataset",
        "conformsTo": SPEC,
        "name": f"{', '.join(facts['licences'])}, version {facts['version']}",
        "description": (
            f"{facts['utterances']['packaged']} utterances of speech with text, "
            f"{facts['seconds']['packaged'] / 3600:.3f} h, prepared by uttermill "
            f"{facts['libraries']['uttermill']}. Paths start from this folder."
        ),
        "version": f"{facts['version']}.0.0",
        "license": [*dict.fromkeys(stated or "unknown" for stated in facts["licences"].values())],
        **({"citeAs": "\n".join(cited)} if cited else {}),
        "inLanguage": card_header.languages(row["language"] for row in facts["packaged"]),
        "distribution": [
            _file(UTTERANCES_FILE, files[UTTERANCES_FILE]),
            *_shards(facts, files),
        ],
        "recordSet": [_records(columns)],
    }
    line = json.dumps(described, ensure_ascii=False, allow_nan=False, indent=1)
    return f"{line}\n".encode()


def _file(path: str, entry: PublishedEntry) -> JsonObject:
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "contentUrl": path,
        "contentSize": f"{entry['bytes']} B",
        "encodingFormat": PARQUET,
        "sha256": entry["sha256"],
    }


def _set(name: str, includes: str, encoding: str) -> JsonObject:
    return {
        "@type": "cr:FileSet",
        "@id": name,
        "name": name,
        "encodingFormat": encoding,
        "includes": includes,
    }


def _shards(facts: DatasetJson, files: Iterable[str]) -> Iterator[JsonObject]:
    """A file set for the audio of each format and split."""
    groups = set[tuple[str, str, str]]()
    for path in files:
        folder, _, inside = path.partition("/")
        ending = PurePosixPath(path).suffix
        if folder in facts["formats"] and inside and ending in ENCODINGS:
            groups.add((folder, inside.split("/")[0], ending))
    for folder, split, ending in sorted(groups):
        name = f"{folder}-{split}{ending}"
        yield _set(name, f"{folder}/{split}/**/*{ending}", ENCODINGS[ending])


def _records(columns: pa.Schema) -> JsonObject:
    """The record set: a record for each utterance, a field for each column that is not nested."""
    source = {"fileObject": {"@id": UTTERANCES_FILE}}
    return {
        "@type": "cr:RecordSet",
        "@id": "utterances",
        "name": "utterances",
        "key": {"@id": "utterances/id"},
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"utterances/{column.name}",
                "name": column.name,
                "description": ", ".join(filter(None, reversed(about(column)))),
                "dataType": _type(column.type),
                "source": {**source, "extract": {"column": column.name}},
            }
            for column in columns
            if not pa.types.is_nested(column.type)
        ],
    }


def _type(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(kind) else "sc:Text"
