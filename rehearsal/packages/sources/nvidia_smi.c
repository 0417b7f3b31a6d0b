/* nvidia-smi, as far as a provisioner asks it: -L, -i, --query-gpu, the table, -pm, -mig, mig, and the real refusals.
 *
 * rehearsal stand-in: texts and exit codes follow the real tool (9: no driver, 18: mismatch, 6: no device, 2: bad field).
 */
#include "mig_commands.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct gpu gpus[MOST_GPUS];
static int gpu_count, only = -1;
static const char *user_space = USER_SPACE;

static int persistence(void)
{
    char line[8];
    const char *mode = first_line("/run/nvidia-persistenced/mode", line, sizeof line);
    return mode && *mode == '1';
}

/* A fault somebody set: /run/rehearsal/gpu-faults, lines `INDEX FIELD VALUE`; else what a whole card says. */
static const char *faulty(int index, const char *field, const char *whole)
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

static int chosen(int index) { return only < 0 || only == index; }

/* "[N/A]" for a card that cannot be cut. */
static const char *mig_word(const struct gpu *gpu, int on)
{
    struct mig_profile profiles[MIG_PROFILES];
    return !mig_profiles(gpu, profiles) ? "[N/A]" : on ? "Enabled" : "Disabled";
}

static const char *value(const struct gpu *gpu, int index, const char *field, const char **unit, char *out, size_t size)
{
    *unit = "";
#define SAYS(label, ...) if (!strcmp(field, label)) { snprintf(out, size, __VA_ARGS__); return out; }
#define MIB(label, number) if (!strcmp(field, label)) { *unit = " MiB"; snprintf(out, size, "%u", (unsigned)(number)); return out; }
    SAYS("index", "%d", index)
    SAYS("count", "%d", gpu_count)
    SAYS("name", "%s", gpu->name) SAYS("gpu_name", "%s", gpu->name)
    SAYS("uuid", "%s", gpu->uuid) SAYS("gpu_uuid", "%s", gpu->uuid)
    SAYS("serial", "rehearsal-%d", index)
    SAYS("driver_version", "%s", user_space)
    SAYS("pci.bus_id", "%s", gpu->bus_id) SAYS("gpu_bus_id", "%s", gpu->bus_id)
    SAYS("pci.device_id", "0x%04X10DE", gpu->device_id)
    SAYS("compute_cap", "%d.%d", gpu->major, gpu->minor)
    SAYS("persistence_mode", "%s", persistence() ? "Enabled" : "Disabled")
    SAYS("compute_mode", "Default")
    SAYS("ecc.mode.current", "Enabled") SAYS("ecc.mode.pending", "Enabled")
#define FAULTY(label, whole) if (!strcmp(field, label)) return faulty(index, label, whole);
    FAULTY("ecc.errors.corrected.volatile.total", "0") FAULTY("ecc.errors.uncorrected.volatile.total", "0")
    FAULTY("ecc.errors.corrected.aggregate.total", "0") FAULTY("ecc.errors.uncorrected.aggregate.total", "0")
    FAULTY("retired_pages.pending", "[N/A]")
    FAULTY("remapped_rows.correctable", "0") FAULTY("remapped_rows.uncorrectable", "0")
    SAYS("mig.mode.current", "%s", mig_word(gpu, mig_mode(index).current))
    SAYS("mig.mode.pending", "%s", mig_word(gpu, mig_mode(index).pending))
    FAULTY("remapped_rows.pending", "No") FAULTY("remapped_rows.failure", "No") FAULTY("gpu_recovery_action", "None")
    SAYS("vbios_version", "rehearsal stand-in")
    SAYS("pstate", "P0")
    SAYS("temperature.gpu", "30")
    MIB("memory.total", gpu->memory_mib) MIB("memory.used", 0)
    MIB("memory.free", gpu->memory_mib - 600) MIB("memory.reserved", 600)
    if (!strcmp(field, "utilization.gpu") || !strcmp(field, "utilization.memory")) { *unit = " %"; return "0"; }
    if (!strcmp(field, "power.draw")) { *unit = " W"; return "70.00"; }
    if (!strcmp(field, "power.limit")) { *unit = " W"; return "700.00"; }
    return NULL;
}

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    return text;
}

