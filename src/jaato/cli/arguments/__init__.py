"""The arguments of every command, as tables; nothing but argparse is imported to parse them or to show help."""
