"""Schedules as the CSV of `torch.distributed.pipelining`, and the check of such tables."""
