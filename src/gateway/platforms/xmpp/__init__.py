"""XMPP, by slixmpp."""
