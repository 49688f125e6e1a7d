"""Passwords of local Prefect servers, as Prefect writes them: `user:password`.

The server of a run has one of its own, which ends with it. That of `serve` stays the same, in a
file that only its user can read, so that a browser stays signed in.
"""

from __future__ import annotations

import base64
import os
import secrets
import stat
from pathlib import Path

from prefect.settings import get_current_settings

from ...tasks.base.errors import ConfigError
from .door import LOGIN

USER = "uttermill"
FILE = "uttermill-login"  # in Prefect's home


def fresh() -> str:
    return f"{USER}:{secrets.token_urlsafe(24)}"


def chosen() -> str | None:
    """The user's own, from PREFECT_SERVER_API_AUTH_STRING or the active Prefect profile."""
    secret = get_current_settings().server.api.auth_string
    return secret.get_secret_value() if secret else None


def file() -> Path:
    return Path(get_current_settings().home) / FILE


def kept() -> str:
    """The password in `file()`, created if missing. ConfigError if the file is another's, or
    damaged."""
    path = file()
    if not os.path.lexists(path):
        _make(path)
    remedy = "remove it, and serve makes a new one"
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as stored:
            about = os.fstat(stored.fileno())
            text = stored.read(1000).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"the login {path} cannot be read ({error.strerror}); {remedy}") from None
    ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid()
    if not ours or stat.S_IMODE(about.st_mode) & 0o077:
        raise ConfigError(f"the login {path} is not a file that only you can read; {remedy}")
    user, _, password = text.partition(":")
    if user != USER or len(password) < 20 or not text.isprintable():
        raise ConfigError(f"the login {path} is damaged; {remedy}")
    return text


def _make(path: Path) -> None:
    """Create the file whole or not at all; of two processes at the same time, one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{FILE}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(part, flags, 0o600), "w") as new:
            new.write(fresh() + "\n")
        try:
            os.link(part, path)
        except FileExistsError:
            pass
        except OSError:  # no hard links here
            os.rename(part, path)
    finally:
        part.unlink(missing_ok=True)


def address(ui: str, auth: str) -> str:
    """The address that opens the UI signed in; after `#`, so that no log has the password."""
    return f"{ui}{LOGIN}#{base64.b64encode(auth.encode()).decode()}"
