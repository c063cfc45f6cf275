"""Webhooks: telling a client's receiver that a job is over, and nobody else on the network."""
