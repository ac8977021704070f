"""The subcommands of the command line, one in each module."""
