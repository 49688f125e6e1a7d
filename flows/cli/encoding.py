"""Names are UTF-8 in every locale.

Ids, people's decisions and lists hold names as text. In a locale of another encoding Python would
read the same names as other texts: other ids, decisions that apply to nothing, clips that are new.
"""

from __future__ import annotations

import os
import sys


def ensure_utf8() -> None:
    """Start this process again in Python's UTF-8 mode, unless names are read as UTF-8 already. Its
    children inherit the mode."""
    if sys.getfilesystemencoding() == "utf-8":
        return
    words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
    os.execve(sys.executable, words, {**os.environ, "PYTHONUTF8": "1"})
