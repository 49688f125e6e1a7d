"""A table of recordings with their texts: CSV or TSV with any names of columns, or a folder in the
layout of a known corpus. A layout's folder is local; a table may be a URL."""

import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .. import storage
from ..base.errors import ConfigError, ItemError
from ..base.json_types import JsonObject
from ..recording.file_kinds import known
from ..recording.names import display_text
from ..settings.base import WORDS
from ..storage import urls
from . import _archives, _columns, _labels, _paths, _text_encoding, hf_parquet, kaldi, lhotse
from ._delimited import SEPARATORS, form_of
from ._folders import some_below
from ._layouts import LAYOUTS, explains, found_in
from ._layouts.objects import whole
from ._lists import Entries, ListSettings, SpeakerSettings, json_value, refusal
from ._paths import Boundary
from ._rows import Described, Found, Part, delimited, json_lines, listed, of_parts
from .tar import MANIFEST

LOOKED_PARTS = 5  # in which unused columns and unreadable languages are looked for
ENDINGS = (".tsv", ".csv", ".psv")
ROWS = (".parquet", hf_parquet.ARROW)
Layout = Literal[
    "auto",
    "table",
    "ljspeech",
    "m_ailabs",
    "common_voice",
    "audiofolder",
    "voxpopuli",
    "mls",
    "librispeech",
    "vctk",
    "aishell",
    "gigaspeech",
    "wenetspeech",
    "emilia",
    "espnet",
]


class Settings(_labels.LabelSettings, _columns.ChannelSettings, ListSettings):
    kind: Literal["table"] = "table"
    layout: Layout = Field(
        "auto",
        description="Layout of the folder or file; auto: the one that is recognised, else a plain "
        "table.",
    )
    columns: _columns.ColumnSettings = Field(
        _columns.ColumnSettings(), description="Names of columns where they are not recognised."
    )
    separator: str | None = Field(
        None,
        min_length=1,
        max_length=1,
        description="Separator of the columns; default: tab, |, ; or comma, whichever most rows "
        "have.",
        json_schema_extra=WORDS,
    )
    header: bool | None = Field(
        None, description="Whether the first row names the columns; default: if it names no file."
    )
    encoding: Annotated[str, AfterValidator(_text_encoding.checked)] | None = Field(
        None,
        description="Encoding of the table, such as gbk; default: UTF-8 or what its mark says.",
        json_schema_extra=WORDS,
    )


def recordings(settings: Settings) -> Entries:
    if _is_espnet(settings):
        return kaldi.recordings(_as_kaldi(settings))
    layout = _found(settings)
    folder = urls.absolute(settings.path)
    for part in layout.parts[:LOOKED_PARTS]:
        _columns.check(part.records.head, part.roles, settings, settings.columns)
    if storage.is_url(folder) or not os.path.isdir(folder):
        return listed(layout, settings)
    return _confined(layout, settings, Boundary(folder, settings.follow_links))


def _confined(layout: Found, settings: Settings, boundary: Boundary) -> Entries:
    """The recordings of a folder, and what links lead out of it."""
    yield from boundary.checked(listed(layout, settings))
    for file in layout.outside:
        if outside := boundary.left_out(os.path.relpath(file, boundary.folder), file):
            yield outside


def notes(settings: Settings) -> list[str]:
    if _is_espnet(settings):
        root = _as_kaldi(settings).root or settings.path
        says = f"ESPnet or Kaldi (wav.scp): paths start at {display_text(root)}"
        return [says, *_labels.notes((), settings, "column")]
    layout = _found(settings)
    sentences = list(layout.says)
    for number, part in enumerate(layout.parts[:LOOKED_PARTS]):
        head = part.records.head
        used = {name for names in part.roles.values() for name in names} | {*settings.kept_names}
        if number == 0:
            sentences[0] += _columns.not_used(head, used)
        takes = ""  # the settings that would use a column of a layout's file, as a pattern
        if layout.layout != "table":
            path = display_text(part.file).replace("{", "{{").replace("}", "}}")
            takes = f"kind: table, path: {path}, columns: {{{{{{role}}: {{name}}}}}}"
        sentences += _columns.of_columns(head, part.roles, used, "column", takes)
    first = islice(layout.rows(), _columns.LOOKED if settings.kept_names else 0)
    records = [row.what.record for row in first if isinstance(row.what, Described)]
    sentences += _labels.notes(records, settings, "column")
    return [*dict.fromkeys(sentences)]


