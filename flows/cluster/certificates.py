"""The certificate of one local cluster: made when it starts, worthless once it has ended."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flows.cluster.settings import TlsSettings

NAME = "uttermill"
LIFE = timedelta(days=3650)  # runs take months; the key is removed with the cluster


def make(folder: Path) -> TlsSettings:
    """A new certificate in `folder`, which is its own authority, and its key, for this user alone.

    P-256 takes 0.2 ms; RSA, which `distributed.Security.temporary` uses, 40 to 130 ms.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # a clock may be set back
        .not_valid_after(now + LIFE)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    bare = serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, bare)
    cert_file = _written(folder / "cert.pem", certificate.public_bytes(pem))
    key_file = _written(folder / "key.pem", private)
    return TlsSettings(ca_file=cert_file, cert=cert_file, key=key_file)


def _written(path: Path, content: bytes) -> str:
    """Write a new file that only its owner may read; its path."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return str(path)
