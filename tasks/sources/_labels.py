"""Labels that a source keeps of a recording or a segment: an emotion, a gender, an accent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field, field_validator

from .. import scoring
from ..base import language_codes
from ..recording.locator import SECOND_LANGUAGE, SECOND_TEXT, Labels
from ..recording.names import display_text
from ..settings import SourceSettings, StageSettings
from ..settings.base import WORDS
from . import _columns
from ._lists import cell_field

LONGEST = 200  # characters of a value


class SecondText(StageSettings):
    """A further text of each clip."""

    column: str = Field(
        description="Key or column of the text.", min_length=1, json_schema_extra=WORDS
    )
    language: str = Field(
        description="Its language (ISO 639-1).", min_length=1, json_schema_extra=WORDS
    )

    @field_validator("language")
    @classmethod
    def _as_code(cls, language: str) -> str:
        if code := language_codes.read(language):
            return code
        raise ValueError(language_codes.fault(language) or f"{language!r} is no language")


class LabelSettings(SourceSettings):
    """Settings of a source whose entries have keys or columns."""

    labels: tuple[Annotated[str, Field(min_length=1, max_length=LONGEST)], ...] | None = Field(
        None,
        description="Keys or columns whose values are kept as labels, texts of at most "
        f"{LONGEST} characters: [emotion, gender]. package.only and package.without choose by "
        "them.",
        json_schema_extra=WORDS,
    )

    second_text: SecondText | None = Field(
        None,
        description="A text beside the text, such as a translation or a summary: {column: "
        "translation, language: en}. It is published as second_text, with second_language.",
    )

    @field_validator("labels")
    @classmethod
    def _refuse_taken(cls, labels: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if taken := {SECOND_TEXT, SECOND_LANGUAGE}.intersection(labels or ()):
            raise ValueError(
                f"{min(taken)} is what the setting second_text publishes; give the label another "
                "name"
            )
        return labels

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.labels or ()))

    @property
    def kept_names(self) -> tuple[str, ...]:
        """Keys and columns of labels and of the second text."""
        second = [self.second_text.column] if self.second_text else []
        return tuple(dict.fromkeys([*self.label_names, *second]))

    def kept(self, record: Mapping[str, object]) -> Labels:
        """The labels of an entry, and its second text."""
        labels = of_record(record, self.label_names)
        if self.second_text is None:
            return labels
        try:
            text = scoring.clean(cell_field(record.get(self.second_text.column)) or "")
        except ValueError:
            text = ""
        second = ((SECOND_TEXT, text), (SECOND_LANGUAGE, self.second_text.language))
        return (*labels, *second) if text else labels


def of_record(record: Mapping[str, object], names: Sequence[str]) -> Labels:
    """The labels of an entry that have a usable value."""
    stated = ((name, value_of(record.get(name))) for name in names)
    return tuple((name, value) for name, value in stated if value)


def value_of(value: object) -> str | None:
    """A cell as a label; None if it is absent, or neither a number nor a text of at most LONGEST
    characters."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        label = cell_field(value)
    except ValueError:
        return None
    return label if label and len(label) <= LONGEST else None


def notes(
    records: Iterable[Mapping[str, object]],
    settings: LabelSettings,
    noun: str,
    columns: Iterable[str] = (),
) -> list[str]:
    """A sentence for each label or second text that none of a source's first entries has, and for
    each label whose value in some of them is unusable. `noun`: what holds a value, such as a
    column; `columns`: those that exist even where no entry has a value."""
    if not settings.kept_names:
        return []
    records = [*records]
    present = dict.fromkeys([*columns, *(name for record in records for name in record)])
    shown = ", ".join(display_text(name) for name in [*present][: _columns.SHOWN]) or "nothing"
    sentences = []
    for name in settings.kept_names:
        title = display_text(name)
        asking = "labels" if name in settings.label_names else SECOND_TEXT
        if name not in present:
            sentences.append(
                f"`{asking}` names {title!r}, and none of the first {len(records):,} entries has "
                f"this {noun}; they have {shown}: correct the name, or take it out"
            )
        elif asking == "labels" and not all(map(_may_be_label, (r.get(name) for r in records))):
            sentences.append(
                f"the {noun} {title!r} holds values that are not texts of up to {LONGEST} "
                "characters; these are not kept as labels"
            )
    return sentences


def _may_be_label(value: object) -> bool:
    """Whether a cell is a label, or absent."""
    try:
        return value_of(value) is not None or cell_field(value) is None
    except ValueError:
        return False