def _found(settings: Settings) -> Found:
    path, status = _paths.source_root(settings.path)
    is_folder = stat.S_ISDIR(status.st_mode)
    named = settings.layout not in ("auto", "table")
    if storage.is_url(path) and (named or is_folder):
        what = ": layouts are recognised in local folders only; name the table's file"
        raise refusal(path, what)
    described = {"columns", "separator", "header", "encoding"} & settings.model_fields_set
    if named or not (settings.layout == "table" or (described and not is_folder)):
        layout = found_in(path, settings.layout if named else None, settings.follow_links)
        if layout is not None:
            if not settings.root:
                return layout
            if os.path.isdir(layout.root) and layout.layout in ("gigaspeech", "wenetspeech"):
                return replace(layout, root=_paths.source_root(settings.root)[0], whole=False)
            raise ConfigError(
                f"the layout {layout.layout} has its audio in its own folder: remove `root` from "
                "the source"
            )
    if named or is_folder:
        wanted = f"the layout {settings.layout}" if named else "a known layout"
        raise refusal(
            settings.path,
            f"does not follow {wanted}: its lists, or the audio that they name, are not where that "
            f"layout has them; known layouts are {', '.join(LAYOUTS)}, espnet",
        )
    return _plain(path, settings)


def _plain(path: str, settings: Settings) -> Found:
    objects = None
    if path.lower().endswith((".json", ".jsonl")):
        with suppress(OSError):
            objects = whole(path) or json_lines(path)
    if objects is not None:
        how, has_header, written = "JSON", True, objects
        path = _paths.text_list(path)
        names = tuple(dict.fromkeys(name for record in written.head for name in record))
        if not names:
            wrong = next((row for _, row in written.rows() if isinstance(row, ValueError)), None)
            why = f"no entry can be read: {wrong}" if wrong else "it has no entry"
            raise refusal(path, f": {why}")
    else:
        form = form_of(path, settings.separator, settings.header, settings.encoding)
        has_header, names, written = form.header, form.names, delimited(form)
        how = f"separated by {SEPARATORS.get(form.separator or '', form.separator or 'nothing')}"
        how += "" if form.header else ", no header: columns by number"
        how += "" if form.encoding in ("utf-8", "utf-8-sig") else f", {form.encoding}"
    root = _paths.list_root(path, settings.root)
    roles = _roles(names, has_header, written.head, settings, root)
    part = Part(path, written, {role: (name,) for role, name in roles.items()})
    moved, present = part.placed(root, _paths.FOLDERS)
    layout = of_parts("table", "table", root, [moved if present else part], whole=False)
    return replace(layout, says=(f"{layout.says[0]} ({how})",))


def names_audio(path: str) -> bool:
    """Whether one of the first rows of a table names existing audio. ConfigError if it is not a
    table of audio."""
    settings = Settings(path=path)
    is_table = path.lower().endswith(ENDINGS)  # which --source takes as a layout's list, too
    layout = _found(settings) if is_table else _plain(path, settings)
    names = islice(layout.audio(), _paths.LOOKED)
    return any(isinstance(name, str) and _paths.is_there(layout.root, name) for name in names)


