"""Signal, by the JSON-RPC daemon of signal-cli."""
