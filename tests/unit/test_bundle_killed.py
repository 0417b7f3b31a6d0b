"""A bundle whose making is killed at any moment is resumed with the same result, and is never used incomplete."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.bundle.contents import Contents
from deploy.io.bundle_make import Order
from deploy.io.bundle_serve import server
from deploy.io.bundle_verify import confirm_whole, opened
from deploy.refusals.errors import Refusal
from deploy.slices.host import Slice
from deploy.spec import EngineTrust, Hub
from tests.unit.bundles import key_pair, made
from tests.unit.samples import RERANKER, TODAY, main, plan
from tests.unit.test_imports import ROOT

CHILD = """
import os, pickle, signal, sys
from deploy.io.bundle_make import make
moment, place = int(sys.argv[1]), sys.argv[2]
plain, count = os.replace, 0
def replace(source, target):
    global count
    count += 1
    if count == moment:
        os.kill(os.getpid(), signal.SIGKILL)
    plain(source, target)
os.replace = replace
with open(place, "rb") as file:
    make(pickle.load(file))
"""
"""A program that dies right before it would write its n-th file: an object, the signature, the list."""
MOMENTS = (1, *[2] * 9)
"""Each run after the first adds one file and dies before the next."""


def image() -> dict[str, bytes]:
    """The blobs of a small image, by digest; the manifest is first."""
    layers = [b"a layer " * 5000, b"another layer " * 5000]
    config = b'{"architecture": "amd64"}'
    named = {hashlib.sha256(content).hexdigest(): content for content in (config, *layers)}
    described = [{"digest": f"sha256:{name}", "size": len(content)} for name, content in named.items()]
    manifest = json.dumps({"config": described[0], "layers": described[1:]}).encode()
    return {hashlib.sha256(manifest).hexdigest(): manifest, **named}


def order(port: int, directory: Path, trust: EngineTrust, digest: str, control: Path) -> Order:
    """The order of a host's image and model, from a registry and a hub on loopback."""
    planned: Slice = plan(**main(RERANKER)).slices[0]
    here = replace(planned.image, reference=f"127.0.0.1:{port}/some/image:tag", digest=f"sha256:{digest}")
    mine = replace(planned, image=here, hub=Hub(endpoint=f"http://127.0.0.1:{port}"), servers=())
    return Order(
        slices=(mine,),
        needs=(),
        directory=directory,
        trust=trust,
        report=print,
        control={"enginehouse.tar.gz": control},
        today=TODAY,
    )


def run(moment: int, pickled: Path) -> int:
    """Exit status of a making that is killed at a moment; 0 means never."""
    words = [sys.executable, "-c", CHILD, str(moment), str(pickled)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, check=False).returncode


def test_killed_at_ten_moments_it_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    trust, blobs = key_pair(tmp_path / "key"), image()
    digest, weights = next(iter(blobs)), plan(**main(RERANKER)).slices[0].weights[0]
    folder = f"weights/{weights.repository}/{weights.revision}"
    files = {f"images/{digest}/{name}": content for name, content in blobs.items()}
    files |= {f"{folder}/config.json": b"{}", f"{folder}/model.safetensors": b"weights " * 9000}
    origin = made(tmp_path / "origin", trust, files)
    serving = server(tmp_path / "origin", "tcp:0")
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    try:
        (tmp_path / "archive").write_bytes(b"an archive")
        port, target = serving.socket.getsockname()[1], tmp_path / "bundle"
        whole = order(port, target, trust, digest, tmp_path / "archive")
        (tmp_path / "order").write_bytes(pickle.dumps(whole))
        for moment in MOMENTS:
            assert run(moment, tmp_path / "order") == -9
            with pytest.raises(Refusal):
                opened(target, trust)
        assert run(0, tmp_path / "order") == 0
    finally:
        serving.shutdown()
        serving.server_close()
        thread.join()
    contents = opened(target, trust)
    assert confirm_whole(target, contents)
    assert sums(contents) == {**sums(origin), "control/enginehouse.tar.gz": hashlib.sha256(b"an archive").hexdigest()}
    assert not (target / ".work").exists()
    assert [path.name for path in target.rglob(".*")] == []


def sums(contents: Contents) -> dict[str, str]:
    """Digest of each part, by its path."""
    return {part.path: part.sha256 for part in contents.parts}
