/* nvidia-smi, as far as a provisioner asks it: -L, -i, --query-gpu, -q, the table, -pm, -mig, mig, and the real refusals.
 *
 * rehearsal stand-in: texts and exit codes follow the real tool (9: no driver, 18: mismatch, 255: no access, 6: no device, 2: bad field).
 */
#include "mig_commands.h"
#include "smi_fields.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct gpu gpus[MOST_GPUS];
static int only = -1;
static const char *user_space = USER_SPACE;

static int chosen(int index) { return only < 0 || only == index; }

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

static int unknown(const char *field)
{
    printf("Field \"%s\" is not a valid field to query.\n\n", field);
    return 2;
}

static int query(char *list, const char *format)
{
    char *fields[64], text[128];
    const char *unit;
    int count = split(list, fields), header = !strstr(format, "noheader"), units = !strstr(format, "nounits");
    for (int i = 0; i < count; i++)
        if (!smi_value(&gpus[0], 0, fields[i], &unit, text, sizeof text))
            return unknown(fields[i]);
    for (int i = 0; header && i < count; i++) {
        smi_value(&gpus[0], 0, fields[i], &unit, text, sizeof text);
        const char *name = smi_heading(fields[i]);
        printf("%s%s%s%s%s", i ? ", " : "", name, *unit && units ? " [" : "", *unit && units ? unit + 1 : "", *unit && units ? "]" : "");
    }
    if (header)
        puts("");
    for (int gpu = 0; gpu < gpu_count; gpu++) {
        for (int i = 0; chosen(gpu) && i < count; i++) {
            const char *said = smi_value(&gpus[gpu], gpu, fields[i], &unit, text, sizeof text);
            printf("%s%s%s", i ? ", " : "", said, units && *said != '[' ? unit : "");
        }
        if (chosen(gpu))
            puts("");
    }
    return 0;
}

