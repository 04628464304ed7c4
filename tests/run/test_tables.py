"""A table says the same in every format."""

import csv

from experiments.run.paper_scores import PaperScore
from experiments.run.results import MeanStd, Results, SubsetScores
from experiments.run.tables import as_html, as_markdown, as_text, score_rows, title, write_csv

ROWS = [["%", "Orig", "jobs"], ["weak <1>", "98.0 *", "2 done"], ["global", "7.5", ""]]


def test_columns_of_text_are_as_wide_as_their_widest_cell():
    assert as_text(ROWS, left=(0, 2)).split("\n") == [
        "%           Orig  jobs",
        "weak <1>  98.0 *  2 done",
        "global       7.5",
    ]


def test_markdown_has_a_rule_below_its_headings():
    assert as_markdown(ROWS).split("\n")[:3] == [
        "| % | Orig | jobs |",
        "| --- | ---: | ---: |",
        "| weak <1> | 98.0 * | 2 done |",
    ]


def test_html_escapes_cells_and_marks_some():
    assert as_html(ROWS[:2], marked="*") == (
        '<table><tr><th>%<th>Orig<th>jobs<tr><td>weak &lt;1&gt;<td class="off">98.0 *<td>2 done</table>'
    )


def test_csv_has_six_digits_and_the_line_before_it(tmp_path):
    write_csv(tmp_path / "a.csv", [{"name": "x, y", "score": 1 / 3}, {"name": "z", "score": 2}], first="# half\n")
    first, *lines = (tmp_path / "a.csv").read_text("utf-8").splitlines()
    assert first == "# half"
    assert list(csv.reader(lines)) == [["name", "score"], ["x, y", "0.333333"], ["z", "2"]]


def test_scores_stand_above_the_papers_which_has_dashes_where_it_has_none():
    score = MeanStd(50.0, 1.25, (50.0,))
    subset = SubsetScores(score, (score, score), balanced_accuracy=score)
    results = Results({"orig": subset, "all": subset}, {"test": 1.0})
    shown = as_text(score_rows(results, {"orig": PaperScore("66", "1", 10, 10)}, ["balanced_accuracy"])).splitlines()
    assert shown[0].split() == ["%", "Orig", "AUC", "AUC", "2", "Balanced"]
    assert shown[1].split() == ["1", "seed", *(["50.0", "±", "1.2"] * 4)]
    assert shown[2].split() == ["paper:", "10", "seeds", "66", "±", "1", "-", "-", "-"]
    assert len(score_rows(results, {})) == 2


def test_names_are_shown_as_words():
    names = ("orig", "largec", "balanced_accuracy", "nodes_kept", "matthews_correlation")
    assert [title(name) for name in names] == ["Orig", "LargeC", "Balanced", "Nodes kept", "100 MCC"]
