"""The pairs of `pairs.toml`."""

import tomllib
from pathlib import Path
from typing import Any

PAIRS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
