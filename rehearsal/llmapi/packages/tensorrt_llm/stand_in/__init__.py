"""Results of converting and building without computation: the real files' names and configuration."""
