// SPDX-License-Identifier: MIT OR GPL-2.0
// Rehearsal stand-in for NVIDIA's display module: it holds nvidia, and that is all.
#include <linux/errno.h>
#include <linux/module.h>

int nvidia_stand_in_present(void);

static int __init begin(void)
{
	return nvidia_stand_in_present() ? 0 : -ENODEV;
}

static void __exit end(void)
{
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(NV_VERSION);
MODULE_DESCRIPTION("rehearsal stand-in");
