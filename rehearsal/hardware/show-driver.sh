#!/bin/bash
# Rehearsal stand-in: what a loaded driver shows in /proc/driver/nvidia and /dev, sourced by module-state.sh.
#
# Names, order, tabs and values were read from an H100 80GB HBM3 with driver 580.159.04 (tests/golden/card), except for
# what belongs to that one card. REHEARSAL_PROC, where it is set, is the place instead.
PROC_DRIVER=${REHEARSAL_PROC:-/proc/driver/nvidia}

driver_parameters() {
    cat <<'END'
ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
InitializeSystemMemoryAllocations: 1
UsePageAttributeTable: 4294967295
EnableMSI: 1
EnablePCIeGen3: 0
MemoryPoolSize: 0
KMallocHeapMaxSize: 0
VMallocHeapMaxSize: 0
IgnoreMMIOCheck: 0
EnableStreamMemOPs: 0
EnableUserNUMAManagement: 1
NvLinkDisable: 1
RmProfilingAdminOnly: 0
PreserveVideoMemoryAllocations: 0
EnableS0ixPowerManagement: 0
S0ixPowerManagementVideoMemoryThreshold: 256
DynamicPowerManagement: 3
DynamicPowerManagementVideoMemoryThreshold: 200
RegisterPCIDriver: 1
EnablePCIERelaxedOrderingMode: 0
EnableResizableBar: 0
EnableGpuFirmware: 18
EnableGpuFirmwareLogs: 2
RmNvlinkBandwidthLinkCount: 0
EnableDbgBreakpoint: 0
OpenRmEnableUnsupportedGpus: 1
DmaRemapPeerMmio: 1
ImexChannelCount: 2048
CreateImexChannel0: 0
GrdmaPciTopoCheckOverride: 0
CoherentGPUMemoryMode: ""
RegistryDwords: ""
RegistryDwordsPerDevice: ""
RmMsg: ""
GpuBlacklist: ""
TemporaryFilePath: ""
ExcludedGpus: ""
END
}
card_information() { # ADDRESS UUID NAME NUMBER VERSION
    printf 'Model: \t\t %s\nIRQ:   \t\t 0\nGPU UUID: \t %s\nVideo BIOS: \t %s\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n' "$3" "$2" "$LABEL"
    printf 'DMA Mask: \t 0xfffffffffffff\nBus Location: \t %s\nDevice Minor: \t %s\nGPU Firmware: \t %s\nGPU Excluded:\t No\n' "$1" "$4" "$5"
}
capability() { # MINOR MODE: the mode in decimal, as the driver writes it
    printf 'DeviceFileMinor: %s\nDeviceFileMode: %s\nDeviceFileModify: 1\n' "$1" "$2"
}
# Major numbers that Linux sets aside for experiments: no driver answers them. Opening a node of theirs ends with ENXIO
# where the device rules of the control group allow it, and with EPERM where they do not. The real card's are 195, which
# a driver of the outer machine may answer, and two that differ from boot to boot. The minor numbers are real.
CARD_MAJOR=120 UVM_MAJOR=121 CAPS_MAJOR=122
node() { # PATH MAJOR MINOR MODE
    [ -e "$1" ] || mknod -m "${4:-0666}" "$1" c "$2" "$3"
    # The real tools leave this link too. Without it runc 1.1.5 gives systemd no rule for the device, and the next
    # daemon-reload takes the card from its container (seen on Debian 12).
    mkdir -p /dev/char && ln -sfn "../${1#/dev/}" "/dev/char/$2:$3"
}
show_majors() { # /proc/devices: the kernel's own, and those of the loaded modules under the names the real ones have
    local kernel rows=""
    kernel=$(<"$KERNEL_DEVICES")
    is_loaded nvidia && rows+="$CARD_MAJOR nvidia"$'\n'"$CARD_MAJOR nvidiactl"$'\n'"$CAPS_MAJOR nvidia-caps"$'\n'
    is_loaded nvidia_modeset && rows+="$CARD_MAJOR nvidia-modeset"$'\n'
    is_loaded nvidia_uvm && rows+="$UVM_MAJOR nvidia-uvm"$'\n'
    # In place: what lies over /proc/devices is this file, and another of its name would not be seen.
    printf '%s\n' "${kernel/$'\n\n'/$'\n'$rows$'\n'}" >"$DEVICES"
}
show_proc() { # /proc/driver/nvidia of version $1, for the rows of the hardware table on standard input
    local row address vendor device class mib uuid name number=0
    mkdir -p "$PROC_DRIVER"/{gpus,patches,warnings} "$PROC_DRIVER"/capabilities/mig
    printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (%s)  \n' "$1" "$LABEL" >"$PROC_DRIVER/version"
    printf 'GCC version:  gcc version 0 (%s: no code was loaded) \n' "$LABEL" >>"$PROC_DRIVER/version"
    driver_parameters >"$PROC_DRIVER/params"
    echo 'Binary: ""' >"$PROC_DRIVER/registry"
    echo "suspend hibernate resume" >"$PROC_DRIVER/suspend"
    echo "default modeset uvm" >"$PROC_DRIVER/suspend_depth"
    capability 1 256 >"$PROC_DRIVER/capabilities/mig/config"
    capability 2 292 >"$PROC_DRIVER/capabilities/mig/monitor"
    echo "$LABEL" >"$PROC_DRIVER/capabilities/fabric-imex-mgmt" # its numbers were not read
    while IFS=$'\t' read -r row address vendor device class mib uuid name; do
        mkdir -p "$PROC_DRIVER/gpus/$address" "$PROC_DRIVER/capabilities/gpu$number/mig"
        card_information "$address" "$uuid" "$name" "$number" "$1" >"$PROC_DRIVER/gpus/$address/information"
        number=$((number + 1))
    done
}
show_nodes() { # none for nvidia-modeset: the real machine had none either
    local number
    for number in $(seq 0 $(($(gpus | wc -l) - 1))); do node "/dev/nvidia$number" "$CARD_MAJOR" "$number"; done
    node /dev/nvidiactl "$CARD_MAJOR" 255
    mkdir -p /dev/nvidia-caps
    node /dev/nvidia-caps/nvidia-cap1 "$CAPS_MAJOR" 1 0400
    node /dev/nvidia-caps/nvidia-cap2 "$CAPS_MAJOR" 2 0444
}
show_driver() { # all of a loaded driver, version $1
    show_proc "$1" < <(gpus)
    show_nodes
}
