"""Pages of which a script writes a block, between two comments."""


def filled(page: str, block: str, content: str) -> str:
    """Return the page with new content in a block; raises ``ValueError`` if the page has no such block.

    >>> filled("a <!-- f: made by x --> old <!-- end of f --> b", "f", "new")
    'a <!-- f: made by x -->\\nnew\\n<!-- end of f --> b'
    """
    head, begin, rest = page.partition(f"<!-- {block}: ")
    maker, opened, old = rest.partition(" -->")
    _, end, tail = old.partition(f"<!-- end of {block} -->")
    if not (begin and opened and end):
        raise ValueError(
            f"page, must have a block {block!r}: <!-- {block}: made by … -->, <!-- end of {block} -->"
        )
    return f"{head}{begin}{maker}{opened}\n{content}\n{end}{tail}"
