"""Whatever answers: one kind of agent, one file. Each is loaded when the config names its kind."""
