"""What every layer uses and none owns: plugins, redaction, processes, files, the running session.

Nothing here imports another package of Hermes.
"""
