"""Facts of a host for the base role, asked in one command."""

from shlex import quote

from roles._pyinfra.facts import ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles._shipping import proxy_files
from roles.base.defaults import DIRECTORIES, JOURNAL, NEEDRESTART, SOURCES, SYSTEM_KEY, SYSTEM_LIST

TIME_SERVICES = ("systemd-timesyncd.service", "chrony.service", "chronyd.service", "ntpsec.service", "ntp.service",
                 "openntpd.service")  # fmt: skip
TOOLS = ("ca-certificates", "curl", "iptables", "openssh-client", "python3", "rsync")
PACKAGES = (*TOOLS, "systemd-timesyncd", "chrony", "e2fsprogs", "xfsprogs")


class BaseHost(RoleFact):
    """Tools, clock, directories and, if a data disk is declared, the output of lsblk, blkid and wipefs about it."""

    def command(self, programs: tuple[str, ...], device: str = "", mount: str = "") -> str:
        """`programs` are paths whose content is compared; an empty `device` means no disk."""
        return script(
            ask_packages(*PACKAGES),
            ask_files(JOURNAL, NEEDRESTART, SOURCES, SYSTEM_LIST, SYSTEM_KEY, proxy_files.WANTED, *programs),
            ask_units(*TIME_SERVICES),
            ask_value("directories", f'stat -c "%a %U %n" {" ".join(DIRECTORIES)}'),
            *(_ask_disk(device, mount) if device else ()),
        )


def _ask_disk(device: str, mount: str) -> list[str]:
    disk, place = quote(device), quote(mount)
    return [
        ask_value("disk", f"lsblk --bytes --pairs --output NAME,TYPE,FSTYPE,LABEL,UUID,MOUNTPOINT,RO {disk}"),
        # blkid reads the disk itself; lsblk repeats udev's data, which may be outdated or, in a container, missing.
        ask_value("probed", f"blkid --probe --output export {disk}"),
        ask_value("signatures", f"wipefs --noheadings --output TYPE {disk}; blkid --probe {disk}"),
        ask_value("mounted", f"findmnt --noheadings --output SOURCE,FSTYPE --mountpoint {place}"),
        ask_value("fstab", f'grep -E "^[^#]*[[:space:]]{mount}[[:space:]]" /etc/fstab'),
        ask_value(
            "in-the-way",
            f"mountpoint -q {place} || find {place} -xdev -mindepth 1 ! -type d -printf '%P\\n' | head -n 5",
        ),
    ]
