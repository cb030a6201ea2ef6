"""A launch that may begin before the kernel before it has ended: what it touches before it waits for that."""

from dataclasses import dataclass, field

from cumae.properties.interpreter.source_lines import source_line


@dataclass(slots=True)
class Early:
    """``begins``: whether the launch begins early. ``hasty``: by kind of access, the first line of the kernel
    that touches memory before its program has waited.
    """

    begins: bool = False
    hasty: dict[str, str] = field(default_factory=dict)
    _waited: set[int] = field(default_factory=set)

    def launch(self) -> None:
        """Begin a launch: none of its programs has waited."""
        self._waited.clear()

    def wait(self, program: int) -> None:
        """Let a program wait for the end of the kernel before its launch."""
        self._waited.add(program)

    def access(self, kind: str, program: int) -> None:
        """Record an access, if its program has not waited and must."""
        if self.begins and kind not in self.hasty and program not in self._waited:
            self.hasty[kind] = source_line()
