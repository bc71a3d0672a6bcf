"""Two plots as inline SVG. Colours are CSS variables of the page, so that light and dark follow."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from prompts.bench.statistics import Share
from prompts.bench.summary import ArmSummary

COLOURS = 6  # --c0 to --c5 in the page's style
_WIDTH, _LEFT, _RIGHT = 760, 180, 20
_ROW, _GAP = 18, 14


def interval_plot(summaries: Sequence[ArmSummary]) -> str:
    """Share of right answers with its interval, for all rows and for each category."""
    groups = [("all", [(at, one.right) for at, one in enumerate(summaries)])]
    names = dict.fromkeys(name for one in summaries for name in one.categories)
    for name in names if len(names) > 1 else ():
        shares = [(at, one.categories[name]) for at, one in enumerate(summaries)
                  if name in one.categories]  # fmt: skip
        groups.append((name, shares))
    parts, y = [], 10
    for name, shares in groups:
        middle = y + len(shares) * _ROW / 2 + 4
        parts.append(f'<text class="label" x="{_LEFT - 12}" y="{middle:.0f}">{escape(name)}</text>')
        for at, one in shares:
            parts.append(_interval(summaries[at].arm.name, at, one, y + _ROW / 2))
            y += _ROW
        y += _GAP
    ticks = [_tick(_x(share), f"{share:.0%}", y) for share in (0, 0.25, 0.5, 0.75, 1)]
    return _svg(y + 20, [*ticks, *parts], "Share of right answers with 95 % intervals")


def _interval(arm: str, at: int, one: Share, y: float) -> str:
    colour = f"var(--c{at % COLOURS})"
    title = f"{arm}: {one.right} of {one.count}, {one.low:.1%} to {one.high:.1%}"
    return (
        f"<g><title>{escape(title)}</title>"
        f'<line x1="{_x(one.low):.1f}" x2="{_x(one.high):.1f}" y1="{y}" y2="{y}"'
        f' stroke="{colour}" stroke-width="3" stroke-linecap="round" opacity=".5"/>'
        f'<circle cx="{_x(one.value):.1f}" cy="{y}" r="5" fill="{colour}"/></g>'
    )


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def speed_plot(summaries: Sequence[ArmSummary]) -> str:
    """Median time of an answer against the share of right ones; empty if no times are known."""
    timed = [(at, one.wall_s, one.right) for at, one in enumerate(summaries) if one.wall_s]
    if not timed:
        return ""
    height, top = 300, 12
    most = max(wall for _, wall, _ in timed) * 1.15
    floor = height - 34

    def y_of(share: float) -> float:
        return floor - share * (floor - top)

    parts = [_tick(_x(part), f"{part * most:.2g} s", floor) for part in (0, 0.25, 0.5, 0.75, 1)]
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(
            f'<text class="label" x="{_LEFT - 12}" y="{y_of(share) + 4:.0f}">{share:.0%}</text>'
        )
    for at, wall, right in timed:
        colour, x = f"var(--c{at % COLOURS})", _x(wall / most)
        low, high = y_of(right.low), y_of(right.high)
        title = f"{summaries[at].arm.name}: {right.value:.1%} in {wall:.2f} s"
        parts.append(
            f"<g><title>{escape(title)}</title>"
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"'
            f' stroke="{colour}" stroke-width="3" opacity=".5"/>'
            f'<circle cx="{x:.1f}" cy="{y_of(right.value):.1f}" r="6" fill="{colour}"/></g>'
        )
    return _svg(height, parts, "Share of right answers against the median time of an answer")


def _tick(x: float, text: str, bottom: float) -> str:
    return (
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{bottom}"/>'
        f'<text class="tick" x="{x:.1f}" y="{bottom + 15}">{text}</text>'
    )


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
