/* What the stand-ins know about the GPUs of this machine.
 *
 * On a host it is read from where the real driver shows itself: /proc/driver/nvidia, /sys/module/nvidia and the PCI list.
 * A container has its own /proc and /sys, so `nvidia-ctk cdi generate` carries a copy in as /run/rehearsal-gpu.
 */
#ifndef HARDWARE_H
#define HARDWARE_H

#define MOST_GPUS 16
#ifndef CARRIED
#define CARRIED "/run/rehearsal-gpu"
#endif
#ifndef DEV
#define DEV "/dev"
#endif

struct gpu {
    char bus_id[32];       /* 00000000:01:00.0 */
    char uuid[64];         /* GPU-… */
    const char *name;
    unsigned device_id;    /* 0x2330 */
    unsigned memory_mib;   /* as nvidia-smi says */
    unsigned reserved_mib; /* of it, what the driver keeps: CUDA has the rest */
    int major, minor;      /* compute capability */
};

/* The version of the loaded module, or NULL where none is loaded. */
const char *loaded_version(void);

/* Why /dev/nvidiactl cannot be reached, as errno says it; 0 where it can. */
int control_device_error(void);

/* How many GPUs there are, written into `gpus`; none where no /dev/nvidiaN can be reached. */
int find_gpus(struct gpu gpus[MOST_GPUS]);

/* The first line of a file without its line end, or NULL. */
const char *first_line(const char *path, char *line, int size);

#endif
