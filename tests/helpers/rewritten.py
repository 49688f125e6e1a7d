"""Bytecode of the tests as pytest rewrites their asserts, made once.

`python -m tests.helpers.rewritten`

Where Python may not write bytecode (`PYTHONDONTWRITEBYTECODE`) each process that shares the tests
would rewrite all of them itself, two fifths of what its collection takes. pytest compares what it
finds with the source's hash, and rewrites what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from _pytest.assertion import AssertionState
from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc, get_cache_dir
from _pytest.config import get_config

#: Libraries with plug-ins of pytest, which pytest rewrites, too.
LIBRARIES = ("anyio", "hypothesis", "xdist")


def sources() -> Iterator[Path]:
    here = Path(__file__).parents[1]
    yield from (*here.rglob("test_*.py"), *here.rglob("conftest.py"))
    for name in LIBRARIES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            yield from Path(spec.origin).parent.rglob("*.py")


def main() -> None:
    config = get_config()
    state = AssertionState(config, "rewrite")
    for source in sources():
        code_hash, code = _rewrite_test(source, config)
        made = get_cache_dir(source) / (source.name.removesuffix(".py") + PYC_TAIL)
        made.parent.mkdir(exist_ok=True)
        _write_pyc(state, code, code_hash, made)


if __name__ == "__main__":
    main()
