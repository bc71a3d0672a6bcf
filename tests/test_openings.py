from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from server.openings import Found, OpeningFinder

PATTERNS = (rb'```json\n\{"name": "(?P<name>a|ab)"', rb'\{ ?"name": "(?P<name>a|ab)"')
MARKERS = (rb"<call>(?P<name>a|ab)",)

pieces = st.sampled_from(
    [b"a", b" ", b"\n", b"```json\n", b'{"name": "', b'"', b"ab", b"<call>", b"<", b"x", b"{ "]
)


def finder() -> OpeningFinder:
    return OpeningFinder(PATTERNS, anywhere=MARKERS)


def run(data: list[bytes]) -> tuple[bytes, bytes | None, bytes]:
    """Text given away or before, the opening, what follows or is held."""
    looking = finder()
    text = b""
    for position, piece in enumerate(data):
        found = looking.feed(piece)
        if isinstance(found, Found):
            opening = found.match[0].lstrip(b" \t")
            return text + found.before, opening, found.rest + b"".join(data[position + 1 :])
        text += found
    return text, None, looking.held


@settings(deadline=None)
@given(st.lists(pieces, max_size=14))
def test_pieces_make_no_difference(data: list[bytes]) -> None:
    whole = b"".join(data)
    by_byte = run([bytes([byte]) for byte in whole])
    assert run(data) == by_byte
    text, opening, rest = by_byte
    if opening is None:
        assert text + rest == whole
    else:
        assert opening in whole


@settings(deadline=None)
@given(st.lists(pieces, max_size=10), pieces)
def test_a_peek_tells_what_a_feed_will_find_and_changes_nothing(
    data: list[bytes], piece: bytes
) -> None:
    looking = finder()
    for each in data:
        if isinstance(looking.feed(each), Found):
            return
    held = looking.held
    tells = looking.peek(piece)
    assert looking.held == held
    assert isinstance(looking.feed(piece), Found) == tells


def test_openings_count_at_the_beginning_of_a_line_markers_anywhere() -> None:
    assert run([b'{"name": "a"'])[1] == b'{"name": "a"'
    assert run([b'so:\n  {"name": "a"'])[:2] == (b"so:\n", b'{"name": "a"')
    assert run([b'so: {"name": "a"'])[1] is None
    assert run([b"so: ", b'{"name": "a"'])[1] is None
    assert run([b"so: <call>a"])[:2] == (b"so: ", b"<call>a")


@settings(deadline=None)
@given(st.lists(st.sampled_from([b" ", b"\n", b"[", b"a", b"ab", b"x", b"[a"]), max_size=8))
def test_some_openings_count_where_the_text_begins(data: list[bytes]) -> None:
    looking = OpeningFinder((rb"<b>",), first=(rb"\[a", rb"ab"))
    whole, text = b"".join(data), b""
    for byte in whole:
        found = looking.feed(bytes([byte]))
        if isinstance(found, Found):
            assert not (text + found.before).strip()
            assert whole.strip().startswith(found.match[0].strip())
            return
        text += found
    assert text + looking.held == whole
    assert not whole.strip().startswith((b"[a", b"ab"))


def test_the_first_opening_counts() -> None:
    text, opening, rest = run([b'x\n```json\n{"name": "ab"} {"name": "a"'])
    assert (text, opening, rest) == (b"x\n", b'```json\n{"name": "ab"', b'} {"name": "a"')


def test_only_what_may_become_an_opening_is_held() -> None:
    looking = finder()
    assert looking.feed(b"text and ") == b"text and "
    assert looking.feed(b"more\n```js") == b"more\n"
    assert looking.held == b"```js"
    assert looking.feed(b"x") == b"```jsx"
    assert looking.held == b""


def test_without_patterns_everything_is_text() -> None:
    looking = OpeningFinder(())
    assert looking.feed(b'{"name": "a"') == b'{"name": "a"'
    assert not looking.peek(b"x")
