"""Benchmarks: `make bench` writes RESULTS.md; `make bench QUICK=1` is a short run.

Every number stands beside something measured in the same run, because absolute rates say more about
the machine than about the code: the same work on hermes-agent 0.19.0, and with nothing but SQLite,
an HTTP client or Python ("bare"), which is the limit. `python -m bench NAME` measures one thing
alone, in more detail and against its goals.
"""
