/* `nvidia-smi mig …` and `nvidia-smi -mig`: listing, creating and destroying instances, with the real refusals.
 *
 * rehearsal stand-in. Words and exit codes of listing, of unknown options and of cards without MIG mode were read from the
 * real tool (580.159.04); those of creating, destroying and of a pending mode from NVIDIA's MIG user guide and public reports.
 * More than 300 lines, because every verb works on the one list of instances.
 */
#include "mig_commands.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, IN_USE = 19, NO_ROOM = 23 };

static const struct gpu *gpus;
static int gpu_count;
static struct mig_instance instances[MOST_INSTANCES];
static int instance_count;

/* ---- who has it open ---- */

static int is_daemon(const char *pid)
{
    char path[300], name[32];
    snprintf(path, sizeof path, "/proc/%s/comm", pid);
    return first_line(path, name, sizeof name) && !strncmp(name, "nvidia-persiste", 15);
}

static int holds(const char *pid, const char *node)
{
    char folder[280], path[600], target[256];
    snprintf(folder, sizeof folder, "/proc/%s/fd", pid);
    DIR *files = opendir(folder);
    int found = 0;
    for (struct dirent *file; files && !found && (file = readdir(files));) {
        snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        found = length > 0 && (target[length] = 0, !strcmp(target, node));
    }
    if (files)
        closedir(files);
    return found && !is_daemon(pid);
}

/* Whether a process other than the persistence daemon has this node open. */
static int is_open(const char *node)
{
    DIR *processes = opendir("/proc");
    int found = 0;
    for (struct dirent *one; processes && !found && (one = readdir(processes));)
        found = one->d_name[0] >= '0' && one->d_name[0] <= '9' && holds(one->d_name, node);
    if (processes)
        closedir(processes);
    return found;
}

int gpu_is_open(int gpu)
{
    char node[32];
    snprintf(node, sizeof node, "/dev/nvidia%d", gpu);
    return is_open(node);
}

static int instance_is_open(const struct mig_instance *one)
{
    char node[64];
    snprintf(node, sizeof node, "/dev/nvidia-caps/nvidia-cap%d", mig_minor(one));
    return is_open(node);
}

/* ---- the mode ---- */

static int switch_one(int gpu, int on)
{
    struct mig_profile profiles[MIG_PROFILES];
    struct mig_mode mode = mig_mode(gpu);
    const char *bus = gpus[gpu].bus_id, *word = on ? "Enable" : "Disable";
    if (!mig_profiles(&gpus[gpu], profiles)) {
        printf("Unable to %s MIG Mode for GPU %s: Not Supported\nTreating as warning and moving on.\n", on ? "enable" : "disable", bus);
        return OK;
    }
    if (geteuid() != 0) {
        printf("Unable to %s MIG Mode for GPU %s: Insufficient Permissions\nTerminating early due to previous errors.\n", on ? "enable" : "disable", bus);
        return NO_PERMISSION;
    }
    instance_count = mig_instances(instances);
    mode.pending = on;
    if (mode.current != on && gpu_is_open(gpu)) {
        mig_set_mode(gpu, mode);
        printf("Warning: MIG mode is in pending %s state for GPU %s:In use by another client\n"
               "%s is currently being used by one or more other processes (e.g. CUDA application or a monitoring application such as another instance of "
               "nvidia-smi). Please first kill all processes using the device and retry the command or reboot the system to make MIG mode effective.\n",
               on ? "enable" : "disable", bus, bus);
        return OK;
    }
    int kept = 0;
    for (int i = 0; i < instance_count; i++)
        if (on || instances[i].gpu != gpu)
            instances[kept++] = instances[i];
    mode.current = on;
    mig_set_mode(gpu, mode);
    mig_save(instances, kept);
    printf("%sd MIG Mode for GPU %s\n", word, bus);
    return OK;
}

int mig_switch(const struct gpu *all, int count, int only, int on)
{
    gpus = all, gpu_count = count;
    for (int gpu = 0; gpu < gpu_count; gpu++) {
        int status = only < 0 || only == gpu ? switch_one(gpu, on) : OK;
        if (status)
            return status;
    }
    puts("All done.");
    return OK;
}

/* ---- listing ---- */

