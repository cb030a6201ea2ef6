"""A finding in words and its picture as one self-contained HTML page."""

from html import escape

_STYLE = (
    ":root{color-scheme:light dark} body{max-width:880px;margin:2em auto;padding:0 1em}"
    " body{font-family:sans-serif}"
    " h1{font-size:1.4em;overflow-wrap:anywhere} svg{max-width:100%;height:auto}"
    " pre{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere}"
)


def page(title: str, report: str, picture: str) -> str:
    """Return the page: title, report as text, and the SVG below; the SVG repeats nothing of the report.

    >>> "a &lt; b" in page("a < b", "report", "<svg/>")
    True
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n<pre>{escape(report)}</pre>\n{picture}</body></html>\n"
    )
