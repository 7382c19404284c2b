"""The API server's parts; imported only when the platform is enabled."""
