"""`python -m client`: the `loadmaster` command without its script."""

from client.cli import main

main(prog_name="loadmaster")
