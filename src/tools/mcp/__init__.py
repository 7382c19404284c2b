"""Tools of other programs over the Model Context Protocol, and Hermes as a tool for them."""