static int split(char *list, char *fields[64])
{
    int count = 0;
    for (char *field = strtok(list, ","); field && count < 64; field = strtok(NULL, ","))
        fields[count++] = trimmed(field);
    return count;
}

static int query(char *list, const char *format)
{
    char *fields[64], text[128];
    const char *unit;
    int count = split(list, fields), header = !strstr(format, "noheader"), units = !strstr(format, "nounits");
    for (int i = 0; i < count; i++)
        if (!value(&gpus[0], 0, fields[i], &unit, text, sizeof text)) {
            printf("Field \"%s\" is not a valid field to query.\n\n", fields[i]);
            return 2;
        }
    for (int i = 0; header && i < count; i++) {
        value(&gpus[0], 0, fields[i], &unit, text, sizeof text);
        printf("%s%s%s%s%s", i ? ", " : "", fields[i], *unit && units ? " [" : "", *unit && units ? unit + 1 : "", *unit && units ? "]" : "");
    }
    if (header)
        puts("");
    for (int gpu = 0; gpu < gpu_count; gpu++) {
        for (int i = 0; chosen(gpu) && i < count; i++) {
            const char *said = value(&gpus[gpu], gpu, fields[i], &unit, text, sizeof text);
            printf("%s%s%s", i ? ", " : "", said, units ? unit : "");
        }
        if (chosen(gpu))
            puts("");
    }
    return 0;
}

static int list(void)
{
    for (int i = 0; i < gpu_count; i++)
        if (chosen(i)) {
            printf("GPU %d: %s (UUID: %s)\n", i, gpus[i].name, gpus[i].uuid);
            mig_list_devices(&gpus[i], i);
        }
    return 0;
}

static const char *rule = "+-----------------------------------------------------------------------------------------+";

static int table(void)
{
    char driver[64];
    snprintf(driver, sizeof driver, "Driver Version: %s", user_space);
    printf("%s\n| NVIDIA-SMI %-26s%-32sCUDA Version: 13.0 |\n", rule, user_space, driver);
    printf("| %-87s |\n%s\n", "rehearsal stand-in: no GPU is behind this table", rule);
    for (int i = 0; i < gpu_count; i++)
        if (chosen(i))
            printf("| %3d  %-25s %-3s | %s |   0MiB / %6uMiB |   0%%  Default |\n", i, gpus[i].name, persistence() ? "On" : "Off",
                   gpus[i].bus_id, gpus[i].memory_mib);
    printf("%s\n| Processes:                                                                              |\n", rule);
    printf("|  No running processes found                                                             |\n%s\n", rule);
    return 0;
}

static int set_persistence(const char *mode)
{
    if (geteuid() != 0) {
        puts("Unable to set persistence mode for GPU: Insufficient Permissions\nTerminating early due to previous errors.");
        return 4;
    }
    mkdir("/run/nvidia-persistenced", 0755);
    FILE *file = fopen("/run/nvidia-persistenced/mode", "w");
    if (!file)
        return 255;
    fprintf(file, "%c\n", *mode);
    fclose(file);
    for (int i = 0; i < gpu_count; i++)
        printf("%s persistence mode for GPU %s.\n", *mode == '1' ? "Enabled" : "Disabled", gpus[i].bus_id);
    puts("All done.");
    return 0;
}

/* Whether the control device may be opened here. It has no driver behind it, so "no such device" is as good as a yes. */
static int control_device_opens(void)
{
    int file = open("/dev/nvidiactl", O_RDWR);
    if (file >= 0)
        close(file);
    return file >= 0 || errno == ENXIO || errno == ENODEV;
}

