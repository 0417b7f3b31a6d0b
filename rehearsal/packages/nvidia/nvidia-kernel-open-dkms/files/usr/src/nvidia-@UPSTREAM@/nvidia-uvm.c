// SPDX-License-Identifier: MIT OR GPL-2.0
// Rehearsal stand-in for NVIDIA's unified memory module: two device files.
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

int nvidia_stand_in_present(void);

static const struct file_operations nothing = { .owner = THIS_MODULE };
static struct miscdevice uvm = {
	.minor = MISC_DYNAMIC_MINOR, .name = "nvidia-uvm", .fops = &nothing, .mode = 0666,
};
static struct miscdevice tools = {
	.minor = MISC_DYNAMIC_MINOR, .name = "nvidia-uvm-tools", .fops = &nothing, .mode = 0666,
};

static int __init begin(void)
{
	int status = nvidia_stand_in_present() ? misc_register(&uvm) : -ENODEV;

	if (status)
		return status;
	status = misc_register(&tools);
	if (status)
		misc_deregister(&uvm);
	return status;
}

static void __exit end(void)
{
	misc_deregister(&tools);
	misc_deregister(&uvm);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION);
MODULE_DESCRIPTION("rehearsal stand-in");
