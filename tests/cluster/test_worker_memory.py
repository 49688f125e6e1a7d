"""Workers keep the memory that Whisper's encoder asks for again and again."""

import os
import platform
import subprocess
import sys

import pytest

from uttermill.flows.cluster import local

LARGEST_BLOCK = 8 * 1500**2 * 4  # bytes: the attention of Whisper base over 30 s, of one layer
SECOND_TIME = f"""
import ctypes, resource, threading

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def once():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = ctypes.c_void_p(libc.malloc({LARGEST_BLOCK}))
    libc.memset(block, 1, {LARGEST_BLOCK})
    libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults = []
# A thread has ended, as in every worker: its arena is given to the next one, the engine's.
for target in (lambda: bytearray(1000), lambda: faults.extend((once(), once()))):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
print(faults[1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="these are variables of glibc")
def test_memory_of_the_encoder_is_kept() -> None:
    """Fetching its pages anew in each layer took a quarter of the encoder's CPU time."""
    told = dict(os.environ) | local.worker_environment({})
    command = [sys.executable, "-c", SECOND_TIME]
    found = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 100  # 17,579 pages in all
