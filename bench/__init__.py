"""Benchmarks: `python -m bench` (or `make bench`); `QUICK=1` in the environment for a short run.

Every number stands beside something measured in the same run, because absolute rates say more about
the machine than about the code.
"""
