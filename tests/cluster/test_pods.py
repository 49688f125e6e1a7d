"""What Kubernetes says of pods that do not start, asked of a server of its API on the loopback."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from uttermill.flows.cluster import upkeep

OURS = "uttermill-a-default-worker-1"


def event(reason: str, message: str, when: str, about: str = OURS) -> dict[str, Any]:
    return {
        "kind": "Event", "apiVersion": "v1", "type": "Warning", "reason": reason,
        "message": message, "lastTimestamp": f"2026-11-26T17:{when}Z",
        "metadata": {"name": f"{about}.{when}", "namespace": "corpus"},
        "involvedObject": {"kind": "Pod", "name": about},
    }  # fmt: skip


NO_ROOM = "0/2 nodes are available: 2 Insufficient cpu."
EVENTS = [
    event("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", "00:00"),
    event("FailedCreate", "pods are forbidden: exceeded quota: corpus,\n used: pods=9", "01:00"),
    event("FailedScheduling", NO_ROOM, "02:00"),
    event("BackOff", "Back-off pulling image of somebody else", "03:00", "web-1"),
]


class Api(BaseHTTPRequestHandler):
    """Answers `kubectl get events --field-selector type=Warning` and its version; else 404."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        answer: dict[str, Any] = {"kind": "Status", "code": 404, "message": self.path}
        if asked.path == "/version/":
            answer = {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}
        elif asked.path == "/api/v1/namespaces/corpus/events":
            assert parse_qs(asked.query)["fieldSelector"] == ["type=Warning"]
            answer = {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": EVENTS}
        data = json.dumps(answer).encode()
        self.send_response(answer.get("code", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class KubeCluster:
    """What `pods` looks at in a cluster of `dask_kubernetes`."""

    name, namespace = "uttermill-a", "corpus"


KubeCluster.__module__ = "dask_kubernetes.operator.kubecluster.kubecluster"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    settings = {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {
            "server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "me", "user": {"token": "none"}}],
        "contexts": [{"name": "here", "context": {
            "cluster": "here", "user": "me", "namespace": "corpus"}}],
    }  # fmt: skip
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_warnings_about_our_pods_are_the_word_of_the_queue(api: ThreadingHTTPServer) -> None:
    assert upkeep.word_of_pods(KubeCluster()) == (
        "Kubernetes: FailedCreate: pods are forbidden: exceeded quota: corpus, used: pods=9; "
        f"FailedScheduling: {NO_ROOM}"
    )


def test_an_api_that_does_not_answer_has_no_word(api: ThreadingHTTPServer) -> None:
    api.shutdown()
    api.server_close()
    assert upkeep.word_of_pods(KubeCluster()) == ""


def test_clusters_of_other_classes_are_not_asked() -> None:
    assert upkeep.word_of_pods(object()) == ""
