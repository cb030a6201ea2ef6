"""How ``cumae doctor`` is called."""

from typing import Any

from cumae.properties.commands import options


@options.command("cumae doctor")
def doctor(**given: Any) -> int:
    """Try tiny kernels and report what this machine can run. Exit status 2 if nothing can run."""
    from cumae.properties.commands.doctor import doctor as run

    return run(**given)
