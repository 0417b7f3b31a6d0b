#!/bin/bash
# Rehearsal stand-in: which kernel modules are on disk and loaded, sourced by kernel-modules and show-hardware.
#
# Why: no package can add PCI devices or kernel modules to a machine that shares the outer machine's kernel. The state
# is what /sys/module, /proc/driver, /proc/devices and /dev show, on tmpfs: a reboot forgets it as a real one does. bash,
# awk and coreutils only, because a bare machine has nothing more.
#
# A module file is text, one `key=value` per line (version, description, signer…), under /lib/modules/$(uname -r).
# Holders: one line per program that has the GPU open, "PID NAME" or just "NAME", in /run/rehearsal/nvidia-users; a
# line whose process has ended holds nothing.
set -u
shopt -s nullglob

LABEL="rehearsal stand-in"
TABLE=/etc/rehearsal/hardware.table
HOLDERS=/run/rehearsal/nvidia-users
DEVICES=/run/rehearsal/devices # lies over /proc/devices
KERNEL_DEVICES=/run/rehearsal/devices.kernel
KERNEL=$(uname -r)
MODULES=/lib/modules/$KERNEL
PCI=/sys/bus/pci
NVIDIA_FAMILY="nvidia nvidia_modeset nvidia_uvm nvidia_drm nvidia_peermem"
# Compiled into the kernels cloud images boot, or loaded long before a role asks: what Docker and its firewall want.
COMPILED_IN="overlay br_netfilter bridge veth ip_tables ip6_tables iptable_nat iptable_filter nf_nat nf_conntrack nf_tables
    nft_chain_nat nft_compat x_tables xt_conntrack xt_MASQUERADE xt_addrtype xt_comment xt_mark xt_multiport ip_set ip_vs
    macvlan ipvlan vxlan dummy tun loop fuse ext4 xfs dm_mod"

say() { echo "$*" >&2; }
described() { [ -r "$TABLE" ] && grep -P "^$1\t" "$TABLE"; }
is_yes() { described "$1" | grep -q "yes$"; }
canonical() {
    local name=${1//-/_}
    case $name in nvidia_current | nvidia_current_open) echo nvidia ;; nvidia_current_*) echo "nvidia_${name#nvidia_current_}" ;; *) echo "$name" ;; esac
}
is_loaded() { [ -d "/sys/module/$1" ]; }
gpus() { described pci | awk -F'\t' '$3 == "10de" && $5 ~ /^0x03/'; }
. "$(dirname "${BASH_SOURCE[0]}")/show-driver.sh"

# ---- what is on disk ------------------------------------------------------------------------------------------------

module_file() { # path of the module's file for the running kernel, empty when there is none
    local wanted=$1 path
    # depmod prefers updates/ over the kernel's own directory.
    for path in "$MODULES"/updates/dkms/*.ko "$MODULES"/updates/*.ko $(find "$MODULES" -name "*.ko" 2>/dev/null); do
        [ "$(canonical "$(basename "$path" .ko)")" = "$wanted" ] && echo "$path" && return
    done
}
field() { # value of `key=value` in a stand-in module file
    sed -n "s/^$2=//p" "$1" | head -n 1
}
is_blacklisted() {
    # /lib/modprobe.d is the same directory on merged systems; reading it twice is harmless.
    local files=(/etc/modprobe.d/*.conf /run/modprobe.d/*.conf /usr/lib/modprobe.d/*.conf /lib/modprobe.d/*.conf)
    [ ${#files[@]} -gt 0 ] && sed 's/#.*//' "${files[@]}" | tr - _ | grep -qE "^[[:space:]]*(blacklist[[:space:]]+$1|install[[:space:]]+$1[[:space:]].*(false|true))[[:space:]]*$"
}

# ---- what is loaded -------------------------------------------------------------------------------------------------

bind_gpus() { # every GPU's driver link points at driver $1, or nowhere when it is empty
    local row address
    while IFS=$'\t' read -r row address _; do
        rm -f "$PCI/devices/$address/driver"
        [ -n "$1" ] || continue
        mkdir -p "$PCI/drivers/$1"
        ln -s "../../drivers/$1" "$PCI/devices/$address/driver"
        ln -sfn "../../devices/$address" "$PCI/drivers/$1/$address"
    done < <(gpus)
    [ -n "$1" ] || rm -rf "$PCI"/drivers/nvidia "$PCI"/drivers/nouveau
}
mark_loaded() {
    mkdir -p "/sys/module/$1/holders"
    # The driver's own module shows none of its parameters there: they stand in /proc/driver/nvidia/params.
    [ "$1" = nvidia ] || mkdir -p "/sys/module/$1/parameters"
    echo live >"/sys/module/$1/initstate"
    echo 0 >"/sys/module/$1/refcnt"
    [ -z "${2:-}" ] || echo "$2" >"/sys/module/$1/version"
}

