"""Recognises what the columns of a table, or the keys of a list, hold, by names and by values:
texts, speakers, channels …; and what a source reports of them before it is read."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field, field_validator

from ..recording.file_kinds import known
from ..recording.locator import Channels
from ..recording.names import display_text
from ..recording.tracks import channel_number
from ..scoring import UNSPACED_CHARACTER
from ..settings import SourceSettings, StageSettings
from ..settings.base import WORDS
from ._lists import cell_field, language_field, refusal, text_field

#: Names of each role's column, in order of preference; compared in lower case, with `_` for spaces.
NAMES: dict[str, tuple[str, ...]] = {
    "audio": (
        *("audio", "path", "file", "wav", "audio_path", "audio_file", "audio_filepath"),
        *("wav_path", "wav_file", "file_name", "filename", "file_path", "filepath"),
        *("wav_filename", "audio_filename", "audio_name", "clip", "recording", "flac", "mp3"),
    ),
    "text": (
        *("text", "sentence", "transcription", "transcript", "normalized_text", "txt"),
        *("normalised_text", "text_normalized", "transcripts", "raw_text", "utterance_text"),
        *("raw_transcription", "reference", "utterance", "wrd"),
    ),
    "speaker": ("speaker", "client_id", "speaker_id", "spk", "spk_id", "speaker_name", "user_id"),
    "language": ("language", "lang", "locale", "language_id", "lang_id"),
    "id": ("id", "key", "utt_id", "uttid", "utterance_id", "segment_id", "sid", "uid"),
    "start": (
        *("start", "begin", "start_time", "begin_time", "start_s", "onset", "offset"),
        *("start_ms", "begin_ms", "start_time_ms", "startms", "onset_ms", "offset_ms"),
    ),
    "end": (  # `offset`: of a span with an onset
        *("end", "stop", "end_time", "stop_time", "end_s", "offset"),
        *("end_ms", "stop_ms", "end_time_ms", "endms", "offset_ms"),
    ),
    "duration": ("duration", "dur", "duration_s", "duration_seconds", "duration_ms"),
    "channel": ("channel", "channel_id", "audio_channel", "chan"),
}
LOOKED = 1000  # rows from which columns are recognised
LEAST_WORDS = 3  # of most values in a column of texts
SHOWN = 20  # names in a message, and characters of a value
SHOWN_UNUSED = 12  # columns
MOST_CHANNELS = 64  # of a file; a larger number is not a channel
MOST_NAMES = 8  # of channels; a column with more names holds broadcasters, or the like

#: Words in a name that suggest a role. Without a start, a column of times is of no use.
_HINTS = {
    "text": re.compile(
        r"(?!.*_id$).*(?:text|sentence|transcri|utterance$|subtitle|caption|lyrics|txt)"
    ),
    # Before the id: `talker_id` and `voice_id` say who speaks, and repeat.
    "speaker": re.compile(r"speaker|talker|narrator|(?:^|_)spk|client_id|voice|reader"),
    "id": re.compile(r"^(?:.*_)?(?:id|key|uid|uttid)$"),
    "start": re.compile(
        r"(?:^|_)(?:start|begin|onset|offset|from|tmin|xmin)(?:_|$|time|ms|sec|frame|sample)"
    ),
    "end": re.compile(r"(?:^|_)(?:end|stop|to)(?:_|$)"),
    "language": re.compile(r"(?:^|_)lang|language|locale"),
    "channel": re.compile(r"channel|^ch$|(?:^|_)side$"),
}
_OTHER_UNIT = re.compile(r"(?:sample|frame)s?$")
#: Values of a yes-or-no column, such as `is_gold_transcript`.
_FLAGS = frozenset(("true", "false", "yes", "no"))
_NOUNS = {
    "text": "a text",
    "id": "an id",
    "speaker": "a speaker",
    "language": "a language",
    "start": "a time",
    "end": "a time",
    "channel": "a channel",
}

Records = Sequence[Mapping[str, object]]
Roles = Mapping[str, tuple[str, ...]]


Column = Annotated[str | None, Field(json_schema_extra=WORDS)]


class ColumnSettings(StageSettings):
    """Names of the columns or keys, or numbers of columns from 1 where a table has no header;
    empty: none is taken. Times in seconds, or in ms where a name ends in it."""

    audio: Column = None
    text: Column = None
    speaker: Column = None
    language: Column = None
    id: Column = None
    start: Column = None
    end: Column = None
    duration: Column = Field(None, description="Length of the span; used where start is.")
    channel: Column = Field(None, description="Channel of the file, from 0, or a list of them.")

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        """YAML reads `audio: 1` as a number."""
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def plain(name: str) -> str:
    """A name as it is compared: `Client ID` -> `client_id`."""
    return re.sub(r"[\s\-.]+", "_", name.strip().strip("\ufeff").casefold())


def in_milliseconds(name: str) -> bool:
    """Whether a column of times holds milliseconds, by its name."""
    return plain(name).rstrip(")").endswith("ms")


def first(role: str, names: Iterable[str]) -> str | None:
    """The first name that the role may have."""
    given = {plain(name): name for name in reversed([*names])}
    return next((given[wanted] for wanted in NAMES[role] if wanted in given), None)


def by_name(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The columns that have a usual name of a role, each of one."""
    left, roles = [*names], dict[str, tuple[str, ...]]()
    for role in NAMES:
        if (name := first(role, left)) is not None:
            roles[role] = (name,)
            left.remove(name)
    return roles


