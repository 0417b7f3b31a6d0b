/* What nvidia-smi says of a GPU: one table for --query-gpu and for -q. */
#ifndef SMI_FIELDS_H
#define SMI_FIELDS_H

#include "hardware.h"

#include <stddef.h>

/* How many GPUs there are; `count` and "Attached GPUs" say it. */
extern int gpu_count;

/* A value of --query-gpu, with its unit (" MiB") or ""; NULL where the real tool knows no such field. */
const char *smi_value(const struct gpu *gpu, int index, const char *field, const char **unit, char *out, size_t size);

/* The name a column is headed with, which is not always the one that was asked for. */
const char *smi_heading(const char *field);

/* `nvidia-smi -q` of one GPU. */
void smi_sections(const struct gpu *gpu, int index);

/* A line of it, its colon where the real one has it; without a value a heading. */
void smi_line(int indent, const char *label, const char *value, const char *unit);

/* What somebody set for a GPU in /run/rehearsal/gpu-faults, else what a whole card says. */
const char *faulty(int index, const char *field, const char *whole);

/* `nvidia-smi --gpu-reset` of one GPU, which has none of that afterwards. The exit status. */
int smi_reset(const struct gpu *gpu, int index);

int persistence(void);

#endif
