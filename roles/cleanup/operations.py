"""Names of files to keep, and the command that runs the program."""

import json
import shlex

from pyinfra.api.command import StringCommand

from deploy.models.files import weights_path
from deploy.slices.host import Slice
from roles._shipping.places import command
from roles.cleanup.defaults import Defaults


def kept(mine: Slice, chosen: Defaults) -> str:
    """JSON of everything in the plan, and of the numbers of spare items."""
    images = (mine.image, *(server.image for server in mine.servers), *mine.runtime_images)
    return json.dumps(
        {
            "weights": sorted(weights_path(weights) for weights in mine.weights),
            "engines": sorted(engine.path for engine in mine.engines),
            "images": sorted({image.pull_reference for image in images}),
            "keep": {
                "weights": chosen.keep_weights,
                "engines": chosen.keep_engines,
                "images": chosen.keep_images,
                "failed": chosen.keep_failed,
            },
        }
    )


def remove(arguments: str) -> StringCommand:
    return StringCommand(f"{command('clean-up')} remove {shlex.quote(arguments)}")
