"""A login with the key in the command, as in many guides; this project never does so."""

import os

from pyinfra.operations import server

server.shell(
    name="Naive | Log in",
    commands=[f"docker login -u '$oauthtoken' -p '{os.environ['NGC_API_KEY']}' registry.rehearsal.internal:8443"],
)