void mig_list_devices(const struct gpu *gpu, int index)
{
    char uuid[64];
    struct mig_profile profiles[MIG_PROFILES];
    int number = 0, count = mig_profiles(gpu, profiles), found = mig_instances(instances);
    for (int i = 0; i < found; i++) {
        const struct mig_profile *profile = mig_profile(profiles, count, instances[i].profile);
        if (instances[i].gpu != index || !instances[i].compute || !profile)
            continue;
        mig_uuid(gpu, &instances[i], uuid);
        printf("  MIG %-11s Device %2d: (UUID: %s)\n", profile->name, number++, uuid);
    }
}

static void rule(int width, char filling, char edge)
{
    putchar(edge);
    for (int i = 0; i < width; i++)
        putchar(filling);
    printf("%c\n", edge);
}

static int taken_by(const struct mig_profile *profiles, int count, int gpu, int start, int size)
{
    for (int i = 0; i < instance_count; i++) {
        const struct mig_profile *other = mig_profile(profiles, count, instances[i].profile);
        if (instances[i].gpu == gpu && instances[i].start < start + size && start < instances[i].start + other->memory)
            return 1;
    }
    return 0;
}

static int compute_left(const struct mig_profile *profiles, int count, int gpu)
{
    int left = 7;
    for (int i = 0; i < instance_count; i++)
        if (instances[i].gpu == gpu)
            left -= mig_profile(profiles, count, instances[i].profile)->compute;
    return left;
}

static int of_profile(int gpu, int profile)
{
    int count = 0;
    for (int i = 0; i < instance_count; i++)
        count += instances[i].gpu == gpu && instances[i].profile == profile;
    return count;
}

static int room(const struct mig_profile *profiles, int count, const struct mig_profile *one, int gpu)
{
    int places = 0;
    for (int i = 0; i < one->start_count; i++)
        places += !taken_by(profiles, count, gpu, one->starts[i], one->memory);
    int compute = compute_left(profiles, count, gpu) / one->compute, left = one->most - of_profile(gpu, one->id);
    places = compute < places ? compute : places;
    return left < places ? left : places;
}

static int list_profiles(int only, int with_places)
{
    struct mig_profile profiles[MIG_PROFILES];
    if (!with_places) {
        rule(79, '-', '+');
        puts("| GPU instance profiles:                                        rehearsal stand-in |\n"
             "| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
             "|                                Free/Total   GiB              CE    JPEG  OFA  |");
        rule(79, '=', '|');
    }
    for (int gpu = 0; gpu < gpu_count; gpu++) {
        int count = only < 0 || only == gpu ? mig_profiles(&gpus[gpu], profiles) : 0;
        for (int i = 0; i < count; i++) {
            const struct mig_profile *one = &profiles[i];
            if (!with_places) {
                printf("| %3d  MIG %-14s  %2d     %d/%d      %7.2f       No    %3d   %3d     0   |\n", gpu, one->name, one->id,
                       room(profiles, count, one, gpu), one->most, one->mib / 1024.0, one->compute * 16, one->compute);
                rule(79, '-', '+');
                continue;
            }
            printf("GPU %2d Profile ID %2d Placement%s: {", gpu, one->id, one->start_count > 1 ? "s" : " ");
            for (int start = 0; start < one->start_count; start++)
                printf("%s%d", start ? "," : "", one->starts[start]);
            printf("}:%d\n", one->memory);
        }
    }
    return OK;
}

static int any_mode(int only)
{
    for (int gpu = 0; gpu < gpu_count; gpu++)
        if ((only < 0 || only == gpu) && mig_mode(gpu).current)
            return 1;
    puts("No MIG-enabled devices found.");
    return 0;
}

static int chosen(const struct mig_instance *one, int only, int instance)
{
    return (only < 0 || one->gpu == only) && (instance < 0 || one->id == instance);
}

static int none_chosen(int only, int instance, int compute, const char *what)
{
    for (int i = 0; i < instance_count; i++)
        if (chosen(&instances[i], only, instance) && (!compute || instances[i].compute))
            return 0;
    printf("No %s instances found: Not Found\n", what);
    return 1;
}

