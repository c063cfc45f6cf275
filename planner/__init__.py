"""The optimisation core: problems, schedules and the solvers that connect them.

Nothing in here imports a web framework, a queue or a database.
"""
