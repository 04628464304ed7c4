"""The documentation's pages, and their Python with what it prints."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)

BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n(?:It prints\n\n)?```text\n(?P<printed>.*?)```\n)?", re.DOTALL)


def examples(text: str) -> list[tuple[str, str | None]]:
    """The code of each Python block and the text block below it; None if there is none."""
    return [(found["code"], found["printed"]) for found in BLOCK.finditer(text)]


def with_includes(page: Path) -> str:
    """The text of a page, with the part of the README that it includes."""
    text = page.read_text("utf-8")
    for whole, start, end in re.findall(
        r"(```\{include\} \S*README\.md\n:start-after: (<.*?>)\n:end-before: (<.*?>)\n```)", text
    ):
        text = text.replace(whole, README.partition(start)[2].partition(end)[0])
    return text
