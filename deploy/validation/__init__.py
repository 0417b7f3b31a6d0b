"""All checks of an inventory, one module per subject. Each yields refusals and raises nothing."""
