"""``python -m cumae.properties.commands`` is ``cumae``."""

from cumae.properties.commands.main import main

main()
