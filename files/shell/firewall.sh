#!/bin/bash
# The table of nftables that enginehouse owns, and no other: firewall.sh load | again | unload | seen
#
#   load    the rules of /etc/enginehouse/firewall.nft are in force, in one transaction; without that file, none are
#   again   loads them if the table is gone although nobody unloaded it, as after `nft flush ruleset`
#   seen    prints "loaded" where what is in force is exactly what was loaded from the file as it is now
set -euo pipefail
rules=/etc/enginehouse/firewall.nft
loaded=/run/enginehouse-firewall.loaded

# marks: the file, and the table as the kernel lists it, without counters; a flush or an edit by hand changes it.
marks() {
  sha256sum <"$rules"
  nft -s list table inet enginehouse | sha256sum
}

case "${1:-}" in
  load)
    if [ -f "$rules" ]; then
      nft -f "$rules"
      marks >"$loaded"
    else
      exec "$0" unload
    fi
    ;;
  again)
    if [ -f "$loaded" ] && ! nft list table inet enginehouse >/dev/null 2>&1; then
      echo "<4>the firewall's table was removed by another program; it is loaded again" \
        "(systemctl stop enginehouse-firewall.service removes it until the next run)" >&2
      exec bash "$0" load
    fi
    ;;
  unload)
    rm -f "$loaded"
    if nft list table inet enginehouse >/dev/null 2>&1; then nft delete table inet enginehouse; fi
    ;;
  seen)
    if [ -f "$loaded" ] && [ "$(marks 2>/dev/null)" = "$(cat "$loaded")" ]; then echo loaded; fi
    ;;
  *)
    echo "usage: firewall.sh load | again | unload | seen" >&2
    exit 64
    ;;
esac
