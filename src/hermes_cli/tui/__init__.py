"""The terminal interface: a client of the session server, drawn with Textual.

`start` paints a plain first frame and starts the server before Textual is imported; `app` holds the
rest together. Each widget and each screen has a file of its own. Nothing here is the truth about a
conversation: whatever is shown can be drawn anew from what the server tells.
"""
