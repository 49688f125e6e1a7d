"""Where the modules of a command come from: the installation, and absolute folders of PYTHONPATH.

The current folder may be a stranger's, with a `json.py` in it. This module imports nothing that
Python has not loaded by itself.
"""

import os
import sys


def shut() -> None:
    """Import nothing from the current folder, in this process and in each Python that it starts."""
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder for `-m` and `-c`, and the script's own
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = [folder for folder in given if os.path.isabs(folder)]
    # Python has made these absolute; an empty one is the current folder.
    relative = {os.path.abspath(folder) for folder in given if folder not in absolute}
    sys.path[:] = [
        folder
        for folder in sys.path
        if os.path.isabs(folder) and (folder not in relative or folder in absolute)
    ]
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = os.pathsep.join(absolute)
    os.environ["PYTHONSAFEPATH"] = "1"
