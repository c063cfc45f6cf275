"""Plans as the configurations of training frameworks, each with a list of what it cannot say."""
