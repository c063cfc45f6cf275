"""From files of other tools to what the service takes. Standard library only."""
