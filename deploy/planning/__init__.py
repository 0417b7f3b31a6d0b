"""The plan: every decision of an inventory, or every reason why there is none."""
