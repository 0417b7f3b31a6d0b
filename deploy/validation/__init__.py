"""Every way an inventory can be wrong, one module per subject. Each yields refusals and raises nothing."""
