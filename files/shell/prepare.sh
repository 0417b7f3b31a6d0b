#!/bin/bash
# What a Triton server needs on the host just before its container starts: prepare.sh SERVER. Safe to run again.
#
#   engines whole   each one is signed by somebody this host trusts, and not one byte of it is another. One that is not
#                   is moved aside, so that the next deploy builds or fetches it again; nothing starts.
#   no orphan       a container of that name whose unit was killed
#   no ghost        power that goes while a container stops can leave Docker, from its next start on, holding the ports for
#                   nobody (seen with 26.1). Only another start of Docker frees them; it gets one if that stops nothing.
#   a key           random per start, readable by the container's user only; see `launch` in the release
#   no way in       of this host's users only root and our services may connect to the server and to its container
#   no way out      its own bridge; new connections that begin in it are dropped, whether outward or to this host.
#                   Published ports still work: their connections begin outside.
set -euo pipefail
server=$1
network=enginehouse
bridge=enginehouse0

programs=${ENGINEHOUSE_PROGRAMS:-/usr/local/lib/enginehouse}
servers=${ENGINEHOUSE_SERVERS:-/var/lib/enginehouse/servers}

# engines: the directories this server's release loads, one a line.
engines() {
  python3 -c 'import json, sys; [print(e["path"]) for e in json.load(open(sys.argv[1])).get("engines", [])]' \
    "$servers/$server/current/server.json"
}
found=$(engines)
refused=0
while read -r engine; do
  [ -n "$engine" ] || continue
  status=0
  said=$(python3 -B "$programs/host" engine verify "$engine" 2>&1) || status=$?
  [ "$status" -ne 0 ] || continue
  echo "$said" >&2
  refused=1
  # Moved aside only where the engine is at fault (1): a host without signers or ssh-keygen (2) can judge nothing. One
  # that nobody has signed stays: it was just built, and waits for its signature.
  if [ "$status" -eq 1 ] && [ -e "$engine/engine.json.sig" ]; then
    python3 -B "$programs/host" engine refuse "$engine" "${said%%$'\n'*}"
  fi
done <<<"$found"
[ "$refused" -eq 0 ] || exit 1

docker rm -f "triton-$server" >/dev/null 2>&1 || true

# ghost: a port of this server is held by Docker's proxy although no running container publishes it.
ghost() {
  local address port
  while read -r address port; do
    pgrep -f -- "docker-proxy .*-host-ip $address -host-port $port " >/dev/null || continue
    [ -n "$(docker ps --quiet --filter "publish=$port")" ] || return 0
  done < <(python3 -c 'import json, sys; s = json.load(open(sys.argv[1]))
for name in ("http", "grpc", "metrics"): print(s.get("address"), s.get(f"{name}_port"))' "$servers/$server/current/server.json")
  return 1
}
if ghost; then
  echo "Docker holds a port of $server for a container that is gone" >&2
  if [ -n "$(docker ps --quiet)" ]; then
    echo "  try     systemctl restart docker.service; it stops the containers that run, so it is left to you" >&2
    exit 1
  fi
  echo "restarting Docker, which runs no container" >&2
  # Only Docker: its units are restarted with it (PartOf in triton@.service), and this start is of one of them.
  systemctl restart --job-mode=ignore-dependencies docker.service
fi

# A release of before 2026-11-25 runs as 1000, and says nothing about it.
uid=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get("uid", 1000))' "$servers/$server/current/server.json")

umask 077
head -c 32 /dev/urandom | sha256sum | cut -d' ' -f1 >"$RUNTIME_DIRECTORY/key"
chown "$uid:$uid" "$RUNTIME_DIRECTORY/key"
chmod 0400 "$RUNTIME_DIRECTORY/key"

if ! docker network inspect "$network" >/dev/null 2>&1; then
  docker network create --driver bridge --opt "com.docker.network.bridge.name=$bridge" \
    --opt com.docker.network.bridge.enable_ip_masquerade=false --opt com.docker.network.bridge.enable_icc=false \
    "$network" >/dev/null || docker network inspect "$network" >/dev/null # another server's start was faster
fi

# no way in, of this host's own users but those of guard.sh; and no way out.
bash "$programs/guard.sh"