static int list_instances(int only, int compute)
{
    struct mig_profile profiles[MIG_PROFILES];
    int width = compute ? 68 : 55;
    if (!any_mode(only))
        return OK;
    if (none_chosen(only, -1, compute, compute ? "compute" : "GPU"))
        return NOT_FOUND;
    rule(width, '-', '+');
    puts(compute ? "| Compute instances:                                                 |\n"
                   "| GPU     GPU       Name             Profile   Instance   Placement  |\n"
                   "|       Instance                       ID        ID       Start:Size |\n"
                   "|         ID                                                         |"
                 : "| GPU instances:                                        |\n"
                   "| GPU   Name             Profile  Instance   Placement  |\n"
                   "|                          ID       ID       Start:Size |");
    rule(width, '=', '|');
    for (int i = 0; i < instance_count; i++) {
        const struct mig_instance *one = &instances[i];
        const struct mig_profile *profile = mig_profile(profiles, mig_profiles(&gpus[one->gpu], profiles), one->profile);
        if (!chosen(one, only, -1) || (compute && !one->compute))
            continue;
        if (compute)
            printf("| %3d    %3d       MIG %-14s  %2d         0          0:%d     |\n", one->gpu, one->id, profile->name,
                   profile->compute == 7 ? 4 : profile->compute - 1, profile->compute);
        else
            printf("| %3d  MIG %-14s  %2d       %2d          %d:%d     |\n", one->gpu, profile->name, one->profile, one->id, one->start,
                   profile->memory);
        rule(width, '-', '+');
    }
    return OK;
}

/* ---- creating and destroying ---- */

/* As seen on real cards: 7g is 0, 4g and 3g are 1 and 2, what takes two slices 3 to 6, 1g 7 to 13. */
static int number_at(const struct mig_profile *profile, int start)
{
    return profile->memory == 8 ? 0 : profile->memory == 4 ? 1 + start / 4 : profile->memory == 2 ? 3 + start / 2 : 7 + start;
}

static const struct mig_profile *named(const struct mig_profile *profiles, int count, const char *text)
{
    if (!strncmp(text, "MIG ", 4))
        text += 4;
    for (int i = 0; i < count; i++)
        if (!strcmp(profiles[i].name, text))
            return &profiles[i];
    char *end;
    long id = strtol(text, &end, 10);
    return *text && !*end ? mig_profile(profiles, count, (int)id) : NULL;
}

static int free_start(const struct mig_profile *profiles, int count, const struct mig_profile *one, int gpu, int asked)
{
    if (room(profiles, count, one, gpu) < 1)
        return -1;
    for (int i = 0; i < one->start_count; i++)
        if ((asked < 0 || asked == one->starts[i]) && !taken_by(profiles, count, gpu, one->starts[i], one->memory))
            return one->starts[i];
    return -1;
}

static void created_compute(const struct mig_instance *one, const struct mig_profile *profile)
{
    printf("Successfully created compute instance ID  0 on GPU %2d GPU instance ID %2d using profile MIG %s (ID %2d)\n", one->gpu, one->id, profile->name,
           profile->compute == 7 ? 4 : profile->compute - 1);
}

static int create_one(int gpu, char *tuple, int compute)
{
    struct mig_profile profiles[MIG_PROFILES];
    int count = mig_profiles(&gpus[gpu], profiles);
    char *colon = strchr(tuple, ':');
    int asked = colon ? atoi(colon + 1) : -1;
    if (colon)
        *colon = 0;
    const struct mig_profile *profile = named(profiles, count, tuple);
    if (!profile) {
        printf("Profile \"%s\" is not valid on GPU %d.\n", tuple, gpu);
        return BAD_ARGUMENT;
    }
    int start = free_start(profiles, count, profile, gpu, asked);
    if (start < 0) {
        printf("Unable to create a GPU instance on GPU %2d using profile %d: Insufficient Resources\n"
               "Failed to create GPU instances: Insufficient Resources\n", gpu, profile->id);
        return NO_ROOM;
    }
    struct mig_instance one = {gpu, number_at(profile, start), profile->id, start, compute};
    instances[instance_count++] = one;
    mig_save(instances, instance_count);
    printf("Successfully created GPU instance ID %2d on GPU %2d using profile MIG %s (ID %2d)\n", one.id, gpu, profile->name, profile->id);
    if (compute)
        created_compute(&one, profile);
    return OK;
}

static int create(int only, const char *list, int compute)
{
    for (int gpu = 0; gpu < gpu_count; gpu++) {
        if ((only >= 0 && only != gpu) || !mig_mode(gpu).current)
            continue;
        char copy[256], *rest = copy;
        snprintf(copy, sizeof copy, "%s", list);
        for (char *tuple = strtok_r(copy, ",", &rest); tuple; tuple = strtok_r(NULL, ",", &rest)) {
            int status = create_one(gpu, tuple, compute);
            if (status)
                return status;
        }
    }
    return OK;
}

