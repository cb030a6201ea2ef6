"""How each command is called: options, help and an example. Nothing here imports what a command runs."""
