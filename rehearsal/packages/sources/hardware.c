#include "hardware.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct { unsigned id; const char *name; unsigned memory_mib; int major, minor; } cards[] = {
    {0x2330, "NVIDIA H100 80GB HBM3", 81559, 9, 0}, {0x2331, "NVIDIA H100 PCIe", 81559, 9, 0},
    {0x2321, "NVIDIA H100 NVL", 95830, 9, 0},       {0x2339, "NVIDIA H100", 95830, 9, 0},
    {0x2335, "NVIDIA H200", 143771, 9, 0},          {0x233b, "NVIDIA H200 NVL", 143771, 9, 0},
    {0x2342, "NVIDIA GH200 480GB", 97871, 9, 0},    {0x20b5, "NVIDIA A100 80GB PCIe", 81920, 8, 0},
    {0x20b2, "NVIDIA A100-SXM4-80GB", 81920, 8, 0}, {0x26b9, "NVIDIA L40S", 46068, 8, 9},
};

const char *first_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    char *got = fgets(line, size, file);
    fclose(file);
    if (got)
        line[strcspn(line, "\r\n")] = 0;
    return got;
}

const char *loaded_version(void)
{
    static char version[64];
    if (first_line(CARRIED "/version", version, sizeof version))
        return version;
    /* Both must be there: a module without its /proc entry is one that is on its way in or out. */
    FILE *proc = fopen("/proc/driver/nvidia/version", "r");
    if (!proc)
        return NULL;
    fclose(proc);
    return first_line("/sys/module/nvidia/version", version, sizeof version);
}

/* Why a node cannot be reached, 0 where it can. No driver is behind it: "no such device" says that it may be opened. */
static int device_error(const char *name)
{
    /* A container of a host that had no nodes to give. */
    if (!access(CARRIED "/version", F_OK) && access(CARRIED "/nodes", F_OK))
        return 0;
    char path[300];
    snprintf(path, sizeof path, DEV "/%s", name);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return errno == ENXIO || errno == ENODEV ? 0 : errno;
    close(file);
    return 0;
}

int control_device_error(void)
{
    return device_error("nvidiactl");
}

static int a_card_opens(void)
{
    char name[32];
    for (int i = 0; i < MOST_GPUS; i++) {
        snprintf(name, sizeof name, "nvidia%d", i);
        if (!device_error(name))
            return 1;
    }
    return 0;
}

/* The identity the rehearsal machine was given for this slot; a line reads `pci ADDRESS VENDOR DEVICE CLASS MIB UUID NAME`. */
static int given_uuid(struct gpu *gpu, const char *slot)
{
    char line[256], address[32], uuid[64];
    int found = 0;
    FILE *table = fopen("/etc/rehearsal/hardware.table", "r");
    while (table && !found && fgets(line, sizeof line, table))
        if (sscanf(line, "pci %31s %*s %*s %*s %*s %63s", address, uuid) == 2 && !strcmp(address, slot) && strcmp(uuid, "-")) {
            snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
            found = 1;
        }
    if (table)
        fclose(table);
    return found;
}

/* Otherwise a stable one: the same slot of the same machine gets the same identity. */
static void derived_uuid(struct gpu *gpu)
{
    char host[64] = "";
    first_line("/etc/machine-id", host, sizeof host);
    uint64_t hash = 1469598103934665603u;
    for (const char *text = host; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    for (const char *text = gpu->bus_id; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%08x-%04x-4%03x-8%03x-%012llx", (unsigned)(hash >> 32), (unsigned)(hash >> 16) & 0xffff,
             (unsigned)(hash >> 4) & 0xfff, (unsigned)hash & 0xfff, (unsigned long long)(hash * 2654435761u) & 0xffffffffffffu);
}

static void describe(struct gpu *gpu, unsigned id)
{
    gpu->device_id = id;
    gpu->name = "NVIDIA Graphics Device";
    gpu->memory_mib = 81559, gpu->major = 9, gpu->minor = 0;
    gpu->reserved_mib = id == 0x2330 ? 480 : 640; /* measured on that one (580.159.04); 640 as deploy/catalog/gpus.py plans others */
    for (unsigned i = 0; i < sizeof cards / sizeof *cards; i++)
        if (cards[i].id == id)
            gpu->name = cards[i].name, gpu->memory_mib = cards[i].memory_mib, gpu->major = cards[i].major, gpu->minor = cards[i].minor;
}

static unsigned hexadecimal(const char *text)
{
    unsigned value = 0;
    sscanf(text, "%x", &value);
    return value;
}

static unsigned pci_number(const char *slot, const char *what)
{
    char path[512], line[64];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", slot, what);
    return first_line(path, line, sizeof line) ? hexadecimal(line) : 0;
}

/* Whether a container was given the host's GPU of this number. One that is cut is given by its instances (mig.c). */
static int is_given(int number)
{
    char name[32];
    snprintf(name, sizeof name, "nvidia%d", number);
    return !access(CARRIED "/mig-mode", F_OK) || !device_error(name);
}

static int carried_gpus(struct gpu gpus[MOST_GPUS])
{
    char line[256], bus[32], uuid[64];
    unsigned id;
    int count = 0, number = 0;
    FILE *file = fopen(CARRIED "/gpus", "r");
    while (file && count < MOST_GPUS && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%31s %63s %x", bus, uuid, &id) != 3 || !is_given(number++))
            continue;
        snprintf(gpus[count].bus_id, sizeof gpus[count].bus_id, "%s", bus);
        snprintf(gpus[count].uuid, sizeof gpus[count].uuid, "%s", uuid);
        describe(&gpus[count++], id);
    }
    if (file)
        fclose(file);
    return count;
}

static int nvidia_gpu(const struct dirent *entry)
{
    if (entry->d_name[0] == '.' || pci_number(entry->d_name, "vendor") != 0x10de)
        return 0;
    unsigned class = pci_number(entry->d_name, "class") >> 8;
    return class == 0x0302 || class == 0x0300;
}

int find_gpus(struct gpu gpus[MOST_GPUS])
{
    if (!a_card_opens())
        return 0;
    int count = carried_gpus(gpus);
    if (count)
        return count;
    struct dirent **slots;
    int found = scandir("/sys/bus/pci/devices", &slots, nvidia_gpu, alphasort);
    for (int i = 0; i < found; free(slots[i++])) {
        if (count == MOST_GPUS)
            continue;
        snprintf(gpus[count].bus_id, sizeof gpus[count].bus_id, "0000%.27s", slots[i]->d_name);
        if (!given_uuid(&gpus[count], slots[i]->d_name))
            derived_uuid(&gpus[count]);
        describe(&gpus[count++], pci_number(slots[i]->d_name, "device"));
    }
    if (found >= 0)
        free(slots);
    return count;
}
