"""An authority and a certificate of it, made for a test."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOUR = timedelta(hours=1)


def make(
    folder: Path, passphrase: bytes | None = None, begins: timedelta = -HOUR, ends: timedelta = HOUR
) -> dict[str, str]:
    """`cluster.tls` over new files in `folder`; two calls make strangers. The certificate, but not
    its authority's, is valid from `begins` to `ends`, from now."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _certificate("authority", authority, "authority", authority, is_authority=True,
                        valid=(-HOUR, HOUR))  # fmt: skip
    leaf = _certificate("worker", own, "authority", authority, is_authority=False,
                        valid=(begins, ends))  # fmt: skip
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(root.public_bytes(pem))
    (folder / "cert.pem").write_bytes(leaf.public_bytes(pem))
    form = serialization.PrivateFormat.PKCS8
    locked: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        locked = serialization.BestAvailableEncryption(passphrase)
    (folder / "key.pem").write_bytes(own.private_bytes(pem, form, locked))
    names = {"ca_file": "ca.pem", "cert": "cert.pem", "key": "key.pem"}
    return {name: str(folder / file) for name, file in names.items()}


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
    is_authority: bool,
    valid: tuple[timedelta, timedelta],
) -> x509.Certificate:
    now = datetime.now(UTC)
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + valid[0])
        .not_valid_after(now + valid[1])
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .sign(signer, hashes.SHA256())
    )
