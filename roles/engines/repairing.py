"""Puts the packages that repair the image on a building host; its container reads them before the image's own.

A server has them in its release; a build has no release, and without them `import tensorrt_llm` fails in some images.
"""

import base64
from hashlib import sha256

from pyinfra.api import Host, State, StringCommand
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

from deploy.models.files import ROOT
from deploy.refusals import Refusal
from deploy.slices.image import ImageSlice
from roles._pyinfra.steps import Refuse
from roles._shipping.repairs import unpacked, wheels
from roles._shipping.tar import tarred

REPAIRS = f"{ROOT}/repairs"


def python_path(image: ImageSlice) -> str:
    """The directory with the image's repairs on a host; empty if the image needs no repair."""
    wanted = wheels(image.repairs)
    if not wanted:
        return ""
    return f"{REPAIRS}/{sha256(''.join(wheel.digest for wheel in wanted).encode()).hexdigest()[:16]}"


class SendRepairs(PyinfraCommand):
    """Sends the packages, which are unpacked under another name and then renamed, so that the directory is always
    complete."""

    def __init__(self, image: ImageSlice) -> None:
        super().__init__()
        self.image, self.target = image, python_path(image)

    def __repr__(self) -> str:
        return f"send what repairs the image to {self.target}"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once the packages are on the host."""
        try:
            files = self._files()
        except Refusal as problem:
            Refuse(problem).log(host)
            return False
        new = f"{self.target}.partial"
        command = (
            f"set -e; umask 022; test -d {self.target} && {{ cat >/dev/null; exit 0; }}; rm -rf {new}; mkdir -p {new};"
            f" base64 -d | tar -xz --no-same-owner -C {new}; find {new} -exec sync {{}} +; mv -T {new} {self.target}"
        )
        sent: ConnectorArguments = {**connector_arguments, "_stdin": base64.encodebytes(tarred(files)).decode()}
        done, _ = host.run_shell_command(StringCommand(command), **sent)
        return bool(done)

    def _files(self) -> dict[str, bytes]:
        """The wheel's files without the prefix `python/` of a release."""
        files = {path: content for wheel in wheels(self.image.repairs) for path, content in unpacked(wheel).items()}
        return {path.removeprefix("python/"): content for path, content in files.items()}