def told(record: Mapping[str, object], stated: str | None) -> dict[str, str | None]:
    """Text, speaker and language in an object about one recording; `stated`: the source's language.
    ValueError if one cannot be used."""
    filled = [name for name, value in record.items() if value not in (None, "")]
    values = {role: record.get(first(role, filled) or "") for role in ("text", "speaker")}
    language = language_field(record.get(first("language", filled) or ""), stated)
    return {role: text_field(value) for role, value in values.items()} | {"language": language}


def by_content(records: Records, names: Iterable[str]) -> str | None:
    """The first column of which most values are names of audio files."""
    for name in names:
        values = [value for record in records if (value := record.get(name)) is not None]
        audio = sum(isinstance(value, str) and known(value.strip()) for value in values)
        if values and 2 * audio > len(values):
            return name
    return None


def _looks_like(name: str, values: Sequence[object]) -> str | None:
    words = plain(name)
    named = next((role for role, names in NAMES.items() if words in names), None)
    if named in ("audio", "duration"):  # a second name of the file, its length
        return None
    scalars = [value for value in values if isinstance(value, str | int | float)]
    if 2 * len(scalars) <= len(values) or {str(value).lower() for value in scalars} <= _FLAGS:
        return None
    hinted = next((role for role, hint in _HINTS.items() if hint.search(words)), None)
    return named or hinted or ("text" if are_texts(scalars) else None)


def are_texts(values: Sequence[object]) -> bool:
    """Whether most values are sentences, and not always the same ones."""
    texts = [value for value in values if isinstance(value, str)]
    sentences = sum(
        len(t.split()) >= LEAST_WORDS or len(UNSPACED_CHARACTER.findall(t)) >= 4 for t in texts
    )
    return 2 * sentences > len(values) and 2 * len({*texts}) > len(texts)