static int create_compute(int only, int instance)
{
    struct mig_profile profiles[MIG_PROFILES];
    if (none_chosen(only, instance, 0, "GPU"))
        return NOT_FOUND;
    for (int i = 0; i < instance_count; i++) {
        if (!chosen(&instances[i], only, instance) || instances[i].compute)
            continue;
        instances[i].compute = 1;
        created_compute(&instances[i], mig_profile(profiles, mig_profiles(&gpus[instances[i].gpu], profiles), instances[i].profile));
    }
    mig_save(instances, instance_count);
    return OK;
}

static int destroy_compute(int only, int instance)
{
    if (none_chosen(only, instance, 1, "GPU"))
        return NOT_FOUND;
    for (int i = 0; i < instance_count; i++) {
        struct mig_instance *one = &instances[i];
        if (!chosen(one, only, instance) || !one->compute)
            continue;
        if (instance_is_open(one)) {
            printf("Unable to destroy compute instance ID  0 from GPU %2d GPU instance ID %2d: In use by another client\n"
                   "Failed to destroy compute instances: In use by another client\n", one->gpu, one->id);
            return IN_USE;
        }
        one->compute = 0;
        mig_save(instances, instance_count);
        printf("Successfully destroyed compute instance ID  0 from GPU %2d GPU instance ID %2d\n", one->gpu, one->id);
    }
    return OK;
}

static int destroy(int only, int instance)
{
    if (none_chosen(only, instance, 0, "GPU"))
        return NOT_FOUND;
    for (int i = 0; i < instance_count;) {
        struct mig_instance one = instances[i];
        if (!chosen(&one, only, instance)) {
            i++;
            continue;
        }
        if (one.compute) {
            printf("Unable to destroy GPU instance ID %2d from GPU %2d: In use by another client\n"
                   "Failed to destroy GPU instances: In use by another client\n", one.id, one.gpu);
            return IN_USE;
        }
        memmove(&instances[i], &instances[i + 1], (--instance_count - i) * sizeof *instances);
        mig_save(instances, instance_count);
        printf("Successfully destroyed GPU instance ID %2d from GPU %2d\n", one.id, one.gpu);
    }
    return OK;
}

static int help(void)
{
    puts("\n    mig -- Multi Instance GPU management. (rehearsal stand-in)\n\n    Usage: nvidia-smi mig [options]\n\n"
         "    [-i] [-gi] [-ci]   [-lgip] [-lgipp] [-lgi] [-lci]   [-cgi PROFILE[:START],… [-C]] [-cci]   [-dci] [-dgi]\n");
    return OK;
}

int mig_command(const struct gpu *all, int count, int argc, char **argv)
{
    int only = -1, instance = -1, compute = 0;
    const char *verb = "", *list = "";
    static const char *plain[] = {"-lgip", "-lgipp", "-lgi", "-lci", "-dci", "-dgi", "-cci"};
    gpus = all, gpu_count = count;
    for (int i = 0; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        int known = 0;
        for (unsigned one = 0; one < sizeof plain / sizeof *plain; one++)
            if (!strcmp(argv[i], plain[one]))
                verb = plain[one], known = 1;
        if (known) { if (!strcmp(verb, "-cci") && *next && *next != '-') i++; }
        else if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) return help();
        else if (!strcmp(argv[i], "-i")) only = atoi(next), i++;
        else if (!strcmp(argv[i], "-gi")) instance = atoi(next), i++;
        else if (!strcmp(argv[i], "-ci")) i++;
        else if (!strcmp(argv[i], "-C")) compute = 1;
        else if (!strcmp(argv[i], "-cgi")) verb = "-cgi", list = next, i++;
        else { printf("Option \"%s\" is not recognized.\n", argv[i]); return BAD_ARGUMENT; }
    }
    if (only >= gpu_count) { puts("No devices were found"); return NOT_FOUND; }
    instance_count = mig_instances(instances);
    if (!*verb) return help();
    if (!strcmp(verb, "-lgip")) return list_profiles(only, 0);
    if (!strcmp(verb, "-lgipp")) return list_profiles(only, 1);
    if (!strcmp(verb, "-lgi")) return list_instances(only, 0);
    if (!strcmp(verb, "-lci")) return list_instances(only, 1);
    if (!any_mode(only)) return OK;
    if (geteuid() != 0) {
        printf("Failed to %s: Insufficient Permissions\n", verb[1] == 'c' ? "create GPU instances" : "destroy instances");
        return NO_PERMISSION;
    }
    if (!strcmp(verb, "-cgi")) return create(only, list, compute);
    if (!strcmp(verb, "-cci")) return create_compute(only, instance);
    return !strcmp(verb, "-dci") ? destroy_compute(only, instance) : destroy(only, instance);
}
