#!/bin/bash
# Who of this host's own users may connect to its Triton servers: the iptables chain ENGINEHOUSE-LOCAL, replaced whole.
# And no way out of their containers. guard.sh [again]; safe to run again; nothing on a host without servers.
# Run by prepare.sh before each start of a server, and before each start of a service of ours that asks servers: its user
# may be newer than the chain.
#
#   again   only if a rule is gone: the watchdog runs it, since `nft flush ruleset` and `iptables -F` take all of them
set -euo pipefail
shopt -s nullglob
bridge=enginehouse0 ranks=61140
chain=ENGINEHOUSE-LOCAL
jump=(OUTPUT -p tcp --syn -j "$chain" -m comment --comment "enginehouse: no way in")
out=(-i "$bridge" -m conntrack --ctstate NEW -j DROP -m comment --comment "enginehouse: no way out")
servers=${ENGINEHOUSE_SERVERS:-/var/lib/enginehouse/servers}
settings=("$servers"/*/current/server.json)
[ ${#settings[@]} -gt 0 ] || exit 0

# allowed: the users that may connect, one uid or range a line. Who may become root anyway is no stranger: members of sudo,
# and who deploys here. systemd's dynamic users (61184 to 65519) are services, enginehouse-metrics among them.
allowed() {
  local name
  echo 0
  echo 61184-65519
  for name in enginehouse-gateway enginehouse-traffic haproxy $(cat /etc/enginehouse/operators 2>/dev/null) \
    $(getent group sudo admin wheel | cut -d: -f4 | tr ',' ' '); do
    id -u "$name" 2>/dev/null || true
  done
}

# guard: the chain of one family, replaced whole and first in OUTPUT: published ports of every server here, and the bridge
# behind them. Docker rewrites a port that it publishes on another address of this host; OUTPUT then sees the container's
# port and still lo, so that such a connection is known by the port that it was made to (seen with 6.18, 2026-11-25).
# Only the packet that begins a connection is judged: it alone surely has a process that sends it.
# A group's ports at any of its hosts let in members by their addresses, so users of a member are kept from them as well;
# the third one is for the ranks' user ($ranks), and so are the ports that the system chooses, where ranks wait for each
# other: nothing there asks who comes. On loopback other users have servers of their own at such ports: closed are those at
# which ranks listen now, and a group's unit runs this again once its ranks have answered.
guard() {
  local matches match uid rule
  # Read first: a chain that lacks ports would let everybody in.
  matches=$(python3 -c 'import json, sys
from pathlib import Path
program, ranks, *paths = sys.argv[1:]
chosen = ":".join(open("/proc/sys/net/ipv4/ip_local_port_range").read().split())
for path in paths:
    facts = json.load(open(path))
    ports = [str(port) for key, port in sorted(facts.items()) if key.endswith("_port")]
    print("-o lo -p tcp -m multiport --dports", ",".join(ports))
    for port in ports: print("-o lo -p tcp -m conntrack --ctstate DNAT --ctorigdstport", port)
    group = facts.get("group") or {"members": []}
    if group["members"]:
        rows = [row.split() for file in Path("/proc/net").glob("tcp*") for row in file.read_text().splitlines()[1:]]
        listening = {int(row[1].rpartition(":")[2], 16) for row in rows if (row[3], row[7]) == ("0A", ranks)}
        for port in sorted({group["port"] + 2, *listening}):
            print(f"-o lo -p tcp --dport {port} -m owner ! --uid-owner {ranks}")
    for address in [member["address"] for member in group["members"]]:
        if (":" in address) == (program == "ip6tables"):
            print(f"-d {address} -p tcp -m multiport --dports", "{0}:{1}".format(group["port"], group["port"] + 1))
            for port in (group["port"] + 2, chosen):
                print(f"-d {address} -p tcp --dport {port} -m owner ! --uid-owner {ranks}")
' "$1" "$ranks" "${settings[@]}") || return
  {
    echo "*filter"
    echo ":$chain - [0:0]"
    for uid in $(allowed | sort -u); do echo "-A $chain -m owner --uid-owner $uid -j RETURN"; done
    while read -r match; do echo "-A $chain $match -j REJECT --reject-with tcp-reset"; done <<<"$matches"
    echo "-A $chain -o $bridge -p tcp -j REJECT --reject-with tcp-reset"
    # iptables 1.8.7 of Ubuntu 22.04 prints the rule that it checks, which is no line for iptables-restore.
    rule="${jump[*]:0:9} \"${jump[9]}\""
    if holds "$1" "${jump[@]}"; then echo "-D $rule"; fi
    echo "-I $rule"
    echo COMMIT
  } | "$1-restore" -w --noflush
}

# holds PROGRAM RULE: a rule is in force.
holds() { "$1" -w -C "${@:2}" >/dev/null 2>&1; }

# drop CHAIN: the rule, first in its chain, once. Firewalls that reload drop it.
drop() { holds iptables "$1" "${out[@]}" || iptables -w -I "$1" 1 "${out[@]}"; }

families=(iptables) forwarding=FORWARD
if ip6tables -w -n -L OUTPUT >/dev/null 2>&1; then families+=(ip6tables); fi
if iptables -w -n -L DOCKER-USER >/dev/null 2>&1; then forwarding=DOCKER-USER; fi
if [ "${1:-}" = again ]; then
  gone=
  for family in "${families[@]}"; do holds "$family" "${jump[@]}" || gone=yes; done
  for name in "$forwarding" INPUT; do holds iptables "$name" "${out[@]}" || gone=yes; done
  [ -n "$gone" ] || exit 0
  echo "<4>rules that guard Triton's ports were removed by another program; they are loaded again" >&2
fi
if ! guard iptables; then
  echo "users of this host cannot be kept from Triton's ports, so no server starts" >&2
  echo "  try     modprobe xt_owner; a kernel without it is not enough" >&2
  exit 1
fi
for family in "${families[@]:1}"; do guard "$family"; done
for name in "$forwarding" INPUT; do drop "$name"; done
