"""Schedules with offloads and reloads for the runner `client.torch_runner` (JSON)."""
