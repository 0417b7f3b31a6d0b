#!/bin/bash
# Rehearsal stand-in: the described cards as entries of /sys/bus/pci/devices, sourced after module-state.sh.

show_pci() {
    local row address vendor device class mib uuid name place index subsystem
    while IFS=$'\t' read -r row address vendor device class mib uuid name; do
        place=$PCI/devices/$address
        mkdir -p "$place"
        echo "0x$vendor" >"$place/vendor"
        echo "0x$device" >"$place/device"
        echo "$class" >"$place/class"
        echo "0x$vendor" >"$place/subsystem_vendor"
        [ "$device" = 2330 ] && subsystem=16c1 || subsystem=0000
        echo "0x$subsystem" >"$place/subsystem_device"
        echo "0xa1" >"$place/revision"
        echo 0 >"$place/irq"
        echo -1 >"$place/numa_node"
        echo "pci:v0000${vendor^^}d0000${device^^}sv0000${vendor^^}sd0000${subsystem^^}bc${class:2:2}sc${class:4:2}i${class:6:2}" >"$place/modalias"
        for index in 0 1 2 3 4 5 6 7 8 9 10 11 12; do echo "0x0000000000000000 0x0000000000000000 0x0000000000000000"; done >"$place/resource"
        # The first 64 bytes of configuration space, which lspci reads: ids, revision and class, little-endian.
        { printf "\\x${vendor:2:2}\\x${vendor:0:2}\\x${device:2:2}\\x${device:0:2}\0\0\0\0\\xa1\\x${class:6:2}\\x${class:4:2}\\x${class:2:2}"
            head -c 52 /dev/zero; } >"$place/config"
    done < <(described pci)
}
