"""The subcommands of `arena`: each reads its flags, calls what does the work, and prints."""
