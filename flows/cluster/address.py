"""The address of a scheduler that others started: its form, and why it does not answer."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from distributed import Security

FORM = re.compile(
    r"(?:(?:tcp|tls|ws|wss|ucx)://)?(?:\[[0-9a-fA-F:.]+\]|[^\s\[\]:/@?#]+):([0-9]{1,5})/?"
)
MOST = 65535
#: By OpenSSL's code of a certificate that is not accepted.
OUT_OF_DATE = {
    9: "its certificate, or its authority's, is not valid yet; check the clocks, or start the "
    "scheduler with one that is",
    10: "its certificate, or its authority's, has expired; start the scheduler with a new one",
}
TRY_S = 2.0  # s
CONNECT_S = 10.0  # s for which Dask tries to connect; its own 30 s are for schedulers that start


def is_one(text: str) -> bool:
    form = FORM.fullmatch(text)
    return form is not None and 0 < int(form[1]) <= MOST


def fault(address: str, error: BaseException) -> str:
    """Why there is no scheduler to talk to, for people. `error`: the first cause."""
    return f"no Dask scheduler at {address} (cluster.address): {_cause(address, error)}"


def _cause(address: str, error: BaseException) -> str:
    if isinstance(error, TimeoutError | asyncio.CancelledError):
        error = _refusal(address) or error
    if isinstance(error, ssl.SSLCertVerificationError):
        return OUT_OF_DATE.get(
            error.verify_code, "its certificate is not of the authority in cluster.tls.ca_file"
        )
    if isinstance(error, ssl.SSLError):
        return f"the server there refuses TLS ({error.reason}); for one without TLS, give tcp://"
    if isinstance(error, ValueError) and address.startswith("tls://"):  # Tornado's, before TLS
        return "the server there does not speak TLS; give tcp://"
    if isinstance(error, TypeError):
        return "another program listens there, a worker for example"
    if isinstance(error, socket.gaierror):
        return f"the host is not known ({error.strerror})"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there; start the scheduler, or correct the address"
    if isinstance(error, ConnectionResetError) and not address.startswith("tls://"):
        return "it hangs up; if it uses TLS, give tls:// and its certificates in cluster.tls"
    return str(error) or "it does not answer; check that its port is open to this machine"


def _refusal(address: str) -> OSError | None:
    """The error of a connection that is refused, or whose host is not known. The last of Dask's
    tries ends with its patience, which may be a moment after it begins."""
    place = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        socket.create_connection((place.hostname, place.port), TRY_S).close()
    except (ConnectionRefusedError, socket.gaierror) as error:
        return error
    except OSError:
        return None
    return None


def client(target: object, security: Security | None, patience: float) -> Any:
    """A `distributed.Client`; closed within `patience` seconds if it fails to connect: else it
    would warn when Python removes it."""
    import distributed

    untyped: Any = distributed.Client

    class Client(untyped):  # type: ignore[misc]
        def start(self, **options: Any) -> None:
            """Connect: the step that may fail."""
            try:
                super().start(**options)
            except BaseException:
                with suppress(AttributeError, OSError, RuntimeError, TimeoutError):
                    self.close(timeout=patience)
                raise

    timeout = {"timeout": CONNECT_S} if isinstance(target, str) else {}
    return Client(target, set_as_default=False, security=security, **timeout)
