"""Layouts with lists beside folders of audio (LJSpeech, M-AILABS, Common Voice, AudioFolder,
VoxPopuli, MLS, Emilia), or with texts in many small files, or in one for a tree of audio
(LibriSpeech, VCTK, AISHELL)."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from ...base import language_codes
from ...base.errors import ConfigError, ItemError
from ...recording.file_kinds import known
from ...storage import bounds, regular, urls
from .. import _columns, _text_encoding
from .._columns import Roles
from .._delimited import Form, Record, form_of, records
from .._folders import by_stem, entries, files_below, homes
from .._paths import EXTENSIONS, is_there, stem
from .._rows import (
    Described,
    FileRow,
    Found,
    Part,
    Records,
    Rows,
    delimited,
    json_lines,
    of_parts,
)

_LOCALE = re.compile(r"[a-z]{2,3}_[A-Z]{2}")


def _form(
    path: str,
    separator: str | None,
    header: bool | None,
    needs: Sequence[str] = (),
    widths: Sequence[int] = (),
) -> Form | None:
    """The form of a table; None if it is not one, or lacks columns that it `needs`. With `widths`:
    without header and quotes."""
    try:
        form = form_of(path, separator, header)
    except ConfigError:
        return None
    if not widths:
        return form if {*needs} <= {*form.names} else None
    names = tuple(str(number + 1) for number in range(max(widths)))
    return Form(path, form.encoding, separator, names, False, frozenset(widths), quotes=False)


def _lj(folder: str, file: str) -> Part | None:
    """A part of rows `id|text|normalised text`, with audio in a folder beside it."""
    before = file[: file.rfind("/") + 1]
    path = os.path.join(folder, file)
    form = _form(path, "|", False, widths=(2, 3))
    if form is None:
        return None
    roles: Roles = {"audio": ("1",), "text": ("3", "2"), "id": ("1",)}
    part = Part(path, delimited(form), roles)
    first = next(iter(part.records.head), {"1": ""})
    cells = [str(cell) for cell in first.values()]
    if _columns.first("audio", cells) is not None:
        return None  # a header that tells more
    if _columns.first("id", cells[:1]) is not None:
        part = Part(path, delimited(replace(form, header=True)), roles)
    elif known(cells[0]):
        second_cells = [record.get("2") for record in part.records.head]
        if not _columns.are_texts(second_cells):  # speakers, as in `path|speaker|text`
            return None
        part = Part(path, part.records, {"audio": ("1",), "text": ("3", "2")})
    return _there(part, folder, [f"{before}{subfolder}" for subfolder in ("wavs/", "wav/", "")])


def _there(part: Part, root: str, folders: Sequence[str] = ("",)) -> Part | None:
    """The part with the place of its audio; None if none of its first files exists."""
    moved, present = part.placed(root, folders)
    return moved if present else None


def ljspeech(folder: str) -> Found | None:
    """LJSpeech: `metadata.csv` without a header, `id|text|normalised text`, and `wavs/`; or only
    the list."""
    home, name = (folder, "metadata.csv") if os.path.isdir(folder) else os.path.split(folder)
    part = _lj(home, name) if os.path.isfile(os.path.join(home, name)) else None
    if part is None:
        return None
    return of_parts("ljspeech", "LJSpeech", home, [part], whole=os.path.isdir(folder))


def m_ailabs(folder: str) -> Iterator[Part | None]:
    """M-AILABS: `<locale>/by_book/<gender>/<speaker>/<book>/`, each book as LJSpeech."""
    for relative in files_below(folder, lambda name: name == "metadata.csv", ("wavs",)):
        place = os.path.join(os.path.abspath(folder), relative).split("/")[:-1]
        if "by_book" not in place:
            continue
        after = place[place.index("by_book") + 1 :]  # mix/<book>, or <gender>/<speaker>/<book>
        locale = next((name for name in reversed(place) if _LOCALE.fullmatch(name)), None)
        speaker = after[1] if len(after) > 2 else None
        part = _lj(folder, relative)
        yield part and replace(part, speaker=speaker, language=locale)


_CV_SPLITS = ("train.tsv", "dev.tsv", "test.tsv")


def common_voice(folder: str) -> Iterator[Part | None]:
    """Common Voice: `clips/` and `validated.tsv`, which holds what train, dev and test do; of one
    language, or a folder for each."""
    for before in homes(folder):
        home = os.path.join(folder, before)
        if not os.path.isdir(os.path.join(home, "clips")):
            continue
        names = ["validated.tsv"] if os.path.isfile(f"{home}/validated.tsv") else _CV_SPLITS
        for name in names:
            path = os.path.join(home, name)
            form = _form(path, "\t", True, ("path", "sentence")) if os.path.isfile(path) else None
            if form is None:
                continue
            roles = _columns.by_name(form.names)
            code = os.path.basename(os.path.dirname(path))
            language = code if language_codes.read(code) and len(code) < 6 else None
            part = Part(path, delimited(form), roles, language=language)
            yield _there(part, folder, [f"{before}clips/"])


_METADATA = ("metadata.csv", "metadata.tsv", "metadata.jsonl")


def audiofolder(folder: str) -> Iterator[Part | None]:
    """Hugging Face's AudioFolder: `metadata.csv` or `metadata.jsonl` with `file_name`, in the
    folder or in those below, one for each split; other names of columns will do (F5-TTS, XTTS)."""
    for relative in files_below(folder, _METADATA.__contains__, depth=4):
        part = _metadata(os.path.join(folder, relative))
        yield part and _there(part, folder, [relative[: relative.rfind("/") + 1]])


def _metadata(path: str) -> Part | None:
    if path.endswith(".jsonl"):
        rows = json_lines(path)
        names = [*dict.fromkeys(name for record in rows.head for name in record)]
    else:
        form = _form(path, None, None)
        if form is None or not form.header:
            return None
        rows, names = delimited(form), [*form.names]
    roles = _columns.without_other_channels(_columns.by_name(names), rows.head)
    return Part(path, rows, roles) if "audio" in roles else None


def voxpopuli(folder: str) -> Iterator[Part | None]:
    """VoxPopuli: `asr_train.tsv` with `id`, `raw_text`, `normalized_text`, in the folder of a
    language; its audio lies somewhere below, by id."""
    is_list = re.compile(r"asr_\w+\.tsv").fullmatch
    for relative in files_below(folder, lambda name: is_list(name) is not None, depth=3):
        path = os.path.join(folder, relative)
        if (form := _form(path, "\t", True, ("id", "normalized_text"))) is None:
            continue
        home = os.path.dirname(relative)
        code = os.path.basename(os.path.dirname(path))
        roles: Roles = {
            "audio": ("audio",),
            "text": ("normalized_text", "raw_text"),
            "id": ("id",),
            "speaker": ("speaker_id",),
        }
        part = Part(
            path,
            _with(form, partial(_by_id_below, by_stem(folder, home), home)),
            roles,
            language=code if len(code) == 2 else None,
        )
        yield _there(part, folder)


def _with(form: Form, more: Callable[[Mapping[str, object]], dict[str, object]]) -> Records:
    """The records of a table, each with what `more` tells of it."""

    def rows() -> Iterator[tuple[int, Record]]:
        for number, record in records(form):
            yield number, record if isinstance(record, ValueError) else record | more(record)

    return Records(rows)


def _by_id_below(
    paths: Mapping[str, str], below: str, record: Mapping[str, object]
) -> dict[str, object]:
    name = str(record.get("id") or "")
    return {"audio": paths.get(name, os.path.join(below, name))}


def mls(folder: str) -> Iterator[Part | None]:
    """MLS: `<split>/transcripts.txt`, id and text, and `<split>/audio/<speaker>/<book>/<id>`."""
    for before in homes(folder):
        path = os.path.join(folder, before, "transcripts.txt")
        if not (os.path.isfile(path) and os.path.isdir(os.path.join(folder, before, "audio"))):
            continue
        form = _form(path, "\t", False, widths=(2,))
        if form is None:
            continue
        named = re.search(r"mls_([a-z]+)", os.path.abspath(path))
        roles: Roles = {"audio": ("audio",), "text": ("2",), "id": ("1",), "speaker": ("speaker",)}
        language = language_codes.read(named[1]) if named else None
        part = Part(path, _with(form, _of_mls), roles, language=language)
        yield _there(part, folder, [f"{before}audio/"])


def _of_mls(record: Mapping[str, object]) -> dict[str, object]:
    speaker, book, *_ = [*str(record["1"]).split("_"), ""]
    return {"audio": f"{speaker}/{book}/{record['1']}", "speaker": speaker}


def emilia(folder: str) -> Iterator[Part | None]:
    """Emilia's lists: `*.jsonl` of `{"id", "wav", "text", "speaker", "language", "dnsmos"}`."""
    for relative in files_below(folder, lambda name: name.endswith(".jsonl"), depth=2):
        path, home = os.path.join(folder, relative), os.path.dirname(relative)
        rows = json_lines(path)
        names = {name for record in rows.head[:10] for name in record}
        if not {"wav", "text", "id"} <= names or not names & {"dnsmos", "speaker"}:
            continue
        part = Part(path, rows, {"audio": ("wav",), **_columns.by_name([*names])})
        before = f"{home}/" if home else ""
        yield _there(part, folder, [before, f"{before}mp3/", f"{before}../"])


