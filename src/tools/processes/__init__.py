"""Processes in the background: started, watched, found again after a crash, ended."""
