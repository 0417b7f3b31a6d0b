// SPDX-License-Identifier: MIT OR GPL-2.0
// Rehearsal stand-in for NVIDIA's kernel module: device files, /proc/driver/nvidia and a use count. It drives nothing.
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#define MOST_CARDS 16

static int gpus;
module_param(gpus, int, 0444);
MODULE_PARM_DESC(gpus, "cards the machine shows; without any the module refuses to load, as the real one does");

static const struct file_operations nothing = { .owner = THIS_MODULE };
static struct miscdevice devices[MOST_CARDS + 1];
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

static void forget(void)
{
	while (registered > 0) {
		misc_deregister(&devices[--registered]);
		kfree(devices[registered].name);
	}
	remove_proc_subtree("driver/nvidia", NULL);
}

static int __init begin(void)
{
	int card, status;

	if (gpus < 1 || gpus > MOST_CARDS)
		return -ENODEV;
	if (!proc_mkdir("driver/nvidia", NULL) ||
	    !proc_create_single("driver/nvidia/version", 0444, NULL, show_version)) {
		forget();
		return -ENOMEM;
	}
	for (card = 0; card <= gpus; card++) {
		struct miscdevice *one = &devices[card];

		one->minor = MISC_DYNAMIC_MINOR;
		one->name = card < gpus ? kasprintf(GFP_KERNEL, "nvidia%d", card) : kstrdup("nvidiactl", GFP_KERNEL);
		one->fops = &nothing;
		one->mode = 0666;
		status = one->name ? misc_register(one) : -ENOMEM;
		if (status) {
			kfree(one->name);
			forget();
			return status;
		}
		registered++;
	}
	return 0;
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
