"""What converting and building leave behind when nothing is computed: the real files' names and configuration."""
