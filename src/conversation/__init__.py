"""A conversation's live state: what happens in it, for every front end and every process.

Front ends import the modules of this package; nothing below it does.
"""
