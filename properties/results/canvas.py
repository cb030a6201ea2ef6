"""The canvas of an SVG: rectangles, lines and words in the colours of a light and a dark page."""

from dataclasses import dataclass, field
from html import escape

WIDTH, LEFT, RIGHT = 860, 190, 24
_LIGHT = {
    "ground": "#ffffff",
    "text": "#1f2328",
    "soft": "#59636e",
    "cached": "#c3cad2",
    "new": "#3b82d0",
    "wrong": "#cf222e",
    "line": "#1f2328",
    "right": "#1a7f37",
}
_DARK = {
    "ground": "#0d1117",
    "text": "#e6edf3",
    "soft": "#9198a1",
    "cached": "#4b535d",
    "new": "#4c94e8",
    "wrong": "#ff6a61",
    "line": "#e6edf3",
    "right": "#3fb950",
}


@dataclass(slots=True)
class Picture:
    """A picture: elements drawn so far, the ``y`` of the next one, and pixels per token (``cell``).

    ``label``: what it shows, in words for those who cannot see it.
    """

    cell: float
    y: float = 12.0
    parts: list[str] = field(default_factory=list)
    label: str = "requests of one step as rows of tokens"

    def x(self, position: float) -> float:
        """Return the pixel of a position."""
        return LEFT + position * self.cell

    def text(self, x: float, y: float, words: str, kind: str = "text", anchor: str = "start") -> None:
        """Write words that start, or with ``anchor`` end, at a place."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def bar(self, x: float, y: float, width: float, height: float, kind: str, title: str = "") -> None:
        """Fill a rectangle; ``title``: words that a pointer on it shows."""
        rect = f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.0):.1f}" height="{height}" class="{kind}"'
        self.parts.append(f"{rect}><title>{escape(title)}</title></rect>" if title else f"{rect}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Draw a line."""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def cross(self, x: float, y: float, width: float, height: float) -> None:
        """Draw a cross in the middle of a rectangle."""
        arm = min(width, height) * 0.25
        x, y = x + width / 2, y + height / 2
        self.line(x - arm, y - arm, x + arm, y + arm, "cross")
        self.line(x - arm, y + arm, x + arm, y - arm, "cross")

    @property
    def height(self) -> int:
        """The height so far, in pixels."""
        return round(self.y + 10)

    def element(self, top: int = 0) -> str:
        """Return the picture as an SVG element, at ``top`` inside another one."""
        height, place = self.height, f'y="{top}" ' if top else ""
        head = (
            f'<svg {place}xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img" aria-label="{escape(self.label)}">'
        )
        ground = f'<rect width="{WIDTH}" height="{height}" class="ground"/>'
        return "\n".join([head, _style(), ground, *self.parts, "</svg>"]) + "\n"


def _style() -> str:
    """Return the style element: fonts, and the colours of both pages."""

    def rules(colours: dict[str, str]) -> str:
        fills = " ".join(f".{name}{{fill:{colour}}}" for name, colour in colours.items())
        strokes = (("line", "line"), ("line.cross", "ground"), (".outline", "soft"))
        return fills + "".join(f" {what}{{stroke:{colours[of]}}}" for what, of in strokes)

    fonts = "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace} .small{font-size:10px}"
    strokes = ".outline{fill:none} line.edge{stroke-width:1.5} line.cross{stroke-width:2}"
    strokes += " .outline{pointer-events:all} line{pointer-events:none}"  # the cells have titles
    dark = f"@media (prefers-color-scheme:dark){{{rules(_DARK)}}}"
    return f"<style>{fonts} {strokes} {rules(_LIGHT)} {dark}</style>"