def of_columns(
    records: Records,
    roles: Roles,
    used: Collection[str],
    noun: str,
    setting: str = "",
    taking: Collection[str] = tuple(NAMES),
) -> list[str]:
    """A sentence for each non-empty column that seems to hold a text, an id, a speaker, a language
    or a time, and is not used, with the setting that would use it. `setting`: its pattern, with
    `{role}` and the column's `{name}`; `taking`: the roles that the source can take."""
    taken = {role: names[0] for role, names in roles.items()}
    pattern = setting or "columns: {{{role}: {name}}}"
    left_out = {*taken.values(), *used}
    sentences = []
    for name in dict.fromkeys(name for record in records for name in record):
        values = [v for record in records if (v := record.get(name)) not in (None, "")]
        role = _looks_like(name, values) if values and name not in left_out else None
        if role is None:
            continue
        shown = display_text(name)[: SHOWN * 4]
        sentence = f"the {noun} {shown!r} looks like {_NOUNS[role]} and is not taken"
        if _OTHER_UNIT.search(plain(name)):
            sentence += "; write it in seconds, or in milliseconds as start_ms and end_ms"
        elif role in taking:
            instead = f" in place of {taken[role]!r}" if role in taken else ""
            sentence += f"; `{pattern.format(role=role, name=shown)}` takes it{instead}"
        sentences.append(sentence)
    return sentences


def given_by(title: str, roles: Roles, place: str = "") -> str:
    """Which column gave what, in a sentence. `place`: how a name of audio becomes its path."""
    columns = ", ".join(
        f"{role} from {', else '.join(map(repr, names))}{place if role == 'audio' else ''}"
        for role, names in sorted(roles.items(), key=lambda item: item[0] != "audio")
    )
    return f"{title}: {columns}"


def not_used(records: Records, used: Collection[str]) -> str:
    """The columns that none of the first rows is read for."""
    names = dict.fromkeys(name for record in records for name in record if name not in used)
    shown = ", ".join(repr(display_text(name)[: 4 * SHOWN]) for name in [*names][:SHOWN_UNUSED])
    more = f" and {len(names) - SHOWN_UNUSED} more" if len(names) > SHOWN_UNUSED else ""
    return f"; not used: {shown}{more}" if names else ""


def check_languages(records: Records, roles: Roles, settings: SourceSettings) -> None:
    """Raises ConfigError if no language of a column can be read, and the source states none."""
    if settings.language or not roles.get("language"):
        return
    unread: dict[str, None] = {}
    for name in roles["language"]:
        for record in records:
            try:
                value = record.get(name)
                if cell_field(value) is None:
                    continue
                language_field(value, None)
            except ValueError:
                unread[str(value)] = None
            else:
                return
    if unread:
        shown = ", ".join(repr(display_text(value)[:SHOWN]) for value in [*unread][:3])
        raise refusal(
            settings.path,
            f": {roles['language'][0]!r} holds {shown}, which are not languages; set "
            '`language: "en"` on the source, or use codes like "en"',
        )


def _check_times(records: Records, roles: Roles, path: str, stated: ColumnSettings) -> None:
    """Raises ConfigError if files have several texts, but no start of them is taken, or no end: a
    text would be that of the whole file, or of all that follows."""
    firsts = {n: v for r in reversed(records) for n, v in r.items() if v not in (None, "")}
    taken = {role: name for role, names in roles.items() for name in names if name in firsts}
    audio, text = taken.get("audio", ""), taken.get("text", "")
    pairs = {(str(record.get(audio)), str(record.get(text))) for record in records}
    if len({name for name, _ in pairs}) == len(pairs):
        return
    starts = (n for n, v in firsts.items() if _HINTS["start"].search(plain(n)) and _is_time(v))
    if "start" not in taken and stated.start is None and (start := next(starts, None)):
        raise refusal(
            path,
            f": several texts of a file have times in {display_text(start)[:SHOWN]!r} that are not "
            "taken; if they are seconds, name their columns (`columns: {start: …, end: …}`), else "
            "convert them; `columns: {start: ''}` takes whole files",
        )
    if "start" in taken and stated.end is None and not {"end", "duration"} & {*taken}:
        raise refusal(
            path,
            f": several texts of a file have a start ({taken['start']!r}) and no end; name its "
            "column (`columns: {end: …}`, or duration), or `columns: {end: ''}` where each goes on "
            "to the end of the file",
        )


def _is_time(value: object) -> bool:
    return re.fullmatch(r"\d[\d:.,]{0,20} ?m?s?", str(value)) is not None


