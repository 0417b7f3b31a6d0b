/* The fields of --query-gpu and the lines of -q.
 *
 * rehearsal stand-in: labels, order, units and spelling up to "Conf Compute Protected Memory Usage" were read from an H100 80GB HBM3
 * (580.159.04, tests/golden/card), the rest from public listings of the same branch. More than 300 lines, because it is one table.
 */
#include "smi_fields.h"

#include "mig_commands.h"

#include <stdio.h>
#include <string.h>

#ifndef PERSISTENCE_MODE
#define PERSISTENCE_MODE "/run/nvidia-persistenced/mode"
#endif

int gpu_count;

int persistence(void)
{
    char line[8];
    const char *mode = first_line(PERSISTENCE_MODE, line, sizeof line);
    return mode && *mode == '1';
}

/* Lines `INDEX FIELD VALUE`. */
const char *faulty(int index, const char *field, const char *whole)
{
    static char value[64];
    char name[64];
    int number;
    FILE *file = fopen("/run/rehearsal/gpu-faults", "r");
    if (!file)
        return whole;
    while (fscanf(file, "%d %63s %63s", &number, name, value) == 3)
        if (number == index && !strcmp(name, field)) {
            fclose(file);
            return value;
        }
    fclose(file);
    return whole;
}

static void forget_faults(int index)
{
    char line[200], kept[8192] = "";
    int number;
    FILE *file = fopen("/run/rehearsal/gpu-faults", "r");
    while (file && fgets(line, sizeof line, file))
        if ((sscanf(line, "%d", &number) != 1 || number != index) && strlen(kept) + strlen(line) < sizeof kept)
            strcat(kept, line);
    if (file)
        fclose(file);
    if (file && (file = fopen("/run/rehearsal/gpu-faults", "w"))) {
        fputs(kept, file);
        fclose(file);
    }
}

int smi_reset(const struct gpu *gpu, int index)
{
    if (gpu_is_open(index)) {
        printf("The following GPUs could not be reset:\n  GPU %s: In use by another client\n\n"
               "1 device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA application, graphics application such "
               "as an X server, or a monitoring application such as another instance of nvidia-smi). Please first kill all processes using this "
               "device and all compute applications running in the system.\n", gpu->bus_id);
        return 19;
    }
    forget_faults(index);
    printf("GPU %s was successfully reset.\n", gpu->bus_id);
    return 0;
}

/* "[N/A]" for a card that cannot be cut. */
static const char *mig_word(const struct gpu *gpu, int on)
{
    struct mig_profile profiles[MIG_PROFILES];
    return !mig_profiles(gpu, profiles) ? "[N/A]" : on ? "Enabled" : "Disabled";
}

static const char *architecture(const struct gpu *gpu)
{
    return gpu->major == 8 ? gpu->minor == 9 ? "Ada Lovelace" : "Ampere" : "Hopper";
}

/* One line of -q. Without a value it is asked of `computed`, and without a field too it heads a section. */
struct row { int indent; const char *label, *field, *value, *unit; };

