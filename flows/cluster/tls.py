"""Settings that encrypt the cluster's traffic."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Self

from pydantic import Field

from tasks.errors import ConfigError
from tasks.settings import TRANSIENT, StageSettings

if TYPE_CHECKING:
    from distributed import Security


class TlsSettings(StageSettings):
    """Certificates of the cluster's traffic, by path; one pair for scheduler, workers and client.

    Each side checks the other's certificate against the authority, and refuses any other.
    """

    ca_file: str = Field(json_schema_extra=TRANSIENT, description="Authority's certificate, PEM.")
    cert: str = Field(json_schema_extra=TRANSIENT, description="Certificate of this user, PEM.")
    key: str = Field(
        json_schema_extra=TRANSIENT, description="Its private key, PEM, without a passphrase."
    )

    def rooted(self) -> Self:
        """The same with absolute paths, because workers start in folders of their own."""
        paths = {name: os.path.abspath(path) for name, path in self}
        return self.model_copy(update=paths)

    def check(self) -> None:
        """ConfigError when a file cannot be read or is not a certificate or key in PEM."""
        for name, path in self:
            try:
                with open(path, "rb"):
                    pass
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                raise ConfigError(f"cluster.tls.{name}: {path} cannot be read ({why})") from None
        try:
            ssl.create_default_context(cafile=self.ca_file)
        except ssl.SSLError:
            raise ConfigError(
                f"cluster.tls.ca_file: {self.ca_file} is not a certificate in PEM"
            ) from None
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_cert_chain(self.cert, self.key, password="")  # no password: it would ask
        except ssl.SSLError:
            raise ConfigError(
                f"cluster.tls: {self.cert} and {self.key} are not a certificate and its key in "
                "PEM, without a passphrase"
            ) from None

    def security(self) -> Security:
        """A `distributed.Security` that refuses plain traffic."""
        import distributed

        roles = ("scheduler", "worker", "client")
        pair = {f"tls_{role}_cert": self.cert for role in roles}
        pair |= {f"tls_{role}_key": self.key for role in roles}
        return distributed.Security(  # type: ignore[no-untyped-call]
            require_encryption=True, tls_ca_file=self.ca_file, **pair
        )
