"""Ahead-of-time compiles of recorded launches, for targets that the machine need not have."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from cumae.properties.lint.launches import Launch

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "sm_120": GPUTarget("cuda", 120, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx950": GPUTarget("hip", "gfx950", 64),
}
READ_FROM = "sm_90"
_EARLY, _NONE_EARLY = "griddepcontrol", ("sm_80", "gfx942", "gfx950")
"""The instruction of kernels that begin early, and the targets that lack it."""
_FP8 = {"fp8e4nv": "f8E4M3FN", "fp8e5": "f8E5M2", "fp8e4b8": "f8E4M3FNUZ", "fp8e5b16": "f8E5M2FNUZ"}


def compile_for(launch: Launch, target: str) -> Any:
    """Return a launch compiled for a target, to machine code. Raises Triton's error if that fails."""
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.disable_line_info = True  # takes a sixth of the time, unused here
        return triton.compile(_source(launch), target=TARGETS[target], options=dict(launch.options))


class Texts(NamedTuple):
    """The TTIR of a launch before any target changes it, as first written and simplified."""

    written: str
    simplified: str


def texts_of(launch: Launch) -> Texts:
    """Return the TTIR of a launch. Raises Triton's error if that fails."""
    source, backend = _source(launch), make_backend(TARGETS[READ_FROM])
    options = backend.parse_options(dict(launch.options))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    made = backend.get_codegen_implementation(options), backend.get_module_map()
    module = source.make_ir(TARGETS[READ_FROM], options, *made, context)
    written = str(module)
    return Texts(written, str(stages["ttir"](module, {})))


def missing_on(target: str, texts: Texts) -> list[str]:
    """Return the fp8 types that a kernel uses and a target lacks, and early launches.

    A host launches early where its own GPU can.
    """
    able = make_backend(TARGETS[target]).parse_options({}).supported_fp8_dtypes
    used = set(re.findall(r"f8E\w+", texts.written))
    lacking = [name for name, word in _FP8.items() if word in used and name not in able]
    begins_early = _EARLY in texts.written and target in _NONE_EARLY
    return [*lacking, _EARLY] if begins_early else lacking


def spread(launches: Iterable[Launch]) -> Iterator[Launch]:
    """Yield a few of a kernel's launches that cover each constant: every value, of integers the extremes."""
    same = list(launches)
    numbers = {
        name: sorted({v for launch in same if type(v := launch.constants.get(name)) is int})
        for name in {name for launch in same for name in launch.constants}
    }
    shown = [
        {
            (name, repr(value))
            for name, value in (*launch.constants.items(), *launch.options.items())
            if type(value) is not int
            or value in (*numbers.get(name, [value])[:1], *numbers.get(name, [])[-1:])
        }
        for launch in same
    ]
    if same and not any(shown):
        yield same[0]
    while any(shown):
        most = max(range(len(same)), key=lambda i: len(shown[i]))
        covered = shown[most]
        shown = [values - covered for values in shown]
        yield same[most]


def _source(launch: Launch) -> ASTSource:
    names = list(launch.types)
    constants = {(names.index(name),): value for name, value in launch.constants.items()}
    return ASTSource(launch.kernel, dict(launch.types), constants)