#define MIB " MiB"
#define NONE(indent, label) {indent, label, NULL, "N/A", ""}
static const struct row rows[] = {
    {4, "Product Name", "name"}, {4, "Product Brand", NULL, "NVIDIA"}, {4, "Product Architecture", ".architecture"},
    {4, "Display Mode", "display_mode", "Requested functionality has been deprecated"}, {4, "Display Attached", "display_attached", "Yes"},
    {4, "Display Active", "display_active", "Disabled"}, {4, "Persistence Mode", "persistence_mode"}, {4, "Addressing Mode", "addressing_mode", "None"},
    {4, "MIG Mode"}, {8, "Current", "mig.mode.current"}, {8, "Pending", "mig.mode.pending"},
    {4, "Accounting Mode", "accounting.mode", "Disabled"}, {4, "Accounting Mode Buffer Size", "accounting.buffer_size", "4000"},
    {4, "Driver Model"}, {8, "Current", "driver_model.current", "N/A"}, {8, "Pending", "driver_model.pending", "N/A"},
    {4, "Serial Number", "serial"}, {4, "GPU UUID", "uuid"}, NONE(4, "GPU PDI"), {4, "Minor Number", ".minor"},
    {4, "VBIOS Version", "vbios_version", "rehearsal stand-in"}, {4, "MultiGPU Board", NULL, "No"}, {4, "Board ID", ".board"},
    NONE(4, "Board Part Number"), NONE(4, "GPU Part Number"), NONE(4, "FRU Part Number"),
    {4, "Platform Info"}, NONE(8, "Chassis Serial Number"), NONE(8, "Slot Number"), NONE(8, "Tray Index"), NONE(8, "Host ID"),
    NONE(8, "Peer Type"), {8, "Module Id", NULL, "8"}, NONE(8, "GPU Fabric GUID"),
    {4, "Inforom Version"}, {8, "Image Version", "inforom.img", "G520.0200.00.05"}, {8, "OEM Object", "inforom.oem", "2.1"},
    {8, "ECC Object", "inforom.ecc", "7.16"}, {8, "Power Management Object", "inforom.pwr", "N/A"},
    {4, "Inforom BBX Object Flush"}, NONE(8, "Latest Timestamp"), NONE(8, "Latest Duration"),
    {4, "GPU Operation Mode"}, {8, "Current", "gom.current", "N/A"}, {8, "Pending", "gom.pending", "N/A"},
    {4, "GPU C2C Mode", NULL, "Disabled"},
    {4, "GPU Virtualization Mode"}, {8, "Virtualization Mode", NULL, "Pass-Through"}, NONE(8, "Host VGPU Mode"), NONE(8, "vGPU Heterogeneous Mode"),
    {4, "GPU Recovery Action", "gpu_recovery_action"}, {4, "GSP Firmware Version", ".firmware"},
    {4, "IBMNPU"}, NONE(8, "Relaxed Ordering Mode"),
    {4, "PCI"}, {8, "Bus", "pci.bus"}, {8, "Device", "pci.device"}, {8, "Domain", "pci.domain"}, {8, "Base Classcode", "pci.baseClass", "0x3"},
    {8, "Sub Classcode", "pci.subClass", "0x2"}, {8, "Device Id", "pci.device_id"}, {8, "Bus Id", "pci.bus_id"},
    {8, "Sub System Id", "pci.sub_device_id"},
    {8, "GPU Link Info"}, {12, "PCIe Generation"}, {16, "Max", "pcie.link.gen.max", "5"}, {16, "Current", "pcie.link.gen.current", "5"},
    {16, "Device Current", "pcie.link.gen.gpucurrent", "5"}, {16, "Device Max", "pcie.link.gen.gpumax", "5"},
    {16, "Host Max", "pcie.link.gen.hostmax", "N/A"},
    {12, "Link Width"}, {16, "Max", "pcie.link.width.max", "16", "x"}, {16, "Current", "pcie.link.width.current", "16", "x"},
    {8, "Bridge Chip"}, NONE(12, "Type"), NONE(12, "Firmware"),
    {8, "Replays Since Reset", NULL, "0"}, {8, "Replay Number Rollovers", NULL, "0"}, {8, "Tx Throughput", NULL, "0", " KB/s"},
    {8, "Rx Throughput", NULL, "0", " KB/s"}, NONE(8, "Atomic Caps Outbound"), NONE(8, "Atomic Caps Inbound"),
    {4, "Fan Speed", "fan.speed", "N/A", " %"}, {4, "Performance State", "pstate", "P0"},
    {4, "Clocks Event Reasons"}, {8, "Idle", "clocks_event_reasons.gpu_idle", "Active"},
    {8, "Applications Clocks Setting", "clocks_event_reasons.applications_clocks_setting", "Not Active"},
    {8, "SW Power Cap", "clocks_event_reasons.sw_power_cap", "Not Active"}, {8, "HW Slowdown", "clocks_event_reasons.hw_slowdown", "Not Active"},
    {12, "HW Thermal Slowdown", "clocks_event_reasons.hw_thermal_slowdown", "Not Active"},
    {12, "HW Power Brake Slowdown", "clocks_event_reasons.hw_power_brake_slowdown", "Not Active"},
    {8, "Sync Boost", "clocks_event_reasons.sync_boost", "Not Active"},
    {8, "SW Thermal Slowdown", "clocks_event_reasons.sw_thermal_slowdown", "Not Active"}, {8, "Display Clock Setting", NULL, "Not Active"},
    {4, "Clocks Event Reasons Counters"}, {8, "SW Power Capping", NULL, "0", " us"}, {8, "Sync Boost", NULL, "0", " us"},
    {8, "SW Thermal Slowdown", NULL, "0", " us"}, {8, "HW Thermal Slowdown", NULL, "0", " us"}, {8, "HW Power Braking", NULL, "0", " us"},
    {4, "Sparse Operation Mode", NULL, "Disabled"},
    {4, "FB Memory Usage"}, {8, "Total", "memory.total"}, {8, "Reserved", "memory.reserved"}, {8, "Used", "memory.used"}, {8, "Free", "memory.free"},
    {4, "BAR1 Memory Usage"}, {8, "Total", NULL, "131072", MIB}, {8, "Used", NULL, "1", MIB}, {8, "Free", NULL, "131071", MIB},
    {4, "Conf Compute Protected Memory Usage"}, {8, "Total", NULL, "0", MIB}, {8, "Used", NULL, "0", MIB}, {8, "Free", NULL, "0", MIB},
    {4, "Compute Mode", "compute_mode", "Default"},
    {4, "Utilization"}, {8, "GPU", "utilization.gpu", "0", " %"}, {8, "Memory", "utilization.memory", "0", " %"},
    {8, "Encoder", "utilization.encoder", "0", " %"}, {8, "Decoder", "utilization.decoder", "0", " %"}, {8, "JPEG", "utilization.jpeg", "0", " %"},
    {8, "OFA", "utilization.ofa", "0", " %"},
    {4, "ECC Mode"}, {8, "Current", "ecc.mode.current", "Enabled"}, {8, "Pending", "ecc.mode.pending", "Enabled"},
    {4, "ECC Errors"}, {8, "Volatile"}, {12, "SRAM Correctable", NULL, "0"}, {12, "SRAM Uncorrectable Parity", NULL, "0"},
    {12, "SRAM Uncorrectable SEC-DED", NULL, "0"}, {12, "DRAM Correctable", "ecc.errors.corrected.volatile.total"},
    {12, "DRAM Uncorrectable", "ecc.errors.uncorrected.volatile.total"},
    {8, "Aggregate"}, {12, "SRAM Correctable", NULL, "0"}, {12, "SRAM Uncorrectable Parity", NULL, "0"}, {12, "SRAM Uncorrectable SEC-DED", NULL, "0"},
    {12, "DRAM Correctable", "ecc.errors.corrected.aggregate.total"}, {12, "DRAM Uncorrectable", "ecc.errors.uncorrected.aggregate.total"},
    {12, "SRAM Threshold Exceeded", NULL, "No"},
    {8, "Channel Repair Pending", NULL, "No"}, {8, "TPC Repair Pending", NULL, "No"},
    {4, "Retired Pages"}, NONE(8, "Single Bit ECC"), NONE(8, "Double Bit ECC"), {8, "Pending Page Blacklist", "retired_pages.pending"},
    {4, "Remapped Rows"}, {8, "Correctable Error", "remapped_rows.correctable"}, {8, "Uncorrectable Error", "remapped_rows.uncorrectable"},
    {8, "Pending", "remapped_rows.pending"}, {8, "Remapping Failure Occurred", "remapped_rows.failure"},
    {4, "Temperature"}, {8, "GPU Current Temp", "temperature.gpu", "33", " C"},
    {4, "GPU Power Readings"}, {8, "Average Power Draw", "power.draw.average", "70.00", " W"}, {8, "Instantaneous Power Draw", "power.draw.instant", "70.00", " W"},
    {8, "Current Power Limit", "power.limit", "700.00", " W"}, {8, "Default Power Limit", "power.default_limit", "700.00", " W"},
    {8, "Max Power Limit", "power.max_limit", "700.00", " W"},
    {4, "Clocks"}, {8, "Graphics", "clocks.current.graphics", "345", " MHz"}, {8, "SM", "clocks.current.sm", "345", " MHz"},
    {8, "Memory", "clocks.current.memory", "2619", " MHz"},
    {4, "Max Clocks"}, {8, "Graphics", "clocks.max.graphics", "1980", " MHz"}, {8, "SM", "clocks.max.sm", "1980", " MHz"},
    {8, "Memory", "clocks.max.memory", "2619", " MHz"},
    {4, "Fabric"}, NONE(8, "State"), NONE(8, "Status"), NONE(8, "CliqueId"), NONE(8, "ClusterUUID"),
    {4, "Processes", NULL, "None"},
};
#define ROWS (sizeof rows / sizeof *rows)

