"""How a search leaves Hypothesis at once."""


class Disagreement(BaseException):
    """Raised inside a search if a check fails; the reducer shrinks."""


class Stop(BaseException):
    """Raised inside a search if the time is up or the device is lost."""
