"""Judges `docker login`, `docker pull` and `docker build`: the image's name, and secrets that would leak."""

from collections.abc import Sequence

from deploy.catalog.programs import DOCKER_BUILD, DOCKER_LOGIN, DOCKER_PULL
from deploy.linter.findings import HIDDEN, Judged, is_secret, raws
from deploy.linter.images import default_image, judge_image
from deploy.linter.options import Option, mixed_options
from deploy.linter.words import Word

USER = "'$oauthtoken'"


def judge_pull(args: Sequence[Word]) -> Judged:
    """Findings about the pulled images."""
    options, images = mixed_options(args, DOCKER_PULL)
    judged = Judged(right=["docker", "pull", *(raw for option in options for raw in option.raw)])
    for image in images:
        judge_image(judged, image)
        wrong = any(finding.is_wrong for finding in judged.findings)
        judged.right.append(default_image() if wrong else image.raw)
    return judged


def judge_login(args: Sequence[Word]) -> Judged:
    """Findings about `docker login`: nvcr.io's user is the literal text `$oauthtoken`; `ps` shows a typed password."""
    judged = Judged()
    options, registries = mixed_options(args, DOCKER_LOGIN)
    registry = registries[0].raw if registries else ""
    judged.right = ["docker", "login", *raws(registries)]
    for option in options:
        judged.right += _login_option(judged, option, registry)
    return judged


def _login_option(judged: Judged, option: Option, registry: str) -> list[str]:
    if option.name in ("-p", "--password"):
        user = USER if "nvcr.io" in registry else "USER"
        judged.add(
            "secret-in-words",
            "a password on the command line is in the shell's history and in ps for everyone",
            seen=f"{option.name} {HIDDEN}",
            wanted="the password on standard input",
            attempt=f'printf %s "$NGC_API_KEY" | docker login {registry} -u {user} --password-stdin',
        )
        return ["--password-stdin"]
    if option.name in ("-u", "--username") and "nvcr.io" in registry:
        _user(judged, option)
        return ["-u", USER]
    return list(option.raw)


def _user(judged: Judged, option: Option) -> None:
    typed = option.values[0].raw if option.values else ""
    if (typed.startswith("'") and option.value == "$oauthtoken") or typed == r"\$oauthtoken":
        return
    expands = "$oauthtoken" in typed
    judged.add(
        "registry-user",
        "the shell turns an unquoted $oauthtoken into nothing"
        if expands
        else "nvcr.io takes an API key with one user name only: the literal text $oauthtoken",
        seen=f"{option.name} {typed}",
        wanted=USER,
        attempt=f"-u {USER}",
    )


def judge_build(args: Sequence[Word]) -> Judged:
    """Findings about secrets among build arguments."""
    options, others = mixed_options(args, DOCKER_BUILD)
    judged = Judged(right=["docker", "build"])
    for option in options:
        name, _, value = option.value.partition("=")
        if option.name == "--build-arg" and is_secret(name, value):
            judged.add(
                "secret-in-words",
                f"a build argument stays in the image's history: {name} is readable by everyone who pulls it",
                seen=f"--build-arg {name}={HIDDEN}",
                wanted="a secret mount, or weights fetched on the host",
                attempt=f"--secret id={name.lower()},env={name}, read with RUN --mount=type=secret",
            )
            judged.right.append(f"--secret id={name.lower()},env={name}")
        else:
            judged.right += option.raw
    judged.right += raws(others)
    return judged
