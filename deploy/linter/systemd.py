"""Reads a unit of systemd as a script: its variables and the commands that it runs, each on its own line."""

import re

SERVICE = re.compile(r"^\[Service\][ \t]*$", re.MULTILINE)
SETTING = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>.*)", re.DOTALL)
COMMAND = re.compile(r"(Exec(?:Condition|StartPre|StartPost|Start|Reload|StopPost|Stop))")
PREFIX = re.compile(r"^[@\-:+!]+")
"""Signs before a command: `-` ignores its failure, `+` and `!` concern privileges."""


CONTAINER = re.compile(r"^\[Container\][ \t]*$", re.MULTILINE)
OPTIONS = {
    "PublishPort": "-p",
    "Volume": "-v",
    "Environment": "-e",
    "EnvironmentFile": "--env-file",
    "AddDevice": "--device",
    "ShmSize": "--shm-size",
    "Ulimit": "--ulimit",
    "Network": "--network",
    "PodmanArgs": "",
}
"""Settings of a container's unit for podman, and the options of `podman run` that they become."""


def is_unit(text: str) -> bool:
    """True for a unit with a command of its own, or with a container of podman."""
    if CONTAINER.search(text) and re.search(r"^Image=", text, re.MULTILINE):
        return True
    return SERVICE.search(text) is not None and re.search(r"^ExecStart=", text, re.MULTILINE) is not None


def unit_as_script(text: str) -> tuple[str, tuple[str, ...]]:
    """The commands and variables of a unit on their lines, and the other settings; any other text unchanged."""
    if not is_unit(text):
        return text, ()
    if CONTAINER.search(text):
        return _container(text)
    lines, others = list[str](), list[str]()
    goes_on = False
    for line in text.replace("\r\n", "\n").split("\n"):
        setting = None if goes_on else SETTING.match(line)
        if goes_on:
            lines.append(line)
        elif setting and COMMAND.fullmatch(setting["key"]):
            lines.append(PREFIX.sub("", setting["value"].lstrip(), count=1))
        elif setting and setting["key"] == "Environment":
            lines.append(f"export {setting['value']}")
        else:
            lines.append("")
            others += [line.rstrip("\\ ")] if setting and setting["value"] else []
        goes_on = line.rstrip().endswith("\\") and bool(lines[-1])
    return "\n".join(lines), tuple(others)


def _container(text: str) -> tuple[str, tuple[str, ...]]:
    """The `podman run` of a container's unit on the line of its image, and the other settings."""
    rows = re.sub(r"\\\r?\n", " ", text).splitlines()
    settings = [setting for row in rows if (setting := SETTING.match(row))]
    options = " ".join(
        f"{OPTIONS[setting['key']]} {PREFIX.sub('', setting['value'])}".strip()
        for setting in settings
        if setting["key"] in OPTIONS
    )
    by_key = {setting["key"]: setting["value"] for setting in settings}
    command = f"podman run {options} {by_key.get('Image', '')} {by_key.get('Exec', '')}".strip()
    others = tuple(setting[0] for setting in settings if setting["key"] not in (*OPTIONS, "Image", "Exec"))
    place = next(number for number, row in enumerate(text.splitlines()) if row.startswith("Image="))
    return "\n" * place + command + "\n", others