TRANS = ".trans.txt"
MICROPHONES = ("", "_mic1", "_mic2")  # of VCTK 0.92; the first that is there


def _of_rows(layout: str, folder: str, rows: Rows, says: str) -> Found | None:
    """The layout, if the audio of one of its first rows exists."""
    first = (row.what for row in islice(rows(), 20))
    named = (str(what.audio) for what in first if isinstance(what, Described))
    certain = any(is_there(folder, audio) for audio in named)
    return Found(layout, folder, rows, (says,)) if certain else None


def _by_id(
    folder: str, lists: list[str], teller: Callable[[str], Callable[[str, str], Described]]
) -> Rows:
    """The rows of lists of ids with their texts. `teller`: tells what those of a list describe."""

    def rows() -> Iterator[FileRow]:
        for relative in lists:
            path, described = os.path.join(folder, relative), teller(relative)
            form = Form(path, "utf-8", " ", ("id", "text"), False, frozenset((1, 2)))
            for number, record in records(form):
                what = (
                    record
                    if isinstance(record, ValueError)
                    else described(str(record["id"]), str(record.get("text") or ""))
                )
                yield FileRow(path, number, what)

    return rows


def librispeech(folder: str) -> Found | None:
    """LibriSpeech: `<speaker>/<chapter>/<speaker>-<chapter>.trans.txt`, `<id> <TEXT>`, with the
    audio `<id>.flac` beside it."""

    def teller(relative: str) -> Callable[[str, str], Described]:
        before = relative[: relative.rfind("/") + 1]
        audio_names = entries(os.path.join(folder, before))

        def described(name: str, text: str) -> Described:
            after = next((e for e in EXTENSIONS[1:] if name + e in audio_names), ".flac")
            return Described(f"{before}{name}{after}", text, name.partition("-")[0], id=name)

        return described

    lists = files_below(folder, lambda name: name.endswith(TRANS), depth=5)
    says = f"LibriSpeech (*{TRANS}): text by id, audio <id> beside it, speaker from the id"
    return _of_rows("librispeech", folder, _by_id(folder, lists, teller), says)


