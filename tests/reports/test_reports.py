"""Reports of runs: they hold the numbers of their folders, need nothing else, and show text as it is."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import jraph
import numpy as np
import pytest

from experiments import report as command
from experiments.colors import WEAK
from experiments.reports.page import embedded_json
from experiments.reports.runs import RunReport, write_report
from experiments.run.folder import RunError
from experiments.run.groups import flat
from experiments.run.results import Results, subset_scores
from experiments.run.samples import write_samples
from jattn.evaluation import evaluate, mean_std
from jattn.graphs import from_arrays
from jattn.io import write_json
from jattn.training import Predictions

REPORTS = Path(command.__file__).parent / "reports"


class Page(HTMLParser):
    """The elements of a page, what they load, and its text without scripts and styles."""

    def __init__(self, file):
        super().__init__()
        self.html, self.opened, self.elements, self.text = file.read_text("utf-8"), "", [], ""
        self.feed(self.html)

    def handle_starttag(self, tag, attributes):
        self.opened = tag
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data if self.opened not in ("script", "style") else ""

    def loaded(self):
        names = ("src", "href", "xlink:href", "data", "action")
        found = [attributes[name] for _, attributes in self.elements for name in names if name in attributes]
        return [address for address in found if not address.startswith("#")]

    def data(self):
        return json.loads(re.search(r'id="graphs-data">(.*?)</script>', self.html, re.DOTALL)[1])


def line(epoch, seeds, stage="attention"):
    loss, auc = [1 / epoch + i for i in range(seeds)], [50.0 + epoch] * seeds
    about = {"stage": stage, "epoch": epoch, "seconds": 1.0}
    return about | {"loss": mean_std(loss), "accuracy": mean_std([60.0] * seeds), "attention_auc": [mean_std(auc)]}


def make_run(folder, seeds=2, epochs=3, samples=True, **settings):
    """A finished run of random networks."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    made = [
        from_arrays(rng.random((n, 2)), [0, 1], [1, 0], attention=np.arange(n) < 2, label=n % 3) for n in range(2, 9)
    ]
    subsets = {"orig": jraph.batch_np(made), "large": jraph.batch_np(made[3:])}
    graphs, nodes = 11, int(sum(subset.n_node.sum() for subset in subsets.values()))
    attention = rng.random((seeds, nodes), np.float32)
    predictions = Predictions(2 * rng.random((seeds, graphs, 1), np.float32), (attention,), (attention > 0.3,))
    known = {"experiment": "colors", "preset": "weak", "settings": {**flat(WEAK), **settings}, "data": None}
    write_json(folder / "config.json", {"format": 2, "versions": {}, **known})
    Results(subset_scores(evaluate(predictions, subsets, "regression")), {"attention": 2.0}).write(folder)
    lines = [json.dumps(line(epoch, seeds)) + "\n" for epoch in range(1, epochs + 1)]
    (folder / "metrics.jsonl").write_text("".join(lines))
    if samples:
        write_samples(folder, subsets, predictions, "regression", (2, 5))
    return folder, predictions


def test_a_page_holds_the_numbers_of_its_run_and_loads_nothing(tmp_path):
    folder, predictions = make_run(tmp_path / "run")
    file = folder / "report.html"
    command.main([str(folder)])
    page, results = Page(file), Results.read(folder)
    assert str(results.subsets["large"].accuracy) in page.text
    assert "Training graphs have 2 to 5 nodes" in page.text
    assert "90 ± 6" in page.text  # the paper's
    assert [tag for tag, _ in page.elements].count("h1") == 1
    assert [re.sub("<.*?>", "", one) for one in re.findall(r"<h2.*?>(.*?)</h2>", page.html)] == [
        "Scores",
        "Training",
        "Accuracy by size and label",
        "Attention on graphs",
        "Settings",
    ]
    assert "<title>COLORS, weak: report by jattn</title>" in page.html
    assert page.loaded() == []
    assert "@import" not in page.html
    assert set(re.findall(r"https?://[^\"' <)]*", page.html)) <= {"http://www.w3.org/2000/svg"}  # a name, not a place
    (run,) = page.data()["runs"]
    graphs = {(graph["subset"], graph["number"]): graph for graph in run["graphs"]}
    assert len(graphs) == 11
    first = graphs[0, 6]  # the last of "orig", of 8 nodes
    assert first["prediction"] == pytest.approx(float(predictions.prediction[0, 6, 0]), rel=1e-3)
    assert first["correct"] == (round(first["prediction"]) == first["label"] == 2)
    attention = predictions.attention[0][0, 27:35]
    np.testing.assert_allclose(np.array(first["attention"][0]) / 255, attention / attention.max(), atol=0.003)
    assert first["dropped"][0] == np.flatnonzero(attention <= 0.3).tolist()
    assert (first["target"], first["edges"]) == ([0, 1], [0, 1])


