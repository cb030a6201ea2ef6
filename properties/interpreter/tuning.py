"""Autotuned kernels in the interpreter, which has no clock to choose a configuration by.

On a GPU any configuration may be the fastest, and the first launch with a tuning key runs the kernel several
times. Here the sizes of the arguments choose the configuration. In a plain call the first launch with a key
runs it twice, as tuning does; in a call that is watched for more, the kernel is tuned already.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from cumae.properties.interpreter.watch import Current


class Tuned(NamedTuple):
    """The configuration that a kernel has got, and whether a run before the launch timed it."""

    name: str
    config: Any
    runs_twice: bool

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.config.all_kwargs().items())
        if self.runs_twice:
            return f"ran {self.name} twice and chose {values}"
        return f"chose {values} of {self.name}"


_ASSERTS = "_new_static_assert"
"""The interpreter's function for `tl.static_assert`."""


def tuning(original: Callable[..., Any], now: Current) -> Any:
    """Return the method ``run`` of an autotuned kernel, with one of the configurations that pruning leaves.

    One that breaks a static assertion is passed over for the next, as tuning does.
    """

    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        every = self.configs
        if len(every) < 2:
            return original(self, *args, **kwargs)
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        given = {**self.nargs, **kwargs}
        key = _key(self, given)
        known = now.watch.tuned.get(key)
        left = [known.config] if known is not None else _in_turn(self.prune_configs(kwargs), given.values())
        tunes = len(left) > 1 and now.watch.is_plain
        for config in left:
            try:
                self.configs = [config]
                if tunes:
                    _try_out(self, config, args, kwargs)
                answer = original(self, *args, **kwargs)
            except Exception as error:
                if config is left[-1] or not _is_static(error):
                    raise
            else:
                now.watch.tuned.setdefault(key, Tuned(self.base_fn.__name__, config, tunes))
                return answer
            finally:
                self.configs = every
        raise AssertionError("pruning leaves a configuration")

    return hooked


def told(tuned: Mapping[tuple[Any, ...], "Tuned"]) -> str:
    """Return in words how kernels were tuned; "" if none was."""
    each = dict.fromkeys(str(one) for one in tuned.values())
    return f"autotuning {' and '.join(each)}" if each else ""


def _key(kernel: Any, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a kernel is tuned anew for: the arguments that its key names, and the dtypes."""
    named = [given[name] for name in kernel.keys if name in given]
    return kernel, *named, *[str(one.dtype) for one in given.values() if hasattr(one, "dtype")]


def _in_turn(configs: Sequence[Any], given: Iterable[Any]) -> list[Any]:
    """Return configurations from the one on that the sizes of the arguments choose."""
    sizes = [
        tuple(getattr(one, "shape", ())) or one
        for one in given
        if isinstance(one, int) or hasattr(one, "shape")
    ]
    first = crc32(repr(sizes).encode()) % len(configs)
    return [*configs[first:], *configs[:first]]


def _try_out(kernel: Any, config: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run a kernel between its hooks, as it is timed, and reset what is to be reset."""
    named = {**kwargs, **config.all_kwargs()}
    given = {**kernel.nargs, **named}
    if config.pre_hook:
        config.pre_hook(given)
    kernel.pre_hook(given)
    try:
        kernel.fn.run(*args, **named)
    except Exception as error:
        kernel.post_hook(given, exception=error)
        raise
    kernel.post_hook(given, exception=None)
    kernel.pre_hook(given, reset_only=True)


def _is_static(error: BaseException) -> bool:
    """Return whether an error is that of a static assertion."""
    origin = error
    while origin.__cause__ is not None:
        origin = origin.__cause__
    frame = origin.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_code.co_name == _ASSERTS
