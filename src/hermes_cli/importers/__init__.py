"""Conversations of other programs, read from what those programs export.

Each reader turns one file format into sessions as `SessionDB.import_sessions` takes them. Ids are
made from the ids in the export, so that reading a file twice brings nothing in twice.
"""
