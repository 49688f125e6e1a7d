"""Metadata of a version for catalogues, made from dataset.json and as deterministic.

croissant.json: its files and columns in the vocabulary of MLCommons Croissant 1.1
(https://docs.mlcommons.org/croissant/docs/croissant-spec.html);
`mlcroissant validate --jsonld croissant.json` accepts it. The YAML header of README.md: keys and
values as in https://huggingface.co/docs/hub/datasets-cards, identifiers of licences as in
https://huggingface.co/docs/hub/repositories-licenses.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

import pyarrow as pa

from ...base import language_codes
from ...base.json_types import DatasetJson, JsonObject, PublishedEntry
from ...base.schema import UTTERANCES_FILE, about

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
        "inLanguage": languages(row["language"] for row in facts["packaged"]),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": UTTERANCES_FILE,
                "name": UTTERANCES_FILE,
                "contentUrl": UTTERANCES_FILE,
                "contentSize": f"{files[UTTERANCES_FILE]['bytes']} B",
                "encodingFormat": PARQUET,
                "sha256": files[UTTERANCES_FILE]["sha256"],
            },
            *_shards(facts, files),
        ],
        "recordSet": [_records(columns)],
    }
    line = json.dumps(described, ensure_ascii=False, allow_nan=False, indent=1)
    return f"{line}\n".encode()


def _shards(facts: DatasetJson, files: Iterable[str]) -> Iterator[JsonObject]:
    groups = set[tuple[str, str, str]]()
    for path in files:
        folder, _, inside = path.partition("/")
        ending = PurePosixPath(path).suffix
        if folder in facts["formats"] and inside and ending in ENCODINGS:
            groups.add((folder, inside.split("/")[0], ending))
    for folder, split, ending in sorted(groups):
        name = f"{folder}-{split}{ending}"
        yield {
            "@type": "cr:FileSet",
            "@id": name,
            "name": name,
            "encodingFormat": ENCODINGS[ending],
            "includes": f"{folder}/{split}/**/*{ending}",
        }


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


# The header of README.md for the Hugging Face Hub.

TASKS = ("automatic-speech-recognition", "text-to-speech")
#: Bounds of the Hub's size categories, in utterances: powers of ten from 1000 on.
SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
#: Licences that the Hub knows by name.
LICENCES = frozenset(
    """apache-2.0 mit afl-3.0 artistic-2.0 bsl-1.0 bsd-2-clause bsd-3-clause bsd-3-clause-clear
    c-uda cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0
    cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl
    ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl-2.0 gpl-3.0 lgpl-2.1
    lgpl-3.0 isc lppl-1.3c ms-pl mpl-2.0 odc-by odbl osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib
    pddl""".split()  # noqa: SIM905
)
#: SPDX identifiers, in lower case, that the Hub spells differently.
SPDX = {
    "odc-by-1.0": "odc-by",
    "odbl-1.0": "odbl",
    "pddl-1.0": "pddl",
    "c-uda-1.0": "c-uda",
    **dict.fromkeys(("gfdl-1.1", "gfdl-1.2", "gfdl-1.3"), "gfdl"),
}


def hub_header(facts: DatasetJson, name: str) -> JsonObject:
    """The header. `facts`: the content of dataset.json; `name`: the title for people."""
    header: JsonObject = {"pretty_name": name, **licences(facts["licences"].values())}
    if codes := languages(row["language"] for row in facts["packaged"]):
        header["language"] = codes
    header["task_categories"] = [*TASKS]
    header["size_categories"] = [size(facts["utterances"]["packaged"])]
    if "hf_parquet" in facts["formats"]:
        files = [{"split": s, "path": f"hf_parquet/{s}/*.parquet"} for s in facts["splits"]]
        header["configs"] = [{"config_name": "default", "data_files": files}]
    return header


def licence(stated: str) -> str | None:
    """The Hub's identifier of a licence with an SPDX identifier; None if the Hub has none."""
    key = re.sub(r"(-only|-or-later|\+)$", "", stated.strip().lower())
    key = SPDX.get(key, key)
    return key if key in LICENCES else None


def licences(stated: Iterable[str | None]) -> JsonObject:
    """`license`, and `license_name` and `license_link` for licences that the Hub does not know. A
    source without a licence gets `unknown`."""
    every = [*dict.fromkeys(stated)]
    names = [*dict.fromkeys("unknown" if not g else licence(g) or "other" for g in every)]
    header: JsonObject = {"license": names[0] if len(names) == 1 else names}
    others = [g.strip() for g in every if g and licence(g) is None]
    if others:
        # The Hub allows lower-case letters, digits, dots and hyphens.
        slugs = [re.sub(r"[^a-z0-9.]+", "-", g.lower()).strip("-") or "see-text" for g in others]
        header["license_name"] = "-and-".join(slugs)
    if links := [g for g in others if re.match(r"https?://\S+$", g)]:
        header["license_link"] = links[0]
    return header


def languages(heard: Iterable[str | None]) -> list[str]:
    """ISO 639-1 codes (639-3 for languages without one), sorted; anything else is left out. `en-US`
    becomes `en`, and Whisper's `jw` Javanese."""
    codes = {language_codes.base(language) for language in heard if language}
    codes = {"jv" if code == "jw" else code for code in codes}
    return sorted(code for code in codes if re.fullmatch(r"[a-z]{2,3}", code))


def size(utterances: int) -> str:
    """The Hub's size category: `n<1K`, `1K<n<10K`, …"""
    reached = max(len(str(utterances)) - 3, 0)  # bounds that are not above it
    if reached == 0:
        return f"n<{SIZES[0]}"
    if reached >= len(SIZES):
        return f"n>{SIZES[-1]}"
    return f"{SIZES[reached - 1]}<n<{SIZES[reached]}"
