"""The blocks of an engine's cache, each free or held by one or more requests."""

from collections.abc import Iterable


class Pool:
    """``num_blocks`` blocks from id ``first`` on, in scattered order; a freed block is taken next."""

    def __init__(self, first: int, num_blocks: int) -> None:
        step = next(s for s in (7, 5, 3, 11, 13, 1) if num_blocks % s or s == 1)
        self.num_blocks = first + num_blocks
        self._free = [first + (3 + i * step) % num_blocks for i in range(num_blocks)]
        self._holders: dict[int, int] = {}

    def take(self) -> int:
        """Return a free block, held by one request from now on."""
        block_id = self._free.pop()
        self._holders[block_id] = 1
        return block_id

    def share(self, block_ids: Iterable[int]) -> None:
        """Add one holder to each block."""
        for block_id in block_ids:
            self._holders[block_id] += 1

    def release(self, block_ids: Iterable[int]) -> None:
        """Remove one holder from each block, and free blocks without holders."""
        for block_id in block_ids:
            self._holders[block_id] -= 1
            if self._holders[block_id] == 0:
                del self._holders[block_id]
                self._free.append(block_id)
