"""Bars with intervals as SVG, and nothing else: a page's figures need no library. Called by the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

_LABEL, _BAR, _VALUE = 170, 420, 90  # widths in pixels
_ROW, _GAP, _TOP = 18, 12, 44
_COLOURS: Final = ("#2f6f9f", "#c8792b", "#5b8c5a", "#8a5a83")


class Bar(msgspec.Struct, frozen=True):
    """One bar: its value, and between what it lies (equal: no interval is drawn)."""

    series: str
    value: float
    lowest: float
    highest: float
    shown: str


class Group(msgspec.Struct, frozen=True):
    """Bars of one label."""

    label: str
    bars: tuple[Bar, ...]


def draw(title: str, groups: Sequence[Group], ceiling: float) -> str:
    """Return an SVG of horizontal bars; `ceiling` is the value of a full one."""
    series = list(dict.fromkeys(bar.series for group in groups for bar in group.bars))
    height = _TOP + sum(len(group.bars) * _ROW + _GAP for group in groups) + _GAP
    width = _LABEL + _BAR + _VALUE
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    said = f'role="img" aria-label="{escape(title, quote=True)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" {said}>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="14" font-weight="bold" fill="#222222">{escape(title)}</text>',
        *_legend(series),
    ]
    y = _TOP
    for group in groups:
        middle = y + len(group.bars) * _ROW / 2 + 4
        parts.append(_text(_LABEL - 8, middle, group.label, "end"))
        for bar in group.bars:
            parts += _bar(bar, y, ceiling, _COLOURS[series.index(bar.series) % len(_COLOURS)])
            y += _ROW
        y += _GAP
    parts.append(f'<line x1="{_LABEL}" y1="{_TOP - 4}" x2="{_LABEL}" y2="{y - _GAP + 4}" stroke="#222222"/>')
    return "\n".join([*parts, "</svg>", ""])


def _bar(bar: Bar, y: float, ceiling: float, colour: str) -> list[str]:
    length = _length(bar.value, ceiling)
    middle = y + _ROW / 2
    parts = [f'<rect x="{_LABEL}" y="{y + 2}" width="{length:.1f}" height="{_ROW - 4}" fill="{colour}"/>']
    end = length
    if bar.highest > bar.lowest:
        low, end = _length(bar.lowest, ceiling), max(length, _length(bar.highest, ceiling))
        parts.append(
            f'<line x1="{_LABEL + low:.1f}" y1="{middle}" x2="{_LABEL + end:.1f}" y2="{middle}" '
            f'stroke="#222222" stroke-width="1.5"/>'
        )
    return [*parts, _text(_LABEL + end + 6, middle + 4, bar.shown, "start")]


def _length(value: float, ceiling: float) -> float:
    return _BAR * max(0.0, min(1.0, value / ceiling)) if ceiling > 0 else 0.0


def _legend(series: Sequence[str]) -> list[str]:
    if len(series) < 2:
        return []
    parts: list[str] = []
    for place, name in enumerate(series):
        x = _LABEL + place * 130
        parts.append(f'<rect x="{x}" y="26" width="10" height="10" fill="{_COLOURS[place % len(_COLOURS)]}"/>')
        parts.append(_text(x + 14, 35, name, "start"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222222">{escape(text)}</text>'
