"""How an arm looks in tables and plots: a colour for each template, hollow without constraint.

Colours are CSS variables of the page, so that light and dark follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from prompts.bench.results import Arm

COLOURS = 8  # --c0 to --c7 in the page's style


@dataclass(frozen=True)
class Look:
    """`title` names the arm, `label` what it is within its model."""

    title: str
    label: str
    colour: str
    hollow: bool

    @property
    def dot(self) -> str:
        kind = "dot hollow" if self.hollow else "dot"
        return f'<i class="{kind}" style="--c: {self.colour}"></i>'

    def circle(self, x: float, y: float, radius: int) -> str:
        fill = "var(--bg)" if self.hollow else self.colour
        return (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}"'
            f' stroke="{self.colour}" stroke-width="2"/>'
        )


def looks(arms: Sequence[Arm]) -> Mapping[Arm, Look]:
    """The look of each arm."""
    kinds = list(dict.fromkeys((arm.template, arm.variant) for arm in arms))
    return {
        arm: Look(
            title=escape(arm.name),
            label=escape(arm.name.removeprefix(f"{arm.model} / ")),
            colour=f"var(--c{kinds.index((arm.template, arm.variant)) % COLOURS})",
            hollow=not arm.constrained,
        )
        for arm in arms
    }
