// Draws the report: reads the page's data, stacks it, and keeps all charts at one time and zoom. No address but this page is asked.
"use strict";
(() => {
  const all = JSON.parse(document.getElementById("data").textContent).recordings;
  const $ = (id) => document.getElementById(id);
  const LAYERS = {
    light: ["#2f6fdb", "#e59a1c", "#1f9d72", "#b65aa2", "#45b0cf", "#d2553a", "#9a8a2c", "#6a77d8"],
    dark: ["#5b95f5", "#eeb04e", "#46bd91", "#d283bd", "#6cc7e0", "#ee7f64", "#c4b352", "#98a2f0"],
  };
  const PHASES = { light: ["#3d7be0", "#e2a12f", "#2aa876", "#bb62a8", "#d4644b", "#57aebf"], dark: ["#6fa3f7", "#f0bc66", "#58c79d", "#d994c6", "#f09480", "#7fcfde"] };
  const OTHER = { light: "#c3cad2", dark: "#475362" };
  const KINDS = { pause: "#2f6fdb", resume: "#1f9d72", handoff: "#8a63d2", failed: "#d2553a" };
  const AXIS = 66; // width of the scale at the left, of every chart
  let recording, range, plots = [], colours = new Map(), theme;

  // Text.

  const size = (kib) => {
    if (kib === 0) return "0";
    let value = kib / 1024, unit = "MiB";
    if (value >= 1024) { value /= 1024; unit = "GiB"; }
    if (value >= 1024) { value /= 1024; unit = "TiB"; }
    return `${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0)} ${unit}`;
  };
  const took = (s) => (s < 0.001 ? "0" : s < 1 ? `${Math.round(s * 1000)} ms` : s < 100 ? `${s.toFixed(2)} s` : s < 3600 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`);
  const two = (n) => String(n).padStart(2, "0");
  const clock = (ms, withMs) => {
    const d = new Date(recording.begin + ms);
    return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}${withMs ? `.${String(d.getMilliseconds()).padStart(3, "0")}` : ""}`;
  };
  const element = (tag, text, className) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  };
  const dot = (colour) => { const i = element("i"); i.style.background = colour; return i; };

  // Data.

  const times = (chart) => {
    let at = 0;
    return chart.steps.map((step) => (at += step));
  };
  const values = (layer, length) => {
    const out = new Float64Array(length);
    for (let i = 0; i < layer.runs.length; i += 2) out.fill(layer.runs[i + 1], layer.runs[i]);
    return out;
  };
  const nameOf = (layer, by) => {
    if (!layer.process) return layer.tag;
    const tag = layer.tag || "(no tag)";
    return by === "tag" ? tag : by === "process" ? layer.process : `${layer.process}, ${tag}`;
  };
  const isOther = (layer) => !layer.process;

  const prepare = (one) => {
    if (one.ready) return;
    for (const chart of one.charts) {
      chart.ms = times(chart);
      for (const layer of chart.layers) layer.kib = values(layer, chart.ms.length);
    }
    one.ready = true;
  };

  // Layers of one name are one; names have one colour in all charts.
  const group = (chart, by) => {
    const groups = new Map();
    for (const layer of chart.layers) {
      const name = nameOf(layer, by);
      if (!groups.has(name)) groups.set(name, { name, other: isOther(layer), kib: new Float64Array(chart.ms.length) });
      const sum = groups.get(name).kib;
      layer.kib.forEach((v, i) => (sum[i] += v));
    }
    return [...groups.values()].sort((a, b) => b.other - a.other || (a.name < b.name ? -1 : 1));
  };

  const colourOf = (g) => {
    if (g.other) return OTHER[theme];
    if (!colours.has(g.name)) colours.set(g.name, colours.size);
    const set = LAYERS[theme];
    return set[colours.get(g.name) % set.length];
  };
  const phaseColour = (name) => {
    const names = [...new Set(recording.phases.map((p) => p.name))];
    return PHASES[theme][names.indexOf(name) % PHASES[theme].length];
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Charts.

  const bands = (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const phase of recording.phases) {
      if (phase.end < range[0] || phase.begin > range[1]) continue;
      const x = u.valToPos(phase.begin, "x", true), to = u.valToPos(phase.end, "x", true);
      ctx.globalAlpha = 0.13;
      ctx.fillStyle = phaseColour(phase.name);
      ctx.fillRect(x, bbox.top, Math.max(to - x, 1), bbox.height);
    }
    ctx.restore();
  };
  const ceiling = (u, chart) => {
    if (!chart.capacity) return;
    const y = u.valToPos(chart.capacity, "y", true);
    u.ctx.save();
    u.ctx.strokeStyle = css("--soft");
    u.ctx.setLineDash([4, 4]);
    u.ctx.beginPath();
    u.ctx.moveTo(u.bbox.left, y);
    u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
    u.ctx.stroke();
    u.ctx.restore();
  };

  const steps = (most) => {
    const unit = most > 1 << 30 ? 1 << 30 : most > 1 << 20 ? 1 << 20 : 1 << 10;
    const rough = most / unit / 4, power = 10 ** Math.floor(Math.log10(rough || 1));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) || 1;
    const out = [];
    for (let v = 0; v <= most / unit + 1e-9; v += step) out.push(v * unit);
    return out;
  };

  // Round moments of the day, some 90 dots apart.
  const TICKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5];
  const tickStep = (width) => TICKS.find((t) => ((range[1] - range[0]) / t) * 90 <= width) || 864e5;
  const ticks = (width) => {
    const step = tickStep(width), offset = recording.begin - new Date(recording.begin).getTimezoneOffset() * 60000;
    const out = [];
    for (let t = Math.ceil((range[0] + offset) / step) * step - offset; t <= range[1]; t += step) out.push(t);
    return out;
  };
  const tickName = (ms, step) => (step < 1000 ? clock(ms, true).slice(3) : step < 60000 ? clock(ms) : clock(ms).slice(0, 5));

  const heightOf = (chart) => (innerWidth < 640 ? 130 : chart.kind === "gpu" && recording.charts.length > 5 ? 132 : 160);
  const draw = (chart, by, card) => {
    const groups = group(chart, by);
    const title = element("h3");
    const peak = chart.ms.reduce((most, _, i) => Math.max(most, groups.reduce((sum, g) => sum + g.kib[i], 0)), 0);
    title.append(element("b", chart.kind === "gpu" ? `HBM of ${chart.title}` : chart.kind === "host" ? "Backups in host memory" : "Backups on disk"), element("span", chart.capacity ? `peak ${size(peak)} of ${size(chart.capacity)}` : `peak ${size(peak)}`));
    card.replaceChildren(title);
    // Uppermost first: each later one covers what is below it.
    const sums = [];
    let below = new Float64Array(chart.ms.length);
    for (const g of groups) {
      below = below.map((v, i) => v + g.kib[i]);
      sums.unshift(below);
    }
    const upward = [...groups].reverse();
    const most = Math.max(chart.capacity, peak * 1.06, 1024);
    const axis = { stroke: () => css("--soft"), grid: { stroke: () => css("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const plot = new uPlot({
      width: card.clientWidth, height: heightOf(chart), legend: { show: false },
      scales: { x: { time: false, range: () => range }, y: { range: [0, most] } },
      axes: [
        { ...axis, size: 26, gap: 4, splits: (u) => ticks(u.bbox.width / devicePixelRatio), values: (u, splits) => splits.map((v) => tickName(v, tickStep(u.bbox.width / devicePixelRatio))) },
        { ...axis, size: AXIS, gap: 6, splits: () => steps(most), values: (u, splits) => splits.map((v) => size(v).replace(/\.0+ /, " ")) },
      ],
      padding: [8, 14, 0, 0],
      cursor: { sync: { key: "parkade" }, drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
      series: [{}, ...upward.map((g) => ({ fill: colourOf(g), stroke: colourOf(g), width: 0.5, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }))],
      hooks: {
        drawClear: [bands],
        draw: [(u) => ceiling(u, chart)],
        setCursor: [(u) => tell(u, chart, groups)],
        setSelect: [(u) => {
          if (u.select.width > 3) zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
          u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        }],
        ready: [(u) => {
          u.over.addEventListener("dblclick", () => zoom(0, recording.length));
          u.over.addEventListener("mouseleave", () => ($("tip").hidden = true));
        }],
      },
    }, [chart.ms, ...sums], card);
    plots.push(plot);
  };

  // What is where the mouse is.

  const at = (ms, index) => {
    let low = 0, high = index.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (index[middle] <= ms) low = middle; else high = middle - 1;
    }
    return low;
  };
  const place = (x, y) => {
    const tip = $("tip");
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(x + 16, innerWidth - box.width - 6))}px`;
    tip.style.top = `${Math.max(6, y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18)}px`;
  };
  const going = (ms) => recording.operations.filter((o) => o.begin <= ms && o.end >= ms).slice(0, 4);
  const tell = (u, chart, groups) => {
    if (u.cursor.left < 0 || !u.over.matches(":hover")) return;
    const ms = u.posToVal(u.cursor.left, "x"), i = at(ms, chart.ms);
    const total = groups.reduce((sum, g) => sum + g.kib[i], 0);
    const tip = $("tip");
    tip.replaceChildren(element("h4", `${clock(ms, true)}  ${size(total)}`));
    const names = recording.phases.filter((p) => p.begin <= ms && p.end > ms).map((p) => (p.job ? `${p.name} (${p.job})` : p.name));
    const what = [...names, ...going(ms).map((o) => `${o.kind} ${o.id}`)];
    if (what.length) tip.append(element("p", what.join(", ")));
    for (const g of [...groups].reverse()) {
      if (!g.kib[i]) continue;
      const row = element("div");
      row.append(dot(colourOf(g)), element("span", g.name), element("b", size(g.kib[i])));
      tip.append(row);
    }
    const box = u.over.getBoundingClientRect();
    place(box.left + u.cursor.left, box.top + u.cursor.top);
  };

  // Phases and operations, above the charts and in their time.

  const strip = () => {
    const canvas = $("strip"), scale = devicePixelRatio || 1, width = canvas.clientWidth, height = 44;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const ctx = canvas.getContext("2d");
    ctx.scale(scale, scale);
    const x = (ms) => AXIS + 1 + ((ms - range[0]) / (range[1] - range[0])) * (width - AXIS - 16);
    ctx.font = "12px system-ui, sans-serif";
    ctx.fillStyle = css("--soft");
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    ctx.fillText("phases", AXIS - 8, 12);
    ctx.fillText("moves", AXIS - 8, 34);
    ctx.textAlign = "left";
    ctx.beginPath();
    ctx.rect(AXIS, 0, width - AXIS - 14, height);
    ctx.clip();
    for (const phase of recording.phases) {
      const from = Math.max(x(phase.begin), AXIS), to = Math.min(x(phase.end), width);
      if (to < AXIS || from > width) continue;
      ctx.globalAlpha = 0.3;
      ctx.fillStyle = phaseColour(phase.name);
      ctx.fillRect(from, 1, Math.max(to - from - 1, 1), 22);
      ctx.globalAlpha = 1;
      ctx.fillStyle = css("--text");
      if (to - from > ctx.measureText(phase.name).width + 12) ctx.fillText(phase.name, from + 6, 12.5);
    }
    // The short ones last, so that none is hidden.
    for (const o of [...recording.operations].sort((a, b) => b.end - b.begin - (a.end - a.begin))) {
      const from = x(o.begin), to = x(o.end);
      if (to < AXIS || from > width) continue;
      ctx.fillStyle = o.ok ? KINDS[o.kind] || OTHER[theme] : KINDS.failed;
      ctx.fillRect(from, 29, Math.max(to - from, 2), 11);
    }
  };
  const stripTip = (event) => {
    const box = $("strip").getBoundingClientRect();
    const ms = range[0] + ((event.clientX - box.left - AXIS - 1) / (box.width - AXIS - 16)) * (range[1] - range[0]);
    const near = ((range[1] - range[0]) / box.width) * 4;
    const tip = $("tip");
    tip.replaceChildren(element("h4", clock(ms, true)));
    for (const p of recording.phases.filter((q) => q.begin <= ms && q.end > ms)) tip.append(element("p", `${p.name}${p.job ? ` of ${p.job}` : ""}: ${took((p.end - p.begin) / 1000)}`));
    for (const o of recording.operations.filter((q) => q.begin <= ms + near && q.end >= ms - near).slice(0, 5)) tip.append(element("p", `${o.kind} ${o.id}: ${took((o.end - o.begin) / 1000)}${o.ok ? "" : `, ${o.why}`}`));
    place(event.clientX, event.clientY);
  };

  // Tables.

  const table = (id, heads, rows, none) => {
    const t = $(id);
    t.replaceChildren();
    if (!rows.length) { t.append(element("caption", none, "none")); return; }
    const head = element("tr");
    for (const [text, number] of heads) head.append(element("th", text, number ? "n" : ""));
    t.append(head, ...rows);
  };
  const cell = (text, className) => element("td", text, className);
  const inPhase = () => $("phase").value;
  const kept = (o) => {
    const name = inPhase();
    return !name || recording.phases.some((p) => p.name === name && p.begin <= o.end && p.end >= o.begin);
  };

  const tables = () => {
    const heads = [["operation"], ["begin"], ["took", 1], ["wait", 1], ["drain", 1], ["move", 1], ["host", 1], ["disk", 1], ["processes"]];
    table("operations", heads, recording.operations.filter(kept).slice(0, 50).map((o) => {
      const row = element("tr");
      const kind = element("span", o.ok ? o.kind : `${o.kind}: ${o.why}`, o.ok ? "kind" : "kind failed");
      if (o.ok && KINDS[o.kind]) kind.style.color = LAYERS[theme][{ pause: 0, resume: 2, handoff: 7 }[o.kind]];
      const first = cell();
      first.append(kind);
      row.append(first, cell(clock(o.begin, true)), cell(took((o.end - o.begin) / 1000), "n"), ...[o.wait, o.drain, o.move].map((s) => cell(took(s), "n")), cell(size(o.host), "n"), cell(size(o.disk), "n"), cell(o.pids.length > 4 ? `${o.pids.slice(0, 4).join(" ")} and ${o.pids.length - 4} more` : o.pids.join(" ")));
      row.tabIndex = 0;
      row.title = `${o.id}: show it in the charts`;
      const show = () => {
        const margin = Math.max(o.end - o.begin, 200);
        zoom(o.begin - margin, o.end + margin);
        $("bar").scrollIntoView({ behavior: "smooth" });
      };
      row.addEventListener("click", show);
      row.addEventListener("keydown", (event) => { if (event.key === "Enter") show(); });
      return row;
    }), "There was none.");
    table("changes", [["phase"], ["times", 1], ["tag"], ["tier"], ["before", 1], ["after", 1], ["change", 1]], recording.changes.filter((c) => !inPhase() || c.phase === inPhase()).map((c) => {
      const row = element("tr"), by = c.after - c.before;
      row.append(cell(c.phase), cell(c.times, "n"), cell(c.tag || "(no tag)"), cell(c.tier), cell(size(c.before), "n"), cell(size(c.after), "n"), cell(by === 0 ? "0" : (by > 0 ? "+" : "−") + size(Math.abs(by)), by > 0 ? "n up" : by < 0 ? "n down" : "n"));
      return row;
    }), "No phase was marked: `parkade mark NAME` does.");
  };

  const tiles = () => {
    const box = $("tiles");
    box.replaceChildren();
    const add = (value, text, bad) => {
      const t = element("div", undefined, bad ? "tile bad" : "tile");
      t.append(element("b", value), element("span", text));
      box.append(t);
    };
    const done = (kind) => recording.operations.filter((o) => o.kind === kind && o.ok).map((o) => (o.end - o.begin) / 1000).sort((a, b) => a - b);
    add(took(recording.length / 1000), "recorded");
    for (const kind of ["pause", "resume", "handoff"]) {
      const of = done(kind);
      if (of.length) add(took(of[of.length >> 1]), `median of ${of.length} ${kind}${of.length > 1 ? "s" : ""}`);
    }
    const moved = recording.operations.reduce((sum, o) => sum + o.host + o.disk, 0);
    add(size(moved), "moved");
    const failed = recording.operations.filter((o) => !o.ok).length;
    add(failed, failed === 1 ? "failed operation" : "failed operations", failed > 0);
  };

  // The whole. A chart is drawn when it is about to be seen.

  const drawn = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((e) => e.isIntersecting)) {
      drawn.unobserve(entry.target);
      entry.target.draw();
    }
    // For tests: how long it took to open.
    document.documentElement.dataset.readyMs ||= Math.round(performance.now());
  }, { rootMargin: "300px" });

  const zoom = (from, to) => {
    range = [Math.max(0, from), Math.min(recording.length, to)];
    if (range[1] - range[0] < 5) range = [range[0], range[0] + 5];
    $("reset").disabled = range[0] === 0 && range[1] === recording.length;
    for (const plot of plots) plot.setScale("x", { min: range[0], max: range[1] });
    strip();
  };
  const rebuild = () => {
    for (const plot of plots) plot.destroy();
    plots = [];
    $("charts").replaceChildren();
    const by = $("by").value;
    drawn.disconnect();
    for (const chart of recording.charts.filter((c) => c.layers.length)) {
      const card = element("div", undefined, "chart");
      card.style.minHeight = `${heightOf(chart) + 36}px`;
      card.draw = () => draw(chart, by, card);
      $("charts").append(card);
      drawn.observe(card);
    }
    const seen = new Map();
    for (const chart of recording.charts) for (const g of group(chart, by)) seen.set(g.name, g);
    const entry = (colour, name, className) => {
      const e = element("span", undefined, className);
      e.append(dot(colour), name);
      return e;
    };
    const names = [...new Set(recording.phases.map((p) => p.name))];
    $("legend").replaceChildren(...[...seen.values()].map((g) => entry(colourOf(g), g.name)), ...names.map((n) => entry(phaseColour(n), n, "band")));
    strip();
  };
  const show = (index) => {
    recording = all[index];
    prepare(recording);
    colours = new Map();
    range = [0, Math.max(recording.length, 5)];
    const begin = new Date(recording.begin), end = new Date(recording.begin + recording.length);
    const day = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
    $("about").textContent = `${recording.node || recording.name}, ${day(begin)} ${clock(0)} to ${day(end) === day(begin) ? "" : `${day(end)} `}${clock(recording.length)}, Parkade ${recording.version}`;
    const names = [...new Set(recording.phases.map((p) => p.name))];
    $("phase").replaceChildren(new Option("all", ""), ...names.map((n) => new Option(n, n)));
    $("reset").disabled = true;
    tiles();
    rebuild();
    tables();
  };
  const setTheme = (name) => {
    theme = name;
    document.documentElement.dataset.theme = name;
    $("theme").textContent = name === "dark" ? "Light" : "Dark";
  };

  setTheme(location.hash === "#dark" || (location.hash !== "#light" && matchMedia("(prefers-color-scheme: dark)").matches) ? "dark" : "light");
  $("theme").addEventListener("click", () => { setTheme(theme === "dark" ? "light" : "dark"); rebuild(); tables(); });
  $("by").addEventListener("change", () => { colours = new Map(); rebuild(); });
  $("phase").addEventListener("change", () => {
    const name = inPhase(), of = recording.phases.filter((p) => p.name === name);
    if (name) zoom(of[0].begin, of[of.length - 1].end); else zoom(0, recording.length);
    tables();
  });
  $("reset").addEventListener("click", () => zoom(0, recording.length));
  $("strip").addEventListener("mousemove", stripTip);
  $("strip").addEventListener("mouseleave", () => ($("tip").hidden = true));
  $("recording").append(...all.map((one, i) => new Option(one.name, i)));
  $("which").hidden = all.length < 2;
  $("recording").addEventListener("change", (event) => show(Number(event.target.value)));
  new ResizeObserver(() => {
    for (const plot of plots) plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.height });
    strip();
  }).observe($("charts"));
  show(0);
})();
