"""The commands of `hermes`, one file each.

A module has `add_parser(commands)`, which describes it on the command line, and `run(args)`, which
carries it out and returns the exit code: 0 done, 1 it could not be done or something is wrong, 2 a
mistake in the call or the configuration, 130 interrupted. `table.py` says which there are.
"""
