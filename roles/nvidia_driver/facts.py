"""Facts of a host for the driver role, asked in one command."""

from roles._pyinfra.facts import ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles._shipping.apt import Repository
from roles.nvidia_driver import defaults, packages

_VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# Debian's own packages name the module nvidia-current; its sysfs directory then has an underscore.
_ON_DISK = "for m in nvidia nvidia-current nvidia-current-open; do modinfo -F version $m && break; done"
_LOADED = "cat /sys/module/nvidia/version || cat /sys/module/nvidia_current/version"
_LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
_SWITCHES = (
    'for d in /sys/bus/pci/devices/*; do grep -q 0x10de $d/vendor && grep -q ^0x0680 $d/class && basename "$d"; done'
)


class DriverHost(RoleFact):
    """The driver's three versions, its publisher, obstacles, and the boot id at the time of asking."""

    def command(self, repository: Repository | None) -> str:
        """`repository` is None for Canonical's packages."""
        return script(
            ask_packages(*packages.PATTERNS),
            ask_files(defaults.RELOAD, defaults.NOUVEAU, defaults.PERSISTENCE, defaults.UPGRADES),
            *(repository.fact_commands() if repository else ()),
            ask_units("nvidia-persistenced.service", "nvidia-fabricmanager.service"),
            ask_value("kernel", "uname -r"),
            ask_value("boot", "cat /proc/sys/kernel/random/boot_id"),
            ask_value("on-disk", _ON_DISK),
            ask_value("loaded", _LOADED),
            ask_value("user-space", f"[ -e {_LIBRARY} ] && readlink -f {_LIBRARY} | sed -n 's/.*libcuda[.]so[.]//p'"),
            ask_value("nouveau", "[ -d /sys/module/nouveau ] && echo loaded"),
            ask_value(
                "other-kernels",
                "grep -lsE '/nvidia(-current)?(-open)?[.]ko' /lib/modules/*/modules.dep | grep -vF /$(uname -r)/",
            ),
            ask_value("runfile", "command -v nvidia-uninstall || ls /var/log/nvidia-installer.log"),
            ask_value("secure-boot", f"[ $(od -An -tu1 -j4 -N1 {_VARIABLE}) -eq 1 ] && echo on"),
            ask_value("enrolled", "mokutil --test-key /var/lib/dkms/mok.pub | grep 'already enrolled'"),
            ask_value("switches", _SWITCHES),
            ask_value("gpus", "[ -e /proc/driver/nvidia/version ] && nvidia-smi -L | grep ^GPU"),
        )
