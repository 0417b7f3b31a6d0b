"""Facts of a host for the toolkit role, asked in one command."""

from roles._pyinfra.facts import ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles._shipping.apt import SOURCES, Repository
from roles.container_toolkit import defaults


class ToolkitHost(RoleFact):
    """Packages, repository, the CDI specification, and the versions for which CUDA was proven."""

    def command(self, repository: Repository) -> str:
        """The script with all commands; `nvidia-ctk` may be missing."""
        old = " ".join(f"{SOURCES}/{name}.list" for name in defaults.OLD_LISTS)
        return script(
            ask_packages(*defaults.PACKAGES),
            ask_files(defaults.UPGRADES, defaults.PROVE),
            *repository.fact_commands(),
            ask_units(*defaults.UNITS),
            ask_value("old-lists", f"ls {old}"),
            "cdi=$(nvidia-ctk cdi list 2>/dev/null)",
            ask_value("cdi", 'echo "$cdi" | grep -x nvidia.com/gpu=all'),
            ask_value("instances", """echo "$cdi" | grep -xE 'nvidia.com/gpu=[0-9]+:[0-9]+'"""),
            ask_value(
                "described", f"grep -ohE 'libcuda[.]so[.][0-9]+[.][0-9.]+' {defaults.SPECIFICATIONS} | head -n 1"
            ),
            ask_value("driver", "cat /sys/module/nvidia/version || cat /sys/module/nvidia_current/version"),
            ask_value("engine", 'stat -Lc "%s %Y" "$(command -v dockerd)"'),  # `--version` takes 20 times as long
            ask_value("daemon", "sha256sum < /etc/docker/daemon.json"),
            ask_value("kernel", "uname -r"),
            ask_value("proven", f"cat {defaults.PROVEN}"),
        )