# Channels: numbers from 0, letters from A, left and right, or names of their own (`agent`), which a
# setting explains.


class ChannelSettings(SourceSettings):
    """Settings of a source whose rows name channels."""

    channel_names: dict[str, Annotated[int, Field(ge=0, lt=MOST_CHANNELS)]] | None = Field(
        None,
        description="Channels, from 0, that values of the column `channel` stand for: {agent: 0, "
        "customer: 1}.",
    )

    @property
    def channel_numbers(self) -> Mapping[str, int]:
        return {name.strip().casefold(): n for name, n in (self.channel_names or {}).items()}


def channels_field(value: object, names: Mapping[str, int] | None = None) -> Channels | None:
    """The channels in a cell or field, which holds one or a list of them; None for all of the file.
    ValueError for what no channel has as its number or name."""
    if isinstance(value, list | tuple):
        channels = (_channel(one, names or {}) for one in value)
        return (*sorted({channel for channel in channels if channel is not None}),) or None
    channel = _channel(value, names or {})
    return None if channel is None else (channel,)


def _channel(value: object, names: Mapping[str, int]) -> int | None:
    if isinstance(value, str):
        if (text := cell_field(value)) is None:
            return None
        value = names.get(text.casefold(), channel_number(text.removesuffix(".0")))
        if value is None:
            raise ValueError(
                f"{text[:20]!r} is not a channel; `channel_names: {{{text[:20]}: 0, …}}` of the "
                "source says which it is"
            )
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    if value != int(value) or not 0 <= value < MOST_CHANNELS:
        raise ValueError(f"no file has a channel {value}; channels are counted from 0")
    return int(value)


def _written(records: Records, name: str) -> set[str]:
    """The texts and numbers in a column."""
    values = {str(value) for r in records if isinstance(value := r.get(name), str | int | float)}
    return {text for value in values if (text := cell_field(value))}


def without_other_channels(
    roles: dict[str, tuple[str, ...]], records: Records
) -> dict[str, tuple[str, ...]]:
    """The roles, without that of channels if its columns hold something else, such as
    broadcasters."""
    for name in roles.get("channel", ()):
        words = [text for text in _written(records, name) if channel_number(text) is None]
        if len(words) > MOST_NAMES:
            return {role: names for role, names in roles.items() if role != "channel"}
    return roles


def check(
    records: Records, roles: Roles, settings: ChannelSettings, stated: ColumnSettings | None
) -> None:
    """Raises ConfigError if languages, times or channels in these columns cannot be used as they
    are. `stated`: the columns that the settings name."""
    check_languages(records, roles, settings)
    _check_times(records, roles, settings.path, stated or ColumnSettings())
    _check_channels(records, roles, settings.path, settings.channel_numbers)


def _check_channels(records: Records, roles: Roles, path: str, named: Mapping[str, int]) -> None:
    """Raises ConfigError if a list seems to count channels from 1, or has names of its own for
    them, which the settings do not explain: all of its rows would be of the mix."""
    for name in roles.get("channel", ()):
        written = [text.removesuffix(".0") for text in sorted(_written(records, name))]
        written = [text for text in written if text.casefold() not in named]
        if words := [text for text in written if channel_number(text) is None]:
            shown = ", ".join(repr(display_text(word)[:20]) for word in words[:3])
            numbered = ", ".join(f"{word[:20]}: {n}" for n, word in enumerate(words[:2]))
            raise refusal(
                path,
                f": {name!r} holds {shown}, which are no channels; say which they are, counted "
                f"from 0 (`channel_names: {{{numbered}}}`, if that is right), or hear the mix "
                "(`columns: {channel: ''}`)",
            )
        digits = [channel_number(text) for text in written if text[-1].isdecimal()]
        if 0 not in digits and 2 in digits:
            raise refusal(
                path,
                f": {name!r} seems to count channels from 1, since it has 2 and no 0; they are "
                "counted from 0 here, so write 0 and 1, or A and B",
            )
