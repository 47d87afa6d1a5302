"""A page read back as a tree, as strictly as HTML allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(self._raw_text().split())

    def _raw_text(self) -> str:
        return "".join(child if isinstance(child, str) else child._raw_text() for child in self.children)

    def find(self, *tags: str) -> list[Element]:
        """All elements below with one of these tags, in the order of the page."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                found += [child] if child.tag in tags else []
                found += child.find(*tags)
        return found

    def all(self) -> list[Element]:
        inside = [child for child in self.children if isinstance(child, Element)]
        return inside + [element for child in inside for element in child.all()]


class Tree(HTMLParser):
    """Refuses tags that are not closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        assert len(element.attributes) == len(attrs), f"an attribute of <{tag}> is given twice"
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attrs):
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop().tag == tag

    def handle_data(self, data):
        self._open[-1].children.append(data)


def rows_under(page: Element, caption: str) -> list[list[str]]:
    """The body of the table whose caption contains this."""
    (table,) = [table for table in page.find("table") if caption in table.find("caption")[0].text]
    return [[entry.text for entry in row.find("th", "td")] for body in table.find("tbody") for row in body.find("tr")]
