"""Leftovers of killed runs on a host: made with the project's own programs and names, then interrupted."""

from __future__ import annotations

LIB = "/usr/local/lib/enginehouse"
DATA = "/var/lib/enginehouse"
UNITS = "/etc/systemd/system"
MAIN = f"{DATA}/servers/main"
IMAGE = "$(docker inspect -f '{{.Config.Image}}' triton-main)"
REVISION = "1" * 40

UNREAD_UNIT = f"""
cd {UNITS} && cp triton@.service /root/right && echo '# before' >>triton@.service && systemctl daemon-reload
cp /root/right triton@.service && rm /root/right
"""
"""State of a host whose run was killed between writing a unit and `daemon-reload`."""

UNCONFIRMED = f"""
for each in 'docker /etc/docker/daemon.json' 'units-triton {UNITS}/triton@.service'; do
  set -- $each; python3 -B {LIB}/host undo save $1 $2 && python3 -B {LIB}/host undo watch $1 900
done
"""
"""State of a host whose run was killed between a change and its confirmation."""

ORPHANS = f"""
docker run --detach --rm --name triton-old --label enginehouse.server=old --network none --entrypoint sleep {IMAGE} 900
rm -f {DATA}/probes/*
docker run --detach --rm --name enginehouse-probe-main --label io.enginehouse.probe=cuda --entrypoint sleep {IMAGE} 900
bash {LIB}/prove-gpu-container 1 & proof=$!
for i in $(seq 300); do ! docker container inspect enginehouse-gpu-probe || break; sleep 0.1; done; kill -KILL $proof
"""
"""A server whose unit is gone, a probe that hung, a probe whose program was killed."""

TRANSFERS = f"""
for each in {DATA}/weights/minilm/.{REVISION}.partial {DATA}/releases/.main-0000000000000000.partial; do
  mkdir -p $each && head -c 4096 /dev/zero >$each/half && touch -d 2026-01-02 $each/half $each
done
"""
"""Names of interrupted transfers that no plan names."""

OTHER_SERVER = f"""
mkdir -p {DATA}/servers/gone && ln -sfn ../../releases/gone-0000000000000000 {DATA}/servers/gone/current
cp -r {UNITS}/triton@main.service.d {UNITS}/triton@gone.service.d && systemctl daemon-reload
systemctl enable triton@gone.service enginehouse-watch@gone.timer && systemctl start enginehouse-watch@gone.timer
systemctl start triton@gone.service
"""
"""A server of an earlier inventory that cannot start, and tries again and again."""

GIVEN_UP = f"""
systemctl stop triton@main.service && mv {MAIN}/current/run {MAIN}/current/run.away
for i in $(seq 7); do systemctl start triton@main.service; done; mv {MAIN}/current/run.away {MAIN}/current/run
"""
"""A unit that systemd no longer starts, after too many attempts."""

OUTLIVED = f"""
export RUNTIME_DIRECTORY=/run/enginehouse/triton-main; mkdir -p $RUNTIME_DIRECTORY && bash {LIB}/prepare.sh main
setsid bash {MAIN}/current/run </dev/null >/dev/null 2>&1 & client=$!
for i in $(seq 300); do [ -z "$(docker ps -q --filter name=^triton-main$)" ] || break; sleep 0.1; done
kill -KILL $client
"""
"""A container that runs without its unit and its client, and holds the unit's name, ports and GPU."""
