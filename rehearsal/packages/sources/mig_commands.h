#ifndef MIG_COMMANDS_H
#define MIG_COMMANDS_H

#include "mig.h"

/* `nvidia-smi mig …`; `argv` begins after the word. The exit status. */
int mig_command(const struct gpu *gpus, int count, int argc, char **argv);

/* `nvidia-smi [-i N] -mig 0|1`; `only` is negative for all. The exit status. */
int mig_switch(const struct gpu *gpus, int count, int only, int on);

/* Whether a process other than the persistence daemon has the GPU's node open. */
int gpu_is_open(int gpu);

/* The lines of one GPU's MIG devices in `nvidia-smi -L`. */
void mig_list_devices(const struct gpu *gpu, int index);

#endif
