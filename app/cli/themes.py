"""`specchat themes`: every theme with its colours, or one theme examined."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...errors import UserError, did_you_mean
from ...plain_file import user_path
from ..chat.runs import SHADES
from ..settings.locations import themes_folder
from ..terminal.ansi import Depth, colour_depth
from ..text.cells import fit, one_line, width
from ..theming.colours import SIGHTS, contrast, distance, seen
from ..theming.themes import APART, LENGTHS, SHIPPED, STEPS, Palette, load_themes, read_theme


def print_themes() -> None:
    """All themes, those of the user last; what is wrong with a file goes to standard error."""
    folder = themes_folder()
    themes, wrong = load_themes(folder)
    depth = _depth()
    column = min(24, max(width(one_line(name)) for name in themes))
    for name, palette in themes.items():
        title = fit(one_line(name), column)
        own = "  (your own)" if (folder / f"{name}.toml").is_file() else ""
        print(f"{title}{' ' * (column - width(title))}  {_painted(palette.sample(), depth)}  {palette.summary}{own}")
    print(f"\nUse one with `specchat --theme NAME`, or preview them with F3 in the chat. Put your own in {folder}.")
    for sentence in wrong:
        print(f"specchat: {one_line(sentence)}", file=sys.stderr)


def print_theme(which: str) -> bool:
    """Print the contrasts of a theme, named or in a file, and how far apart its runs look to every kind of sight.

    Returns whether there is nothing to fix.

    Raises:
        UserError: there is no such theme, or it cannot be used.
    """
    palette = read_theme(_path(which))
    depth = _depth()
    print(f"{one_line(palette.name)}  {_painted(palette.sample(), depth)}  {palette.summary}\n")
    print("\n".join(_figures(palette, depth)))
    doubts = palette.doubts()
    print()
    for doubt in doubts:
        print(f"{doubt[0].upper()}{doubt[1:]}.")
    if not doubts:
        print("All text is readable, and all passes can be told apart.")
    alike = [sight for sight in SIGHTS if _closest(palette, sight) < APART]
    if alike:
        print(f"With {' and '.join(alike)} some neighbouring passes look alike.")
    return not doubts


def _figures(palette: Palette, depth: Depth) -> Iterator[str]:
    yield f"{'contrast on':16}{'the page':>10}{'its own':>10}"
    page = palette.colours["background"]
    rows = [(f"run {i + 1}", palette.run(i), palette.behind(i)) for i in range(SHADES)]
    rows += [(f"{LENGTHS[step]} tokens", *palette.tone(step)) for step in STEPS]
    for what, colour, behind in rows:
        figures = f"{contrast(colour, page):10.1f}{contrast(colour, behind):10.1f}"
        yield f"{what:16}{figures}  {_painted([(' Abc ', f'{colour} on {behind}')], depth)}"
    names = ("foreground", "primary", "secondary", "accent", "success", "warning", "error")
    texts = [*((name, palette.colours[name]) for name in names), ("quiet text", palette.quiet), ("faint text", palette.faint)]
    for what, colour in texts:
        yield f"{what:16}{contrast(colour, page):10.1f}{'':12}{_painted([(' Abc ', f'{colour} on {page}')], depth)}"
    yield f"\nclosest neighbouring passes ({APART:g} or more can be told apart)"
    for sight in ("", *SIGHTS):
        yield f"{sight or 'usual sight':16}{_closest(palette, sight):10.0f}"


def _closest(palette: Palette, sight: str) -> float:
    """Distance of the most alike neighbours among the runs, for one of SIGHTS or (empty) usual sight."""
    runs = [seen(palette.run(i), sight) if sight else palette.run(i) for i in range(SHADES)]
    return min(distance(one, runs[i - 1]) for i, one in enumerate(runs))


def _path(which: str) -> Path:
    """The file of a theme by its name, or the file itself."""
    if Path(which).suffix == ".toml":
        return user_path(which)
    for folder in (themes_folder(), SHIPPED):
        if Path(which).name == which and (path := folder / f"{which}.toml").is_file():
            return path
    names = [path.stem for folder in (SHIPPED, themes_folder()) for path in sorted(folder.glob("*.toml"))]
    hint = did_you_mean(which, names, f"choose from {', '.join(names)}, or give a file that ends in .toml.")
    raise UserError(f"There is no theme {which}: {hint}")


def _depth() -> Depth:
    return colour_depth("auto", sys.stdout is not None and sys.stdout.isatty())


def _painted(parts: Iterable[tuple[str, str]], depth: Depth) -> str:
    """Text in colours written as `#rrggbb on #rrggbb`; the text alone where the terminal has too few of them."""
    if depth < 256:
        return "".join(text for text, _ in parts)
    from rich.color import ColorSystem
    from rich.style import Style

    system = ColorSystem.EIGHT_BIT if depth == 256 else ColorSystem.TRUECOLOR
    return "".join(Style.parse(style).render(text, color_system=system) for text, style in parts)
