"""The real command on a disk of which reads fail: a library below Python gives the system's errors
for some names, to whoever opens or reads them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
#: The control file has lines `<open|read> <end of a name> <number of the error>`.
LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(const char *what, const char *path) {
    char line[512], op[16], end[256]; int number, found = 0;
    const char *control = getenv("FAILING_READS");
    FILE *file = control ? fopen(control, "r") : NULL;
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%15s %255s %d", op, end, &number) == 3 && !strcmp(op, what)
            && strlen(path) >= strlen(end) && !strcmp(path + strlen(path) - strlen(end), end))
            found = number;
    fclose(file);
    return found;
}

ssize_t read(int fd, void *buffer, size_t count) {
    static ssize_t (*real)(int, void *, size_t);
    char link[64], path[4096]; ssize_t length; int number;
    if (!real) real = dlsym(RTLD_NEXT, "read");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length > 4 && (path[length] = 0, !strcmp(path + length - 4, ".wav"))
        && (number = fails("read", path))) { errno = number; return -1; }
    return real(fd, buffer, count);
}

int open64(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    va_list rest; int mode, number; size_t length = strlen(path);
    if (!real) real = dlsym(RTLD_NEXT, "open64");
    va_start(rest, flags); mode = va_arg(rest, int); va_end(rest);
    if (length > 4 && !strcmp(path + length - 4, ".wav") && (number = fails("open", path))) {
        errno = number; return -1;
    }
    return real(path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list rest; int mode;
    va_start(rest, flags); mode = va_arg(rest, int); va_end(rest);
    return open64(path, flags, mode);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("library")
    (home / "failing.c").write_text(LIBRARY)
    made = home / "failing.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", made, home / "failing.c", "-ldl"], check=True, timeout=60
    )
    return made


def run(home: Path, library: Path, failing: str) -> tuple[int, dict[str, Any]]:
    (home / "control").write_text(failing)
    settings = (
        *("transcribe.backend.use=fake", "cluster.workers=1", "shard.settle_seconds=0"),
        "history=none",
    )
    options = [part for each in settings for part in ("--set", each)]
    done = subprocess.run(
        [sys.executable, "-m", "uttermill.flows.cli", "run",
         "--source", home / "in", "--out", home / "out",
         "--json", *options],
        env={**os.environ, "LD_PRELOAD": str(library), "FAILING_READS": str(home / "control")},
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def test_nights_of_a_share_that_fails(tmp_path: Path, library: Path) -> None:
    corpus.make(tmp_path / "in", 12)
    code, first = run(tmp_path, library, "read /r03.wav 5\nopen /r04.wav 116\n")
    assert (code, first["recordings"]) == (0, {"in": 12, "failed": 2})
    assert first["unreachable"] == {"Input/output error": 1, "Stale file handle": 1}
    code, second = run(tmp_path, library, "")
    assert (code, second["recordings"]) == (0, {"in": 12, "failed": 0})
    assert second["stages"]["shard"]["items_computed"] == 2
    for number in range(12):
        corpus.add(tmp_path / "in", number, seed=50 + number)
    code, third = run(tmp_path, library, "read .wav 107\n")
    assert code == 1
    assert (
        "is not readable: 12 of its 12 recordings failed with Transport endpoint" in third["error"]
    )
    code, fourth = run(tmp_path, library, "")
    assert (code, fourth["version"], fourth["recordings"]["failed"]) == (0, 3, 0)
