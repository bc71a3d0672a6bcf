"""Two plots of one model's arms, as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from prompts.bench.looks import Look
from prompts.bench.results import Arm
from prompts.bench.statistics import Share
from prompts.bench.summary import ArmSummary

_WIDTH, _LEFT, _RIGHT = 460, 44, 92
_ROW, _HEAD = 17, 26  # heights of an arm's line and of a group's name
_SHARES = (0, 0.25, 0.5, 0.75, 1)


def interval_plot(summaries: Sequence[ArmSummary], look: Mapping[Arm, Look]) -> str:
    """Share of right answers with its interval, for all rows and for each category."""
    groups = [("all", [(one.arm, one.right) for one in summaries])]
    names = dict.fromkeys(name for one in summaries for name in one.categories)
    for name in names if len(names) > 1 else ():
        shares = [(s.arm, s.categories[name]) for s in summaries if name in s.categories]
        groups.append((name, shares))
    parts, y = [], 0
    for name, shares in groups:
        parts.append(_text("name", 0, y + 17, escape(name)))
        y += _HEAD
        for arm, one in shares:
            parts.append(_interval(look[arm], one, y + _ROW / 2))
            y += _ROW
    ticks = [_tick(_x(share), f"{share:.0%}", y + 4) for share in _SHARES]
    return _svg(y + 24, [*ticks, *parts], "Share of right answers with 95 % intervals")


def _interval(look: Look, one: Share, y: float) -> str:
    title = f"{look.title}: {one.right} of {one.count}, {one.low:.1%} to {one.high:.1%}"
    return (
        f"<g><title>{title}</title>{_line(_x(one.low), y, _x(one.high), y, look.colour)}"
        f"{look.circle(_x(one.value), y, 5)}"
        f"{_text('count', _WIDTH - _RIGHT + 14, y + 4, f'{one.right} of {one.count}')}</g>"
    )


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def speed_plot(summaries: Sequence[ArmSummary], look: Mapping[Arm, Look]) -> str:
    """Median time of an answer against the share of right ones; empty if no times are known."""
    timed = [(one.arm, one.wall_s, one.right) for one in summaries if one.wall_s]
    if not timed:
        return ""
    height, top = 300, 12
    most = max(wall for _, wall, _ in timed) * 1.15
    floor = height - 34

    def y_of(share: float) -> float:
        return floor - share * (floor - top)

    parts = [_tick(_x(part), f"{part * most:.2g} s", floor) for part in _SHARES]
    for share in _SHARES:
        parts.append(_text("label", _LEFT - 8, y_of(share) + 4, f"{share:.0%}"))
    for arm, wall, right in timed:
        x, one = _x(wall / most), look[arm]
        parts.append(
            f"<g><title>{one.title}: {right.value:.1%} in {wall:.2f} s</title>"
            f"{_line(x, y_of(right.low), x, y_of(right.high), one.colour)}"
            f"{one.circle(x, y_of(right.value), 6)}</g>"
        )
    return _svg(height, parts, "Share of right answers against the median time of an answer")


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return (
        f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"'
        f' stroke="{colour}" stroke-width="3" stroke-linecap="round" opacity=".5"/>'
    )


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{text}</text>'


def _tick(x: float, text: str, bottom: float) -> str:
    return (
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{bottom}"/>'
        f"{_text('tick', x, bottom + 15, text)}"
    )


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
