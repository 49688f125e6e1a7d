"""A recording whose header kills its reader costs one item, as one that kills a stage does."""

import time
from dataclasses import replace

import pytest

from tests.faults.command import Site, computed, packaged, quarantined
from tests.helpers import corpus

pytestmark = [pytest.mark.cluster]

COUNT, DEADLY = 6, "c/r03.wav"

#: Every interpreter of the run begins with it.
FATAL = """
import os, signal
from uttermill.tasks import audio

read = audio.probe

def probe(locator):
    if locator.path.endswith("r03.wav"):
        os.kill(os.getpid(), signal.SIGSEGV)
    return read(locator)

audio.probe = probe
"""


#: A header that never ends.
HANGING = FATAL.replace("os.kill(os.getpid(), signal.SIGSEGV)", "time.sleep(3600)").replace(
    "import os, signal", "import time"
)


@pytest.mark.nightly
def test_a_header_that_hangs_costs_the_timeout_of_an_item(bare: Site) -> None:
    corpus.make(bare.source, COUNT)
    bare.begin_with(HANGING)
    began = time.monotonic()
    done = bare.done(bare.settings("out", cluster={"item_timeout": 4.0}))
    assert time.monotonic() - began < 120
    assert quarantined(bare.home / "out") == {DEADLY: ("shard", "timeout")}
    assert done.result["deaths"]["timeouts"] == 1


@pytest.mark.nightly
def test_a_header_that_kills_costs_one_item(bare: Site) -> None:
    corpus.make(bare.source, COUNT)
    bare.begin_with(FATAL)
    settings = bare.settings("out")
    out, others = bare.home / "out", {f"c/r{n:02d}.wav" for n in range(COUNT)} - {DEADLY}

    first = bare.done(settings)
    assert quarantined(out) == {DEADLY: ("shard", "crashed")}
    assert packaged(out) == others
    assert (first.result["deaths"]["deaths"], first.result["deaths"]["isolated"]) == (2, 1)
    usual = replace(bare, environment={})  # whose Python begins as always
    assert set(computed(usual.done(settings)).values()) == {0}

    # Asked to try again: that one alone, and it is no better; then the library is mended.
    for mended in (False, True):
        site = usual if mended else bare
        retried = site.command("run", settings, "--set", "shard.retry=true")
        assert retried.code == 0, retried.stderr
        assert computed(retried)["shard"] == 1
        assert computed(retried)["filter"] == int(mended)
        assert quarantined(out) == ({} if mended else {DEADLY: ("shard", "crashed")})
    assert packaged(out) == {*others, DEADLY}
