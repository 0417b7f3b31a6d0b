"""The plan: every decision about an inventory, or every reason against one."""
