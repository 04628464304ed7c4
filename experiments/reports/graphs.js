// Draws sample graphs one at a time, as SVG: chosen by filters, stepped through by buttons, a slider and keys.
"use strict";
(() => {
  const { colors, runs } = JSON.parse(document.getElementById("graphs-data").textContent);
  const [filters, figure, caption, drawing, key, place, count] =
    ["filters", "graph", "caption", "drawing", "key", "place", "count"].map((id) => document.getElementById(id));
  const control = filters.elements, dark = matchMedia("(prefers-color-scheme: dark)");
  const EXTENT = 1000, MARGIN = 60, LEVELS = 255, SVG = "http://www.w3.org/2000/svg";
  let chosen = [], shown = 0;

  const run = () => runs[Number(control.run.value)];
  const layer = () => Number(control.layer.value || 0);

  function fill(select, options) {  // [value, text] pairs; a choice among fewer than two is hidden
    const before = select.value;
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    if (options.some(([value]) => String(value) === before)) select.value = before;
    select.closest("label").hidden = options.filter(([value]) => value !== "").length < 2;
  }

  function fillChoices() {
    const { subsets, graphs } = run();
    const labels = [...new Set(graphs.map((graph) => graph.label))].sort((a, b) => a - b);
    const layers = graphs.length ? graphs[0].attention.length : 0;
    fill(control.subset, [["", "all"], ...subsets.map((name, i) => [i, name])]);
    fill(control.label, [["", "all"], ...labels.map((label) => [label, label])]);
    fill(control.layer, Array.from({ length: layers }, (_, i) => [i, i + 1]));
  }

  function choose() {
    const by = control.order.value.replace("-", ""), sign = control.order.value.startsWith("-") ? -1 : 1;
    const value = { size: (graph) => graph.position.length, label: (graph) => graph.label, error: (graph) => graph.error ?? Infinity };
    chosen = run().graphs.filter((graph) =>
      (control.subset.value === "" || graph.subset === Number(control.subset.value)) &&
      (control.label.value === "" || graph.label === Number(control.label.value)) &&
      (control.answer.value === "" || graph.correct === (control.answer.value === "right")));
    const difference = (a, b) => (a === b ? 0 : a - b);  // Infinity - Infinity is NaN
    chosen.sort((a, b) => sign * difference(value[by](a), value[by](b)) || value.size(a) - value.size(b));
    show(0);
  }

  function show(index) {
    shown = Math.max(0, Math.min(index, chosen.length - 1));
    place.max = Math.max(chosen.length - 1, 0);
    place.value = shown;
    place.disabled = chosen.length < 2;
    document.getElementById("previous").disabled = shown === 0;
    document.getElementById("next").disabled = shown >= chosen.length - 1;
    count.textContent = chosen.length ? `${shown + 1} of ${chosen.length}` : "none";
    figure.classList.toggle("wrong", chosen.length > 0 && !chosen[shown].correct);
    if (!chosen.length) {
      caption.textContent = "No graph shown here is like that.";
      drawing.replaceChildren();
      key.replaceChildren();
      return;
    }
    const graph = chosen[shown];
    describe(graph);
    draw(graph);
  }

  function describe(graph) {
    const nodes = graph.position.length / 2, { subsets, classification } = run();
    const right = document.createElement("strong");
    right.textContent = graph.correct ? "right" : "wrong";
    right.className = graph.correct ? "" : "wrong";
    const error = graph.error === null ? "not finite" : graph.error;
    caption.replaceChildren(
      `${subsets[graph.subset]}, graph ${graph.number}: ${nodes} ${nodes === 1 ? "node" : "nodes"}, label ${graph.label}, ` +
      `predicted ${graph.prediction ?? "no number"}, `, right, classification && graph.error !== null ? `, probability of the label ${(1 - graph.error).toPrecision(2)}` : `, error ${error}`);
  }

  function draw(graph) {
    const panels = [];
    if (graph.channels) panels.push(["input", panel(graph, intensity(graph), false)]);
    panels.push([graph.attention.length ? "attention" : "graph", panel(graph, attention(graph), true)]);
    drawing.replaceChildren(...panels.map(([name, svg]) => {
      const box = document.createElement("div");
      if (panels.length > 1) box.append(Object.assign(document.createElement("h3"), { textContent: name }));
      svg.setAttribute("aria-label", `${name}; ${caption.textContent}`);
      box.append(svg);
      return box;
    }));
    drawKey(graph);
  }

  // A ramp from no attention to the most of the graph; on a dark page the other way round, so that most stands out.
  function ramp(level) {
    const stops = dark.matches ? [...colors.attention].reverse() : colors.attention;
    const at = (level / LEVELS) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
    const rgb = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
    const [low, high] = [rgb(stops[i]), rgb(stops[i + 1])];
    return `rgb(${low.map((value, channel) => Math.round(value + (at - i) * (high[channel] - value))).join(",")})`;
  }

  function attention(graph) {
    const levels = graph.attention[layer()];
    return (node) => (levels ? ramp(levels[node]) : ramp(LEVELS / 2));
  }

  function intensity(graph) {
    return (node) => `rgb(${graph.channels.slice(3 * node, 3 * node + 3).join(",")})`;
  }

  function panel(graph, color, marked) {
    const { position } = graph, nodes = position.length / 2;
    const dropped = new Set(marked ? graph.dropped[layer()] : []), target = marked ? graph.target : [];
    const side = (offset) => Math.max(0, ...position.filter((_, i) => i % 2 === offset));
    const [width, height] = [Math.max(side(0), 1), Math.max(side(1), 1)];
    const extra = width < EXTENT ? (EXTENT - width) / 2 : 0;  // graphs keep their scale, in the middle
    const svg = element("svg", {
      viewBox: `${-MARGIN - extra} ${-MARGIN} ${width + 2 * (MARGIN + extra)} ${height + 2 * MARGIN}`, role: "img",
    });
    const radius = graph.channels ? 38 : Math.max(10, Math.min(26, 150 / Math.sqrt(Math.max(nodes, 1))));
    const at = (node) => [position[2 * node], position[2 * node + 1]];
    let path = "";
    for (let i = 0; i < graph.edges.length; i += 2) path += `M${at(graph.edges[i])}L${at(graph.edges[i + 1])}`;
    if (path) svg.append(element("path", { d: path, class: "edges", opacity: graph.edges.length > 2000 ? 0.25 : 0.6 }));
    const circle = (node, attributes) => {
      const [cx, cy] = at(node), mark = element("circle", { cx, cy, ...attributes });
      svg.append(mark);
      return mark;
    };
    for (let node = 0; node < nodes; node++) {
      const mark = dropped.has(node)
        ? circle(node, { r: 0.55 * radius, class: "dropped" })
        : circle(node, { r: radius, class: "node", fill: color(node) });
      const tip = element("title");
      tip.textContent = describeNode(graph, node, dropped.has(node));
      mark.append(tip);
    }
    for (const node of target) circle(node, { r: 1.3 * radius, class: "target", stroke: colors.target });
    return svg;
  }

  function describeNode(graph, node, dropped) {
    const levels = graph.attention[layer()];
    if (!levels) return `node ${node}`;
    return `node ${node}: attention ${((levels[node] / LEVELS) * graph.largest[layer()]).toPrecision(3)}${dropped ? ", dropped" : ""}`;
  }

  function drawKey(graph) {
    const entry = (attributes, text) => {
      const item = document.createElement("span"), svg = element("svg", { viewBox: "-10 -10 20 20", "aria-hidden": "true" });
      svg.append(element("circle", { cx: 0, cy: 0, ...attributes }));
      item.append(svg, text);
      return item;
    };
    const items = [];
    if (graph.attention.length) {
      const item = document.createElement("span"), bar = document.createElement("i");
      bar.style.background = `linear-gradient(to right, ${[0, 1, 2, 3, 4].map((i) => ramp((i * LEVELS) / 4)).join(",")})`;
      item.append("attention 0 ", bar, ` ${graph.largest[layer()]}`);
      items.push(item);
      if (graph.dropped[layer()].length) items.push(entry({ r: 4, class: "dropped" }, "dropped"));
    }
    if (graph.target.length) items.push(entry({ r: 7, class: "target", stroke: colors.target }, "has target attention"));
    key.replaceChildren(...items);
  }

  function element(name, attributes = {}) {
    const made = document.createElementNS(SVG, name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    return made;
  }

  control.run.replaceChildren(...runs.map(({ name }, i) => new Option(name, i)));
  control.run.closest("label").hidden = runs.length < 2;
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("change", (event) => {
    if (event.target === control.layer) return show(shown);
    if (event.target === control.run) fillChoices();
    choose();
  });
  document.getElementById("previous").addEventListener("click", () => show(shown - 1));
  document.getElementById("next").addEventListener("click", () => show(shown + 1));
  place.addEventListener("input", () => show(Number(place.value)));
  figure.closest("section").addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (["SELECT", "INPUT"].includes(event.target.tagName)) return;  // have keys of their own
    event.preventDefault();
    show(shown + steps[event.key]);
  });
  dark.addEventListener("change", () => show(shown));
  fillChoices();
  choose();
})();
