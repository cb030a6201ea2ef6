"""The steps put together from aspects: each model is tried before they end."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

from cumae.oracle import Case
from cumae.properties.operations.binding import binding_of
from cumae.properties.operations.targets import load_function
from cumae.properties.search.tour_of_steps import put_together
from cumae.properties.search.visitor import Visitor
from cumae.properties.steps.ladder import Ladder
from cumae.properties.steps.models import MORE_MODELS, served


class Refusing:
    """A visitor for whose work each step is too much."""

    is_timed = False
    examiner = SimpleNamespace(verdict=SimpleNamespace(shows=("prefill",)))

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def admits(self, requests: int, tokens: int, keys: int) -> bool:
        """Refuse each step."""
        return False

    def first(self, kind: str, _: Callable[[int], Case | None], sizes: Iterable[int], share: float) -> int:
        """Note the kind."""
        self.kinds.append(kind)
        return 0

    @contextmanager
    def own_work(self, share: float) -> Iterator[None]:
        """Give no work."""
        yield


def test_steps_end_only_after_one_of_each_model_was_too_much() -> None:
    binding = binding_of(load_function("cumae.gpu_impl:write_pages"), "page_write")
    ladder = Ladder(binding.domain, binding.features)
    visitor = Refusing()
    put_together(cast(Visitor, visitor), ladder)
    models = [name for name, _ in served(ladder, MORE_MODELS)]
    assert len(models) > 8
    assert [kind.partition(", ")[2] for kind in visitor.kinds] == models