/* Asked by one name, headed by another. */
static const struct { const char *asked, *heading; } names[] = {
    {"gpu_name", "name"}, {"gpu_uuid", "uuid"}, {"gpu_bus_id", "pci.bus_id"}, {"gpu_serial", "serial"},
    {"clocks.gr", "clocks.current.graphics"}, {"clocks.sm", "clocks.current.sm"}, {"clocks.mem", "clocks.current.memory"},
    {"clocks.max.gr", "clocks.max.graphics"}, {"clocks.max.mem", "clocks.max.memory"},
};

const char *smi_heading(const char *field)
{
    static char heading[96];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(field, names[i].asked))
            return names[i].heading;
    if (strncmp(field, "clocks_throttle_reasons.", 24))
        return field;
    snprintf(heading, sizeof heading, "clocks_event_reasons.%s", field + 24);
    return heading;
}

/* What depends on the card, on its place, or on what was set; NULL for everything else. */
static const char *computed(const struct gpu *gpu, int index, const char *field, const char **unit, char *out, size_t size)
{
    unsigned domain = 0, bus = 0, device = 0;
    sscanf(gpu->bus_id, "%x:%x:%x", &domain, &bus, &device);
#define SAYS(label, ...) if (!strcmp(field, label)) { snprintf(out, size, __VA_ARGS__); return out; }
#define COUNTS(label, number) if (!strcmp(field, label)) { *unit = MIB; snprintf(out, size, "%u", (unsigned)(number)); return out; }
#define FAULTY(label, whole) if (!strcmp(field, label)) return faulty(index, label, whole);
    SAYS("index", "%d", index) SAYS("count", "%d", gpu_count) SAYS(".minor", "%d", index)
    SAYS("name", "%s", gpu->name) SAYS(".architecture", "%s", architecture(gpu)) SAYS("compute_cap", "%d.%d", gpu->major, gpu->minor)
    SAYS("uuid", "%s", gpu->uuid) SAYS("serial", "rehearsal-%d", index)
    SAYS("driver_version", "%s", USER_SPACE) SAYS(".firmware", "%s", USER_SPACE)
    SAYS("pci.bus_id", "%s", gpu->bus_id) SAYS("pci.domain", "0x%04X", domain) SAYS("pci.bus", "0x%02X", bus) SAYS("pci.device", "0x%02X", device)
    SAYS(".board", "0x%x", bus << 8 | device) SAYS("pci.device_id", "0x%04X10DE", gpu->device_id)
    SAYS("pci.sub_device_id", "0x%04X10DE", gpu->device_id == 0x2330 ? 0x16C1 : 0)
    SAYS("persistence_mode", "%s", persistence() ? "Enabled" : "Disabled")
    SAYS("mig.mode.current", "%s", mig_word(gpu, mig_mode(index).current)) SAYS("mig.mode.pending", "%s", mig_word(gpu, mig_mode(index).pending))
    SAYS("clocks_event_reasons.active", "0x%016x", 1)
    FAULTY("ecc.errors.corrected.volatile.total", "0") FAULTY("ecc.errors.uncorrected.volatile.total", "0")
    FAULTY("ecc.errors.corrected.aggregate.total", "0") FAULTY("ecc.errors.uncorrected.aggregate.total", "0")
    FAULTY("retired_pages.pending", "[N/A]")
    FAULTY("remapped_rows.correctable", "0") FAULTY("remapped_rows.uncorrectable", "0")
    FAULTY("remapped_rows.pending", "No") FAULTY("remapped_rows.failure", "No") FAULTY("gpu_recovery_action", "None")
    COUNTS("memory.total", gpu->memory_mib) COUNTS("memory.used", 0)
    COUNTS("memory.reserved", gpu->reserved_mib) COUNTS("memory.free", gpu->memory_mib - gpu->reserved_mib)
    if (!strcmp(field, "power.draw")) { *unit = " W"; return "70.00"; }
    return NULL;
}

