#include "mig.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Ids, slices and places: nvidia-smi mig -lgip and -lgipp of an H100 and an H200, driver 580.159.04. */
static const struct mig_profile shapes[MIG_PROFILES] = {
    {19, 1, 1, 7, 7, {0, 1, 2, 3, 4, 5, 6}, 0, 0, ""}, {20, 1, 1, 1, 7, {0, 1, 2, 3, 4, 5, 6}, 0, 0, ""},
    {15, 1, 2, 4, 4, {0, 2, 4, 6}, 0, 0, ""},          {14, 2, 2, 3, 3, {0, 2, 4}, 0, 0, ""},
    {9, 3, 4, 2, 2, {0, 4}, 0, 0, ""},                 {5, 4, 4, 1, 1, {0}, 0, 0, ""},
    {0, 7, 8, 1, 1, {0}, 0, 0, ""},
};

/* Gigabytes and MiB of 1, 2, 4 and 8 memory slices. */
static const struct { unsigned device; int gigabytes[4]; unsigned mib[4]; } cards[] = {
    {0x2330, {10, 20, 40, 80}, {9984, 20096, 40448, 81152}},   {0x2331, {10, 20, 40, 80}, {9984, 20096, 40448, 81152}},
    {0x2321, {12, 24, 47, 94}, {10874, 22016, 47226, 94842}},  {0x2335, {18, 35, 71, 141}, {16384, 33280, 71424, 143360}},
    {0x233b, {18, 35, 71, 141}, {16384, 33280, 71424, 143360}}, {0x20b2, {10, 20, 40, 80}, {9728, 19968, 40192, 80896}},
    {0x20b5, {10, 20, 40, 80}, {9728, 19968, 40192, 80896}},
};

static const char *place(const char *name, const char *carried)
{
    return access(CARRIED "/version", F_OK) ? name : carried;
}

int mig_profiles(const struct gpu *gpu, struct mig_profile profiles[MIG_PROFILES])
{
    for (unsigned card = 0; card < sizeof cards / sizeof *cards; card++) {
        if (cards[card].device != gpu->device_id)
            continue;
        for (int i = 0; i < MIG_PROFILES; i++) {
            struct mig_profile *one = &profiles[i];
            *one = shapes[i];
            int step = one->memory == 8 ? 3 : one->memory == 4 ? 2 : one->memory - 1;
            one->gigabytes = cards[card].gigabytes[step];
            one->mib = cards[card].mib[step];
            snprintf(one->name, sizeof one->name, "%dg.%dgb%s", one->compute, one->gigabytes, one->id == 20 ? "+me" : "");
        }
        return MIG_PROFILES;
    }
    return 0;
}

const struct mig_profile *mig_profile(const struct mig_profile *profiles, int count, int id)
{
    for (int i = 0; i < count; i++)
        if (profiles[i].id == id)
            return &profiles[i];
    return NULL;
}

static int read_modes(struct mig_mode modes[MOST_GPUS])
{
    int gpu, current, pending;
    memset(modes, 0, MOST_GPUS * sizeof *modes);
    FILE *file = fopen(place(MIG_STATE "/mode", CARRIED "/mig-mode"), "r");
    if (!file)
        return 0;
    while (fscanf(file, "%d %d %d", &gpu, &current, &pending) == 3)
        if (gpu >= 0 && gpu < MOST_GPUS)
            modes[gpu].current = current, modes[gpu].pending = pending;
    fclose(file);
    return 1;
}

struct mig_mode mig_mode(int gpu)
{
    struct mig_mode modes[MOST_GPUS];
    read_modes(modes);
    return modes[gpu];
}

int mig_set_mode(int gpu, struct mig_mode mode)
{
    struct mig_mode modes[MOST_GPUS];
    read_modes(modes);
    modes[gpu] = mode;
    mkdir("/run/rehearsal", 0755);
    mkdir(MIG_STATE, 0755);
    FILE *file = fopen(MIG_STATE "/mode", "w");
    if (!file)
        return 0;
    for (int i = 0; i < MOST_GPUS; i++)
        fprintf(file, "%d %d %d\n", i, modes[i].current, modes[i].pending);
    return !fclose(file);
}

int mig_minor(const struct mig_instance *instance)
{
    return 3 + 135 * instance->gpu + 9 * instance->id;
}

static int may_be_used(const struct mig_instance *instance)
{
    char node[64];
    snprintf(node, sizeof node, "/dev/nvidia-caps/nvidia-cap%d", mig_minor(instance));
    return access(CARRIED "/version", F_OK) || !access(node, F_OK);
}

