"""A cached schedule whose key is the same for other lengths is found, whatever the key keeps of them."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from cumae.gpu_impl.metadata_cache import CachedSchedule, MetadataCache
from cumae.properties.cases.domain import Domain
from cumae.properties.search.direct import check

Lens = npt.NDArray[np.int32]
KEYS: dict[str, Callable[[Lens, Lens], Any]] = {
    "everything": lambda q, c: (q.tobytes(), c.tobytes()),
    "sorted": lambda q, c: (q.tobytes(), np.sort(c).tobytes()),
    "sum and ends": lambda q, c: (q.tobytes(), c[:1].tobytes(), c[-1:].tobytes(), int(c.sum()), int(c.max())),
    "squares": lambda q, c: (q.tobytes(), int(c.sum()), int((c**2).sum())),
    "exclusive or": lambda q, c: (q.tobytes(), int(c.sum()), int(np.bitwise_xor.reduce(c))),
    "checksum": lambda q, c: (q.tobytes(), zlib.adler32(c.tobytes())),
    "places": lambda q, c: (q.tobytes(), *(int((c * np.arange(len(c)) ** n).sum()) for n in range(3))),
    "bytes": lambda q, c: (q.tobytes(), (c % 256).tobytes()),
    "digits": lambda q, c: (q.tobytes(), "".join(map(str, c.tolist()))),
    "lengths after the step": lambda q, c: (len(q), (q + c).tobytes()),
    "cached tokens": lambda q, c: (int(q.sum()), c.tobytes()),
    "new tokens": lambda q, c: (q.tobytes(), int(c.sum())),
}


def cached_by(key_of: Callable[[Lens, Lens], Any]) -> type:
    class Cached:
        def __init__(
            self, max_num_tokens: int, topk: int, split_size: int, num_workers: int, device: torch.device
        ) -> None:
            self._cache = MetadataCache(max_num_tokens, topk, split_size, num_workers, device)
            self._topk = topk
            self._key: Any = None
            self._kept: CachedSchedule | None = None

        def __call__(
            self,
            context_lens_cpu: torch.Tensor | None,
            query_lens_cpu: torch.Tensor | None,
            token_to_request: torch.Tensor,
            cu_seqlens_q: torch.Tensor,
            context_lens: torch.Tensor,
        ) -> CachedSchedule:
            key = None
            if context_lens_cpu is not None and query_lens_cpu is not None:
                lens = query_lens_cpu.numpy().astype(np.int32)
                contexts = np.minimum(context_lens_cpu.numpy(), self._topk - 1).astype(np.int32)
                if lens.any():
                    key = (len(token_to_request), key_of(lens[lens > 0], contexts[lens > 0]))
            if key is not None and key == self._key and self._kept is not None:
                return self._kept._replace(rebuilt=0)
            self._key = key
            self._kept = self._cache(
                context_lens_cpu, query_lens_cpu, token_to_request, cu_seqlens_q, context_lens
            )
            return self._kept

    return Cached


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_other_lengths_have_too_is_found(name: str) -> None:
    domain = Domain(all_but=("replays_in_graph",))
    verdict = check(
        cached_by(KEYS[name]),
        "metadata_cache",
        domain=domain,
        checks=["forgets_history"],
        examples=100,
        save_to=None,
    )
    assert verdict.ok == (name == "everything"), verdict.failure