def _roles(
    names: tuple[str, ...],
    has_header: bool,
    head: list[dict[str, object]],
    settings: Settings,
    root: str,
) -> dict[str, str]:
    """The column of each role: from the settings, else by its name, else by its values."""
    stated = {
        role: name for role, name in settings.columns.model_dump().items() if name is not None
    }

    def wrong(what: str) -> ConfigError:
        return refusal(settings.path, what)

    shown = ", ".join(names[: _columns.SHOWN])
    if unknown := [name for name in stated.values() if name and name not in names]:
        raise wrong(f"has no column {unknown[0]!r}; it has {shown}")
    free = [name for name in names if name not in stated.values()]
    usual = _columns.without_other_channels(_columns.by_name(free) if has_header else {}, head)
    given = {role: name for role, (name,) in usual.items()} | stated
    roles = {role: name for role, name in given.items() if name}
    if "audio" not in roles and (audio := _columns.by_content(head, free)):
        roles["audio"] = audio
    if "audio" not in roles and "id" in roles:  # audio by id, in a folder beside the table
        ids = [str(record.get(roles["id"]) or "") for record in head]
        if _paths.place_of(root, filter(None, ids))[1]:
            roles["audio"] = roles["id"]
    if "audio" not in roles:
        hint = "" if settings.header is not None else ", with `header: false` if these are no names"
        raise wrong(
            f": no column names audio (it has {shown}); name one in `columns: {{audio: …}}`{hint}, "
            "or set `separator` if these are not its columns"
        )
    if not has_header and "text" not in stated:
        rest = [name for name in names if name not in roles.values()]
        if len(rest) > 1:
            raise wrong(
                f"has {len(names)} columns and no header: name them, for example "
                f"`columns: {{audio: {roles['audio']}, text: {rest[-1]}}}`"
            )
        if rest:
            roles["text"] = rest[0]
    return roles


def _is_espnet(settings: Settings) -> bool:
    if settings.layout not in ("auto", "espnet") or storage.is_url(settings.path):
        return False
    return os.path.isfile(os.path.join(settings.path, "wav.scp"))


def _as_kaldi(settings: Settings) -> kaldi.Settings:
    """ESPnet's folders are Kaldi's, with paths relative to a folder above, that of the recipe."""
    shared = settings.model_dump(include={*SpeakerSettings.model_fields} - {"kind"})
    root = settings.root or kaldi_root(os.path.abspath(settings.path))
    return kaldi.Settings.model_validate({**shared, "root": root})


def kaldi_root(folder: str) -> str:
    """The nearest folder, from this one upwards, at which one of the first paths of `wav.scp` leads
    to a file; else the folder itself."""
    with suppress(OSError):
        for _, line in islice(urls.lines(os.path.join(folder, "wav.scp")), _paths.LOOKED):
            _, *written = (line or "").split(None, 1)
            above = folder
            while written and not os.path.isabs(written[0]) and above != os.path.dirname(above):
                if _paths.is_there(above, written[0].strip()):
                    return above
                above = os.path.dirname(above)
    return folder


def suggested(path: str) -> JsonObject | None:
    """The settings, without the path, of a path on the command line that is certainly a table, or a
    Parquet or Arrow file, by its ending, or a local folder in a known layout, of such files alone,
    or of NeMo's tars; else None."""
    if path.lower().endswith((*ENDINGS, *ROWS)):
        kind = "hf_parquet" if path.lower().endswith(ROWS) else "table"
        return {"kind": kind} if storage.is_url(path) or os.path.isfile(path) else None
    if storage.is_url(path) or not os.path.exists(path):
        return None
    if os.path.isfile(path):
        return _list(path)
    if os.path.isfile(os.path.join(path, "wav.scp")):
        return {"kind": "table", "layout": "espnet"}
    if (layout := found_in(os.path.abspath(path))) is not None and explains(layout):
        return {"kind": "table", "layout": layout.layout}
    return None if _paths.results_above(path) else _containers(path)


def _containers(folder: str) -> JsonObject | None:
    """The settings that read a folder in which all that is audio or may hold some is Parquet files,
    Arrow streams, or tars with NeMo's manifest."""
    holding = (*ROWS, *_archives.ENDINGS)

    def may_hold_audio(name: str) -> bool:
        return known(name) or name.lower().endswith(holding)

    may_hold = (name.lower() for name in some_below(folder, may_hold_audio))
    endings = {next(filter(name.endswith, holding), "") for name in may_hold}
    if endings == {".tar"} and any(some_below(folder, MANIFEST.__eq__)):
        return {"kind": "tar"}
    return {"kind": "hf_parquet"} if len(endings) == 1 and endings <= {*ROWS} else None


