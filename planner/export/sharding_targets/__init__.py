"""Sharding plans as what frameworks split modules by, each with a list of what it cannot say."""