static int refused(void)
{
    const char *loaded = loaded_version();
    if (!loaded) {
        puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed "
             "and running.\n");
        return 9;
    }
    if (strcmp(loaded, user_space)) {
        printf("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: %.7s\n", user_space);
        return 18;
    }
    gpu_count = find_gpus(gpus);
    for (int i = 0; i < gpu_count; i++)
        if (*faulty(i, "lost", "no") == 'y') {
            printf("Unable to determine the device handle for GPU%d: %s: GPU is lost.  Reboot the system to recover this GPU\n", i, gpus[i].bus_id);
            return 15;
        }
    /* What a container sees after its device rules were taken away: the copy is still there, the device is not. */
    if (!access(CARRIED "/nodes", F_OK) && !control_device_opens()) {
        puts("Failed to initialize NVML: Unknown Error");
        return 255;
    }
    if (!gpu_count) {
        puts("No devices were found");
        return 6;
    }
    return 0;
}

static int help(void)
{
    printf("NVIDIA System Management Interface -- v%s (rehearsal stand-in)\n\n"
           "    -L, --list-gpus   -i, --id=   --query-gpu=FIELDS --format=csv[,noheader][,nounits]\n"
           "    --query-compute-apps=FIELDS   -pm, --persistence-mode=0|1   -q   --version   conf-compute -f\n"
           "    -mig, --multi-instance-gpu=0|1   mig -h\n", user_space);
    return 0;
}

static const char *after(const char *argument, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(argument, prefix, length) ? NULL : argument + length;
}

int main(int argc, char **argv)
{
    const char *format = "csv", *mode = NULL, *cut = NULL, *text;
    char *fields = NULL;
    int lists = 0, apps = 0, confidential = 0, version = 0;
    if (argc > 1 && !strcmp(argv[1], "mig")) {
        int refusal = refused();
        return refusal ? refusal : mig_command(gpus, gpu_count, argc - 2, argv + 2);
    }
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) return help();
        else if (!strcmp(argv[i], "-L") || !strcmp(argv[i], "--list-gpus")) lists = 1;
        else if (!strcmp(argv[i], "-q") || !strcmp(argv[i], "--query")) continue;
        else if (!strcmp(argv[i], "--version")) version = 1;
        else if (!strcmp(argv[i], "conf-compute")) confidential = 1;
        else if (confidential && argv[i][0] == '-') continue;
        else if (!strcmp(argv[i], "-i") || !strcmp(argv[i], "-pm")) { if (argv[i][1] == 'i') only = *next - '0'; else mode = next; i++; }
        else if (!strcmp(argv[i], "-mig")) { cut = next; i++; }
        else if ((text = after(argv[i], "--multi-instance-gpu="))) cut = text;
        else if ((text = after(argv[i], "--id="))) only = *text - '0';
        else if ((text = after(argv[i], "--persistence-mode="))) mode = text;
        else if ((text = after(argv[i], "--format="))) format = text;
        else if ((text = after(argv[i], "--query-gpu=")) || (text = after(argv[i], "--query-remapped-rows="))) fields = (char *)text;
        else if (after(argv[i], "--query-compute-apps=")) apps = 1;
        else { printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"); return 2; }
    }
    int refusal = refused();
    if (refusal) return refusal;
    if (only >= gpu_count) { puts("No devices were found"); return 6; }
    if (version) { printf("NVIDIA-SMI version  : %s\nNVML version        : %.7s\nDRIVER version      : %s\nCUDA Version        : 13.0\n", user_space, user_space, user_space); return 0; }
    if (confidential) { puts("CC status: OFF"); return 0; }
    if (lists && only >= 0) { puts("ERROR: Option -i is not valid for this command. Please run 'nvidia-smi -h' for help.\n"); return 2; }
    if (lists) return list();
    if (apps) return strstr(format, "noheader") ? 0 : puts("pid, used_gpu_memory [MiB]") < 0;
    if (fields) return query(fields, format);
    if (cut) return mig_switch(gpus, gpu_count, only, *cut == '1');
    if (mode) return set_persistence(mode);
    return table();
}