def _list(path: str) -> JsonObject | None:
    """The settings that read a list in JSON; None if none do."""
    if os.path.basename(path) == MANIFEST:
        return {"kind": "tar"}
    if path.endswith(".json") and (layout := found_in(os.path.abspath(path))):
        return {"kind": "table", "layout": layout.layout}
    if not path.endswith((".json", ".jsonl", lhotse.PACKED)):
        return None
    with suppress(OSError, ItemError, ValueError):
        if not path.endswith(lhotse.PACKED) and whole(path):
            return {"kind": "table"}
        head = json_value(next((line or "" for _, line in lhotse.lines(path)), "{}"))
        first = head if isinstance(head, dict) else {}
        if "supervisions" in first or first.get("type") in lhotse.JOINED:
            return {"kind": "lhotse"}
        if path.endswith(lhotse.PACKED):  # the other kinds read no compressed list
            return None
        return {"kind": "jsonl" if {*first} & {"wav", "audio_filepath"} else "table"}
    return None


# Lists in a folder that name its recordings, and that the folder's source does not read.

MOST_ENTRIES = 2000  # entries, of the folder and of those below it
DEPTH = 3
MOST_LISTS = 5
LIST_ENDINGS = (*ENDINGS, ".jsonl")
KALDI = "wav.scp"
NAMES = ("metadata.", "transcripts.", "transcript.")  # lists of these names may have other endings
OTHER_ENDINGS = (".txt", ".csv.gz", ".tsv.gz", ".jsonl.gz")
#: Lists among other files in JSON, most of which are about one recording.
_JSON = re.compile(
    r"(?:.*[_-])?(?:manifest|train|dev|val|valid|test|data|dataset)(?:[_-].*)?\.json"
)
AUDIO = (b".wav", b".flac", b".mp3", b".ogg", b".opus", b".m4a")
HEAD_BYTES = 4096  # bytes in which audio is looked for
MISSING = (
    "the audio that it names is not there, or not where it says; name the list itself as a source "
    "(`kind: table`), with `root` and `columns`"
)


def unread_lists(root: str, boundary: Boundary) -> Iterator[str]:
    """For each list that names existing audio, a sentence with the source that reads it; for one
    that only seems to, why it is not read."""
    count = 0
    for relative in some_below(root, _may_be_list, depth=DEPTH, most=MOST_ENTRIES):
        path = os.path.join(root, relative)
        if boundary.outside(path):
            continue
        if count == MOST_LISTS:
            return
        source = os.path.dirname(path) if os.path.basename(path) == KALDI else path
        name, why = display_text(os.path.relpath(path, root)), ""
        try:
            if os.path.basename(path) == KALDI or names_audio(path):  # Kaldi's may be pipes
                count += 1
                yield (
                    f"{name} names recordings and is not read; "
                    f"`--source {display_text(shlex.quote(source))}` takes them, with their texts"
                )
                continue
        except ConfigError as error:
            why = str(error)
        except (ItemError, OSError, ValueError):
            continue
        if os.path.basename(path).lower().startswith(NAMES) or (why and _holds_audio(path)):
            count += 1
            yield f"{name} seems to name recordings and is not read: {why or MISSING}"


def _may_be_list(name: str) -> bool:
    lower = name.lower()
    named = lower.startswith(NAMES) and lower.endswith(OTHER_ENDINGS)
    return name == KALDI or named or lower.endswith(LIST_ENDINGS) or bool(_JSON.fullmatch(lower))


def _holds_audio(path: str) -> bool:
    """Whether the first bytes of a list contain endings of audio."""
    with suppress(OSError), urls.streamed(path) as file:
        head = file.read(HEAD_BYTES)
        return any(ending in head for ending in AUDIO)
    return False
