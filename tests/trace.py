"""How much of the product one recording passes, and how large the product is.

    python -m tests.trace [--json]

modules, functions, calls: what `run_here` enters while it takes one recording of 2.8 s from a
folder to a published version, with the default settings and the recogniser `fake`, which needs no
weights (Whisper adds some 15 modules). A call is a frame of code in `flows/` or `tasks/` that
begins, in any thread; a generator begins once, and its resumptions are not counted. Lambdas and
generator expressions are functions; comprehensions are until Python 3.12, which has no frames for
them. The recording is run once before, so imports, and what a process makes once, do not count.

lines, files: Python in `flows/` and `tasks/`. test_lines: Python in `tests/`; bench_lines: those in
`tests/bench/`. rooms: the entries of LAYERS in `tests/laws/test_import_rules.py`; arrows: pairs of
them of which one imports from the other.
"""

import argparse
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import soundfile as sf

from tests.helpers import corpus
from tests.laws import test_import_rules as rules
from uttermill.flows import settings
from uttermill.tasks import pipeline

ROOT = Path(__file__).parents[1]
PRODUCT = ("flows", "tasks")
SECONDS = 2.8
SETS = ("transcribe.backend.use=fake", "shard.settle_seconds=0")


def passed() -> dict[str, int]:
    """Modules, functions and calls that one recording passes."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "in")
        folder.mkdir()
        sf.write(folder / "recording.wav", corpus.speech(1, SECONDS, 16000), 16000, "PCM_16")
        for out in ("warm", "counted"):
            read = settings.read(None, [str(folder)], f"{home}/{out}", SETS)
            with entered() as calls:
                pipeline.run_here(read.job())
    return {
        "modules": len({code.co_filename for code in calls}),
        "functions": len(calls),
        "calls": calls.total(),
    }


@contextmanager
def entered() -> Iterator[Counter[CodeType]]:
    """How often each function of the product begins within the context."""
    calls: Counter[CodeType] = Counter()
    bytecode: dict[CodeType, bytes | None] = {}  # None: not of the product
    folders = tuple(f"{Path(sys.modules[f'uttermill.{name}'].__path__[0])}/" for name in PRODUCT)

    def count(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in bytecode:
            bytecode[code] = code.co_code if code.co_filename.startswith(folders) else None
        instructions = bytecode[code]
        # A frame that begins is at RESUME 0; 1 to 3 are resumptions after `yield` and `await`.
        if instructions and instructions[frame.f_lasti + 1] & 3 == 0:
            calls[code] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def size() -> dict[str, int]:
    """Lines and files of the product and of its tests; rooms, and arrows between them."""
    files = [path for name in PRODUCT for path in rules.modules(name)]
    known = {rules.dotted(path): path for path in files}
    arrows = {
        (rules.package_of(module), rules.package_of(imported))
        for module, path in known.items()
        for imported in rules.imports_of(module, path, path.read_text(), known.keys())
    }
    return {
        "lines": _lines(files),
        "files": len(files),
        "test_lines": _lines(rules.modules("tests")),
        "bench_lines": _lines(rules.modules("tests/bench")),
        "rooms": len(rules.LEVELS),
        "arrows": len({(one, other) for one, other in arrows if one != other}),
    }


def _lines(files: list[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    args = parser.parse_args()
    result = {**passed(), **size()}
    if args.json:
        print(json.dumps(result))
    else:
        for name, number in result.items():
            print(f"{name:12} {number:8,}")


if __name__ == "__main__":
    main()
