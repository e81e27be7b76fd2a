"""A picture of a report: the rates as bars, a panel for each kind of shape."""

from __future__ import annotations

from html import escape

from .report import Line, Report

_COLORS = ("#76b900", "#4c78a8", "#b279a2", "#f58518", "#9d755d")
_WIDTH, _HEIGHT, _GAP, _LEFT = 360, 200, 50, 50


def svg(report: Report, mode: str) -> str:
    """The lines of one mode as SVG: rates from 0 up, two panels side by side."""
    panels: dict[str, list[tuple[str, Line]]] = {}
    for line in report.lines:
        if line.mode == mode:
            title, label = line.workload.panel()
            panels.setdefault(title, []).append((label, line))
    names = list(dict.fromkeys(t.name for line in report.lines for t in line.timings))
    colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(names)}
    top = max((rate for lines in panels.values() for _, line in lines for rate in line.rates().values()), default=1.0)
    step = 100 if top > 250 else 20 if top > 50 else 1
    top = step * -(-top // step)
    width, height = 2 * (_WIDTH + _LEFT) + 20, 60 + -(-len(panels) // 2) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" font-family="sans-serif" '
        'font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for i, name in enumerate(names):
        x = _LEFT + 110 * i
        parts.append(f'<rect x="{x}" y="12" width="10" height="10" fill="{colors[name]}"/>')
        parts.append(f'<text x="{x + 15}" y="21">{escape(name)}</text>')
    unit = " or ".join(dict.fromkeys(line.unit for lines in panels.values() for _, line in lines))
    parts.append(f'<text x="{width - 10}" y="21" text-anchor="end">{unit}</text>')
    for i, (title, lines) in enumerate(panels.items()):
        x, y = _LEFT + (i % 2) * (_WIDTH + _LEFT), 60 + (i // 2) * (_HEIGHT + _GAP)
        parts += _panel(title, lines, colors, (x, y), top, step)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    title: str,
    lines: list[tuple[str, Line]],
    colors: dict[str, str],
    corner: tuple[int, int],
    top: float,
    step: float,
) -> list[str]:
    x, y = corner
    bottom = y + _HEIGHT
    parts = [f'<text x="{x}" y="{y - 8}" font-weight="bold">{escape(title)}</text>']
    marks = round(top / step)
    for i in range(0, marks + 1, max(1, marks // 8)):
        at = bottom - _HEIGHT * i / marks
        parts.append(f'<line x1="{x}" x2="{x + _WIDTH - 10}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 5}" y="{at + 4:.1f}" text-anchor="end">{step * i:.0f}</text>')
    group = (_WIDTH - 10) / len(lines)
    for i, (label, line) in enumerate(lines):
        left = x + group * i
        bar = 0.8 * group / len(colors)
        for j, (name, color) in enumerate(colors.items()):
            rate = line.rates().get(name)
            if rate is not None:
                tall = _HEIGHT * rate / top
                parts.append(
                    f'<rect x="{left + 0.1 * group + bar * j:.1f}" y="{bottom - tall:.1f}" width="{bar:.1f}" '
                    f'height="{tall:.1f}" fill="{color}"><title>{escape(name)} {rate:.1f}</title></rect>'
                )
        middle = left + group / 2
        parts.append(f'<text x="{middle:.1f}" y="{bottom + 14}" text-anchor="middle">{escape(label)}</text>')
    return parts
