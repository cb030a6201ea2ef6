"""How the host learns how far a GPU has come, and what it does where the GPU cannot tell."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from cumae.properties.running.progress import _word


@pytest.mark.parametrize("answer", [0, 801])
def test_a_page_that_the_device_cannot_write_is_given_back(
    answer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU; 801 says that the device does not support such writes."""
    asked: list[str] = []

    def answering(name: str, answer: int) -> Callable[..., int]:
        def answers(*given: int) -> int:
            asked.append(name)
            return answer

        return answers

    runtime = SimpleNamespace(
        cudaHostRegister=answering("register", 0), cudaHostUnregister=answering("unregister", 0)
    )
    driver = SimpleNamespace(cuStreamWriteValue32_v2=answering("write", answer))
    monkeypatch.setattr("ctypes.CDLL", lambda name: driver)
    monkeypatch.setattr("torch.cuda.cudart", lambda: runtime)
    monkeypatch.setattr("torch.cuda.current_stream", lambda: SimpleNamespace(cuda_stream=7))
    word = _word.__wrapped__()
    assert (word is None) == (answer != 0)
    assert asked == ["register", "write"] + ["unregister"] * (answer != 0)


def test_without_a_driver_calls_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert _word.__wrapped__() is None
