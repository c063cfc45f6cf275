"""The Python library: plans from a service, or without one, for programs and notebooks.

`planner` and `async_planner` are what people use; `service` and `async_service` speak HTTP. What
both ways have in common is written once and does no input or output: `requests` (what is asked),
`answers` (what comes back), `retries` (when to ask again), `following` (how a job is followed).
"""
