"""Judges a container's settings in a compose file or a manifest, besides image and command, and unreadable YAML."""

from deploy.linter.calls import call_of
from deploy.linter.compose import judge_service
from deploy.linter.findings import Judged
from deploy.linter.gpus import need_of
from deploy.linter.manifests import COMPOSE, Container, unreadable
from deploy.linter.pods import judge_container
from deploy.linter.words import pasted

JUDGED = frozenset(
    ["environment", "env", "deploy", "gpus", "devices", "runtime", "ports", "ulimits", "shm_size", "resources"]
)


def judge_settings(container: Container) -> Judged | None:
    """The findings about a container's own settings; None for an unknown kind of container."""
    lines = pasted(container.words)
    calls = [call for line in lines for words in line.commands if (call := call_of(words))]
    call = next((call for call in calls if need_of("", call)[0]), calls[0] if calls else None)
    judged = judge_service(container, call) if container.kind == COMPOSE else judge_container(container, call)
    is_fragment = not container.image and not container.words
    return judged if judged.findings or is_fragment or JUDGED & container.settings.keys() else None


def judge_unreadable(text: str) -> Judged | None:
    """The finding about text that begins like a manifest but is not YAML; None for any other text."""
    reason = unreadable(text)
    if reason is None:
        return None
    judged = Judged()
    judged.add(
        "unreadable",
        f"line {reason.line} cannot be read as YAML: {reason.reason}",
        seen=f"line {reason.line}",
        wanted="YAML: blanks instead of tabs, entries of a mapping in one column",
        attempt=f"mend line {reason.line} and check again",
    )
    return judged
