"""One call of a kernel on one case: inputs up, outputs poisoned, launched, everything read back."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from cumae.oracle import Case, Inputs
from cumae.properties.dialects import Held, Ints, Rows
from cumae.properties.operations import Expected
from cumae.properties.running.binding import Binding
from cumae.properties.running.device import Device, interpreting
from cumae.properties.running.interpreter import Watch, watching
from cumae.properties.running.memory import Buffer, Words, hold, poisoned

POISON = 0xA5
COMPLEMENT = 0x5A


class KernelRaised(Exception):
    """The function under test raised on a valid case."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one call did: ``outputs`` by name, damage outside elements, inputs changed, accesses outside."""

    outputs: dict[str, Words]
    damage: tuple[str, ...]
    watch: Watch | None
    poison: int


class Bench:
    """A binding and a case on a device; observes calls and asks the oracle only after the first one."""

    def __init__(self, binding: Binding, case: Case, device: Device) -> None:
        self.binding = binding
        self.case = case
        self.device = device
        self._inputs = Inputs(case)
        self._held: dict[str, Held] = {}

    def held(self, name: str) -> Held:
        """Return an input as the dialect holds it."""
        if name not in self._held:
            self._held[name] = self.binding.dialect.inputs[name].hold(self._inputs)
        return self._held[name]

    def expected(self) -> dict[str, Expected]:
        """Return what the oracle says of each output."""
        if any(output.axis == "key_row" for output in self.binding.operation.outputs):
            self.held("cache"), self.held("new_rows")
        return self.binding.operation.expected(self._inputs, self._held, self.binding.dialect)

    def observe(self, poison: int = POISON, order_seed: int | None = None) -> Observation:
        """Call the function once on fresh buffers. Raises ``KernelRaised`` with its error inside."""
        inputs: dict[str, Buffer] = {}
        arguments: dict[str, Any] = {}
        for name in self.binding.inputs:
            held = self.held(name)
            if isinstance(held, (Ints, Rows)):
                inputs[name] = hold(name, held, self.device)
                arguments[name] = inputs[name].tensor
            else:
                arguments[name] = held
        outputs = {name: self._output(name, poison) for name in self.binding.outputs}
        arguments |= {name: buffer.tensor for name, buffer in outputs.items()}
        interpreted = interpreting()
        with watching(order_seed) if interpreted else nullcontext() as watch:
            try:
                answer = self.binding.function(**arguments)
                if self.device == "cuda":
                    torch.cuda.synchronize()
            except Exception as error:
                raise KernelRaised(f"{type(error).__name__}: {error}") from error
        words = {name: buffer.words() for name, buffer in outputs.items()}
        words |= self._returned(answer)
        damage = [
            f"`{b.name}` was written {hurt[1]}"
            for b in outputs.values()
            if (hurt := b.damage(elements_too=False))
        ]
        damage += [
            f"input `{b.name}` was changed {hurt[1]}"
            for b in inputs.values()
            if (hurt := b.damage(elements_too=True))
        ]
        return Observation(words, tuple(damage), watch, poison)

    def _output(self, name: str, poison: int) -> Buffer:
        theirs = self.binding.dialect.outputs_of(self.binding.operation.name).get(name)
        if theirs is not None:
            length = (theirs.length(self._inputs),)
            return poisoned(name, length, theirs.dtype, (1,), self.device, poison)
        output = next(o for o in self.binding.operation.outputs if o.name == name)
        shape = output.shape(self.case)
        strides = output.strides(self.case) if output.strides else (1,)
        return poisoned(name, shape, output.dtype(self.case), strides, self.device, poison)

    def _returned(self, answer: Any) -> dict[str, Words]:
        names = self.binding.returned
        if not names or (answer is None and self.binding.outputs):
            return {}
        if isinstance(answer, dict):
            values: list[Any] = [answer.get(name) for name in names]
        else:
            values = [answer] if isinstance(answer, torch.Tensor) else list(answer or ())
        if len(values) != len(names) or not all(isinstance(value, torch.Tensor) for value in values):
            raise KernelRaised(f"returned {type(answer).__name__}, must be the tensors {', '.join(names)}")
        return {n: Buffer(n, value, value, None).words() for n, value in zip(names, values, strict=True)}