load() { # loads one module of the stand-in state; messages and status as modprobe's
    local name=$1 file
    is_loaded "$name" && return 0
    if [ "$name" = nouveau ]; then
        is_yes nouveau || { say "modprobe: FATAL: Module nouveau not found in directory $MODULES"; return 1; }
        is_loaded nvidia && { say "modprobe: ERROR: could not insert 'nouveau': No such device"; return 1; }
        mark_loaded nouveau && bind_gpus nouveau
        return
    fi
    file=$(module_file "$name")
    [ -n "$file" ] || { say "modprobe: FATAL: Module $2 not found in directory $MODULES"; return 1; }
    if [ "$name" = nvidia ]; then
        # The driver finds no device it may have: nouveau holds the cards, or there are none.
        if is_loaded nouveau || [ -z "$(gpus)" ]; then
            say "modprobe: ERROR: could not insert '$2': No such device"
            return 1
        fi
        if is_yes secure_boot && [ "$(field "$file" signer)" = "" ]; then
            say "modprobe: ERROR: could not insert '$2': Key was rejected by service"
            return 1
        fi
        mark_loaded nvidia "$(field "$file" version)"
        bind_gpus nvidia
        show_driver "$(field "$file" version)"
        show_majors
        return
    fi
    load nvidia nvidia 2>/dev/null || { say "modprobe: ERROR: could not insert '$2': No such device"; return 1; }
    mark_loaded "$name" "$(field "$file" version)"
    touch "/sys/module/nvidia/holders/$name"
    [ "$name" != nvidia_uvm ] || { node /dev/nvidia-uvm "$UVM_MAJOR" 0 && node /dev/nvidia-uvm-tools "$UVM_MAJOR" 1; }
    show_majors
}

users() { # programs and modules that keep module $1 from being removed, comma-separated
    local name pid rest found=()
    if [ "$1" = nvidia ]; then
        for name in $NVIDIA_FAMILY; do [ "$name" != nvidia ] && is_loaded "$name" && found+=("$name"); done
    fi
    # A console or a display holds nouveau on every real machine that has it loaded.
    [ "$1" = nouveau ] && found+=("(console)")
    while [ -r "$HOLDERS" ] && read -r pid rest; do
        [ -n "$pid" ] || continue
        [[ $pid =~ ^[0-9]+$ ]] && [ ! -d "/proc/$pid" ] && continue
        found+=("(${rest:-$pid})")
    done < <([ -r "$HOLDERS" ] && [[ $1 == nvidia || $1 == nvidia_uvm ]] && cat "$HOLDERS")
    local IFS=,
    echo "${found[*]-}"
}
modules_among() { # the holders that are modules; kmod counts the others without naming them
    local holder found=()
    for holder in "$@"; do [[ -z $holder || $holder == \(* ]] || found+=("$holder"); done
    local IFS=,
    echo "${found[*]-}"
}
unload() { # unloads one module; $2 says who reports
    local name=$1 tool=$2 held
    if ! is_loaded "$name"; then
        [ "$tool" = modprobe ] && return 0
        say "rmmod: ERROR: Module $name is not currently loaded"
        return 1
    fi
    held=$(users "$name")
    if [ -n "$held" ]; then
        if [ "$tool" = modprobe ]; then say "modprobe: FATAL: Module $name is in use."; return 1; fi
        IFS=, read -ra held <<<"$held"
        held=$(modules_among "${held[@]}")
        say "rmmod: ERROR: Module $name is in use${held:+ by: ${held//,/ }}"
        return 1
    fi
    rm -rf "/sys/module/$name" "/sys/module/nvidia/holders/$name"
    # MIG mode and instances last as long as the module is loaded (Hopper and later).
    if [ "$name" = nvidia ]; then bind_gpus "" && rm -rf /proc/driver/nvidia /run/rehearsal/mig /dev/nvidia-caps; fi
    show_majors
}
