"""How many of what, in words: 1 polyp, 2 polyps."""


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A number and the word for what it counts; `things` where the plural is not `thing` with an s.

    >>> counted(1, "polyp"), counted(1200, "polyp"), counted(2, "query", "queries")
    ('1 polyp', '1,200 polyps', '2 queries')
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"
