"""Says of a version with splits for how many hours nobody knows who speaks."""

from __future__ import annotations

from tasks.base.json_types import DatasetJson
from tasks.settings.package import keeps_speakers_apart


def sentence(facts: DatasetJson) -> str | None:
    """A warning for people, with the remedy; None if splits keep all speakers apart, or were not
    asked to. `facts`: dataset.json."""
    package = facts["settings"]["package"]
    unknown = facts["speakers"]["hours_unknown"]
    if not unknown or not keeps_speakers_apart(package["splits"], package.get("disjoint")):
        return None
    hours = facts["seconds"]["packaged"] / 3600
    return (
        f"nobody knows who speaks in {unknown:.3f} of {hours:.3f} h, so the splits keep recordings "
        "apart there, but one person may be in two of them; name speakers in the sources, or set "
        "speakers.use=segments to find them"
    )
