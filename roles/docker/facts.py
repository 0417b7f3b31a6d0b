"""Facts of a host for the docker role, asked in one command."""

from roles._pyinfra.facts import ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles._pyinfra.undo import KEPT
from roles._shipping.apt import Repository
from roles._shipping.proxy_files import DOCKER_ENVIRONMENT
from roles.docker import defaults

ENGINES = ("docker-ce", "docker.io")
PACKAGES = (*ENGINES, "docker-ce-cli", "containerd.io", "docker-cli", "containerd", "runc")


class DockerHost(RoleFact):
    """Packages, repository, both configuration files in full, and whether the daemon is older than them."""

    def command(self, repository: Repository | None) -> str:
        """`repository` is None for the distribution's package."""
        return script(
            ask_packages(*PACKAGES),
            ask_files(defaults.UPGRADES, defaults.NEEDRESTART),
            *(repository.fact_commands() if repository else ()),
            ask_units("docker.service", "docker.socket", "containerd.service"),
            ask_value("daemon", f"base64 -w0 {defaults.DAEMON}"),
            ask_value("containerd", f"base64 -w0 {defaults.CONTAINERD}"),
            # `dockerd --version` takes longer than ten other checks, and dpkg knows the version of a packaged Docker.
            ask_value(
                "docker",
                f"dpkg-query -W -f='${{db:Status-Abbrev}}\\n' {' '.join(ENGINES)} | grep -q ^.i || dockerd --version",
            ),
            ask_value("unconfirmed", f"ls {KEPT}/docker"),
            # After an interrupted run, a daemon that started before its settings were written runs without them.
            ask_value(
                "stale-docker",
                f"{_started_before('docker.service', defaults.DAEMON)};"
                f" {_started_before('docker.service', DOCKER_ENVIRONMENT)}",
            ),
            ask_value("stale-containerd", _started_before("containerd.service", defaults.CONTAINERD)),
        )


def _started_before(unit: str, path: str) -> str:
    """Shell that prints "stale" if the unit's process began before the file was last written (microseconds).

    The process counts, not the unit: settings are read at its beginning, and on a slow host a daemon is "active" only
    seconds later. A server's restart may have started the process between the check of the file and its writing.
    """
    shown = f"systemctl show --timestamp=us --property=MainPID,ExecMainStartTimestamp {unit}"
    began = """$(echo "$shown" | sed -n 's/^ExecMainStartTimestamp=//p')"""
    return (
        f"""[ -f {path} ] && shown=$({shown}) && echo "$shown" | grep -q '^MainPID=[1-9]' &&"""
        f""" [ "$(stat -c %.6Y {path} | tr -d .)" -gt "$(date -d "{began}" +%s%6N)" ] && echo stale"""
    )
