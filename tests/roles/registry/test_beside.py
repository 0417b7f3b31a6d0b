"""A host with two images: Triton's, and that of the LLM beside it, each pulled by its own unit and login."""

from __future__ import annotations

import json
from dataclasses import replace

from deploy.spec import Registry, Secret
from roles import registry
from roles.registry.operations import pull_id, texts
from tests.roles.fake import Ran, run
from tests.roles.triton.llm_servers import host_with, runtime_of

MINE = host_with()
WITH_KEY = replace(MINE, registry=Registry(key=Secret.env("NGC_API_KEY")))
IMAGES = (MINE.image, runtime_of(MINE.servers[0]).image)
UNITS = [f"enginehouse-pull@{pull_id(image)}.service" for image in IMAGES]


def play(present: tuple[bool, bool], mine: object = MINE) -> Ran:
    """Begin and finish on a host with these images, and no files yet."""
    states = {True: "image=sha256:1\nActiveState=inactive", False: "ActiveState=inactive"}
    answers = {f"docker image inspect -f 'image={{{{.Id}}}}' {image.pull_reference} ": states[has]
               for image, has in zip(IMAGES, present, strict=True)}  # fmt: skip

    def story() -> None:
        registry.begin(mine)
        registry.finish(mine)

    followed = {f"{unit} 2>/dev/null": "ActiveState=inactive\nResult=success" for unit in UNITS}
    return run(story, answers={"%n %a %U": "", **answers, **followed})


def pulls(ran: Ran) -> list[str]:
    """The pulls that the deploy waited for."""
    return [command for command in ran.commands if command.startswith("follow ")]


def test_a_bare_host_begins_both_pulls_before_it_waits_for_either() -> None:
    commands = play((False, False)).commands
    starts = [number for number, command in enumerate(commands) if "start --no-block enginehouse-pull@" in command]
    waits = [number for number, command in enumerate(commands) if command.startswith("follow ")]
    assert (len(starts), len(waits), max(starts) < min(waits)) == (2, 2, True)


def test_a_host_that_has_one_image_pulls_the_other() -> None:
    assert pulls(play((True, False))) == [f"follow {UNITS[1]}"]
    assert pulls(play((False, True))) == [f"follow {UNITS[0]}"]


def test_a_host_that_has_both_pulls_nothing() -> None:
    assert pulls(play((True, True))) == []


def test_the_login_of_one_registry_is_not_sent_to_another() -> None:
    """vLLM's image is in Docker Hub, and the key is for NVIDIA's registry."""
    beside = registry._with(WITH_KEY, IMAGES[1])
    (settings,) = [text.content for text in texts(beside) if "/pull/" in text.path]
    assert (json.loads(settings)["key_source"], json.loads(settings)["registry"]) == ("", "docker.io")
    same = registry._with(WITH_KEY, replace(IMAGES[1], reference="nvcr.io/nvidia/mine:0.26.0"))
    (settings,) = [text.content for text in texts(same) if "/pull/" in text.path]
    assert "NGC_API_KEY" in json.loads(settings)["key_source"]
