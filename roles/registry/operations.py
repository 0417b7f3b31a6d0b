"""Files of a pull on the host, and the command that sends the key and starts it."""

import hashlib
import json
from shlex import quote

from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.io.local_paths import local_path
from deploy.models.files import ROOT, blobs_path
from deploy.refusals import Refusal
from deploy.slices.host import Slice
from deploy.slices.image import ImageSlice, registry_of
from roles._pyinfra.steps import Refuse
from roles._shipping import secrets, units
from roles._shipping.places import RUNTIME, SETTINGS, UNITS
from roles._shipping.texts import Text, shipped


def pull_id(image: ImageSlice) -> str:
    """The id in the names of a pull's unit and files: one image has one unit, so that a second run attaches."""
    return hashlib.sha256(image.pull_reference.encode()).hexdigest()[:12]


def record_path(image: ImageSlice) -> str:
    return f"{ROOT}/images/{pull_id(image)}.json"


def mark_path(image: ImageSlice) -> str:
    return f"{ROOT}/images/{pull_id(image)}.begun"


def texts(mine: Slice) -> list[Text]:
    return [
        shipped("files/units/enginehouse-pull@.service", f"{UNITS}/enginehouse-pull@.service"),
        Text(f"{SETTINGS}/pull/{pull_id(mine.image)}.json", _settings(mine)),
        *_certificate(mine),
    ]


def start_pull(mine: Slice) -> PyinfraCommand:
    """The command that writes the key into memory from standard input and starts the unit: no key is left if the unit
    fails."""
    unit = f"enginehouse-pull@{pull_id(mine.image)}.service"
    key = mine.registry.key
    if key is None:
        return StringCommand(units.start(unit))
    if problem := secrets.missing(key):
        return Refuse(problem)
    directory = quote(f"{RUNTIME}/registry/{pull_id(mine.image)}")
    return StringCommand(
        f"mkdir -p {RUNTIME}/registry && install -d -m 0700 {directory} && umask 077 && cat > {directory}/key"
        f" && test -s {directory}/key && {units.start(unit)} || {{ rm -rf {directory}; exit 1; }}",
        _stdin=secrets.SecretText(key),
    )


def _settings(mine: Slice) -> str:
    content = {
        "reference": mine.image.pull_reference,
        "registry": registry_of(mine.image.reference),
        "username": mine.registry.username,
        "key_file": f"{RUNTIME}/registry/{pull_id(mine.image)}/key",
        "key_source": secrets.described(mine.registry.key) if mine.registry.key else "",
        "record": record_path(mine.image),
    }
    if mine.image.shared_port:
        origin, blobs = mine.image.origin_reference, blobs_path(mine.image.digest)
        certificate = _certificate_path(mine) if mine.registry.ca_file else ""
        shared = {"origin": origin, "port": mine.image.shared_port, "blobs": blobs, "ca_file": certificate}
        return json.dumps(content | {"shared": shared}, indent=2) + "\n"
    return json.dumps(content, indent=2) + "\n"


def _certificate(mine: Slice) -> list[Text]:
    if not mine.registry.ca_file:
        return []
    path = local_path(mine.registry.ca_file)
    if not path.is_file():
        raise Refusal(f"registry.ca_file names no file: {path}", attempt="correct the path", kind="missing-file")
    return [Text(_certificate_path(mine), path.read_text().rstrip("\n") + "\n")]


def _certificate_path(mine: Slice) -> str:
    return f"/etc/docker/certs.d/{registry_of(mine.image.reference)}/ca.crt"
