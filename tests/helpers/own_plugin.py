"""A plug-in of ours, as a user copies it into a folder of their own."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def copied(path: str) -> str:
    """The text of `tasks/<kind>/<name>.py`, with the whole names of what it imports."""
    home = ".".join(Path(path).parent.parts)
    text = (ROOT / path).read_text()
    return text.replace("from ..", "from uttermill.tasks.").replace(
        "from .", f"from uttermill.{home}."
    )