/* No process ever has a stand-in GPU, so the heading is all. */
static int processes(char *list, const char *format)
{
    static const char *known[][2] = {
        {"pid", "pid"}, {"process_name", "process_name"}, {"name", "process_name"}, {"used_memory", "used_gpu_memory"},
        {"used_gpu_memory", "used_gpu_memory"}, {"gpu_uuid", "gpu_uuid"}, {"gpu_name", "gpu_name"}, {"gpu_bus_id", "gpu_bus_id"},
    };
    char *fields[64], heading[512] = "";
    int count = split(list, fields), rows = sizeof known / sizeof *known;
    for (int i = 0; i < count; i++) {
        int at = 0;
        while (at < rows && strcmp(fields[i], known[at][0]))
            at++;
        if (at == rows)
            return unknown(fields[i]);
        size_t end = strlen(heading);
        int in_mib = !strncmp(known[at][1], "used", 4) && !strstr(format, "nounits");
        snprintf(heading + end, sizeof heading - end, "%s%s%s", i ? ", " : "", known[at][1], in_mib ? " [MiB]" : "");
    }
    return strstr(format, "noheader") ? 0 : puts(heading) < 0;
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

static const char *now(void)
{
    static char text[64];
    time_t seconds = time(NULL);
    strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", localtime(&seconds));
    return text;
}

static int sections(void)
{
    char text[16];
    puts("\n==============NVSMI LOG==============\n");
    smi_line(0, "Timestamp", now(), "");
    smi_line(0, "Driver Version", user_space, "");
    smi_line(0, "CUDA Version", "13.0", "");
    snprintf(text, sizeof text, "%d", gpu_count);
    puts("");
    smi_line(0, "Attached GPUs", text, "");
    for (int i = 0; i < gpu_count; i++)
        if (chosen(i)) {
            printf("GPU %s\n", gpus[i].bus_id);
            smi_sections(&gpus[i], i);
            puts("");
        }
    return 0;
}

static const char *whole = "+-----------------------------------------------------------------------------------------+";
static const char *cells = "+-----------------------------------------+------------------------+----------------------+";

static const char *said(int gpu, const char *field, char *out, size_t size)
{
    const char *unit, *value = smi_value(&gpus[gpu], gpu, field, &unit, out, size);
    return strcmp(value, "[N/A]") ? value : "N/A";
}

static int table(void)
{
    char errors[64], mode[64];
    printf("%s       \n%s\n| NVIDIA-SMI %-23sDriver Version: %-15sCUDA Version: %-9s|\n%s\n", now(), whole, user_space, user_space, "13.0", cells);
    puts("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
         "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
         "|                                         |                        |               MIG M. |\n"
         "|=========================================+========================+======================|");
    for (int i = 0; i < gpu_count; i++)
        if (chosen(i))
            printf("| %3d  %-31s%-3s |   %s Off | %20s |\n"
                   "| N/A   33C    P0             70W /  700W | %7dMiB / %6uMiB |      0%%      Default |\n"
                   "|                                         |                        | %20s |\n%s\n",
                   i, gpus[i].name, persistence() ? "On" : "Off", gpus[i].bus_id,
                   said(i, "ecc.errors.uncorrected.volatile.total", errors, sizeof errors), 0, gpus[i].memory_mib,
                   said(i, "mig.mode.current", mode, sizeof mode), cells);
    printf("\n%s\n", whole);
    puts("| Processes:                                                                              |\n"
         "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
         "|        ID   ID                                                               Usage      |\n"
         "|=========================================================================================|\n"
         "|  No running processes found                                                             |");
    printf("%s\nrehearsal stand-in: no GPU is behind this table\n", whole);
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

/* -i takes an index, a UUID or a bus id; what is none of them names no GPU. */
static int numbered(const char *text)
{
    char *end;
    long index = strtol(text, &end, 10);
    struct gpu all[MOST_GPUS];
    int count = *text && !*end ? 0 : find_gpus(all);
    for (int i = 0; i < count; i++)
        if (!strcasecmp(text, all[i].uuid) || !strcasecmp(text, all[i].bus_id) || !strcasecmp(text, all[i].bus_id + 4))
            return i;
    return *text && !*end && index >= 0 && index < MOST_GPUS ? (int)index : MOST_GPUS;
}

/* MIG instances go with a real reset; here none is reset that is cut. */
static int reset(char *list)
{
    char *ids[64];
    int count = split(list, ids);
    if (geteuid() != 0) {
        puts("Unable to reset this GPU: Insufficient Permissions\nTerminating early due to previous errors.");
        return 4;
    }
    for (int i = 0; i < count; i++) {
        int gpu = numbered(ids[i]);
        if (gpu >= gpu_count) { puts("No devices were found"); return 6; }
        int status = smi_reset(&gpus[gpu], gpu);
        if (status) return status;
    }
    puts("All done.");
    return 0;
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
    /* A unit or a container whose device rules do not name the card. */
    if (control_device_error()) {
        puts("Failed to initialize NVML: Unknown Error");
        return 255;
    }
    gpu_count = find_gpus(gpus);
    for (int i = 0; i < gpu_count; i++)
        if (*faulty(i, "lost", "no") == 'y') {
            printf("Unable to determine the device handle for GPU%d: %s: GPU is lost.  Reboot the system to recover this GPU\n", i, gpus[i].bus_id);
            return 15;
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
           "    -mig, --multi-instance-gpu=0|1   mig -h   -r, --gpu-reset with -i\n", user_space);
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
    char *fields = NULL, *apps = NULL, *ids = NULL;
    int lists = 0, whole_query = 0, confidential = 0, version = 0, resets = 0;
    if (argc > 1 && !strcmp(argv[1], "mig")) {
        int refusal = refused();
        return refusal ? refusal : mig_command(gpus, gpu_count, argc - 2, argv + 2);
    }
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) return help();
        else if (!strcmp(argv[i], "-L") || !strcmp(argv[i], "--list-gpus")) lists = 1;
        else if (!strcmp(argv[i], "-q") || !strcmp(argv[i], "--query")) whole_query = 1;
        else if (!strcmp(argv[i], "--version")) version = 1;
        else if (!strcmp(argv[i], "-r") || !strcmp(argv[i], "--gpu-reset")) resets = 1;
        else if (!strcmp(argv[i], "conf-compute")) confidential = 1;
        else if (confidential && argv[i][0] == '-') continue;
        else if (!strcmp(argv[i], "-i") || !strcmp(argv[i], "-pm")) { if (argv[i][1] == 'i') only = numbered(ids = (char *)next); else mode = next; i++; }
        else if (!strcmp(argv[i], "-mig")) { cut = next; i++; }
        else if ((text = after(argv[i], "--multi-instance-gpu="))) cut = text;
        else if ((text = after(argv[i], "--id="))) only = numbered(text);
        else if ((text = after(argv[i], "--persistence-mode="))) mode = text;
        else if ((text = after(argv[i], "--format="))) format = text;
        else if ((text = after(argv[i], "--query-gpu=")) || (text = after(argv[i], "--query-remapped-rows="))) fields = (char *)text;
        else if ((text = after(argv[i], "--query-compute-apps="))) apps = (char *)text;
        else { printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"); return 2; }
    }
    int refusal = refused();
    if (refusal) return refusal;
    if (resets && ids) return reset(ids);
    if (only >= gpu_count) { puts("No devices were found"); return 6; }
    if (version) { printf("NVIDIA-SMI version  : %s\nNVML version        : %.7s\nDRIVER version      : %s\nCUDA Version        : 13.0\n", user_space, user_space, user_space); return 0; }
    if (confidential) { puts("CC status: OFF"); return 0; }
    if (lists && only >= 0) { puts("ERROR: Option -i is not valid for this command. Please run 'nvidia-smi -h' for help.\n"); return 2; }
    if (lists) return list();
    if (apps) return processes(apps, format);
    if (fields) return query(fields, format);
    if (cut) return mig_switch(gpus, gpu_count, only, *cut == '1');
    if (mode) return set_persistence(mode);
    return whole_query ? sections() : table();
}
