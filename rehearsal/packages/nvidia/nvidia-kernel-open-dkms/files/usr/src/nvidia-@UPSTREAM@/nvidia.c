// SPDX-License-Identifier: MIT OR GPL-2.0
// Rehearsal stand-in for NVIDIA's kernel module: device files, /proc/driver/nvidia and a use count. It drives nothing.
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/version.h>

#define MOST_CARDS 16
#define MAJOR_NUMBER 195
#define CONTROL 255

static int gpus;
module_param(gpus, int, 0444);
MODULE_PARM_DESC(gpus, "cards the machine shows; without any the module refuses to load, as the real one does");

static const struct file_operations nothing = { .owner = THIS_MODULE };
static struct class *class;
static int registered;

// nvidia-uvm and nvidia-modeset need it, so that they hold this module as the real ones do.
int nvidia_stand_in_present(void)
{
	return 1;
}
EXPORT_SYMBOL(nvidia_stand_in_present);

static int show_version(struct seq_file *file, void *unused)
{
	seq_puts(file, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " NV_VERSION
		       "  Release Build  (rehearsal stand-in)  \n"
		       "GCC version:  gcc version " __VERSION__ " \n");
	return 0;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
static char *open_to_all(const struct device *device, umode_t *mode)
#else
static char *open_to_all(struct device *device, umode_t *mode)
#endif
{
	if (mode)
		*mode = 0666;
	return NULL;
}

static dev_t number(int card)
{
	return MKDEV(MAJOR_NUMBER, card < gpus ? card : CONTROL);
}

static void forget(void)
{
	while (registered > 0)
		device_destroy(class, number(--registered));
	class_destroy(class);
	unregister_chrdev(MAJOR_NUMBER, "nvidia");
	remove_proc_subtree("driver/nvidia", NULL);
}

// The files are made by the kernel; those of the real module are made by its user space, with the same numbers.
static int show_devices(void)
{
	struct device *one;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	class = class_create("nvidia");
#else
	class = class_create(THIS_MODULE, "nvidia");
#endif
	if (IS_ERR(class))
		return PTR_ERR(class);
	class->devnode = open_to_all;
	for (; registered <= gpus; registered++) {
		if (registered < gpus)
			one = device_create(class, NULL, number(registered), NULL, "nvidia%d", registered);
		else
			one = device_create(class, NULL, number(registered), NULL, "nvidiactl");
		if (IS_ERR(one))
			return PTR_ERR(one);
	}
	return 0;
}

static int __init begin(void)
{
	int status;

	if (gpus < 1 || gpus > MOST_CARDS)
		return -ENODEV;
	// A unit that allows `char-nvidia*` finds the number under this name in /proc/devices.
	status = register_chrdev(MAJOR_NUMBER, "nvidia", &nothing);
	if (status)
		return status;
	if (!proc_mkdir("driver/nvidia", NULL) ||
	    !proc_create_single("driver/nvidia/version", 0444, NULL, show_version))
		status = -ENOMEM;
	else
		status = show_devices();
	if (status)
		forget();
	return status;
}

static void __exit end(void)
{
	forget();
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION);
MODULE_DESCRIPTION("rehearsal stand-in");
