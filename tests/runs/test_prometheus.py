"""OUT/runs/uttermill.prom, as Prometheus's own parser reads it; what a failed run keeps; the
endpoint."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.faults.command import Site
from tests.helpers import corpus
from uttermill.flows.run import prometheus
from uttermill.tasks.base.errors import ConfigError

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path, "", history="none")
    corpus.make(site.source, 4)
    (site.source / "broken.wav").write_bytes(b"no audio")
    return site


def samples(text: str) -> Samples:
    families = [*text_string_to_metric_families(text)]
    assert {family.name for family in families} <= prometheus.METRICS.keys()
    assert all(family.type == "gauge" and family.documentation for family in families)
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in families for each in family.samples
    }  # fmt: skip


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"uttermill_{name}", frozenset(labels.items())]


@pytest.mark.full
def test_what_a_run_leaves(site: Site, shared_cluster: dict[str, Any]) -> None:
    filters = [{"use": "duration", "min": 0.7}]
    settings = site.settings("out", filter={"filters": filters}, cluster=shared_cluster)
    result = site.command("run", settings).result
    path = site.home / "out/runs" / prometheus.NAME
    found = samples(path.read_text())
    assert value(found, "run_success") == 1
    assert value(found, "version_number") == 1
    assert value(found, "run_new_recordings") == 5
    assert value(found, "version_recordings", state="failed") == 1
    assert value(found, "version_utterances", outcome="packaged") == 2
    for outcome, seconds in result["seconds"].items():
        assert value(found, "version_audio_seconds", outcome=outcome) == pytest.approx(seconds)
    assert value(found, "version_reason_items", reason="shard.unreadable") == 1
    assert value(found, "version_reason_items", reason="filter.too_short") == 2
    assert value(found, "run_items", stage="filter", how="computed") > 0
    assert value(found, "run_real_time_factor", stage="filter") > 0
    assert value(found, "run_queue_seconds", stage="filter") >= 0
    named = {name for name, _ in found}
    assert named == prometheus.METRICS.keys(), "each documented name has a value"
    for name, labels in found:
        assert {label for label, _ in labels} == {*prometheus.METRICS[name][0]}

    # A run that publishes nothing keeps the time of the newest version; so does one that fails.
    published = value(found, "version_published_timestamp_seconds")
    site.command("run", settings)
    again = samples(path.read_text())
    assert value(again, "version_published_timestamp_seconds") == published
    assert value(again, "run_end_timestamp_seconds") > value(found, "run_end_timestamp_seconds")
    for wav in site.source.glob("*.wav"):
        wav.unlink()
    assert site.command("run", settings).code == 1
    failed = samples(path.read_text())
    assert value(failed, "run_success") == 0
    assert value(failed, "version_published_timestamp_seconds") == published
    assert value(failed, "version_audio_seconds", outcome="packaged") > 0
    assert ("uttermill_run_wall_seconds", frozenset()) not in failed


def test_names_in_labels_are_escaped() -> None:
    text = prometheus._text([("uttermill_version_reason_items", {"reason": 'a"\\b\nc'}, 2)], [])
    assert samples(text) == {
        ("uttermill_version_reason_items", frozenset({("reason", 'a"\\b\nc')})): 2
    }


def test_the_endpoint_answers_this_machine_alone(tmp_path: Path) -> None:
    def ask(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    with prometheus.serving(tmp_path, 0) as address:
        assert address is not None
        port = int(address.partition("127.0.0.1:")[2].partition("/")[0])
        assert ask(port, "/metrics") == (200, b"")
        (tmp_path / prometheus.NAME).write_text("uttermill_run_success 1\n")
        assert ask(port, "/metrics") == (200, b"uttermill_run_success 1\n")
        assert ask(port, "/metrics", f"localhost:{port}")[0] == 200
        assert ask(port, "/metrics", "evil.example")[0] == 403
        assert ask(port, "/../settings.json")[0] == 404
        with pytest.raises(ConfigError, match=f"--metrics {port}: .*choose another port"):
            prometheus.serving(tmp_path, port).__enter__()
    with prometheus.serving(tmp_path, None) as address:
        assert address is None


def test_connections_without_a_request_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "PATIENCE_S", 0.05)
    with prometheus.serving(tmp_path, 0) as address, ExitStack() as opened:
        assert address is not None
        place = "127.0.0.1", int(address.partition("127.0.0.1:")[2].partition("/")[0])
        clients = [opened.enter_context(socket.create_connection(place)) for _ in range(4)]
        with socket.create_connection(place) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(100).split()[1] == b"403"
        assert [client.recv(1) for client in clients] == [b""] * 4


def test_names_are_documented() -> None:
    page = (Path(__file__).parents[2] / "infra/nightly.md").read_text()
    for name, (labels, meaning) in prometheus.METRICS.items():
        assert f"`{name}`" in page, name
        assert meaning.replace("|", "\\|") in page, name
        assert all(f"`{label}`" in page for label in labels)
    assert json.dumps(prometheus.NAME)[1:-1] in page
