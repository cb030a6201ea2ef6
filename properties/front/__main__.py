"""``python -m cumae``: the command line."""

from cumae.properties.commands.main import main

main()
