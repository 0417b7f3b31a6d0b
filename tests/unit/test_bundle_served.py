"""A served bundle: an apt mirror, a registry and a hub with exactly the files of the list."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.io.bundle_serve import server
from tests.unit.bundles import BIG, COMMIT, MANIFEST, key_pair, made


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a served bundle."""
    made(tmp_path / "bundle", key_pair(tmp_path / "key"), split=1)
    serving = server(tmp_path / "bundle", "tcp:0")
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    port = serving.socket.getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    serving.shutdown()
    serving.server_close()
    thread.join()


def got(url: str, **headers: str) -> tuple[int, bytes, http.client.HTTPMessage]:
    """Status, body and headers of an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def test_apt_gets_packages_by_the_address_in_its_list(address: str) -> None:
    """apt requests a plus as %2b, and a flat repository with `./`."""
    assert got(f"{address}/apt/debian-12/system/debian/pool/main/c/curl/curl_1%2bb1_amd64.deb")[1] == b"a package"
    flat = "apt/debian-12/nvidia/debian12/x86_64/./linux-headers-6.1.0-28-amd64_1_amd64.deb"
    assert got(f"{address}/{flat}")[1] == b"headers"


def test_docker_gets_a_manifest_and_blobs_by_digest(address: str) -> None:
    sha256 = hashlib.sha256(MANIFEST).hexdigest()
    assert got(f"{address}/v2/")[0] == 200
    status, body, headers = got(f"{address}/v2/nvidia/tritonserver/manifests/sha256:{sha256}")
    assert (status, body) == (200, MANIFEST)
    assert headers["Content-Type"] == "application/vnd.oci.image.manifest.v1+json"
    assert headers["Docker-Content-Digest"] == f"sha256:{sha256}"
    assert got(f"{address}/v2/any/blobs/sha256:{sha256}")[1] == MANIFEST
    package = hashlib.sha256(b"a package").hexdigest()
    assert got(f"{address}/v2/any/blobs/sha256:{package}")[0] == 404, "a registry gives images alone"


def test_a_fetch_gets_a_listing_with_sums_and_goes_on_where_it_was_cut(address: str) -> None:
    listing = json.loads(got(f"{address}/api/models/example/mine/revision/{COMMIT}?blobs=true")[1])
    sums = {file["rfilename"]: file["lfs"]["sha256"] for file in listing["siblings"]}
    assert sums["model.safetensors"] == hashlib.sha256(BIG).hexdigest()
    url = f"{address}/example/mine/resolve/{COMMIT}/model.safetensors"
    assert got(url)[1] == BIG
    status, body, headers = got(url, Range="bytes=2000000-")
    assert (status, body, headers["Content-Range"]) == (
        206,
        BIG[2_000_000:],
        f"bytes 2000000-{len(BIG) - 1}/{len(BIG)}",
    )
    assert got(url, Range=f"bytes=10-{(1 << 20) + 9}")[1] == BIG[10 : (1 << 20) + 10]
    assert got(f"{address}/api/models/example/mine/revision/{'0' * 40}")[0] == 404


@pytest.mark.parametrize(
    "path", ["bundle.json", "keys/debian-12-system.asc", "apt/../bundle.json", "control/wheels/some.whl"]
)
def test_nothing_but_parts_for_hosts_is_served(address: str, path: str) -> None:
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    connection.request("GET", f"/{path}")
    assert connection.getresponse().status == 404
    connection.close()
