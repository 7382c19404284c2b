"""The terminal interface: a client of the session server, drawn with Textual.

`start` paints a plain first frame and starts the server before Textual is imported; `app` holds the
rest together. Each widget and each screen has a file of its own. The interface holds no state of a
conversation: whatever is shown can be redrawn from the server's events.
"""
