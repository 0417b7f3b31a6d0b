#!/bin/bash
# Docker runs with the daemon.json that was put back, and docker0 has the address it had: docker-back.sh [ADDRESS/BITS]
#
# An engine without `bip` goes on with the address docker0 has, and one that starts without docker0 makes it again as it
# remembers it: the wrong one. So the address is said aloud for one start, and the file is then as it was put back.
set -euo pipefail
file=/etc/docker/daemon.json
address=${1:-172.17.0.1/16}

systemctl stop docker.service docker.socket
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
test ! -f "$file" || cp -p "$file" "$kept/"
# Containers that outlived the engine keep their bridge.
if [ -z "$(ls -A /sys/class/net/docker0/brif 2>/dev/null)" ]; then
  ip link delete docker0 2>/dev/null || true
  python3 - "$file" "$address" <<'PYTHON'
import json, pathlib, sys
file = pathlib.Path(sys.argv[1])
settings = json.loads(file.read_text() or "{}") if file.exists() else {}
if "bip" not in settings and settings.get("bridge") != "none":
    file.write_text(json.dumps(settings | {"bip": sys.argv[2]}, indent=4) + "\n")
PYTHON
fi
started=0
systemctl reset-failed docker.service docker.socket 2>/dev/null || true
systemctl start docker.service || started=$?
if [ -f "$kept/daemon.json" ]; then cp -p "$kept/daemon.json" "$file"; else rm -f "$file"; fi
exit "$started"