def vctk(folder: str) -> Found | None:
    """VCTK: `txt/<speaker>/<id>.txt`, and the audio in a folder whose name begins with `wav`; of
    two microphones the first."""
    if not os.path.isdir(os.path.join(folder, "txt")):
        return None
    names = [name for name in entries(folder) if name.startswith("wav")]
    wavs = sorted((n for n in names if os.path.isdir(f"{folder}/{n}")), reverse=True)
    if not wavs:
        return None

    def rows() -> Iterator[FileRow]:
        for speaker in sorted(entries(os.path.join(folder, "txt"))):
            audio_names = {stem(name): name for name in entries(f"{folder}/{wavs[0]}/{speaker}")}
            for name in sorted(entries(f"{folder}/txt/{speaker}")):
                if name.endswith(".txt"):
                    yield _spoken(folder, wavs[0], speaker, name.removesuffix(".txt"), audio_names)

    says = f"VCTK (txt/<speaker>/<id>.txt): audio {wavs[0]}/<speaker>/<id>, of two microphones mic1"
    return _of_rows("vctk", folder, rows, says)


def _spoken(root: str, wavs: str, speaker: str, name: str, audio_names: dict[str, str]) -> FileRow:
    path = f"{root}/txt/{speaker}/{name}.txt"
    audio = next(
        (audio_names[name + m] for m in MICROPHONES if name + m in audio_names), f"{name}.wav"
    )
    try:
        with urls.streamed(path) as file:
            data = file.read(bounds.MAX_TEXT_BYTES + 1)
        text, _ = _text_encoding.decode(data)
    except (OSError, regular.NotAFile) as error:
        why = getattr(error, "strerror", None) or "the text cannot be read"
        return FileRow(path, 1, ValueError(why))
    except ItemError as error:
        return FileRow(path, 1, ValueError(error.detail))
    return FileRow(path, 1, Described(f"{wavs}/{speaker}/{audio}", text.strip(), speaker, id=name))


#: Where AISHELL-1, -2 and -3 have their texts.
_AISHELL = re.compile(r"aishell_transcript\w*(?:\.\d+)?\.txt|content\.txt|trans\.txt")
_SPEAKER = re.compile(r"(?:BAC\d{3})?([A-Z]{1,3}\d{4})")
_BETWEEN_HAN = re.compile("(?<=[\u3400-\u9fff]) +(?=[\u3400-\u9fff])")


def aishell(folder: str) -> Found | None:
    """AISHELL-1, -2 and -3: one list of texts by id, with spaces between words, or pinyin after
    each character; the audio lies below, by id."""
    paths: dict[str, str] = {}

    def teller(relative: str) -> Callable[[str, str], Described]:
        if not paths:
            paths.update(by_stem(folder))
        return partial(_of_aishell, paths, relative.endswith("content.txt"))

    lists = files_below(folder, lambda name: bool(_AISHELL.fullmatch(name)), ("wav",), 3)
    says = "AISHELL ({}): text by id without the spaces between its words, audio below, by id"
    rows = _by_id(folder, lists, teller)
    return _of_rows("aishell", folder, rows, says.format(next(iter(lists), "")))


def _of_aishell(paths: dict[str, str], with_pinyin: bool, key: str, text: str) -> Described:
    name = stem(key)
    match, audio = _SPEAKER.match(name), paths.get(name, f"{name}.wav")
    if with_pinyin:  # 广 guang3 州 zhou1
        text = " ".join(text.split()[0::2])
    text = _BETWEEN_HAN.sub("", text)
    return Described(audio, text, match and match[1], "zh", name)
