"""Checks `package.splits` and `package.weights`, with messages that name the remedy.

For a value that may be a number or a mapping, Pydantic's message would list every type that did not
match.
"""

from __future__ import annotations

import re
from typing import TypeGuard

from tasks.settings.base import StageSettings, Threshold

SPLIT_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
REST = "train"  # the split of all clips that no other split gets


class Split(StageSettings):
    """What a split other than `train` gets: a number of hours, or what a list names."""

    hours: float | None = Threshold(None, "Audio hours, about.", gt=0)
    list: str | None = Threshold(
        None,
        "Text file, one name a line: utterance ids, recordings, keys or speakers.",
        min_length=1,
    )


def check_splits(value: object) -> object:
    """The value, or ValueError: `{name: fraction | {hours: …} | {list: …}}`."""
    if not isinstance(value, dict):
        raise ValueError("write it as {dev: 0.05, test: {hours: 2}}")
    for name, share in value.items():
        if not isinstance(name, str) or not SPLIT_NAME.fullmatch(name):
            raise ValueError(f"a split's name has letters, digits, _ and - only, not {name!r}")
        if name.casefold() == REST:
            raise ValueError(f"{REST} is what the other splits leave; name only those")
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
    """The value, or ValueError: `{dataset: share}`."""
    if not isinstance(value, dict):
        raise ValueError("write it as {<dataset>: 0.5}")
    for name, weight in value.items():
        if _is_number(weight) and weight > 1:
            raise ValueError(
                f"{name} is more than 1, but a clip cannot be twice in a dataset, where ids are "
                "unique; name its tars more often in the trainer's list"
            )
        if not _is_number(weight) or not weight > 0:
            raise ValueError(
                f"{name} must be a number above 0 and up to 1; to have nothing of it, leave its "
                "source out"
            )
    return value


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
