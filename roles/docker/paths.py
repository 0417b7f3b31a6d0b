"""Files of the host that the docker role owns or merges into."""

from roles._shipping.apt import keep_from_upgrades

DAEMON = "/etc/docker/daemon.json"
CONTAINERD = "/etc/containerd/config.toml"
NEEDRESTART = "/etc/needrestart/conf.d/52-enginehouse-docker.conf"
UPGRADES, UPGRADES_CONTENT = keep_from_upgrades("docker", ("^docker", "^containerd", "^runc$"))
# needrestart exempts docker.service but not containerd, and on Ubuntu 24.04 it restarts without asking.
NEEDRESTART_CONTENT = "".join(
    f"$nrconf{{override_rc}}{{qr(^{unit})}} = 0;\n" for unit in ("docker", "containerd", "triton@")
)
