"""Marks in words: `code`, **strong** and *emphasis*, for a page, for LaTeX, and without the marks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

_MARKED = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|(?<![\w*])\*(?P<em>[^\s*][^*]*)\*(?![\w*])")

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "η": "eta", "θ": "theta", "κ": "kappa",
    "λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "varphi", "χ": "chi", "ψ": "psi",
    "ω": "omega", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
# What TeX takes for a command, and what its usual fonts show as something else or not at all.
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${sign}$" for sign in "<>|"},
    "±": r"$\pm$", "×": r"$\times$", "√": r"$\surd$", "·": r"$\cdot$", "−": "$-$", "–": "--", "…": r"\ldots{}",
    **{sign: f"$^{{{digit}}}$" for sign, digit in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True)},
    **{sign: f"$_{{{digit}}}$" for sign, digit in zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)},
    **{letter: rf"$\{name}$" for letter, name in _GREEK.items()}, "‖": r"$\|$", "∇": r"$\nabla$",
    "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\to$", "✓": "yes", "✗": "no", "\u00a0": "~", "\u202f": r"\,",
}  # fmt: skip
_LATEX_MARKS = {"code": "texttt", "strong": "textbf", "em": "emph"}


def plain(text: str) -> str:
    """Without the marks.

    >>> plain("under `strict`, *p* is 2 * 3 * 4")
    'under strict, p is 2 * 3 * 4'
    """
    return "".join(piece for _, piece in _pieces(text))


def as_html(text: str) -> str:
    """Escaped, the marks as elements.

    >>> as_html("`a<b` and **this**")
    '<code>a&lt;b</code> and <strong>this</strong>'
    """
    return "".join(
        f"<{mark}>{html.escape(piece)}</{mark}>" if mark else html.escape(piece) for mark, piece in _pieces(text)
    )


def as_latex(text: str) -> str:
    r"""Escaped, the marks as commands.

    >>> print(as_latex("5 % of `a_b` < {x}"))
    5 \% of \texttt{a\_b} $<$ \{x\}
    """
    return "".join(
        f"\\{_LATEX_MARKS[mark]}{{{_escaped(piece)}}}" if mark else _escaped(piece) for mark, piece in _pieces(text)
    )


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """The mark, which may be none, and what stands in it."""
    end = 0
    for found in _MARKED.finditer(text):
        if found.start() > end:
            yield "", text[end : found.start()]
        yield str(found.lastgroup), found[str(found.lastgroup)]
        end = found.end()
    if end < len(text):
        yield "", text[end:]
