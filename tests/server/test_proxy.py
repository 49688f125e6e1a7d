"""A proxy in the environment, as in companies and universities: loopback never goes through it.

`test_server_access.py` does a whole run with one."""

import os

import httpx
import pytest

from uttermill.tasks.base import environment

#: Nobody listens there, so that whoever asks the proxy fails.
NOWHERE = "127.0.0.1:9"


@pytest.mark.parametrize("before", [{}, {"no_proxy": ".lab"}, {"NO_PROXY": ".lab,localhost"}])
def test_exceptions_are_added_and_taken_back(
    before: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    with environment.set_up():
        for name in ("no_proxy", "NO_PROXY"):
            hosts = os.environ[name].split(",")
            assert sorted(set(hosts) - {".lab"}) == ["127.0.0.1", "::1", "localhost"]
            assert (".lab" in hosts) == bool(before)
    assert {name: os.environ.get(name) for name in before} == before


def test_a_socks_proxy_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """httpx refuses to make a client without its library, even for addresses that skip it."""
    monkeypatch.setenv("ALL_PROXY", f"socks5://{NOWHERE}")
    httpx.Client().close()
