"""Settings of package: what of the corpus is published, in which splits and formats."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal, TypeGuard

from pydantic import BeforeValidator, Field, field_validator

from ..base.errors import ConfigError
from .base import (
    ROW,
    WORDS,
    Memory,
    Plugin,
    Shelf,
    StageSettings,
    Threshold,
    Transient,
    named,
)
from .stages import Source

SPLIT_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
REST = "train"  # the split of all clips that are in no other one

#: `wenet` stands for `{use: wenet}`.
Format = Annotated[
    Plugin,
    BeforeValidator(
        named, json_schema_input_type=Annotated[Plugin | str, Shelf("formats", "Format")]
    ),
]


class Split(StageSettings):
    """The contents of a split other than `train`: a number of hours, or what a list names."""

    hours: float | None = Threshold(None, "Audio hours, about.", gt=0)
    list: str | None = Threshold(
        None,
        "Text file, one name a line: utterance ids, recordings, keys or speakers.",
        min_length=1,
    )


def _as_list(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class ClipChoice(StageSettings):
    """Selects clips that match one of the names in every field that has any."""

    speaker: tuple[str, ...] = Threshold(
        (), "Speakers, as in `utterances.parquet`; or `dataset/speaker`.", mark=WORDS
    )
    dataset: tuple[str, ...] = Threshold((), "Sources, by name.", mark=WORDS)
    language: tuple[str, ...] = Threshold(
        (), "Languages, by code or English name; `en` is `en_US`, too.", mark=WORDS
    )
    voice: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = Threshold(
        (),
        "Recordings, each of one person: clips have that voice if the cosine of the two voices' "
        "embeddings is at least voice_cosine. The filter `voice` measures it.",
    )
    voice_cosine: float = Threshold(
        0.5,
        "Least cosine of one voice. Of 2 s or more, 5 % of a speaker's own clips are below 0.5, "
        "and 0.1 % of others' above.",
        ge=-1,
        le=1,
    )
    labels: dict[str, tuple[str, ...]] | None = Threshold(
        None,
        "Values of labels that sources keep, by the label's name: {emotion: [happy, sad]}; of "
        "several labels, those that all of them name.",
        mark=WORDS,
    )


class Excluded(Source):
    """A test set of others, of which no clip may have a text or a sound: a source of any kind;
    `texts`: a file with one text a line; `hashes`: what `uttermill test-set` wrote."""

    kind: str = Field("folder", description="Kind of source; or texts, or hashes.")
    by: tuple[Literal["text", "audio", "voice", "speaker"], ...] | None = Field(
        None,
        min_length=1,
        description="What is compared: [text, audio, voice, speaker], the last by the names that "
        "both sources state. Default: the first two, of texts only the text.",
    )
    voice_cosine: float = Field(
        0.5,
        ge=-1,
        le=1,
        description="Least cosine of one voice, where voices are compared (filter voice).",
    )
    min_words: int = Field(
        4, ge=1, description="Texts of fewer words are not compared: many clips say them."
    )

    @property
    def source(self) -> Source:
        """The set as a source of recordings."""
        return Source.model_validate({"kind": self.kind, "path": self.path, **self.options})

    def compares(self, what: str) -> bool:
        """Whether `text`, `audio`, `voice` or `speaker` is compared."""
        default = ("text",) if self.kind == "texts" else ("text", "audio")
        return what in (self.by or default)


def keeps_speakers_apart(splits: object, disjoint: Collection[str] | None) -> bool:
    """Whether there are splits and no two of them may share a speaker."""
    return bool(splits) and (disjoint is None or "speaker" in disjoint)


def check_splits(value: object) -> object:
    """The unchanged value of `splits`; ValueError unless it is `{name: fraction | {hours: …} |
    {list: …}}`."""
    if not isinstance(value, dict):
        raise ValueError("write {dev: 0.05, test: {hours: 2}}")
    for name, share in value.items():
        if not isinstance(name, str) or not SPLIT_NAME.fullmatch(name):
            raise ValueError(f"a split's name has letters, digits, _ and - only, not {name!r}")
        if name.casefold() == REST:
            raise ValueError(f"{REST} gets what the other splits leave; name only those")
        if not _is_share(share):
            raise ValueError(
                f"{name} must be a fraction between 0 and 1, or {{hours: …}}, or {{list: …}} with "
                "the path of a text file"
            )
    if len({name.casefold() for name in value}) != len(value):
        raise ValueError("two splits differ in upper and lower case only")
    total = sum(share for share in value.values() if isinstance(share, int | float))
    if total >= 1:
        raise ValueError(f"the fractions add up to {total:g}: nothing would be left for {REST}")
    return value


def _is_share(share: object) -> bool:
    if not isinstance(share, dict):
        return isinstance(share, Split) or (_is_number(share) and 0 < share < 1)
    given = {key: value for key, value in share.items() if value is not None}
    if set(given) == {"hours"}:
        return _is_number(given["hours"]) and 0 < given["hours"] < 1e9
    path = given.get("list")
    return set(given) == {"list"} and isinstance(path, str) and path != "" and "://" not in path


def check_weights(value: object) -> object:
    """The unchanged value of `weights`; ValueError unless it is `{dataset: share}`."""
    if not isinstance(value, dict):
        raise ValueError("write {<dataset>: 0.5}")
    for name, weight in value.items():
        if _is_number(weight) and weight > 1:
            raise ValueError(
                f"{name} is more than 1, but a clip cannot be twice in a dataset, where ids are "
                "unique; name its tars more often in the trainer's list"
            )
        if not _is_number(weight) or not weight > 0:
            raise ValueError(
                f"{name} must be a number above 0 and up to 1; to package nothing of it, leave its "
                "source out"
            )
    return value


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


class PackageSettings(StageSettings):
    """What is published, and when publishing is refused."""

    formats: tuple[Format, ...] = Threshold(
        (Plugin(use="wenet"),), "Formats in which a version is written, each once.", min_length=1
    )
    audio: Literal["enhanced", "original", "both"] = Threshold(
        "enhanced",
        "Which audio of a clip is packaged: the result of the step enhance, where it is on; the "
        "original; or both, as two fields of formats that can hold two.",
        mark=ROW,
    )
    publish: tuple[str, ...] = Threshold(
        (),
        "What of a clip, beside its measures and labels, is published, by name: annotations of "
        "plug-ins, and words, turns and speaker_embedding. It becomes a column of "
        "`utterances.parquet`, and a field of formats that have free ones.",
        mark=ROW | WORDS,
    )
    text_form: Literal["as_is", "normalised", "llm_text"] = Threshold(
        "as_is",
        "as_is: texts as the source or the recogniser writes them; normalised: "
        "lower case, no punctuation, numbers in words by language; llm_text: with the punctuation "
        "and case of transcribe.llm_text, where it changed no word.",
        mark=ROW,
    )
    text_marks: dict[str, str] = Threshold(
        {},
        'Marks of sounds in texts, by the sound: {laughter: "[laughs]"}. A mark stands where the '
        "source's text states the sound, as captions do, or where a filter hears it begin, by the "
        "times of words.",
        mark=ROW | WORDS,
    )
    seed: int = Threshold(0, "Order of clips in shards.", mark=ROW)
    splits: dict[str, float | Split] = Threshold(
        {},
        "Splits beside train: a fraction of the hours, {hours: …} or {list: …} each. "
        "No speaker and no recording is in two, and what was published stays where it is.",
        mark=WORDS,
    )
    disjoint: tuple[Literal["speaker", "recording", "audio", "text"], ...] | None = Threshold(
        None,
        "What two splits may not share: [speaker, recording, audio, text]. Default: the "
        "first three; text too for read speech, where a fifth of the hours have texts that other "
        "recordings have too. Clips left out for it are text_in_two_splits in the ledger.",
    )
    leaks_by_voice: bool = Threshold(
        False,
        "Where speakers are unknown, link the voices of clips (filter `voice`) to count those of "
        "other splits whose voice is in train, too: `leaks` in dataset.json. Splits and clips stay "
        "as they are.",
    )
    resplit: bool = Threshold(
        False, "Assign all splits anew: published clips may move to another one."
    )
    split_conflicts: Literal["drop", "keep_larger"] = Threshold(
        "drop",
        "What becomes of published clips that have to stay together, since their speakers have "
        "other names now, and are in several splits. drop: all are dropped; keep_larger: the split "
        "with most of their audio keeps its own.",
    )
    weights: dict[str, float] = Threshold(
        {},
        "Share of a dataset's clips that is packaged, by its name; above 0, up to 1.",
        mark=WORDS,
    )
    only: ClipChoice | None = Threshold(
        None,
        "Package only clips of these: {speaker: […], dataset: […], language: […], voice: "
        "example.wav, labels: {emotion: […]}}; of several kinds, those that all of them name. The "
        "others are `not_chosen` in the ledger, by their voice `other_voice`. What is known before "
        "recognition is not recognised.",
        title="Only",
    )
    without: ClipChoice | None = Threshold(
        None,
        "Package no clip of these: {speaker: […], dataset: […], language: […], voice: "
        "example.wav, labels: {emotion: […]}}; of several kinds, none that any of them names.",
        title="Without",
    )
    exclude: tuple[Excluded, ...] = Threshold(
        (),
        "Test sets of others: [{kind: folder, path: …}, {kind: texts, path: …}]. Clips with nearly "
        "a text of theirs, or its sound in any encoding, are `in_test_set` in the ledger; with "
        "`by: [text, audio, voice, speaker]`, so are all clips of its speakers, by their voices "
        "and names.",
    )
    max_hours_per_speaker: float | None = Threshold(
        None,
        "Most hours of a speaker that are packaged; published clips come first, others by a seeded "
        "draw.",
        gt=0,
    )
    tar_hours: float = Threshold(
        0.25,
        "Audio hours per tar shard, about; more where a split has more than 40,000 of them.",
        gt=0,
    )
    readers: int = Threshold(
        1, "Ranks × workers of the trainer: the tars of a full layout are a multiple of it.", ge=1
    )
    rebalance: Literal["grow", "full"] = Threshold(
        "grow",
        "grow: the last version's tars stay, new clips get new ones; full: all are written anew.",
    )
    rebalance_above: float = Threshold(
        0.2,
        "Write all tars anew when the worst reader would get this fraction more than the mean.",
        ge=0,
    )
    memory: Memory = Transient(
        "1GB",
        "Memory in which tables of the whole corpus are sorted and joined; beyond it, they lie in "
        "the worker's temporary folder.",
        pattern=r"^[0-9]+(\.[0-9]+)? ?(MB|MiB|GB|GiB)$",
    )
    keep: int | None = Transient(
        30,
        "How many of the newest versions to keep: a run that publishes one removes the older ones. "
        "null: keep all. Files that a newer version links stay with it.",
        ge=1,
    )
    refit: bool = Threshold(False, "Compute again the bounds that the first version froze.")
    max_failed_fraction: float = Transient(
        0.10, "Nothing is published when a larger fraction of the recordings failed.", ge=0, le=1
    )
    max_new_failed_fraction: float = Transient(
        0.5,
        "Nothing is published when more of the recordings failed that the last version does not "
        "have, and at least two; the first version has no such limit.",
        ge=0,
        le=1,
    )
    max_removed_fraction: float = Transient(
        0.10,
        "Nothing is published when a larger fraction of the last version's recordings is gone, "
        "or of its audio is dropped by splits; nor when a split has no clip any more. 1 allows it.",
        ge=0,
        le=1,
    )

    removed_ok: tuple[str, ...] = Transient(
        (), "Sources, by name, of which any number of recordings may be gone."
    )

    @property
    def links_voices(self) -> bool:
        """Whether the voices of all clips are linked, to count those that splits share."""
        return self.leaks_by_voice and bool(self.splits)

    @field_validator("formats")
    @classmethod
    def _refuse_twice(cls, value: tuple[Plugin, ...]) -> tuple[Plugin, ...]:
        names = Counter(plugin.use for plugin in value)
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(
                f"{twice[0]} is named twice, and a version has one folder of each format; for "
                "another profile or other settings of it, run again with another `out`"
            )
        return value

    _splits = field_validator("splits", mode="before")(check_splits)
    _weights = field_validator("weights", mode="before")(check_weights)

    @field_validator("text_marks")
    @classmethod
    def _one_line(cls, marks: dict[str, str]) -> dict[str, str]:
        for label, mark in marks.items():
            if not mark.strip() or not mark.isprintable() or len(mark) > 40:
                raise ValueError(f"the mark of {label} must be 1 to 40 printable characters")
        return marks


MOST_BYTES = 128 << 20  # of a list: a million names take half of it


@dataclass(frozen=True, slots=True)
class SplitList:
    """The names of a split's list (`{test: {list: test.txt}}`), sorted, without repeats: ids of
    utterances, recordings (`dataset/path`), the source's own keys, or speakers (with or without
    `dataset/`). A named clip brings along every clip that must stay in its split. A version depends
    on a list's contents, not on its path."""

    split: str
    names: tuple[str, ...]

    @property
    def sha256(self) -> str:
        return hashlib.sha256("\n".join(self.names).encode()).hexdigest()


def read_list(settings: PackageSettings) -> list[SplitList]:
    """All lists, sorted by split. ConfigError for one that cannot be read, is empty, or shares a
    name with another."""
    lists = []
    owner: dict[str, str] = {}
    for split, share in sorted(settings.splits.items()):
        if not isinstance(share, Split) or share.list is None:
            continue
        where = f"package.splits.{split}.list"
        try:
            with open(share.list, "rb") as file:
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ConfigError(
                    f"{where}: {share.list} has more than {MOST_BYTES >> 20} MiB; is it a list?"
                )
            text = data.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(f"{where}: {share.list} cannot be read: {why}") from None
        names = sorted({line.strip() for line in text.splitlines()} - {""})
        if not names:
            raise ConfigError(f"{where}: {share.list} is empty")
        for name in names:
            if owner.setdefault(name, split) != split:
                raise ConfigError(f"{where}: {name} is in the list of {owner[name]} as well")
        lists.append(SplitList(split, tuple(names)))
    return lists
