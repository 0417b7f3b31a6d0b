"""Keys of Docker's daemon.json with the type of each value; the daemon does not start with a wrong type.

From moby's `daemon/config/config.go` and `config_linux.go`, read 2026-11-27.
"""

_LISTS = """
    authorization-plugins cdi-spec-dirs default-address-pools dns dns-opts dns-search exec-opts host-gateway-ips hosts
    insecure-registries labels node-generic-resources registry-mirrors storage-opts
"""
_DICTIONARIES = "builder default-network-opts default-ulimits features log-opts proxies runtimes"
_SWITCHES = """
    allow-direct-routing cri-containerd debug experimental icc init ip-forward ip-forward-no-drop ip-masq ip6tables
    iptables ipv6 live-restore no-new-privileges raw-logs rootless selinux-enabled tls tlsverify userland-proxy
"""
_NUMBERS = """
    cpu-rt-period cpu-rt-runtime max-concurrent-downloads max-concurrent-uploads max-download-attempts mtu
    network-control-plane-mtu network-diagnostic-port shutdown-timeout swarm-raft-election-tick
    swarm-raft-heartbeat-tick
"""
_TEXTS = """
    bip bip6 bridge bridge-accept-fwmark cgroup-parent containerd containerd-namespace containerd-plugin-namespace
    data-root default-cgroupns-mode default-gateway default-gateway-v6 default-init default-ipc-mode default-runtime
    exec-root firewall-backend fixed-cidr fixed-cidr-v6 group host-gateway-ip init-path ip log-driver log-format
    log-level metrics-addr pidfile resolv-conf seccomp-profile storage-driver swarm-default-advertise-addr tlscacert
    tlscert tlskey userland-proxy-path userns-remap
"""
DAEMON_KEYS: dict[str, type] = {
    **dict.fromkeys(_LISTS.split(), list),
    **dict.fromkeys(_DICTIONARIES.split(), dict),
    **dict.fromkeys(_SWITCHES.split(), bool),
    **dict.fromkeys(_NUMBERS.split(), int),
    **dict.fromkeys(_TEXTS.split(), str),
}
"""`default-shm-size` is left out: the daemon reads it as a number and as a text with a unit."""