static int by_number(const void *left, const void *right)
{
    const struct mig_instance *a = left, *b = right;
    return a->gpu != b->gpu ? a->gpu - b->gpu : a->id - b->id;
}

int mig_instances(struct mig_instance instances[MOST_INSTANCES])
{
    int count = 0;
    FILE *file = fopen(place(MIG_STATE "/instances", CARRIED "/mig-instances"), "r");
    if (!file)
        return 0;
    struct mig_instance one;
    while (count < MOST_INSTANCES && fscanf(file, "%d %d %d %d %d", &one.gpu, &one.id, &one.profile, &one.start, &one.compute) == 5)
        if (may_be_used(&one))
            instances[count++] = one;
    fclose(file);
    qsort(instances, count, sizeof *instances, by_number);
    return count;
}

/* /dev/char/MAJOR:MINOR, as the real tools leave it: what runc tells systemd of a device of a container. */
static void link_by_number(const char *node, int major, int minor)
{
    char link[64], target[80];
    snprintf(link, sizeof link, "/dev/char/%d:%d", major, minor);
    snprintf(target, sizeof target, "..%s", node + strlen("/dev"));
    unlink(link);
    if (symlink(target, link))
        perror(link);
}

/* The major number that /proc/devices gives to a name, 0 where it has none. */
static int major_of(const char *wanted)
{
    char line[128], name[64];
    int number, found = 0;
    FILE *list = fopen("/proc/devices", "r");
    while (list && !found && fgets(line, sizeof line, list))
        if (sscanf(line, "%d %63s", &number, name) == 2 && !strcmp(name, wanted))
            found = number;
    if (list)
        fclose(list);
    return found;
}

static void show_nodes(const struct mig_instance *instances, int count)
{
    char node[64];
    int major = major_of("nvidia-caps");
    mkdir("/dev/nvidia-caps", 0755);
    for (int minor = 3; minor < 3 + 135 * MOST_GPUS; minor++) {
        snprintf(node, sizeof node, "/dev/nvidia-caps/nvidia-cap%d", minor);
        int wanted = 0;
        for (int i = 0; i < count; i++)
            wanted |= minor == mig_minor(&instances[i]) || (instances[i].compute && minor == mig_minor(&instances[i]) + 1);
        if (!wanted)
            unlink(node);
        else if (access(node, F_OK) && !mknod(node, S_IFCHR | 0444, makedev(major, minor)))
            link_by_number(node, major, minor);
    }
}

int mig_save(const struct mig_instance *instances, int count)
{
    FILE *file = fopen(MIG_STATE "/instances", "w");
    if (!file)
        return 0;
    for (int i = 0; i < count; i++)
        fprintf(file, "%d %d %d %d %d\n", instances[i].gpu, instances[i].id, instances[i].profile, instances[i].start, instances[i].compute);
    show_nodes(instances, count);
    return !fclose(file);
}

void mig_uuid(const struct gpu *gpu, const struct mig_instance *instance, char uuid[64])
{
    uint64_t hash = 1469598103934665603u;
    for (const char *text = gpu->uuid; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    hash = (hash ^ (unsigned)(instance->id * 31 + instance->profile)) * 1099511628211u;
    snprintf(uuid, 64, "MIG-%08x-%04x-5%03x-8%03x-%012llx", (unsigned)(hash >> 32), (unsigned)(hash >> 16) & 0xffff, (unsigned)(hash >> 4) & 0xfff,
             (unsigned)hash & 0xfff, (unsigned long long)(hash * 2654435761u) & 0xffffffffffffu);
}

int mig_narrow(struct gpu gpus[MOST_GPUS], int count)
{
    static char name[64];
    struct mig_instance instances[MOST_INSTANCES];
    struct mig_profile profiles[MIG_PROFILES];
    int found = mig_instances(instances), whole = 0, cut = 0;
    for (int i = 0; i < found; i++) {
        struct gpu *gpu = &gpus[instances[i].gpu];
        const struct mig_profile *profile = mig_profile(profiles, mig_profiles(gpu, profiles), instances[i].profile);
        if (instances[i].gpu >= count || !instances[i].compute || !profile)
            continue;
        snprintf(name, sizeof name, "%s MIG %s", gpu->name, profile->name);
        gpus[0] = *gpu;
        gpus[0].name = name, gpus[0].memory_mib = profile->mib, gpus[0].reserved_mib = 0;
        return 1;
    }
    for (int i = 0; i < count; i++) {
        cut |= mig_mode(i).current;
        if (!mig_mode(i).current)
            gpus[whole++] = gpus[i];
    }
    return cut ? whole : count;
}
