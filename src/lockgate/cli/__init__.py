"""The `lockgate` command: one file per subcommand, and the only place that prints."""
