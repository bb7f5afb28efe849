"""Code shared by all commands: flags from fields, and output."""