def test_text_of_users_is_shown_as_it_is(tmp_path):
    name = "<b>&'\"$x$_"
    folder, _ = make_run(tmp_path / name, dataset="</script><script>alert(1)</script>")
    write_report([RunReport(folder, {})], tmp_path / "one.html")
    other, _ = make_run(tmp_path / "_b")
    write_report([RunReport(folder, {}), RunReport(other, {})], tmp_path / "two.html")
    for file in (tmp_path / "one.html", tmp_path / "two.html"):
        page = Page(file)
        assert "<b>" not in page.html
        assert "alert(1)</script>" not in page.html
        assert name in page.text
        assert "script><script>alert(1)<" in page.text
    assert [run["name"] for run in Page(tmp_path / "two.html").data()["runs"]] == [name, "_b"]


def test_embedded_json_does_not_end_its_element():
    text = embedded_json("x", {"a": "</script><!--&", "b": float("nan")})
    assert text.count("<") == 2
    assert json.loads(text[text.index("{") : text.rindex("}") + 1]) == {"a": "</script><!--&", "b": None}


def test_a_folder_without_samples_or_metrics_has_a_report_that_says_so(tmp_path):
    folder, _ = make_run(tmp_path / "run", samples=False)
    (folder / "metrics.jsonl").unlink()
    command.main([str(folder)])
    page = Page(folder / "report.html")
    assert "run: no graphs to show, since the folder has no samples.npz" in page.text
    assert "no metrics.jsonl" in page.text
    assert "Scores" in page.text
    assert "graphs-data" not in page.html


def test_several_runs_are_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runs = [make_run(Path("a/run"), threshold=0.5)[0], make_run(Path("b/run"), seeds=1, epochs=9, samples=False)[0]]
    command.main([*map(str, runs), "--out", "both.html"])
    assert capsys.readouterr().out == "both.html\n"
    page = Page(tmp_path / "both.html")
    assert "<title>2 runs: report by jattn</title>" in page.html
    for text in ("a/run, 2 seeds", "b/run, 1 seed", "b/run, paper", "b/run: no graphs to show"):
        assert text in page.text
    assert "a/run, paper" not in page.text  # its threshold is not the preset's
    assert [cells for cells in re.findall("<tr><td>(.*?)\n?(?=<tr>|</table>)", page.html) if "threshold" in cells] == [
        "threshold<td>0.5<td>0.05"
    ]
    assert [run["name"] for run in page.data()["runs"]] == ["a/run"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "runs: name the folder of a run"),
        (["nothing"], "nothing: no run is there; name the folder of a run, which has config.json"),
        (["unfinished"], "unfinished: its run has no results yet; repeat its command with --out to finish it"),
        (["unfinished", "./unfinished"], "runs: unfinished is given twice"),
        (["unfinished", "--out", "."], "--out: . is a folder, expected a file such as report.html"),
        (["damaged"], "damaged/samples.npz: damaged"),
    ],
)
def test_a_report_that_can_not_be_made_is_an_error_of_a_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    unfinished, _ = make_run(tmp_path / "unfinished")
    (unfinished / "results.json").unlink()
    damaged, _ = make_run(tmp_path / "damaged")
    (damaged / "samples.npz").write_bytes(b"PK")
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.html"))


def test_a_report_of_many_networks_and_epochs_is_small(tmp_path):
    folder, _ = make_run(tmp_path / "run", seeds=40, epochs=400)
    write_report([RunReport(folder, {})], tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 1_000_000


def test_samples_of_another_format_or_without_an_array_are_refused(tmp_path):
    folder, _ = make_run(tmp_path / "run")
    with np.load(folder / "samples.npz") as found:
        arrays = dict(found)
    np.savez(folder / "samples.npz", **{**arrays, "format": 99})
    with pytest.raises(RunError, match="its format is 99"):
        write_report([RunReport(folder, {})], tmp_path / "page.html")
    np.savez(folder / "samples.npz", format=arrays["format"], label=arrays["label"])
    with pytest.raises(RunError, match="it has no attention, channels, "):
        write_report([RunReport(folder, {})], tmp_path / "page.html")


def test_scripts_and_styles_are_declared_as_data_of_the_package():
    pyproject = (REPORTS.parents[1] / "pyproject.toml").read_text("utf-8")
    assert '"jattn_experiments.reports" = ["*.css", "*.js"]' in pyproject
    assert {file.suffix for file in REPORTS.iterdir() if file.is_file()} <= {".py", ".css", ".js"}
