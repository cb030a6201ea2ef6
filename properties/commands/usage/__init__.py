"""How each command is called: options, help and an example. No module here imports what a command runs."""
