/* MIG as the stand-ins know it: what a card can be cut into, and what it is cut into now.
 *
 * The state is text under /run/rehearsal/mig, forgotten by a boot and by unloading the module, as on Hopper and later:
 *   mode        GPU CURRENT PENDING                      (0 or 1)
 *   instances   GPU INSTANCE PROFILE START COMPUTE       (COMPUTE 1: a compute instance over all of it)
 * `nvidia-ctk cdi generate` carries both into containers as mig-mode and mig-instances.
 */
#ifndef MIG_H
#define MIG_H

#include "hardware.h"

#define MIG_STATE "/run/rehearsal/mig"
#define MIG_PROFILES 7
#define MOST_INSTANCES 64

struct mig_profile {
    int id, compute, memory, most, start_count, starts[8];
    int gigabytes;         /* as the name says */
    unsigned mib;
    char name[24];         /* 4g.40gb */
};

struct mig_instance {
    int gpu, id, profile, start, compute;
};

struct mig_mode {
    int current, pending;
};

/* The profiles of a card, largest last as nvidia-smi lists them; 0 where it has none. */
int mig_profiles(const struct gpu *gpu, struct mig_profile profiles[MIG_PROFILES]);
const struct mig_profile *mig_profile(const struct mig_profile *profiles, int count, int id);

struct mig_mode mig_mode(int gpu);
int mig_set_mode(int gpu, struct mig_mode mode);

/* All instances, by GPU and number; in a container those whose capability node is there. */
int mig_instances(struct mig_instance instances[MOST_INSTANCES]);
int mig_save(const struct mig_instance *instances, int count);

/* The first of the two capability nodes of an instance; the second belongs to its compute instance. */
int mig_minor(const struct mig_instance *instance);
void mig_uuid(const struct gpu *gpu, const struct mig_instance *instance, char uuid[64]);

/* As CUDA sees it: a GPU in MIG mode is its first instance that may be used, and then nothing else is enumerated. */
int mig_narrow(struct gpu gpus[MOST_GPUS], int count);

#endif
