"""Pages of the documentation: their Python prints what they say, links lead somewhere, drawings are current."""

import re
import runpy

import pytest
from pages import PAGES, README, ROOT, examples, with_includes

WITH_CODE = [
    pytest.param(page, marks=[] if page.stem == "masks" else [pytest.mark.slow], id=page.stem)
    for page in PAGES
    if page.parent.name != "tutorials" and examples(with_includes(page))
]
LINKED = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "results/README.md"]


@pytest.mark.parametrize("page", WITH_CODE)
def test_python_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for code, printed in examples(with_includes(page)):
        exec(compile(code, str(page), "exec"), names)
        if printed is not None:
            numbers = r"\d+(?= %)"  # those of one machine
            assert re.sub(numbers, "N", capsys.readouterr().out) == re.sub(numbers, "N", printed)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
    targets += re.findall(r"^(?:```\{(?:image|include)\} |:file: )(\S+)$", page.read_text("utf-8"), re.MULTILINE)
    local = [target for target in targets if "://" not in target]
    assert not [target for target in local if not (page.parent / target).exists()]


def test_every_page_is_in_the_table_of_contents():
    contents = (ROOT / "docs/index.md").read_text("utf-8")
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in PAGES}
    outside = {page for page in pages if not re.search(rf"^{page}$", contents, re.MULTILINE)}
    assert not {page for page in outside if page != "index" and not page.startswith("tutorials/")}


def test_drawings_are_what_their_script_makes():
    made = runpy.run_path(str(ROOT / "docs/drawings/draw.py"))["drawings"]()
    assert made == {path.name: path.read_text("utf-8") for path in (ROOT / "docs/drawings").glob("*.svg")}


def test_the_batch_that_is_drawn_is_the_one_of_the_page():
    batch = runpy.run_path(str(ROOT / "docs/drawings/draw.py"))
    drawn = [entry for block in batch["BLOCKS"] for entry in (*block, -1)]
    assert str([[drawn]]) in (ROOT / "docs/explain/batch_layout.md").read_text("utf-8")


def test_the_citation_has_the_version():
    version = runpy.run_path(str(ROOT / "jattn/_version.py"))["__version__"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert README.count("CITATION.cff") == 2