/* What is not a value stands in brackets there: [N/A]. */
static const char *bracketed(const char *value, char *out, size_t size)
{
    if (strcmp(value, "N/A") && strncmp(value, "Requested ", 10))
        return value;
    snprintf(out, size, "[%s]", value);
    return out;
}

const char *smi_value(const struct gpu *gpu, int index, const char *field, const char **unit, char *out, size_t size)
{
    *unit = "";
    field = smi_heading(field);
    const char *said = *field == '.' ? NULL : computed(gpu, index, field, unit, out, size);
    for (unsigned i = 0; !said && i < ROWS; i++)
        if (rows[i].field && rows[i].value && !strcmp(field, rows[i].field)) {
            const char *own = rows[i].unit ? rows[i].unit : "";
            *unit = !strcmp(own, " C") || !strcmp(own, "x") ? "" : own;
            said = bracketed(rows[i].value, out, size);
        }
    return said;
}

void smi_line(int indent, const char *label, const char *value, const char *unit)
{
    if (!value)
        printf("%*s%s\n", indent, "", label);
    else
        printf("%*s%-*s: %s%s\n", indent, "", 55 - indent, label, value, strcmp(value, "N/A") ? unit : "");
}

void smi_sections(const struct gpu *gpu, int index)
{
    char text[128];
    for (unsigned i = 0; i < ROWS; i++) {
        const char *value = rows[i].value, *unit = rows[i].unit ? rows[i].unit : "";
        if (!value && rows[i].field)
            value = computed(gpu, index, rows[i].field, &unit, text, sizeof text);
        smi_line(rows[i].indent, rows[i].label, value && !strcmp(value, "[N/A]") ? "N/A" : value, unit);
    }
}
