#!/bin/bash
# Writes down what this host was before the first deploy, so that remove.py can tell ours from what was there.
# Run once, on standard input, before anything is installed; plain bash, because a bare host has nothing else.
set -euo pipefail
kept=/etc/enginehouse/before new=/etc/enginehouse/.before.new
rm -rf "$new"
install -d -m 0755 /etc/enginehouse
install -d -m 0700 "$new" "$new/apt"

dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' | sed -n 's/^[hi]i *//p' | sort -u >"$new/packages"
apt-mark showhold | sort >"$new/holds"
getent passwd | cut -d: -f1 | sort >"$new/users"
getent group | cut -d: -f1 | sort >"$new/groups"
for path in /etc/docker /etc/containerd /etc/needrestart /etc/systemd/journald.conf.d /var/lib/docker /var/lib/containerd; do
  [ -z "$(ls -A "$path" 2>/dev/null)" ] || echo "$path" # an empty one is nobody's
done >"$new/paths"
for file in /etc/docker/daemon.json /etc/containerd/config.toml; do
  [ ! -f "$file" ] || cp -p "$file" "$new/"
done
for path in /etc/apt/sources.list /etc/apt/sources.list.d; do
  [ ! -e "$path" ] || cp -a "$path" "$new/apt/"
done
# A host that an earlier version of this project deployed to: its packages may be ours or not, nobody knows.
if [ -e /etc/systemd/system/triton@.service ] || [ -e /usr/local/lib/enginehouse ]; then touch "$new/late"; fi
sync
mv -T "$new" "$kept"
