"""Commands for whoever runs the service: they work on its database, not through its API."""
