"""Sizes and files of one image or one model, by the programs that hosts fetch with; run as a separate process.

    python bundle_download.py      the request as JSON on standard input, secret included; prints one line of JSON

Interrupted downloads of blobs and files are resumed, and verified by the digests of their registry or hub.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "files"))

from host import blobs, fetch, hub


def main() -> int:
    """0 after an answer: `{"files": {name: bytes}}`, or `{"problem": …}`."""
    request: dict[str, Any] = json.load(sys.stdin)
    action = {"image": image, "weights": weights}[request["kind"]]
    try:
        answer: dict[str, Any] = {"files": action(request)}
    except (blobs.NotGiven, hub.Refused, OSError, ValueError, KeyError) as problem:
        answer = {"problem": str(problem) or type(problem).__name__}
    print(json.dumps(answer))
    return 0


def image(request: dict[str, Any]) -> dict[str, int]:
    """Bytes of each blob of an image; the blobs are in `target`, unless only sizes were requested."""
    origin = blobs.Origin(request["reference"], request["username"], request["secret"], request["ca_file"])
    target, digest = Path(request["target"]), request["digest"]
    texts = dict[str, bytes]()

    def _read(name: str) -> bytes:
        texts[name] = fetch.patiently(name, lambda: origin.manifest(name))
        return texts[name]

    _, layers = blobs.parts(digest, _read)
    if not request["sizes_only"]:
        blobs.keep(origin, digest, target)
    return {name: len(text) for name, text in texts.items()} | {blob.path: blob.size for blob in layers}


def weights(request: dict[str, Any]) -> dict[str, int]:
    """Bytes of each file of a model; the files are in `target`'s staging directory unless only sizes were requested."""
    source = hub.Hub(request)
    source.token = request["secret"]
    if request["sizes_only"]:
        listing = fetch.patiently("the list of files", source.listing)
        return {file.path: file.size for file in fetch.chosen(listing, request["files"], convertible=True)}
    target = Path(request["target"])
    staging = fetch.staging_of(target)
    fetch.fetch(source, request, target)
    names = [line.partition("  ")[2] for line in (staging / fetch.MANIFEST).read_text().splitlines()]
    return {name: (staging / name).stat().st_size for name in names}


if __name__ == "__main__":
    sys.exit(main())
