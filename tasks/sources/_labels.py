"""Labels that a source keeps of a recording or a segment: an emotion, a gender, an accent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from ..recording.locator import Labels
from ..recording.names import display_text
from ..settings import SourceSettings
from ..settings.base import WORDS
from . import _columns
from ._lists import cell_field

LONGEST = 200  # characters of a value


class LabelSettings(SourceSettings):
    """Settings of a source whose entries have keys or columns."""

    labels: tuple[Annotated[str, Field(min_length=1, max_length=LONGEST)], ...] | None = Field(
        None,
        description="Keys or columns whose values are kept as labels, texts of at most "
        f"{LONGEST} characters: [emotion, gender]. package.only and package.without choose by "
        "them.",
        json_schema_extra=WORDS,
    )

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.labels or ()))


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
    names: Sequence[str],
    noun: str,
    columns: Iterable[str] = (),
) -> list[str]:
    """A sentence for each label that none of a source's first entries has, and for each whose value
    in some of them is unusable. `noun`: what holds a value, such as a column; `columns`: those that
    exist even where no entry has a value."""
    if not names:
        return []
    records = [*records]
    present = dict.fromkeys([*columns, *(name for record in records for name in record)])
    shown = ", ".join(display_text(name) for name in [*present][: _columns.SHOWN]) or "nothing"
    sentences = []
    for name in names:
        title = display_text(name)
        if name not in present:
            sentences.append(
                f"`labels` names {title!r}, and none of the first {len(records):,} entries has "
                f"this {noun}; they have {shown}: correct the name, or take it out"
            )
        elif any(_is_no_label(record.get(name)) for record in records):
            sentences.append(
                f"the {noun} {title!r} holds values that are not texts of up to {LONGEST} "
                "characters; these are not kept as labels"
            )
    return sentences


def _is_no_label(value: object) -> bool:
    """Whether a cell holds something that cannot be a label."""
    if value_of(value) is not None:
        return False
    try:
        return cell_field(value) is not None
    except ValueError:
        return True
