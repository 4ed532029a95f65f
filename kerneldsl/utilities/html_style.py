"""The style of cards, light and dark.

A card sets its own background and text colors, so that it is readable on any page. It follows the
reader's system (``prefers-color-scheme``), unless the page has a theme. JupyterLab, VS Code,
nbconvert and documentation themes name it by an attribute or a class.
"""

from __future__ import annotations

__all__ = ["JOIN_COUNT", "STYLE"]

_LIGHT = (
    "color-scheme:light;--paper:#fff;--ink:#1f2328;--faint:#656d76;--line:#d8dee4;--shade:#f6f8fa;"
    "--word:#8250df;--text:#0a6c3d;--number:#0550ae;--note:#9a6700;--join:42%"
)
_DARK = (
    "color-scheme:dark;--paper:#161b22;--ink:#e6edf3;--faint:#8d96a0;--line:#30363d;--shade:#0d1117;"
    "--word:#d2a8ff;--text:#7ee787;--number:#79c0ff;--note:#e3b341;--join:62%"
)
#: What a page says of itself, for light and for dark.
_PAGES = {
    _LIGHT: ("[data-jp-theme-light=true]", "[data-theme=light]", ".vscode-light"),
    _DARK: ("[data-jp-theme-light=false]", "[data-theme=dark]", ".vscode-dark"),
}
#: Hues by which lines of code are joined to lines of the source.
_HUES = (210, 30, 130, 280, 0, 175, 55, 330)

JOIN_COUNT = len(_HUES)


def _style() -> str:
    rules = [
        f".kerneldsl{{{_LIGHT}}}",
        f"@media(prefers-color-scheme:dark){{.kerneldsl{{{_DARK}}}}}",
    ]
    for colors, pages in _PAGES.items():
        rules.append(",".join(f"{page} .kerneldsl" for page in pages) + f"{{{colors}}}")
    rules.append(
        ".kerneldsl{background:var(--paper);color:var(--ink);border:1px solid var(--line);"
        "border-radius:6px;padding:8px 12px;margin:4px 0;max-width:100%;overflow-x:auto;"
        "font:13px/1.5 system-ui,sans-serif}"
        ".kerneldsl .title{margin:0 0 6px}"
        ".kerneldsl strong{font-weight:600}"
        ".kerneldsl p,.kerneldsl ul{margin:4px 0}"
        ".kerneldsl table{border-collapse:collapse;margin:4px 0;color:inherit;font-size:inherit}"
        ".kerneldsl th,.kerneldsl td{text-align:left;vertical-align:top;padding:1px 14px 1px 0;"
        "background:none;border:0;color:inherit}"
        ".kerneldsl th{color:var(--faint);font-weight:500}"
        ".kerneldsl summary{cursor:pointer;color:var(--faint);margin:4px 0}"
        ".kerneldsl pre{font:12px/1.45 ui-monospace,monospace;background:var(--shade);"
        "color:inherit;border-radius:4px;padding:6px 0;margin:4px 0;max-height:32em;overflow:auto}"
        ".kerneldsl .row,.kerneldsl .remark{display:inline-block;box-sizing:border-box;"
        "min-width:100%;vertical-align:top;padding:0 8px;border-left:4px solid transparent;"
        "white-space:pre}"
        ".kerneldsl .at{color:var(--faint);user-select:none}"
        ".kerneldsl .word{color:var(--word)}.kerneldsl .text{color:var(--text)}"
        ".kerneldsl .number{color:var(--number)}.kerneldsl .comment{color:var(--faint)}"
        ".kerneldsl .remark{width:100%;color:var(--faint);padding-left:calc(8px + 6ch);"
        "text-indent:-6ch;white-space:pre-wrap}"
        ".kerneldsl .panes{display:grid;gap:0 16px}"
        ".kerneldsl .panes>*{min-width:0}"
        ".kerneldsl .panes:has(details[open]){"
        "grid-template-columns:repeat(auto-fit,minmax(min(100%,40em),1fr))}"
        ".kerneldsl .finding{color:var(--note)}"
    )
    rules += [
        f".kerneldsl .join{n}{{border-left-color:hsl({hue} 60% var(--join))}}"
        for n, hue in enumerate(_HUES)
    ]
    return "".join(rules)


STYLE = _style()
