"""`uttermill test-set`: the hashes of a test set, to be shared without its texts and sounds."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ...tasks.base.json_types import JsonObject
from ...tasks.corpus import held_out
from ...tasks.plugins import checked
from ...tasks.settings import PackageSettings
from ...tasks.settings.job import Job
from ...tasks.sources import table


def written(args: argparse.Namespace) -> JsonObject:
    """Write the file of hashes; what it holds."""
    path = os.path.abspath(os.path.expanduser(args.path))
    looks = {"kind": "texts"} if path.endswith(".txt") else table.suggested(path)
    given = {"kind": args.kind, "language": args.language, "name": args.name}
    one = {
        **(looks or {"kind": "folder"}),
        **{name: value for name, value in given.items() if value is not None},
        "path": path,
        "by": ["text", "audio"] if args.sound else ["text"],
    }
    settings = checked(PackageSettings, {"exclude": [one]}, "test-set")
    with tempfile.TemporaryDirectory() as home:
        job = Job(out=Path(home), package=settings)
        held_out.check(job)
        [test_set] = held_out.read(job)
    target = Path(args.out).absolute()
    held_out.write(test_set, target)
    facts = held_out.described(test_set, 0)
    return {
        "file": str(target),
        "texts": facts["texts"],
        "sounds": facts["sounds"],
        "sha256": facts["sha256"],
    }


def shown(answer: JsonObject) -> Iterator[str]:
    yield (
        f"{answer['file']}: hashes of {answer['texts']:,} texts and fingerprints of "
        f"{answer['sounds']:,} clips; package.exclude=[{{kind: hashes, path: {answer['file']}}}] "
        "keeps them out"
    )
