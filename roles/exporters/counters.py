"""Counters that dcgm-exporter reads from a card: DCGM's names, kinds and descriptions.

Source: dcgm-exporter's own list, NVIDIA/dcgm-exporter at d5e5f51 of 2026-05-12, etc/default-counters.csv; read
2026-11-23. The table has the counters that rules, dashboards and `enginehouse top` read, and errors of memory and
links. Xids are counted within a window: `DCGM_FI_DEV_XID_ERRORS` is the number of the last one and never falls.
"""

COUNTERS = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock in MHz"),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature in C"),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power in W"),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since boot in mJ"),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries"),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Memory free in MiB"),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Memory used in MiB"),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Memory reserved in MiB"),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Corrected ECC errors since the driver was loaded"),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Uncorrected ECC errors since the driver was loaded"),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for uncorrectable errors"),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for correctable errors"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "1 where a row could not be remapped"),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "NVLink bandwidth of all lanes"),
    ("DCGM_EXP_XID_ERRORS_COUNT", "gauge", "Xids within the exporter's window"),
    ("DCGM_EXP_CLOCK_EVENTS_COUNT", "gauge", "What slowed the clocks within the exporter's window"),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Share of time in which the engine was active"),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Share of cycles in which tensor cores were active"),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Share of cycles in which memory moved data"),
)


def csv() -> str:
    return "# Installed by enginehouse (role exporters).\n" + "".join(f"{', '.join(row)}\n" for row in COUNTERS)
