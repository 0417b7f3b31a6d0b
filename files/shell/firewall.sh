#!/bin/bash
# The table of nftables that enginehouse owns, and no other: firewall.sh load | unload | seen
#
#   load    the rules of /etc/enginehouse/firewall.nft are in force, in one transaction; without that file, none are
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
  unload)
    rm -f "$loaded"
    if nft list table inet enginehouse >/dev/null 2>&1; then nft delete table inet enginehouse; fi
    ;;
  seen)
    if [ -f "$loaded" ] && [ "$(marks 2>/dev/null)" = "$(cat "$loaded")" ]; then echo loaded; fi
    ;;
  *)
    echo "usage: firewall.sh load | unload | seen" >&2
    exit 64
    ;;
esac
