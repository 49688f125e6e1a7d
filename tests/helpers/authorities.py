"""Which authorities a test's processes trust: one, whose key nobody has.

Every client of an API loads them all, although it speaks to the loopback without TLS: 23 ms of CPU
for those of a system, ten times in a run with Prefect.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: Before the name of a variable: what it was before the first process of the tests changed it.
BEFORE = "UTTERMILL_TEST_"

ONE = """\
-----BEGIN CERTIFICATE-----
MIIBYzCCAQmgAwIBAgIBATAKBggqhkjOPQQDAjAuMSwwKgYDVQQDDCN1dHRlcm1p
bGwgdGVzdHM6IG5vYm9keSBoYXMgaXRzIGtleTAgFw0yMDAxMDEwMDAwMDBaGA8y
MTE5MTIwODAwMDAwMFowLjEsMCoGA1UEAwwjdXR0ZXJtaWxsIHRlc3RzOiBub2Jv
ZHkgaGFzIGl0cyBrZXkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQ3ibqDyj84
ZiygRp0CAVMz4kEjEHRQA4bRhXEbTRDe5xMquArqYzIk90zHEndD5E/0eHMGdjQ5
OnqE+l+y9jy2oxYwFDASBgNVHRMBAf8ECDAGAQH/AgEAMAoGCCqGSM49BAMCA0gA
MEUCIQD2VAZWb1evKCcpe8ZOrTbK6iy6hi53DG1RvppN3EsECAIgfZe8sdYYTxb+
m5d/q11BHCNExMIhDuMM42fKAtUU78E=
-----END CERTIFICATE-----
"""


def trust_one(folder: Path) -> None:
    """For this process and those that it starts; its file and an empty folder go into `folder`."""
    if not any(BEFORE + name in os.environ for name in NAMES):
        os.environ |= {BEFORE + name: os.environ.get(name, "") for name in NAMES}
    file, none = folder / "authority.pem", folder / "no-authorities"
    file.write_text(ONE)
    none.mkdir()
    os.environ |= {"SSL_CERT_FILE": str(file), "SSL_CERT_DIR": str(none)}


@contextmanager
def trusted_as_ever() -> Iterator[None]:
    """For what speaks to the index of packages."""
    now = {name: os.environ[name] for name in NAMES}
    for name in NAMES:
        if value := os.environ.get(BEFORE + name):
            os.environ[name] = value
        else:
            del os.environ[name]
    try:
        yield
    finally:
        os.environ |= now
