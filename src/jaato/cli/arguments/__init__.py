"""The arguments of every command, as tables; parsing and help import only argparse."""
